package record

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/store"
)

// Filter chooses frames. The zero Filter chooses all.
type Filter struct {
	Attempts []int     // none: all
	Ranks    []int     // none: all
	Item     uint64    // 0: all
	LastItem uint64    // with Item: those from Item to this one; 0: Item alone
	Streams  Stream    // bits; 0: all
	Since    time.Time // from this on; zero: from the beginning
	Until    time.Time // before this; zero: to the end
	FromSeq  uint64    // of each writer; 0: from the first
}

func (f *Filter) Origin(p Origin) bool {
	return (len(f.Attempts) == 0 || slices.Contains(f.Attempts, p.Attempt)) &&
		(len(f.Ranks) == 0 || slices.Contains(f.Ranks, p.Rank))
}

func (f *Filter) wantsFrame(r *Frame) bool {
	return f.Header(Header{r.Stream, r.Seq, micros(r.Time), r.Item})
}

func (f *Filter) Header(h Header) bool {
	return f.Block(&Block{First: h.Seq, last: h.Seq, oldest: h.Micros, newest: h.Micros, minItem: h.Item, maxItem: h.Item, streams: byte(h.Stream)})
}

// Covers is true when the block holds no frame that is not chosen.
func (f *Filter) Covers(b *Block) bool {
	return b.First >= f.FromSeq &&
		(f.Item == 0 || f.Item <= b.minItem && b.maxItem <= f.lastItem()) &&
		(f.Streams == 0 || b.streams&^byte(f.Streams) == 0) &&
		(f.Since.IsZero() || b.oldest >= micros(f.Since)) &&
		(f.Until.IsZero() || b.newest < micros(f.Until))
}

// Block is true when the block may hold a frame that is chosen.
func (f *Filter) Block(b *Block) bool {
	return b.last >= f.FromSeq &&
		(f.Item == 0 || b.minItem <= f.lastItem() && f.Item <= b.maxItem) &&
		(f.Streams == 0 || byte(f.Streams)&b.streams != 0) &&
		(f.Since.IsZero() || b.newest >= micros(f.Since)) &&
		(f.Until.IsZero() || b.oldest < micros(f.Until))
}

func (f *Filter) lastItem() uint64 { return max(f.Item, f.LastItem) }

// Under narrows the listing as far as the filter allows.
func (f *Filter) Under(prefix string) string {
	prefix += "/"
	if len(f.Attempts) == 1 {
		prefix += fmt.Sprintf("%06d-", f.Attempts[0])
		if len(f.Ranks) == 1 {
			prefix += fmt.Sprintf("%06d-", f.Ranks[0])
		}
	}
	return prefix
}

// Read gives the stored frames below prefix that the filter chooses, by attempt,
// rank, writer, seq. It reads the objects' indexes and only the blocks that may
// hold such a frame. After an error (an object that is damaged, missing or not
// to be had) it goes on with what comes next, for a caller that goes on ranging.
func Read(ctx context.Context, s Store, prefix string, f Filter) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		r := Reader{Store: s, Prefix: prefix, Filter: f}
		r.Scan(ctx, true, yield)
	}
}

// Reader knows how far each writer's frames were given.
type Reader struct {
	Store   Store
	Prefix  string
	Filter  Filter
	after   map[Origin]uint64 // the last seq not to give; may be nil
	objects map[Origin]int    // and the first object that may hold others; may be nil
	cursors map[Origin]*Cursor
	zstd    *zstd.Decoder // made when first needed

	// A reader ahead lists, opens and takes in a way of its own; nil: as below.
	List    func(context.Context) iter.Seq2[store.Object, error]
	Open    func(ctx context.Context, key string, size int64) (*Object, error)
	Deliver func(ctx context.Context, c *Cursor, o *Object) (goOn bool, err error)
}

// Cursor is one writer's.
type Cursor struct {
	Origin
	Next   uint64 // seq of the first frame not given
	number int    // of the first object not read to its end
	live   bool   // a socket gives its frames now
	whole  bool   // a socket gave them to the last
	stuck  bool   // no further in this scan
}

func (r *Reader) cursorOf(p Origin) *Cursor {
	c := r.cursors[p]
	if c == nil {
		if r.cursors == nil {
			r.cursors = map[Origin]*Cursor{}
		}
		c = &Cursor{Origin: p, Next: max(1, r.Filter.FromSeq, r.after[p]+1), number: r.objects[p]}
		r.cursors[p] = c
	}
	return c
}

// Scan gives what was stored since the last one, but not of writers that are
// live. last means that no writer will store more: what is missing stays missing,
// and is passed over. goOn is false when yield said stop; whole is false when
// the store could not be asked for everything.
func (r *Reader) Scan(ctx context.Context, last bool, yield func(Frame, error) bool) (goOn, whole bool) {
	for _, c := range r.cursors {
		c.stuck = false
	}
	whole = true
	listed := r.Store.List(ctx, r.Filter.Under(r.Prefix))
	if r.List != nil {
		listed = r.List(ctx)
	}
	for o, err := range listed {
		if err != nil {
			return yield(Frame{}, err), false
		}
		p, n, ok := ParseKey(r.Prefix, o.Key)
		if !ok || !r.Filter.Origin(p) {
			continue
		}
		c := r.cursorOf(p)
		for goOn := true; c.number <= n && !c.live && !c.whole && !c.stuck; {
			if c.number < n {
				goOn = r.readUnlisted(ctx, c, n, last, yield)
			} else {
				goOn = r.readListed(ctx, c, o.Size, last, yield)
			}
			if !goOn {
				return false, whole
			}
		}
		whole = whole && !c.stuck
	}
	return true, whole
}

// readPastListing reads on behind what listings told, by key: only an object that cannot
// be read is not there (rule L6 of docs/protocol.md).
func (r *Reader) readPastListing(ctx context.Context, yield func(Frame, error) bool) (goOn, whole bool) {
	whole = true
	known := slices.SortedFunc(maps.Values(r.cursors), func(a, b *Cursor) int {
		return strings.Compare(a.Key("", 0), b.Key("", 0))
	})
	for _, c := range known {
		for before := -1; before < c.number && !c.whole && !c.stuck; {
			before = c.number
			if !r.readUnlisted(ctx, c, c.number, true, yield) {
				return false, whole
			}
		}
		whole = whole && !c.stuck
	}
	return true, whole
}

// readListed reads object c.number, which is size bytes long.
func (r *Reader) readListed(ctx context.Context, c *Cursor, size int64, last bool, yield func(Frame, error) bool) bool {
	key := c.Key(r.Prefix, c.number)
	if r.Open != nil {
		o, err := r.Open(ctx, key, size)
		return r.yieldObject(ctx, c, o, err, last, yield)
	}
	o, err := OpenObject(ctx, r.Store, key, size)
	return r.yieldObject(ctx, c, o, err, last, yield)
}

// readUnlisted reads object c.number, which no listing told of though object n
// stands behind it. When last is true and it is not there, it never will be.
func (r *Reader) readUnlisted(ctx context.Context, c *Cursor, n int, last bool, yield func(Frame, error) bool) bool {
	key := c.Key(r.Prefix, c.number)
	body, err := r.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotExist) {
		switch {
		case !last:
			c.stuck = true
		case c.number < n:
			missing := n - c.number
			c.number = n
			return yield(Frame{}, fmt.Errorf("read %s: it and the %d after it are missing: %w", key, missing-1, err))
		}
		return true
	}
	o := &Object{Key: key, tail: body}
	if err == nil {
		err = o.loadIndex(ctx, r.Store, int64(len(body)))
	}
	return r.yieldObject(ctx, c, o, err, last, yield)
}

// yieldObject gives the frames of o, which is c's next object unless err says why not.
func (r *Reader) yieldObject(ctx context.Context, c *Cursor, o *Object, err error, last bool, yield func(Frame, error) bool) bool {
	key := c.Key(r.Prefix, c.number)
	if err == nil && o.At != c.Origin {
		err = NewDamagedError("it says %s, writer %s", o.At, o.At.Writer)
	}
	goOn := true
	switch {
	case err != nil:
	case r.Deliver != nil:
		goOn, err = r.Deliver(ctx, c, o)
	default:
		goOn, err = r.yieldFrames(ctx, c, o, yield)
	}
	switch {
	case !goOn:
		return false
	case err == nil:
		if n := len(o.blocks); n > 0 {
			c.Next = max(c.Next, o.blocks[n-1].last+1)
		}
		c.number++
		return true
	case errors.Is(err, store.ErrNotExist) && !last:
		c.stuck = true // listed and not to be seen yet
		return true
	case errors.Is(err, ErrDamaged) || errors.Is(err, store.ErrNotExist):
		c.number++ // it will not get better
	default:
		c.stuck = true
	}
	return yield(Frame{}, fmt.Errorf("read %s: %w", key, err))
}

// yieldFrames gives the frames of o from c's next on.
func (r *Reader) yieldFrames(ctx context.Context, c *Cursor, o *Object, yield func(Frame, error) bool) (goOn bool, err error) {
	if r.zstd == nil {
		if r.zstd, err = NewDecoder(); err != nil {
			return true, err
		}
	}
	wanted := func(b *Block) bool { return b.last >= c.Next && r.Filter.Block(b) }
	return o.yieldFrames(ctx, r.Store, r.zstd, wanted, func(f Frame) bool {
		if f.Seq < c.Next {
			return true
		}
		c.Next = f.Seq + 1
		return !r.Filter.wantsFrame(&f) || yield(f, nil)
	})
}

// ReachedSeqs is by origin the seq of the last frame that was read. A writer numbers the frames of each
// attempt anew.
func (r *Reader) ReachedSeqs() map[Origin]uint64 {
	after := map[Origin]uint64{}
	for at, c := range r.cursors {
		after[at] = c.Next - 1
	}
	return after
}
