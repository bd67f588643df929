package line

import (
	"context"
	"iter"
	"regexp"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/store"
)

const (
	// How many objects are read at once: as many as there are cores, but more than one
	// waits for a store that is far away, and no more than memory has room for.
	leastAhead, mostAhead = 4, 8
	// ready is how many blocks of each wait to be taken; most objects have five. With
	// frames of one byte a block and its pieces take 1.2 MB.
	ready = 5
)

// sifted is a block that was unpacked and looked through.
type sifted struct {
	at     record.Origin
	raw    []byte
	pieces []piece // its frames that were chosen
	hits   []span  // whole lines that match, as they stand in raw, piece by piece
	next   uint64  // seq behind its last frame
	err    error   // what follows of the object cannot be read
}

// piece is one frame.
type piece struct {
	record.Header
	from, to int32 // where its bytes are; never none
	hits     int32 // how many there are in it
	ends     bool  // with a newline
}

func (b *sifted) frameOf(p *piece) record.Frame {
	return record.Frame{Attempt: b.at.Attempt, Rank: b.at.Rank, Writer: b.at.Writer, Seq: p.Seq, Item: p.Item,
		Stream: p.Stream, Time: record.FromMicros(p.Micros), Data: b.raw[p.from:p.to:p.to]}
}

// ahead reads the objects that a listing tells of before they are asked for, a few at
// a time, and looks through their blocks.
type ahead struct {
	store   record.Store
	prefix  string
	filter  record.Filter
	re      *regexp.Regexp
	most    int
	running sync.WaitGroup
	begun   map[string]*early // by key; of the goroutine that ranges
	tools   sync.Pool         // of *tools
	spare   sync.Pool         // of *sifted
}

// early is an object that is being read.
type early struct {
	cancel context.CancelFunc
	opened chan struct{} // closed when the next two are known
	object *record.Object
	err    error
	blocks chan *sifted // closed behind the last one
}

// tools are what one goroutine reads with.
type tools struct {
	zstd    *zstd.Decoder
	matcher *matcher
}

func newAhead(s record.Store, prefix string, f record.Filter, re *regexp.Regexp) *ahead {
	return &ahead{store: s, prefix: prefix, filter: f, re: re, begun: map[string]*early{},
		most: min(max(runtime.GOMAXPROCS(0), leastAhead), mostAhead)}
}

// listAhead is the store's listing, behind which objects are being read already.
func (a *ahead) listAhead(ctx context.Context) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		var waiting []store.Object
		first := func() bool {
			o := waiting[0]
			waiting = waiting[1:]
			goOn := yield(o, nil)
			if e := a.begun[o.Key]; e != nil { // it was not wanted
				e.cancel()
				delete(a.begun, o.Key)
			}
			return goOn
		}
		for o, err := range a.store.List(ctx, a.filter.Under(a.prefix)) {
			if err != nil {
				for len(waiting) > 0 && first() {
				}
				yield(o, err)
				return
			}
			p, _, ok := record.ParseKey(a.prefix, o.Key)
			if !ok || !a.filter.Origin(p) {
				continue
			}
			a.beginReading(ctx, o)
			if waiting = append(waiting, o); len(waiting) >= a.most && !first() {
				return
			}
		}
		for len(waiting) > 0 && first() {
		}
	}
}

// beginReading starts to read an object.
func (a *ahead) beginReading(ctx context.Context, o store.Object) {
	ctx, cancel := context.WithCancel(ctx)
	e := &early{cancel: cancel, opened: make(chan struct{}), blocks: make(chan *sifted, ready)}
	a.begun[o.Key] = e
	a.running.Go(func() {
		defer close(e.blocks)
		e.object, e.err = record.OpenObject(ctx, a.store, o.Key, o.Size)
		close(e.opened)
		if e.err != nil {
			return
		}
		a.siftObject(ctx, e.object, func(b *sifted) bool {
			select {
			case e.blocks <- b:
				return true
			case <-ctx.Done():
				return false
			}
		})
	})
}

// openListed gives an object that the listing has told of.
func (a *ahead) openListed(ctx context.Context, key string, size int64) (*record.Object, error) {
	e := a.begun[key]
	if e == nil {
		return record.OpenObject(ctx, a.store, key, size)
	}
	<-e.opened
	return e.object, e.err
}

// siftedBlocks gives an object's blocks, each until the next is asked for. One with an error
// is the last.
func (a *ahead) siftedBlocks(ctx context.Context, o *record.Object) iter.Seq[*sifted] {
	return func(yield func(*sifted) bool) {
		give := func(b *sifted) bool {
			defer a.spare.Put(b)
			return yield(b)
		}
		e := a.begun[o.Key]
		if e == nil || e.object != o { // no listing told of it
			a.siftObject(ctx, o, give)
			return
		}
		delete(a.begun, o.Key)
		defer e.cancel()
		for b := range e.blocks {
			if !give(b) {
				return
			}
		}
	}
}

// siftObject reads the blocks of an object that may hold what was asked for.
func (a *ahead) siftObject(ctx context.Context, o *record.Object, give func(*sifted) bool) {
	t, err := a.takeTools()
	if err == nil {
		defer a.tools.Put(t)
		_, err = o.BlockRuns(ctx, a.store, a.filter.Block, func(b record.Block, packed []byte) (bool, error) {
			s := a.spareSifted(o.At)
			s.readBlock(t, b, packed, &a.filter)
			sound := s.err == nil // read before another goroutine has it
			return give(s) && sound, nil
		})
	}
	if err != nil {
		s := a.spareSifted(o.At)
		s.err = err
		give(s)
	}
}

func (a *ahead) takeTools() (*tools, error) {
	if t, ok := a.tools.Get().(*tools); ok {
		return t, nil
	}
	dec, err := record.NewDecoder()
	return &tools{dec, newMatcher(a.re)}, err
}

func (a *ahead) spareSifted(at record.Origin) *sifted {
	s, ok := a.spare.Get().(*sifted)
	if !ok {
		s = &sifted{raw: make([]byte, 0, record.MaxBlock)}
	}
	*s = sifted{at: at, raw: s.raw[:0], pieces: s.pieces[:0], hits: s.hits[:0]}
	return s
}

// readBlock unpacks a block and looks through its frames. Those before one that is broken
// count.
func (s *sifted) readBlock(t *tools, b record.Block, packed []byte, filter *record.Filter) {
	s.next = b.First
	if s.raw, s.err = record.UnpackBlock(t.zstd, packed, b, s.raw); s.err != nil {
		return
	}
	t.matcher.beginText(s.raw)
	whole := filter.Covers(&b)
	s.next, s.err = record.WalkFrames(s.raw, b, func(h record.Header, from, to int) bool {
		if from == to || !whole && !filter.Header(h) {
			return true
		}
		had := len(s.hits)
		s.hits = t.matcher.appendMatches(s.hits, s.raw, from, to)
		s.pieces = append(s.pieces, piece{h, int32(from), int32(to), int32(len(s.hits) - had), s.raw[to-1] == '\n'})
		return true
	})
}
