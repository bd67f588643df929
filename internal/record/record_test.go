package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// depot is the real store over memory, which counts and can be held up.
type depot struct {
	*store.Store
	before func(ctx context.Context, key string) error // of each CreateOnce; may block
	hide   func(key string) bool                       // from listings

	trouble []error // the next listings' answers

	mu                   sync.Mutex
	lists, opens, opened int
}

var _ Store = (*depot)(nil)

func newDepot() *depot { return &depot{Store: store.New(mem.New(), store.Options{})} }

func (d *depot) CreateOnce(ctx context.Context, key string, body []byte) ([]byte, bool, error) {
	if d.before != nil {
		if err := d.before(ctx, key); err != nil {
			return nil, false, err
		}
	}
	return d.Store.CreateOnce(ctx, key, body)
}

func (d *depot) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	d.mu.Lock()
	d.opens++
	d.opened += int(n)
	d.mu.Unlock()
	return d.Store.Open(ctx, key, off, n)
}

func (d *depot) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	d.mu.Lock()
	d.lists++
	var err error
	if len(d.trouble) > 0 {
		err, d.trouble = d.trouble[0], d.trouble[1:]
	}
	d.mu.Unlock()
	return func(yield func(store.Object, error) bool) {
		if err != nil {
			yield(store.Object{}, err)
			return
		}
		for o, err := range d.Store.List(ctx, prefix) {
			if err == nil && d.hide != nil && d.hide(o.Key) {
				continue
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// quick compares bytes as a whole: cmp's own way takes minutes for megabytes.
var quick = cmp.Comparer(bytes.Equal)

// virtual is synctest's time, which store.System's Boot does not know.
type virtual struct{ store.Clock }

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when a bubble begins

func (virtual) Boot() time.Duration { return time.Since(epoch) }

var bubble store.Clock = virtual{store.System}

const prefix = "p/t/j/logs"

func newWriter(t testing.TB, s Store, attempt, rank int, id string) *Writer {
	t.Helper()
	return makeWriter(t, Options{Store: s, Attempt: attempt, Rank: rank, ID: id, Clock: bubble})
}

func makeWriter(t testing.TB, o Options) *Writer {
	t.Helper()
	o.Prefix = prefix
	w, err := NewWriter(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func shut(t testing.TB, w *Writer) {
	t.Helper()
	if err := w.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func write(t testing.TB, w *Writer, s Stream, item uint64, b []byte) {
	t.Helper()
	if n, err := w.Copy(s, item, bytes.NewReader(b)); err != nil || n != int64(len(b)) {
		t.Errorf("copied %d of %d bytes: %v", n, len(b), err)
	}
}

func all(t testing.TB, frames iter.Seq2[Frame, error]) []Frame {
	t.Helper()
	var got []Frame
	for f, err := range frames {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f)
	}
	return got
}

// uneven gives r's bytes in reads of random sizes, as pipes do.
type uneven struct {
	io.Reader
	rand *rand.Rand
}

func (u uneven) Read(p []byte) (int, error) {
	n := 1 + u.rand.IntN(1<<(3+u.rand.IntN(15)))
	return u.Reader.Read(p[:min(n, len(p))])
}

// noise is text of few letters: it packs, but not to nothing.
func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n; i += 8 {
		word := r.Uint64() & 0x0707070707070707
		for k := range min(8, n-i) {
			b[i+k] = byte(word >> (8 * k))
		}
	}
	return b
}

func TestEveryByteComesBackInOrder(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := newDepot()
		type voice struct {
			attempt, rank int
			stream        Stream
		}
		said := map[voice][]byte{}
		var talking sync.WaitGroup
		var writers []*Writer
		for n := range 6 {
			w := newWriter(t, d, 1+n/3, n%3, fmt.Sprintf("w%d", n))
			writers = append(writers, w)
			for _, s := range []Stream{Stdout, Stderr} {
				b := noise(r, r.IntN(2<<20))
				said[voice{1 + n/3, n % 3, s}] = b
				in := uneven{bytes.NewReader(b), rand.New(rand.NewPCG(seed, uint64(n)))}
				talking.Go(func() {
					if _, err := w.Copy(s, 0, in); err != nil {
						t.Error(err)
					}
				})
			}
			talking.Go(func() {
				for range 3 {
					w.Note("still here")
					if err := w.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
			said[voice{1 + n/3, n % 3, Agent}] = []byte("still here\nstill here\nstill here\n")
		}
		talking.Wait()
		for _, w := range writers {
			shut(t, w)
		}
		heard := map[voice][]byte{}
		var last Frame
		for _, f := range all(t, Read(t.Context(), d, prefix, Filter{})) {
			if f.Attempt == last.Attempt && f.Rank == last.Rank {
				if f.Seq != last.Seq+1 {
					t.Fatalf("seed %d: seq %d follows %d", seed, f.Seq, last.Seq)
				}
			} else if f.Attempt*10+f.Rank < last.Attempt*10+last.Rank || f.Seq != 1 {
				t.Fatalf("seed %d: %d/%d seq %d follows %d/%d", seed, f.Attempt, f.Rank, f.Seq, last.Attempt, last.Rank)
			}
			v := voice{f.Attempt, f.Rank, f.Stream}
			heard[v] = append(heard[v], f.Data...)
			last = f
		}
		for v, b := range said {
			if !bytes.Equal(b, heard[v]) {
				t.Errorf("seed %d: %v: %d bytes said, %d others heard", seed, v, len(b), len(heard[v]))
			}
		}
	}
}

func TestAnItemIsFoundByReadingIndexesAndOneBlock(t *testing.T) {
	d := newDepot()
	w := newWriter(t, d, 1, 0, "a")
	r := rand.New(rand.NewPCG(1, 1))
	const items = 100_000
	text := func(item uint64) []byte { return fmt.Appendf(nil, "item %d %x\n", item, item*0x9e3779b97f4a7c15) }
	for item := range uint64(items) {
		b := text(item + 1)
		write(t, w, Stdout, item+1, b)
	}
	shut(t, w)
	var size, objects, tails, largest int
	for o, err := range d.List(t.Context(), prefix+"/") {
		if err != nil {
			t.Fatal(err)
		}
		opened, err := openObject(t.Context(), d, o.Key, o.Size)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range opened.blocks {
			largest = max(largest, int(b.packed))
		}
		size += int(o.Size)
		tails += int(min(o.Size, tailSize))
		objects++
	}
	if most := tails + largest; objects < 3 || size < 2*most {
		t.Fatalf("%d objects of %d bytes: nothing to seek in", objects, size)
	}
	for range 100 {
		item := 1 + r.Uint64N(items)
		d.opens, d.opened = 0, 0
		got := all(t, Read(t.Context(), d, prefix, Filter{Item: item}))
		if len(got) != 1 || !bytes.Equal(got[0].Data, text(item)) || got[0].Item != item {
			t.Fatalf("item %d: got %d frames", item, len(got))
		}
		if most := tails + largest; d.opened > most || d.opens > objects+1 {
			t.Fatalf("item %d: %d requests for %d bytes; want at most %d for %d (all is %d)",
				item, d.opens, d.opened, objects+1, most, size)
		}
	}
}

func TestAFilterChoosesWhatReadingAllAndChoosingWould(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	d := newDepot()
	for n := range 4 {
		clock := wandering{bubble, rand.New(rand.NewPCG(7, uint64(n)))}
		w := makeWriter(t, Options{Store: d, Attempt: n / 2, Rank: n % 2, ID: fmt.Sprintf("w%d", n), Clock: clock})
		for range 300 {
			write(t, w, []Stream{Stdout, Stderr}[r.IntN(2)], uint64(r.IntN(9)), noise(r, r.IntN(9000)))
			if r.IntN(40) == 0 {
				w.Note("a note")
			}
		}
		shut(t, w)
	}
	whole := all(t, Read(t.Context(), d, prefix, Filter{}))
	for range 60 {
		var f Filter
		if r.IntN(3) == 0 {
			f.Attempts = []int{r.IntN(3)}
		}
		if r.IntN(3) == 0 {
			f.Ranks = []int{r.IntN(2), r.IntN(2)}[:1+r.IntN(2)]
		}
		if r.IntN(2) == 0 {
			f.Item = uint64(r.IntN(11))
		}
		if r.IntN(2) == 0 {
			f.Streams = Stream(r.IntN(8))
		}
		if r.IntN(2) == 0 {
			f.Since = whole[r.IntN(len(whole))].Time
		}
		if r.IntN(2) == 0 {
			f.Until = whole[r.IntN(len(whole))].Time
		}
		if r.IntN(2) == 0 {
			f.FromSeq = uint64(r.IntN(400))
		}
		var want []Frame
		for _, x := range whole {
			if (f.Attempts == nil || slices.Contains(f.Attempts, x.Attempt)) &&
				(f.Ranks == nil || slices.Contains(f.Ranks, x.Rank)) &&
				(f.Item == 0 || f.Item == x.Item) && (f.Streams == 0 || f.Streams&x.Stream != 0) &&
				(f.Since.IsZero() || !x.Time.Before(f.Since)) && (f.Until.IsZero() || x.Time.Before(f.Until)) &&
				x.Seq >= f.FromSeq {
				want = append(want, x)
			}
		}
		if diff := cmp.Diff(want, all(t, Read(t.Context(), d, prefix, f)), quick); diff != "" {
			t.Fatalf("%+v (-want +got):\n%.2000s", f, diff)
		}
	}
}

// wandering is a wall clock that is set to and fro.
type wandering struct {
	store.Clock
	rand *rand.Rand
}

func (w wandering) Now() time.Time {
	return epoch.Add(time.Duration(w.rand.IntN(1e9)) * time.Microsecond)
}

func TestADamagedObjectIsSaidAndPassedOver(t *testing.T) {
	d := newDepot()
	for n, id := range []string{"a", "b", "c"} {
		w := newWriter(t, d, 1, n, id)
		write(t, w, Stdout, 0, []byte("hello from "+id))
		shut(t, w)
	}
	victim := place{1, 1, "b"}.key(prefix, 0)
	body, err := d.Get(t.Context(), victim)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Put(t.Context(), victim, body[:len(body)-1]); err != nil {
		t.Fatal(err)
	}
	var got []string
	var errs []error
	for f, err := range Read(t.Context(), d, prefix, Filter{}) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got = append(got, string(f.Data))
	}
	if diff := cmp.Diff([]string{"hello from a", "hello from c"}, got); diff != "" {
		t.Error(diff)
	}
	if len(errs) != 1 || !errors.Is(errs[0], errBroken) {
		t.Errorf("got errors %v, want one of a damaged object", errs)
	}
}

func TestWhatAListingLeavesOutIsReadByItsNumber(t *testing.T) {
	d := newDepot()
	w := newWriter(t, d, 1, 0, "a")
	for n := range 5 {
		// Of unlike lengths, so that none is read by the length of another.
		write(t, w, Stdout, 0, []byte("01234"[:n+1]))
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, w)
	d.hide = func(key string) bool { return key != place{1, 0, "a"}.key(prefix, 3) }
	var text []byte
	for _, f := range all(t, Read(t.Context(), d, prefix, Filter{})) {
		text = append(text, f.Data...)
	}
	if string(text) != "0010120123" { // 4 is behind all that was listed: Follow probes, Read need not
		t.Errorf("got %q", text)
	}
}

func TestKeysSortByAttemptRankAndNumber(t *testing.T) {
	want := []string{}
	for _, at := range []place{{0, 5, "zz"}, {1, 0, "b"}, {1, 10, "a"}, {9, 0, "a"}, {10, 0, "a"}} {
		for _, n := range []int{0, 9, 10, maxObjects} {
			key := at.key(prefix, n)
			want = append(want, key)
			if p, got, ok := parseKey(prefix, key); !ok || p != at || got != n {
				t.Errorf("%s: parsed as %v %d %v", key, p, got, ok)
			}
		}
	}
	if !slices.IsSorted(want) {
		t.Errorf("keys do not sort: %q", want)
	}
}
