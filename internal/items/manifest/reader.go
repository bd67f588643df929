package manifest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"sort"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/fields"
	"github.com/drover-run/drover/store"
)

var errDamaged = errors.New("it is damaged")

// Reader reads the items of a manifest by their numbers. It may be used by many
// goroutines at once, and holds nothing that must be closed.
type Reader struct {
	m      Manifest
	first  int
	span   *Range
	blocks []placed
	starts []int         // by block: how many items are before it; and all of them
	names  []string      // keys of the parts
	known  *fields.Names // of JSON lines
	stored *Reader       // of the items' files; nil: there are none, or they are not asked for
	fetch  func(ctx context.Context, part int, off int64, to []byte) error
	zstd   func() (*zstd.Decoder, error)

	mu   sync.Mutex
	held held // the block read last: chunks end within blocks
}

// placed is a block and where it lies.
type placed struct {
	block
	part int
	off  int64
}

type held struct {
	block int
	items string // "": none
}

// Open reads the index of a manifest. Its first item has the number first: 1 in a
// job's own, more in what was added later. Of a range nothing is read. An index
// that is gone or damaged is fault.Lost.
func Open(ctx context.Context, s *store.Store, m Manifest, first int) (*Reader, error) {
	if first < 1 || m.Count < 0 || m.Count > MaxItems {
		return nil, fault.New(fault.Invalid, "", "open items %s: %d items from number %d cannot be", m.Key, m.Count, first)
	}
	r := newReader(m, first)
	if m.Step > 0 && m.Key == "" {
		r.span = &Range{m.From, m.To, m.Step}
		if m.From < 0 || m.To < m.From || m.To > MaxSpan || r.span.itemCount() != m.Count {
			return nil, fault.New(fault.Invalid, "", "open items: %d-%d:%d is not a range of the %d items", m.From, m.To, m.Step, m.Count)
		}
		return r, nil
	}
	text, err := s.Get(ctx, m.Key)
	if errors.Is(err, store.ErrNotExist) {
		return nil, fault.Wrap(err, fault.Lost, "", "open items: %s is gone from %s", m.Key, s)
	}
	if err != nil {
		return nil, fmt.Errorf("open items: %w", err)
	}
	x, err := decodeIndex(m, text)
	if err != nil {
		return nil, fault.Wrap(err, fault.Lost, "", "open items: %s in %s", m.Key, s)
	}
	r.fillIndex(x)
	for _, p := range x.Parts {
		r.names = append(r.names, path.Join(path.Dir(m.Key), p.Name))
	}
	r.fetch = func(ctx context.Context, part int, off int64, to []byte) error {
		return fetch(ctx, s, r.names[part], off, to)
	}
	return r, nil
}

// decodeIndex reads an index and checks it against the manifest that names it.
func decodeIndex(m Manifest, text []byte) (*index, error) {
	sum := sha256.Sum256(text)
	if digits, ok := hexName(path.Base(m.Key), "index-", ".json"); !ok || hex.EncodeToString(sum[:])[:nameLen] != digits {
		return nil, errDamaged
	}
	x := new(index)
	if err := json.Unmarshal(text, x); err != nil {
		return nil, err
	}
	if err := x.checkIndex(); err != nil {
		return nil, err
	}
	if x.Count != m.Count || x.Digest != m.Digest || x.Format != m.Format {
		return nil, errors.New("it belongs to another list")
	}
	return x, nil
}

func fetch(ctx context.Context, s *store.Store, key string, off int64, to []byte) error {
	body, err := s.Open(ctx, key, off, int64(len(to)))
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.ReadFull(body, to)
	return err
}

func newReader(m Manifest, first int) *Reader {
	if m.Format == "" {
		m.Format = Lines
	}
	r := &Reader{m: m, first: first, zstd: sync.OnceValues(newUnpacker), held: held{block: -1}}
	if m.Format == JSONL {
		r.known = fields.NewNames(m.Fields)
	}
	return r
}

func (r *Reader) fillIndex(x *index) {
	r.starts = append(r.starts, 0)
	for i, p := range x.Parts {
		off := int64(0)
		for _, b := range p.Blocks {
			r.blocks = append(r.blocks, placed{b, i, off})
			off += int64(b.Packed)
			r.starts = append(r.starts, r.starts[len(r.starts)-1]+b.Items)
		}
	}
}

// Manifest is what is read.
func (r *Reader) Manifest() Manifest {
	m := r.m
	m.Fields = slices.Clone(m.Fields)
	return m
}

// First and Last are the numbers of the first and the last item.
func (r *Reader) First() int { return r.first }

// Last is First-1 if there are no items.
func (r *Reader) Last() int { return r.first + r.m.Count - 1 }

// One reads an item.
func (r *Reader) One(ctx context.Context, n int) (it Item, err error) {
	for it, err = range r.Range(ctx, n, n) {
		break
	}
	return it, err
}

// Range reads the items with the numbers from..to, in order; to may be from-1 for
// none. It reads only the blocks it needs, those of a part in one request, and
// ends after the first error: fault.Lost, if a part is gone or damaged.
func (r *Reader) Range(ctx context.Context, from, to int) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		n := from
		files, done := r.filesBetween(ctx, from, to)
		defer done()
		for text, err := range r.itemTexts(ctx, from, to) {
			it := Item{N: n, Text: text}
			if err == nil {
				it.Fields, err = r.fieldValues(text)
			}
			if err == nil {
				it.Files, err = files()
			}
			if err != nil {
				yield(Item{}, fmt.Errorf("read item %d: %w", n, err))
				return
			}
			if !yield(it, nil) {
				return
			}
			n++
		}
	}
}

// fieldValues are the values in an item's text.
func (r *Reader) fieldValues(text string) ([]string, error) {
	switch r.m.Format {
	case CSV:
		fields, err := fields.SplitCSV(make([]string, 0, len(r.m.Fields)), text)
		if err == nil && len(fields) != len(r.m.Fields) {
			err = errDamaged
		}
		return fields, err
	case JSONL:
		return fields.OfJSON(r.known, text)
	}
	return nil, nil
}

// itemTexts gives the items' texts.
func (r *Reader) itemTexts(ctx context.Context, from, to int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if from < r.first || to > r.Last() || to < from-1 {
			yield("", fault.New(fault.Bug, "", "items %d to %d are not among %d to %d", from, to, r.first, r.Last()))
			return
		}
		if r.span != nil {
			r.yieldNumbers(ctx, from-r.first, to-r.first, yield)
			return
		}
		at, end := from-r.first, to-r.first+1
		last := sort.SearchInts(r.starts, end) - 1
		var run run
		for i := sort.SearchInts(r.starts, at+1) - 1; at < end; i++ {
			items, err := r.readBlock(ctx, &run, i, last)
			for n := r.starts[i]; err == nil && n < min(r.starts[i+1], end); n++ {
				var text string
				if text, items, err = next(items); err == nil && n >= at && !yield(text, nil) {
					return
				}
			}
			if err != nil {
				yield("", err)
				return
			}
			at = r.starts[i+1]
		}
	}
}

func (r *Reader) yieldNumbers(ctx context.Context, from, to int, yield func(string, error) bool) {
	for i := from; i <= to; i++ {
		if i%4096 == 0 {
			if err := context.Cause(ctx); err != nil {
				yield("", err)
				return
			}
		}
		if !yield(r.span.textOfItem(i), nil) {
			return
		}
	}
}

// run is what one request gave: blocks of a part that lie together.
type run struct {
	from, to int // blocks, to excluded
	packed   []byte
	room     []byte // to unpack into
}

// blockBytes is a block's part of it.
func (u *run) blockBytes(r *Reader, i int) []byte {
	at := r.blocks[i].off - r.blocks[u.from].off
	return u.packed[at : at+int64(r.blocks[i].Packed)]
}

// readBlock gives the items of block i. On the way to block last it fetches more of
// the same part. A block that came damaged is asked for once more: the way here
// may have done it.
func (r *Reader) readBlock(ctx context.Context, u *run, i, last int) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if items, ok := r.cachedBlock(i); ok {
		return items, nil
	}
	dec, err := r.zstd()
	if err != nil {
		return "", err
	}
	for try := range 2 {
		if i < u.from || i >= u.to || try > 0 {
			if try > 0 {
				last = i
			}
			if err = r.fetchBlocks(ctx, u, i, last); err != nil {
				continue
			}
		}
		var raw []byte
		if raw, err = unpack(dec, r.blocks[i].block, u.blockBytes(r, i), u.room); err == nil {
			u.room = raw
			items := string(raw)
			r.cacheBlock(i, items)
			return items, nil
		}
	}
	if stop := context.Cause(ctx); stop != nil {
		return "", stop
	}
	return "", r.blockError(err, i)
}

// blockError says which object would not give block i. A store that knows better what
// is wrong, as when it may not be read, says so itself.
func (r *Reader) blockError(err error, i int) error {
	where := r.names[min(r.blocks[i].part, len(r.names)-1)]
	var f *fault.Fault
	if errors.As(err, &f) {
		return fmt.Errorf("read items: %s: %w", where, err)
	}
	return fault.Wrap(err, fault.Lost, "", "read items: %s", where)
}

// fetchBlocks fetches block i and those behind it up to last that lie in the same part.
func (r *Reader) fetchBlocks(ctx context.Context, u *run, i, last int) error {
	from, size := i, 0
	for ; i <= last && r.blocks[i].part == r.blocks[from].part; i++ {
		if size > 0 && size+r.blocks[i].Packed > partSize {
			break
		}
		size += r.blocks[i].Packed
	}
	u.from, u.to = from, from
	if cap(u.packed) < size {
		u.packed = make([]byte, size)
	}
	u.packed = u.packed[:size]
	err := r.fetch(ctx, r.blocks[from].part, r.blocks[from].off, u.packed)
	if err == nil {
		u.to = i
	}
	return err
}

func (r *Reader) cachedBlock(i int) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held.items, r.held.block == i
}

func (r *Reader) cacheBlock(i int, items string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = held{i, items}
}
