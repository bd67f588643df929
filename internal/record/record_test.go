package record

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/store/mem"
)

var _ Store = (*recordtest.Store)(nil)

func newWriter(t testing.TB, s Store, attempt, rank int, id string) *Writer {
	t.Helper()
	return makeWriter(t, Options{Store: s, Attempt: attempt, Rank: rank, ID: id, Clock: recordtest.BubbleClock})
}

func makeWriter(t testing.TB, o Options) *Writer {
	t.Helper()
	o.Prefix = recordtest.Prefix
	w, err := NewWriter(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestEveryByteComesBackInOrder(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := recordtest.NewStore(mem.New())
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
				b := recordtest.Noise(r, r.IntN(2<<20))
				said[voice{1 + n/3, n % 3, s}] = b
				in := recordtest.UnevenReader{Reader: bytes.NewReader(b), Rand: rand.New(rand.NewPCG(seed, uint64(n)))}
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
			recordtest.CloseWriter(t, w)
		}
		heard := map[voice][]byte{}
		var last Frame
		for _, f := range recordtest.AllFrames(t, Read(t.Context(), d, recordtest.Prefix, Filter{})) {
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
	d := recordtest.NewStore(mem.New())
	w := newWriter(t, d, 1, 0, "a")
	r := rand.New(rand.NewPCG(1, 1))
	const items = 100_000
	text := func(item uint64) []byte { return fmt.Appendf(nil, "item %d %x\n", item, item*0x9e3779b97f4a7c15) }
	for item := range uint64(items) {
		b := text(item + 1)
		recordtest.WriteAll(t, w, Stdout, item+1, b)
	}
	recordtest.CloseWriter(t, w)
	var size, objects, tails, largest int
	for o, err := range d.List(t.Context(), recordtest.Prefix+"/") {
		if err != nil {
			t.Fatal(err)
		}
		opened, err := OpenObject(t.Context(), d, o.Key, o.Size)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range opened.blocks {
			largest = max(largest, int(b.packed))
		}
		size += int(o.Size)
		tails += int(min(o.Size, TailSize))
		objects++
	}
	if most := tails + largest; objects < 3 || size < 2*most {
		t.Fatalf("%d objects of %d bytes: nothing to seek in", objects, size)
	}
	for range 100 {
		item := 1 + r.Uint64N(items)
		d.Opens, d.OpenedBytes = 0, 0
		got := recordtest.AllFrames(t, Read(t.Context(), d, recordtest.Prefix, Filter{Item: item}))
		if len(got) != 1 || !bytes.Equal(got[0].Data, text(item)) || got[0].Item != item {
			t.Fatalf("item %d: got %d frames", item, len(got))
		}
		if most := tails + largest; d.OpenedBytes > most || d.Opens > objects+1 {
			t.Fatalf("item %d: %d requests for %d bytes; want at most %d for %d (all is %d)",
				item, d.Opens, d.OpenedBytes, objects+1, most, size)
		}
	}
}

func TestAFilterChoosesWhatReadingAllAndChoosingWould(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	d := recordtest.NewStore(mem.New())
	for n := range 4 {
		clock := recordtest.WanderingClock{Clock: recordtest.BubbleClock, Rand: rand.New(rand.NewPCG(7, uint64(n)))}
		w := makeWriter(t, Options{Store: d, Attempt: n / 2, Rank: n % 2, ID: fmt.Sprintf("w%d", n), Clock: clock})
		for range 300 {
			recordtest.WriteAll(t, w, []Stream{Stdout, Stderr}[r.IntN(2)], uint64(r.IntN(9)), recordtest.Noise(r, r.IntN(9000)))
			if r.IntN(40) == 0 {
				w.Note("a note")
			}
		}
		recordtest.CloseWriter(t, w)
	}
	whole := recordtest.AllFrames(t, Read(t.Context(), d, recordtest.Prefix, Filter{}))
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
		if diff := cmp.Diff(want, recordtest.AllFrames(t, Read(t.Context(), d, recordtest.Prefix, f)), recordtest.CompareBytes); diff != "" {
			t.Fatalf("%+v (-want +got):\n%.2000s", f, diff)
		}
	}
}

func TestADamagedObjectIsSaidAndPassedOver(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	for n, id := range []string{"a", "b", "c"} {
		w := newWriter(t, d, 1, n, id)
		recordtest.WriteAll(t, w, Stdout, 0, []byte("hello from "+id))
		recordtest.CloseWriter(t, w)
	}
	victim := Origin{1, 1, "b"}.Key(recordtest.Prefix, 0)
	body, err := d.Get(t.Context(), victim)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Put(t.Context(), victim, body[:len(body)-1]); err != nil {
		t.Fatal(err)
	}
	var got []string
	var errs []error
	for f, err := range Read(t.Context(), d, recordtest.Prefix, Filter{}) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got = append(got, string(f.Data))
	}
	if diff := cmp.Diff([]string{"hello from a", "hello from c"}, got); diff != "" {
		t.Error(diff)
	}
	if len(errs) != 1 || !errors.Is(errs[0], ErrDamaged) {
		t.Errorf("got errors %v, want one of a damaged object", errs)
	}
}

func TestWhatAListingLeavesOutIsReadByItsNumber(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	w := newWriter(t, d, 1, 0, "a")
	for n := range 5 {
		// Of unlike lengths, so that none is read by the length of another.
		recordtest.WriteAll(t, w, Stdout, 0, []byte("01234"[:n+1]))
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	recordtest.CloseWriter(t, w)
	d.HideFromList = func(key string) bool { return key != Origin{1, 0, "a"}.Key(recordtest.Prefix, 3) }
	var text []byte
	for _, f := range recordtest.AllFrames(t, Read(t.Context(), d, recordtest.Prefix, Filter{})) {
		text = append(text, f.Data...)
	}
	if string(text) != "0010120123" { // 4 is behind all that was listed: Follow probes, Read need not
		t.Errorf("got %q", text)
	}
}

func TestKeysSortByAttemptRankAndNumber(t *testing.T) {
	want := []string{}
	for _, at := range []Origin{{0, 5, "zz"}, {1, 0, "b"}, {1, 10, "a"}, {9, 0, "a"}, {10, 0, "a"}} {
		for _, n := range []int{0, 9, 10, maxObjects} {
			key := at.Key(recordtest.Prefix, n)
			want = append(want, key)
			if p, got, ok := ParseKey(recordtest.Prefix, key); !ok || p != at || got != n {
				t.Errorf("%s: parsed as %v %d %v", key, p, got, ok)
			}
		}
	}
	if !slices.IsSorted(want) {
		t.Errorf("keys do not sort: %q", want)
	}
}
