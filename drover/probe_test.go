package drover

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	drivermem "github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// onTrial counts what is written below probe/, and may let every writer win.
type onTrial struct {
	store.Bucket
	name     string
	careless bool
	mu       sync.Mutex
	keys     map[string]bool // one for each trial
}

func (b *onTrial) String() string { return b.name }

func (b *onTrial) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if strings.HasPrefix(key, "probe/") {
		b.mu.Lock()
		b.keys[key] = true
		b.mu.Unlock()
	}
	if b.careless {
		return b.Put(ctx, key, body)
	}
	return b.Bucket.Create(ctx, key, body)
}

// opens is another command's client with the same cache.
func (b *onTrial) opens(t *testing.T, cache string, near bool) *Client {
	t.Helper()
	d := drivermem.New(nil)
	t.Cleanup(d.Close)
	c, err := Open(t.Context(), Options{Bucket: b, Drivers: map[string]driver.Opened{"mem": drivermem.Open(d)}, Binary: "drover", Cache: cache, Near: near})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tries says how often a trial was made by a client of its own.
func (b *onTrial) tries(t *testing.T, cache string, near bool) (n int) {
	t.Helper()
	b.keys = map[string]bool{}
	c := b.opens(t, cache, near)
	for range 2 {
		if err := c.probeStore(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return len(b.keys)
}

func TestAStoreThatPassedIsTriedOutOnceADay(t *testing.T) {
	cache := t.TempDir()
	b := &onTrial{keys: map[string]bool{}, Bucket: mem.New(), name: "s3://one"}
	for i, want := range []int{1, 0, 0} {
		if n := b.tries(t, cache, false); n != want {
			t.Errorf("client %d made %d trials, want %d", i, n, want)
		}
	}
	other := &onTrial{keys: map[string]bool{}, Bucket: mem.New(), name: "s3://other"}
	if n := other.tries(t, cache, false); n != 1 {
		t.Errorf("another store was tried out %d times, want once", n)
	}
	old := time.Now().Add(-probeLasts)
	if err := os.Chtimes(passFile(cache, b.opens(t, cache, false).world.Store), old, old); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 0} {
		if n := b.tries(t, cache, false); n != want {
			t.Errorf("a day later client %d made %d trials, want %d", i, n, want)
		}
	}
	if n := b.tries(t, cache, true); n != 1 { // a folder costs nothing to try
		t.Errorf("a near store was tried out %d times, want once", n)
	}
}

// A trial that failed is never remembered, whether the store lies or was mended.
func TestAStoreThatLiesIsRefusedEachTime(t *testing.T) {
	cache := t.TempDir()
	b := &onTrial{keys: map[string]bool{}, Bucket: mem.New(), name: "s3://one", careless: true}
	for range 3 {
		if err := b.opens(t, cache, false).probeStore(t.Context()); fault.KindOf(err) != fault.Invalid {
			t.Fatalf("a store that lets two win: %v", err)
		}
	}
	b.careless = false
	if n := b.tries(t, cache, false); n != 1 {
		t.Errorf("once mended it was tried out %d times, want once", n)
	}
}
