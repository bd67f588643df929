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
// Where many items print at once, and where lines are very long, it may give
// more than n; Tail(Lines(...), n) chooses. Lines that are older than maxTail
// are not there.
func ReadTail(ctx context.Context, s Store, prefix string, f Filter, n int) iter.Seq2[Frame, error] {
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
			t := ending{reader: &r, place: p, want: n, sources: map[source]int{}}
			if !t.read(ctx, sizes[p], yield) {
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
	blocks  [][]Frame // the last one first
	size    int
	lines   int            // that begin in what was read
	sources map[source]int // and of each: newlines
	cut     bool           // there is more before
}

// read reads back until there is enough, and gives what it read to yield.
func (t *ending) read(ctx context.Context, sizes map[int]int64, yield func(Frame, error) bool) bool {
	for number := slices.Max(slices.Collect(maps.Keys(sizes))); number >= 0 && !t.cut; number-- {
		o, err := t.open(ctx, number, sizes)
		if err == nil && o.at != t.place {
			err = broken("it says %s, writer %s", o.at, o.at.writer)
		}
		if err == nil {
			err = t.object(ctx, o)
		}
		if err != nil && !yield(Frame{}, fmt.Errorf("read %s: %w", t.key(t.prefix, number), err)) {
			return false
		}
		if err != nil && ctx.Err() != nil {
			return true
		}
	}
	begun := map[source]bool{}
	for _, frames := range slices.Backward(t.blocks) {
		for _, f := range frames {
			if t.cut && !t.whole(&f, begun) {
				continue
			}
			if !yield(f, nil) {
				return false
			}
		}
	}
	return true
}

// open reads an object's index; the listing may have left the object out.
func (t *ending) open(ctx context.Context, number int, sizes map[int]int64) (*object, error) {
	key := t.key(t.prefix, number)
	if size, listed := sizes[number]; listed {
		return openObject(ctx, t.store, key, size)
	}
	body, err := t.store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	o := &object{key: key, tail: body}
	return o, o.load(ctx, t.store, int64(len(body)))
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
		t.take(frames)
	}
	return errors.Join(errs...)
}

// take counts the lines of a block. The first newline of each source may end a
// line that began before.
func (t *ending) take(frames []Frame) {
	t.blocks = append(t.blocks, frames)
	for i := range frames {
		f := &frames[i]
		from := source{t.place, f.Item, f.Stream}
		if n := bytes.Count(f.Data, newline); n > 0 {
			had := t.sources[from]
			t.sources[from] = had + n
			t.lines += max(0, had+n-1) - max(0, had-1)
		}
		t.size += len(f.Data)
	}
	t.cut = t.lines >= t.want || t.size >= maxTail
}

// whole leaves out the end of a line whose beginning was not read. A source that
// ends no line, a progress bar say, has nothing else to show and keeps it.
func (t *ending) whole(f *Frame, begun map[source]bool) bool {
	from := source{t.place, f.Item, f.Stream}
	if begun[from] || t.sources[from] == 0 {
		return true
	}
	_, rest, found := bytes.Cut(f.Data, newline)
	begun[from] = found
	f.Data = rest
	return len(rest) > 0 && found
}
