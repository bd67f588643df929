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

// MaxTail bounds how far ReadTail reads back in one writer's frames, in bytes:
// a program may never end a line, and another may ask for a million.
const MaxTail = 64 << 20

// ReadTail is Read from where the last n lines of each writer begin. It reads
// the objects from their end, a block at a time, and none that it does not need.
// Where lines are very long it may give more than n; Tail(Lines(...), n) chooses.
// Lines that are older than MaxTail are not there. Of a line that began before a
// whole object in which its item printed nothing, the beginning is not there.
func ReadTail(ctx context.Context, s Store, prefix string, f Filter, n int) iter.Seq2[Frame, error] {
	return ReadTailTo(ctx, s, prefix, f, n, map[Origin]uint64{}, map[Origin]int{})
}

// ReadTailTo is ReadTail, and notes by origin where a Follow goes on: after is the seq of
// the last frame that is stored, whatever the filter chooses, and objects the number of
// the object behind it.
func ReadTailTo(ctx context.Context, s Store, prefix string, f Filter, n int, after map[Origin]uint64, objects map[Origin]int) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		r := Reader{Store: s, Prefix: prefix, Filter: f}
		sizes := map[Origin]map[int]int64{}
		for o, err := range s.List(ctx, f.Under(prefix)) {
			if err != nil {
				yield(Frame{}, err)
				return
			}
			p, number, ok := ParseKey(prefix, o.Key)
			if !ok || !f.Origin(p) {
				continue
			}
			if sizes[p] == nil {
				sizes[p] = map[int]int64{}
			}
			sizes[p][number] = o.Size
		}
		writers := slices.SortedFunc(maps.Keys(sizes), func(a, b Origin) int { return strings.Compare(a.Key("", 0), b.Key("", 0)) })
		for _, p := range writers {
			t := ending{Reader: &r, Origin: p, want: n, sizes: sizes[p], sources: map[Source]*tailed{}}
			goOn := t.readBackwards(ctx, yield)
			after[p], objects[p] = t.last, t.next
			if !goOn {
				return
			}
		}
	}
}

// ending is one writer's last frames.
type ending struct {
	*Reader
	Origin
	want    int
	sizes   map[int]int64 // of its objects, by number
	blocks  [][]Frame     // the last one first
	size    int
	ended   int                // newlines
	open    int                // lines without one
	sources map[Source]*tailed // of what was read
	cut     bool               // there is more before
	last    uint64             // seq of the last frame that is stored
	next    int                // number of the object behind it

	number int     // of the object that is read
	unread []Block // of it
	ahead  *opened // the object before that one, if it was looked at
}

type opened struct {
	*Object
	err error
}

// tailed is what was read of one source.
type tailed struct {
	lines  int // that ended
	oldest int // of these the first one's place, counted from the writer's last
}

// readBackwards reads back until there is enough, and gives what it read to yield.
func (t *ending) readBackwards(ctx context.Context, yield func(Frame, error) bool) bool {
	for t.number = slices.Max(slices.Collect(maps.Keys(t.sizes))); t.number >= 0 && !t.cut; t.number-- {
		o := t.ahead
		if t.ahead = nil; o == nil {
			o = t.readIndex(ctx, t.number)
		}
		err := o.err
		if err == nil {
			err = t.readObject(ctx, o.Object)
		}
		if err != nil && !yield(Frame{}, fmt.Errorf("read %s: %w", t.Key(t.Prefix, t.number), err)) {
			return false
		}
		if err != nil && ctx.Err() != nil {
			return true
		}
	}
	t.number++ // what is unread now lies before that one
	begun := map[Source]bool{}
	for _, frames := range slices.Backward(t.blocks) {
		for _, f := range frames {
			if t.cut && !t.keepWholeLines(ctx, &f, begun) {
				continue
			}
			if !yield(f, nil) {
				return false
			}
		}
	}
	return true
}

// readIndex reads an object's index; the listing may have left the object out.
func (t *ending) readIndex(ctx context.Context, number int) *opened {
	key := t.Key(t.Prefix, number)
	o, err := &Object{Key: key}, error(nil)
	if size, listed := t.sizes[number]; listed {
		o, err = OpenObject(ctx, t.Store, key, size)
	} else if o.tail, err = t.Store.Get(ctx, key); err == nil {
		err = o.loadIndex(ctx, t.Store, int64(len(o.tail)))
	}
	if err == nil && o.At != t.Origin {
		err = NewDamagedError("it says %s, writer %s", o.At, o.At.Writer)
	}
	if err == nil && len(o.blocks) > 0 {
		t.last, t.next = max(t.last, o.blocks[len(o.blocks)-1].last), max(t.next, number+1)
	}
	return &opened{o, err}
}

// readObject reads an object's blocks from the last one back.
func (t *ending) readObject(ctx context.Context, o *Object) (err error) {
	if t.zstd == nil {
		if t.zstd, err = NewDecoder(); err != nil {
			return err
		}
	}
	var errs []error
	for i := len(o.blocks) - 1; i >= 0 && !t.cut; i-- {
		b := o.blocks[i]
		if !t.Filter.Block(&b) {
			continue
		}
		var frames []Frame
		packed, err := o.fetchBlocks(ctx, t.Store, o.blocks[i:i+1])
		if err == nil {
			_, err = o.unpackBlock(t.zstd, packed, b, func(f Frame) bool {
				if t.Filter.wantsFrame(&f) {
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
		t.countLines(ctx, frames)
	}
	return errors.Join(errs...)
}

// countLines counts the lines of a block, from its end.
func (t *ending) countLines(ctx context.Context, frames []Frame) {
	t.blocks = append(t.blocks, frames)
	for i := range slices.Backward(frames) {
		f := &frames[i]
		from := f.Source()
		s := t.sources[from]
		if s == nil {
			s = &tailed{}
			t.sources[from] = s
			if len(f.Data) > 0 && f.Data[len(f.Data)-1] != '\n' {
				t.open++
			}
		}
		n := bytes.Count(f.Data, []byte("\n"))
		if t.ended += n; n > 0 {
			s.lines, s.oldest = s.lines+n, t.ended
		}
		t.size += len(f.Data)
	}
	t.cut = t.size >= MaxTail || t.hasEnoughLines(ctx)
}

// hasEnoughLines says that the last lines are there, from their beginnings on. A program that
// ends no line is not waited for.
func (t *ending) hasEnoughLines(ctx context.Context) bool {
	need := t.want - t.open // a line that is open comes after those that are not
	if t.ended < need {
		return false
	}
	for from, s := range t.sources {
		if s.lines > 0 && s.oldest <= need && t.mayHoldEarlier(ctx, from) {
			return false
		}
	}
	return true
}

// mayHoldEarlier says whether what was not read yet may hold more of a source: the rest of the
// object, or the one before. Further back it is not looked for: a map has a million items,
// of which each prints for a while, and then never again.
func (t *ending) mayHoldEarlier(ctx context.Context, from Source) bool {
	holds := func(b Block) bool {
		return t.Filter.Block(&b) && b.minItem <= from.Item && from.Item <= b.maxItem && b.streams&byte(from.Stream) != 0
	}
	if slices.ContainsFunc(t.unread, holds) {
		return true
	}
	if t.number == 0 {
		return false
	}
	if t.ahead == nil {
		t.ahead = t.readIndex(ctx, t.number-1)
	}
	return t.ahead.err == nil && slices.ContainsFunc(t.ahead.blocks, holds)
}

// keepWholeLines leaves out the end of a line without its beginning. A source that
// ends no line, a progress bar say, has nothing else to show and keeps it.
func (t *ending) keepWholeLines(ctx context.Context, f *Frame, begun map[Source]bool) bool {
	from := f.Source()
	if begun[from] || t.sources[from].lines == 0 {
		return true
	}
	if !t.mayHoldEarlier(ctx, from) {
		begun[from] = true
		return true
	}
	_, rest, found := bytes.Cut(f.Data, []byte("\n"))
	begun[from] = found
	f.Data = rest
	return len(rest) > 0 && found
}
