package agent

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// asked counts what a store is asked to do.
type asked struct {
	*mem.Bucket
	n atomic.Int64
}

func (b *asked) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	b.n.Add(1)
	return b.Bucket.Create(ctx, key, body)
}

func (b *asked) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	b.n.Add(1)
	return b.Bucket.Put(ctx, key, body)
}

func (b *asked) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	b.n.Add(1)
	return b.Bucket.Get(ctx, key, off, n)
}

func (b *asked) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	b.n.Add(1)
	return b.Bucket.List(ctx, prefix, after, limit)
}

// Agents of a map that has many ask a folder as rarely as a bucket, whether a server
// keeps it or their own machine has to serve them all; those of a small job as ever.
func TestManyAgentsSpareTheirFolder(t *testing.T) {
	t.Parallel()
	const span = 3 * time.Second
	for _, c := range []struct {
		name    string
		workers int
		shared  bool
		spares  bool
	}{
		{"a few, of one machine", 16, false, false},
		{"many, of one machine", 200, false, true},
		{"a few, over a network", 16, true, false},
		{"many, over a network", 200, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			b := &asked{Bucket: mem.New()}
			p.World.Store = store.New(b, store.Options{})
			mark := filepath.Join(t.TempDir(), "began")
			j := p.submitMap(job.Spec{Program: "work.sh", Args: []string{"{}"}, Env: map[string]string{"MARK": mark}, Items: job.Items{Workers: c.workers}}, 1, map[string]string{"work.sh": "touch $MARK; exec sleep 1000"})
			w := p.start(j, func(to *node.Config) { to.Machine.Shared = c.shared })
			for begin := time.Now(); ; {
				if _, err := os.Stat(mark); err == nil {
					break
				}
				if time.Since(begin) > patience {
					t.Fatal("the item never began")
				}
				<-time.After(10 * time.Millisecond)
			}
			<-time.After(500 * time.Millisecond) // what it begins with
			before := b.n.Load()
			<-time.After(span)
			each := float64(b.n.Load()-before) / span.Seconds()
			t.Logf("%.1f operations a second", each)
			if often := each > 2; often == c.spares {
				t.Errorf("it asks the store %.1f times a second", each)
			}
			w.notice <- node.Notice{Asked: true, Why: "the test is over"}
		})
	}
}
