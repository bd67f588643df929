package kube

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
)

const (
	// watchIdle is how long a watch goes on after the last look at its placement.
	watchIdle = time.Minute
	// watchedFor is how long a view of a placement, of which an agent waits, may be used though its pods
	// have not changed: what holds a pod back may change without it.
	watchedFor = 5 * time.Second
	// mostRefused is after how many watches in a row that end at once there are no more.
	mostRefused = 3
)

// watch follows the pods of a placement, so that a look at it need not ask while nothing changes.
// It ends by itself when nothing looks any more, and when the server cannot go on with it: views
// then age as without one.
type watch struct {
	end  context.CancelFunc
	idle *time.Timer

	mu      sync.Mutex
	changed bool // and no list since has seen it
	over    bool
	denied  bool // the user may not watch
}

// watchPods begins to follow the pods of a placement, from the version of a list of them.
func watchPods(c *api.Client, s site, h driver.Handle, version string) *watch {
	ctx, end := context.WithCancel(context.Background())
	w := &watch{end: end}
	w.idle = time.AfterFunc(watchIdle, end)
	go func() {
		defer end()
		w.follow(ctx, c, s, h, version)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.over = true
	}()
	return w
}

// follow reads what changes until it cannot go on.
func (w *watch) follow(ctx context.Context, c *api.Client, s site, h driver.Handle, version string) {
	for refused := 0; ctx.Err() == nil && refused < mostRefused; {
		begun := time.Now()
		last, err := c.Watch(ctx, api.Pods, s.namespace, ofPlacement(h), version, w.note)
		if err != nil { // the version is too old, or may not be watched: only a list tells
			w.mu.Lock()
			defer w.mu.Unlock()
			w.denied = api.IsCode(err, http.StatusForbidden)
			return
		}
		if refused++; time.Since(begun) > time.Second {
			refused = 0
		}
		version = last
	}
}

// note notes that something has changed.
func (w *watch) note() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = true
}

// quiet says whether nothing has changed since the last view.
func (w *watch) quiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.changed && !w.over
}

// mayBeginAnew says whether the watch sees nothing any more, and another one might.
func (w *watch) mayBeginAnew() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over && !w.denied
}

// look notes that a placement is looked at. anew says that its pods are about to be listed: what
// has changed until now will be seen.
func (w *watch) look(anew bool) {
	w.idle.Reset(watchIdle)
	w.mu.Lock()
	defer w.mu.Unlock()
	if anew {
		w.changed = false
	}
}
