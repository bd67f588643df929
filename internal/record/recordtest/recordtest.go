// Package recordtest has what the tests of record and its packages share: a store
// that counts and can be held up, the clock of a synctest bubble, and texts.
package recordtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/store"
)

// Store is the real store over memory, which counts and can be held up.
type Store struct {
	*store.Store
	BeforeCreate func(ctx context.Context, key string) error // of each CreateOnce; may block
	HideFromList func(key string) bool                       // from listings

	ListErrors []error // the next listings' answers

	mu                        sync.Mutex
	lists, Opens, OpenedBytes int
}

func NewStore(b store.Bucket) *Store { return &Store{Store: store.New(b, store.Options{})} }

func (d *Store) CreateOnce(ctx context.Context, key string, body []byte) ([]byte, bool, error) {
	if d.BeforeCreate != nil {
		if err := d.BeforeCreate(ctx, key); err != nil {
			return nil, false, err
		}
	}
	return d.Store.CreateOnce(ctx, key, body)
}

func (d *Store) Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	d.mu.Lock()
	d.Opens++
	d.OpenedBytes += int(n)
	d.mu.Unlock()
	return d.Store.Open(ctx, key, off, n)
}

func (d *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	d.mu.Lock()
	d.lists++
	var err error
	if len(d.ListErrors) > 0 {
		err, d.ListErrors = d.ListErrors[0], d.ListErrors[1:]
	}
	d.mu.Unlock()
	return func(yield func(store.Object, error) bool) {
		if err != nil {
			yield(store.Object{}, err)
			return
		}
		for o, err := range d.Store.List(ctx, prefix) {
			if err == nil && d.HideFromList != nil && d.HideFromList(o.Key) {
				continue
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// CompareBytes compares bytes as a whole: cmp's own way takes minutes for megabytes.
var CompareBytes = cmp.Comparer(bytes.Equal)

// virtual is synctest's time, which store.System's Boot does not know.
type virtual struct{ store.Clock }

var BubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when a bubble begins

func (virtual) Boot() time.Duration { return time.Since(BubbleStart) }

var BubbleClock store.Clock = virtual{store.System}

const Prefix = "p/t/j/logs"

func CloseWriter(t testing.TB, w interface{ Close(context.Context) error }) {
	t.Helper()
	if err := w.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func WriteAll[S any](t testing.TB, w interface {
	Copy(stream S, item uint64, r io.Reader) (int64, error)
}, s S, item uint64, b []byte) {
	t.Helper()
	if n, err := w.Copy(s, item, bytes.NewReader(b)); err != nil || n != int64(len(b)) {
		t.Errorf("copied %d of %d bytes: %v", n, len(b), err)
	}
}

func AllFrames[F any](t testing.TB, frames iter.Seq2[F, error]) []F {
	t.Helper()
	var got []F
	for f, err := range frames {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f)
	}
	return got
}

// UnevenReader gives r's bytes in reads of random sizes, as pipes do.
type UnevenReader struct {
	io.Reader
	Rand *rand.Rand
}

func (u UnevenReader) Read(p []byte) (int, error) {
	n := 1 + u.Rand.IntN(1<<(3+u.Rand.IntN(15)))
	return u.Reader.Read(p[:min(n, len(p))])
}

// Noise is text of few letters: it packs, but not to nothing.
func Noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n; i += 8 {
		word := r.Uint64() & 0x0707070707070707
		for k := range min(8, n-i) {
			b[i+k] = byte(word >> (8 * k))
		}
	}
	return b
}

// TrainingLog is a megabyte of lines like those of a training script.
func TrainingLog() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for step := 0; b.Len() < 1<<20; step++ {
		fmt.Fprintf(&b, "2026-11-21T09:%02d:%02d step %d loss %.6f lr %.3e %d samples/s\n",
			r.IntN(60), r.IntN(60), step, r.Float64(), r.Float64()/1000, r.IntN(9000))
	}
	return b.Bytes()
}

// WanderingClock is a wall clock that is set to and fro.
type WanderingClock struct {
	store.Clock
	Rand *rand.Rand
}

func (w WanderingClock) Now() time.Time {
	return BubbleStart.Add(time.Duration(w.Rand.IntN(1e9)) * time.Microsecond)
}
