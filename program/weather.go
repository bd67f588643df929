//go:build chaos

package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/flaky"
)

// forecast is the file EXECUTABLE.weather, which make chaos writes while drover's processes
// run: which faults the store has in all of them, and until when. The file holds the time, so
// a file that is left behind does no harm.
type forecast struct {
	Seed  uint64
	Until time.Time
	Plan  flaky.Plan
}

// outlook is how long a process uses what it has read before it reads again: so a brown-out
// begins and ends within that time in all processes.
const outlook = 20 * time.Millisecond

// weathered is a bucket with the faults of the moment.
type weathered struct {
	calm store.Bucket
	file string

	mu     sync.Mutex
	looked time.Time
	text   string
	until  time.Time
	faulty *flaky.Bucket // nil: no faults now
}

var _ store.Bucket = (*weathered)(nil)

func injectFaults(b store.Bucket) store.Bucket {
	self, err := os.Executable()
	if err != nil {
		return b
	}
	return &weathered{calm: b, file: self + ".weather"}
}

// currentBucket is the bucket of the moment. Writes that a brown-out has delayed happen once it is over.
func (w *weathered) currentBucket(ctx context.Context) store.Bucket {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.looked) >= outlook {
		w.looked = now
		// no file, and one that is half written, change nothing
		if text, err := os.ReadFile(w.file); err == nil && string(text) != w.text {
			w.applyForecast(ctx, text)
		}
	}
	if w.faulty != nil && now.After(w.until) {
		w.faulty.Flush(ctx)
		w.faulty = nil
	}
	if w.faulty == nil {
		return w.calm
	}
	return w.faulty
}

func (w *weathered) applyForecast(ctx context.Context, text []byte) {
	var f forecast
	if json.Unmarshal(text, &f) != nil {
		return
	}
	if w.faulty != nil {
		w.faulty.Flush(ctx)
	}
	// each process draws its own numbers, or all would have the same faults at once
	r := rand.New(rand.NewPCG(f.Seed, uint64(os.Getpid())))
	f.Plan.Rand = r.IntN // under the lock of faulty
	w.text, w.until, w.faulty = string(text), f.Until, flaky.New(w.calm, f.Plan)
}

func (w *weathered) String() string { return w.calm.String() }

func (w *weathered) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return w.currentBucket(ctx).Create(ctx, key, body)
}

func (w *weathered) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return w.currentBucket(ctx).Put(ctx, key, body)
}

func (w *weathered) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	return w.currentBucket(ctx).Get(ctx, key, off, n)
}

func (w *weathered) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	return w.currentBucket(ctx).List(ctx, prefix, after, limit)
}

func (w *weathered) Delete(ctx context.Context, key string) error {
	return w.currentBucket(ctx).Delete(ctx, key)
}

// Downloads sends no request that a faulty could lose.
func (w *weathered) Downloads(ctx context.Context, key string) ([]store.Download, error) {
	below, ok := w.calm.(store.Downloader)
	if !ok {
		return nil, fmt.Errorf("say how to download %s: %w", key, errors.ErrUnsupported)
	}
	return below.Downloads(ctx, key)
}
