package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Tail gives the last n of lines, in their order; the newest ones when several
// writers printed them. It holds the text of n lines of each writer. Errors are
// passed on at once.
func Tail(lines iter.Seq2[Line, error], n int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		rings := map[place]*lastLines{}
		var order []*lastLines
		for l, err := range lines {
			if err != nil {
				if !yield(Line{}, err) {
					return
				}
				continue
			}
			at := place{l.Attempt, l.Rank, l.Writer}
			r := rings[at]
			if r == nil {
				r = &lastLines{}
				rings[at] = r
				order = append(order, r)
			}
			r.add(l, n)
		}
		// From the ends backwards, the newest first: a clock that was set back
		// does not hide what its writer said last.
		for range n {
			var newest *lastLines
			for _, r := range order {
				if r.chosen < len(r.lines) && (newest == nil || !r.end().Time.Before(newest.end().Time)) {
					newest = r
				}
			}
			if newest == nil {
				break
			}
			newest.chosen++
		}
		for _, r := range order {
			for i := range r.chosen {
				if !yield(*r.at(len(r.lines) - r.chosen + i), nil) {
					return
				}
			}
		}
	}
}

// lastLines holds the last lines of a writer.
type lastLines struct {
	lines  []Line
	oldest int // where in lines
	chosen int // how many of the last ones are wanted
}

func (r *lastLines) add(l Line, most int) {
	l.Text = bytes.Clone(l.Text) // else it holds the whole block it lies in
	switch {
	case most <= 0:
	case len(r.lines) < most:
		r.lines = append(r.lines, l)
	default:
		r.lines[r.oldest] = l
		r.oldest = (r.oldest + 1) % most
	}
}

// at gives the i-th line, 0 being the oldest; end the last that was not chosen.
func (r *lastLines) at(i int) *Line { return &r.lines[(r.oldest+i)%len(r.lines)] }
func (r *lastLines) end() *Line     { return r.at(len(r.lines) - 1 - r.chosen) }

// maxTail bounds how far ReadTail reads back in one writer's frames, in bytes:
// a program may never end a line, and another may ask for a million.
const maxTail = 64 << 20

// ReadTail is Read from where the last n lines of each writer begin. It reads
// the objects from their end, a block at a time, and none that it does not need.
// Where lines are very long it may give more than n; Tail(Lines(...), n) chooses.
// Lines that are older than maxTail are not there. Of a line that began before a
// whole object in which its item printed nothing, the beginning is not there.
func ReadTail(ctx context.Context, s Store, prefix string, f Filter, n int) iter.Seq2[Frame, error] {
	return ReadTailTo(ctx, s, prefix, f, n, map[string]uint64{}, map[string]int{})
}

// ReadTailTo is ReadTail, and notes by writer where a Follow goes on: after is the seq of
// the last frame that is stored, whatever the filter chooses, and objects the number of
// the object behind it.
func ReadTailTo(ctx context.Context, s Store, prefix string, f Filter, n int, after map[string]uint64, objects map[string]int) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		r := reader{store: s, prefix: prefix, filter: f}
		sizes := map[place]map[int]int64{}
		for o, err := range s.List(ctx, f.under(prefix)) {
			if err != nil {
				yield(Frame{}, err)
				return
			}
			p, number, ok := parseKey(prefix, o.Key)
			if !ok || !f.place(p) {
				continue
			}
			if sizes[p] == nil {
				sizes[p] = map[int]int64{}
			}
			sizes[p][number] = o.Size
		}
		writers := slices.SortedFunc(maps.Keys(sizes), func(a, b place) int { return strings.Compare(a.key("", 0), b.key("", 0)) })
		for _, p := range writers {
			t := ending{reader: &r, place: p, want: n, sizes: sizes[p], sources: map[source]*tailed{}}
			goOn := t.read(ctx, yield)
			after[p.writer], objects[p.writer] = t.last, t.next
			if !goOn {
				return
			}
		}
	}
}

// ending is one writer's last frames.
type ending struct {
	*reader
	place
	want    int
	sizes   map[int]int64 // of its objects, by number
	blocks  [][]Frame     // the last one first
	size    int
	ended   int                // newlines
	open    int                // lines without one
	sources map[source]*tailed // of what was read
	cut     bool               // there is more before
	last    uint64             // seq of the last frame that is stored
	next    int                // number of the object behind it

	number int     // of the object that is read
	unread []block // of it
	ahead  *opened // the object before that one, if it was looked at
}

type opened struct {
	*object
	err error
}

// tailed is what was read of one source.
type tailed struct {
	lines  int // that ended
	oldest int // of these the first one's place, counted from the writer's last
}

// read reads back until there is enough, and gives what it read to yield.
func (t *ending) read(ctx context.Context, yield func(Frame, error) bool) bool {
	for t.number = slices.Max(slices.Collect(maps.Keys(t.sizes))); t.number >= 0 && !t.cut; t.number-- {
		o := t.ahead
		if t.ahead = nil; o == nil {
			o = t.index(ctx, t.number)
		}
		err := o.err
		if err == nil {
			err = t.object(ctx, o.object)
		}
		if err != nil && !yield(Frame{}, fmt.Errorf("read %s: %w", t.key(t.prefix, t.number), err)) {
			return false
		}
		if err != nil && ctx.Err() != nil {
			return true
		}
	}
	t.number++ // what is unread now lies before that one
	begun := map[source]bool{}
	for _, frames := range slices.Backward(t.blocks) {
		for _, f := range frames {
			if t.cut && !t.whole(ctx, &f, begun) {
				continue
			}
			if !yield(f, nil) {
				return false
			}
		}
	}
	return true
}

// index reads an object's index; the listing may have left the object out.
func (t *ending) index(ctx context.Context, number int) *opened {
	key := t.key(t.prefix, number)
	o, err := &object{key: key}, error(nil)
	if size, listed := t.sizes[number]; listed {
		o, err = openObject(ctx, t.store, key, size)
	} else if o.tail, err = t.store.Get(ctx, key); err == nil {
		err = o.load(ctx, t.store, int64(len(o.tail)))
	}
	if err == nil && o.at != t.place {
		err = broken("it says %s, writer %s", o.at, o.at.writer)
	}
	if err == nil && len(o.blocks) > 0 {
		t.last, t.next = max(t.last, o.blocks[len(o.blocks)-1].last), max(t.next, number+1)
	}
	return &opened{o, err}
}

// object reads an object's blocks from the last one back.
func (t *ending) object(ctx context.Context, o *object) (err error) {
	if t.zstd == nil {
		if t.zstd, err = newDecoder(); err != nil {
			return err
		}
	}
	var errs []error
	for i := len(o.blocks) - 1; i >= 0 && !t.cut; i-- {
		b := o.blocks[i]
		if !t.filter.block(&b) {
			continue
		}
		var frames []Frame
		packed, err := o.packed(ctx, t.store, o.blocks[i:i+1])
		if err == nil {
			_, err = o.unpack(t.zstd, packed, b, func(f Frame) bool {
				if t.filter.frame(&f) {
					frames = append(frames, f)
				}
				return true
			})
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.unread = o.blocks[:i]
		t.take(ctx, frames)
	}
	return errors.Join(errs...)
}

// take counts the lines of a block, from its end.
func (t *ending) take(ctx context.Context, frames []Frame) {
	t.blocks = append(t.blocks, frames)
	for i := range slices.Backward(frames) {
		f := &frames[i]
		from := f.source()
		s := t.sources[from]
		if s == nil {
			s = &tailed{}
			t.sources[from] = s
			if len(f.Data) > 0 && f.Data[len(f.Data)-1] != '\n' {
				t.open++
			}
		}
		n := bytes.Count(f.Data, newline)
		if t.ended += n; n > 0 {
			s.lines, s.oldest = s.lines+n, t.ended
		}
		t.size += len(f.Data)
	}
	t.cut = t.size >= maxTail || t.enough(ctx)
}

// enough says that the last lines are there, from their beginnings on. A program that
// ends no line is not waited for.
func (t *ending) enough(ctx context.Context) bool {
	need := t.want - t.open // a line that is open comes after those that are not
	if t.ended < need {
		return false
	}
	for from, s := range t.sources {
		if s.lines > 0 && s.oldest <= need && t.earlier(ctx, from) {
			return false
		}
	}
	return true
}

// earlier says whether what was not read yet may hold more of a source: the rest of the
// object, or the one before. Further back it is not looked for: a map has a million items,
// of which each prints for a while, and then never again.
func (t *ending) earlier(ctx context.Context, from source) bool {
	holds := func(b block) bool {
		return t.filter.block(&b) && b.minItem <= from.item && from.item <= b.maxItem && b.streams&byte(from.stream) != 0
	}
	if slices.ContainsFunc(t.unread, holds) {
		return true
	}
	if t.number == 0 {
		return false
	}
	if t.ahead == nil {
		t.ahead = t.index(ctx, t.number-1)
	}
	return t.ahead.err == nil && slices.ContainsFunc(t.ahead.blocks, holds)
}

// whole leaves out the end of a line whose beginning was not read. A source that
// ends no line, a progress bar say, has nothing else to show and keeps it.
func (t *ending) whole(ctx context.Context, f *Frame, begun map[source]bool) bool {
	from := f.source()
	if begun[from] || t.sources[from].lines == 0 {
		return true
	}
	if !t.earlier(ctx, from) {
		begun[from] = true
		return true
	}
	_, rest, found := bytes.Cut(f.Data, newline)
	begun[from] = found
	f.Data = rest
	return len(rest) > 0 && found
}
