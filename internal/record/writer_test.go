package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// torrent is n bytes of noise without a newline, and their digest.
type torrent struct {
	n    int
	rand *rand.ChaCha8
	sum  hash.Hash
}

func newTorrent(n int) *torrent { return &torrent{n, rand.NewChaCha8([32]byte{1}), sha256.New()} }

func (r *torrent) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	p = p[:min(len(p), r.n)]
	r.rand.Read(p)
	for i, c := range p {
		if c == '\n' {
			p[i] = ' '
		}
	}
	r.n -= len(p)
	r.sum.Write(p)
	return len(p), nil
}

func TestABlockedStoreBoundsMemoryAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		open := make(chan struct{})
		d.BeforeCreate = func(context.Context, string) error { <-open; return nil }
		w := newWriter(t, d, 1, 0, "a")
		in := newTorrent(24 << 20)
		var copied int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			copied, _ = w.Copy(Stdout, 0, in)
		}()
		synctest.Wait() // for all goroutines to wait for the store
		if in.n == 0 {
			t.Fatal("the program was not held up")
		}
		for range 3 * notesRoom / 1000 {
			w.Note(strings.Repeat("n", 1000)) // must return
		}
		// The object being stored and the one being built, each one read too
		// far; notes come on top of the second. The first is seldom much above
		// flushSize, but grows until its goroutine is given the lock.
		if most := 2*(MaxPending+2*FrameRoom) + notesRoom; w.PendingBytes() > most {
			t.Errorf("%d bytes are held while the store is blocked, want at most %d", w.PendingBytes(), most)
		}
		time.Sleep(time.Minute)
		if err := w.Err(); fault.KindOf(err) != fault.Lost {
			t.Errorf("after a minute of silence Err is %v", err)
		}
		close(open)
		<-done
		w.Note("the end")
		recordtest.CloseWriter(t, w)
		sum, notes := sha256.New(), []byte{}
		for _, f := range recordtest.AllFrames(t, Read(t.Context(), d, recordtest.Prefix, Filter{})) {
			if f.Stream == Stdout {
				sum.Write(f.Data)
			} else {
				notes = append(notes, f.Data...)
			}
		}
		if copied != 24<<20 || !bytes.Equal(sum.Sum(nil), in.sum.Sum(nil)) {
			t.Errorf("of %d bytes, others came back", copied)
		}
		if !bytes.Contains(notes, []byte("notes were dropped while the store was slow\nthe end\n")) {
			t.Errorf("dropped notes are not counted: ends in %q", notes[max(0, len(notes)-80):])
		}
	})
}

func TestStoreErrorsAreTriedAgainUntilTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		no := errors.New("no")
		left := 20
		d.BeforeCreate = func(context.Context, string) error {
			if left--; left >= 0 {
				return no
			}
			return nil
		}
		heard := 0
		w := makeWriter(t, Options{Store: d, ID: "a", Clock: recordtest.BubbleClock, OnError: func(error) { heard++ }})
		recordtest.WriteAll(t, w, Stdout, 0, []byte("x"))
		time.Sleep(flushEvery + 2*tick)
		if !errors.Is(w.Err(), no) {
			t.Errorf("while the store refuses, Err is %v", w.Err())
		}
		recordtest.CloseWriter(t, w)
		if w.Err() != nil || heard != 20 {
			t.Errorf("at the end Err is %v, and %d errors were heard of 20", w.Err(), heard)
		}
		if got := recordtest.AllFrames(t, Read(t.Context(), d, recordtest.Prefix, Filter{})); len(got) != 1 {
			t.Errorf("got %d frames", len(got))
		}
	})
}

func TestAPartOfALineIsStoredInTime(t *testing.T) {
	for name, row := range map[string]struct {
		prompt, hurry bool
		age, late     time.Duration
	}{
		"of a map":                 {age: 7 * time.Hour, late: flushEvery},
		"while a reader follows":   {hurry: true, age: 7 * time.Hour, late: flushHurried},
		"of a run, at first":       {prompt: true, late: flushHurried},
		"of a run, after minutes":  {prompt: true, age: 5 * time.Minute, late: 33 * time.Second},
		"of a run, after hours":    {prompt: true, age: 7 * time.Hour, late: flushEvery},
		"of a run that is watched": {prompt: true, hurry: true, age: 7 * time.Hour, late: flushHurried},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := recordtest.NewStore(mem.New())
			w := makeWriter(t, Options{Store: d, Attempt: 1, ID: "a", Clock: recordtest.BubbleClock, Prompt: row.prompt})
			defer recordtest.CloseWriter(t, w)
			w.Hurry(row.hurry)
			time.Sleep(row.age)
			recordtest.WriteAll(t, w, Stdout, 0, []byte("Continue? [y/n] "))
			time.Sleep(row.late - tick)
			synctest.Wait()
			if n := len(recordtest.AllFrames(t, Read(t.Context(), d, recordtest.Prefix, Filter{}))); n != 0 {
				t.Errorf("%s: stored before it was due", name)
			}
			time.Sleep(2 * tick)
			synctest.Wait()
			if n := len(recordtest.AllFrames(t, Read(t.Context(), d, recordtest.Prefix, Filter{}))); n != 1 {
				t.Errorf("%s: not stored after %s", name, row.late+tick)
			}
		})
	}
}

func TestFlushReturnsWhenAllBeforeItIsStored(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	w := newWriter(t, d, 1, 0, "a")
	defer recordtest.CloseWriter(t, w)
	for n := range 5 {
		recordtest.WriteAll(t, w, Stdout, 0, []byte("x"))
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := recordtest.AllFrames(t, Read(t.Context(), d, recordtest.Prefix, Filter{})); len(got) != n+1 {
			t.Fatalf("after flush %d: %d frames are stored", n+1, len(got))
		}
	}
}

func TestAFlushThatIsGivenUpSaysSo(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	open := make(chan struct{})
	d.BeforeCreate = func(context.Context, string) error { <-open; return nil }
	w := newWriter(t, d, 1, 0, "a")
	recordtest.WriteAll(t, w, Stdout, 0, []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(open)
	recordtest.CloseWriter(t, w)
}

func TestClosingInTimeSaysHowMuchIsLost(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	d.BeforeCreate = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
	w := newWriter(t, d, 3, 4, "a")
	recordtest.WriteAll(t, w, Stdout, 0, []byte("x"))
	enough := errors.New("the machine goes away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	for range 2 {
		err := w.Close(ctx)
		if !errors.Is(err, enough) || fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), "attempt 3, rank 4") {
			t.Errorf("close: got %v", err)
		}
	}
	if _, err := w.Copy(Stdout, 0, strings.NewReader("late")); !errors.Is(err, errClosed) {
		t.Errorf("copying after close: got %v", err)
	}
	w.Note("late") // must return
}

func TestTwoWritersOfOneIDOverwriteNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		for n := range 2 {
			w := newWriter(t, d, 1, 0, "same")
			recordtest.WriteAll(t, w, Stdout, 0, fmt.Append(nil, n))
			recordtest.CloseWriter(t, w)
		}
		for n := range 2 {
			if _, err := d.Get(t.Context(), Origin{1, 0, "same"}.Key(recordtest.Prefix, n)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestNamesThatCannotBeKeysAreRefused(t *testing.T) {
	for _, o := range []Options{
		{Prefix: recordtest.Prefix}, {Prefix: recordtest.Prefix, ID: "A"}, {Prefix: recordtest.Prefix, ID: "a-b"}, {Prefix: recordtest.Prefix, ID: strings.Repeat("a", 33)},
		{Prefix: recordtest.Prefix, ID: "a", Rank: -1}, {Prefix: recordtest.Prefix, ID: "a", Attempt: maxAttempt + 1}, {ID: "a"}, {Prefix: "a/../b", ID: "a"},
	} {
		if w, err := NewWriter(o); err == nil {
			recordtest.CloseWriter(t, w)
			t.Errorf("%+v: not refused", o)
		}
	}
}

// nowhere is a store that takes everything at once.
type nowhere struct{ bytes, objects int }

func (n *nowhere) CreateOnce(_ context.Context, _ string, body []byte) ([]byte, bool, error) {
	n.bytes += len(body)
	n.objects++
	return body, true, nil
}
func (*nowhere) Get(context.Context, string) ([]byte, error) { return nil, store.ErrNotExist }
func (*nowhere) Open(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, store.ErrNotExist
}
func (*nowhere) List(context.Context, string) iter.Seq2[store.Object, error] {
	return func(func(store.Object, error) bool) {}
}

// flood gives n bytes of a log, over and over, 64 KiB a read.
type flood struct {
	text []byte
	n    int
	each func()
}

func (f *flood) Read(p []byte) (int, error) {
	if f.n <= 0 {
		return 0, io.EOF
	}
	n := copy(p, f.text[(f.n/len(p)*4096)%(len(f.text)/2):])
	f.n -= n
	if f.each != nil {
		f.each()
	}
	return n, nil
}

func BenchmarkCopy(b *testing.B) {
	for _, listening := range []bool{false, true} {
		b.Run(fmt.Sprintf("ring=%v", listening), func(b *testing.B) {
			text := recordtest.TrainingLog()
			const size = 64 << 20
			b.SetBytes(size)
			for b.Loop() {
				s := &nowhere{}
				w := newWriter(b, s, 1, 0, "a")
				w.mu.Lock()
				w.live.ring.on = listening
				w.mu.Unlock()
				if _, err := w.Copy(Stdout, 0, &flood{text: text, n: size}); err != nil {
					b.Fatal(err)
				}
				recordtest.CloseWriter(b, w)
			}
		})
	}
}

// BenchmarkPeak pushes 1 GB of lines, and 1 GB of noise without a newline,
// through a writer with its ring, and reports the largest heap seen and all
// memory taken from the system.
func BenchmarkPeak(b *testing.B) {
	const size = 1 << 30
	var heap uint64
	reads := 0
	look := func() {
		if reads++; reads%64 == 0 { // every 4 MiB
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			heap = max(heap, m.HeapInuse)
		}
	}
	for name, in := range map[string]func() io.Reader{
		"lines":   func() io.Reader { return &flood{text: recordtest.TrainingLog(), n: size, each: look} },
		"oneline": func() io.Reader { return &looked{newTorrent(size), look} },
	} {
		b.Run(name, func(b *testing.B) {
			heap = 0
			b.SetBytes(size)
			for b.Loop() {
				w := newWriter(b, &nowhere{}, 1, 0, "a")
				w.mu.Lock()
				w.live.ring.on = true
				w.mu.Unlock()
				if _, err := w.Copy(Stdout, 0, in()); err != nil {
					b.Fatal(err)
				}
				recordtest.CloseWriter(b, w)
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(heap)/1e6, "peak-heap-MB")
			b.ReportMetric(float64(m.Sys)/1e6, "sys-MB")
		})
	}
}

type looked struct {
	io.Reader
	each func()
}

func (l *looked) Read(p []byte) (int, error) { l.each(); return l.Reader.Read(p) }

// TestEveryWriterHasAnAddressOfItsOwn: an agent writes one log after the other in
// one folder, and a follower is done with an address when its writer is.
func TestEveryWriterHasAnAddressOfItsOwn(t *testing.T) {
	folder, had := t.TempDir(), map[string]bool{}
	for _, at := range [][2]int{{0, 1}, {1, 1}, {2, 1}, {2, 0}} {
		w := newWriter(t, recordtest.NewStore(mem.New()), at[0], at[1], "a")
		addr, err := w.Listen(folder)
		if err != nil || had[addr] {
			t.Errorf("attempt %d of rank %d is served at %s, %v", at[0], at[1], addr, err)
		}
		had[addr] = true
		recordtest.CloseWriter(t, w)
	}
}
