//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// bucket is a real S3 server on a disk of a lane's own, and the net before it, which
// can be taken away.
type bucket struct {
	dir    string
	server *exec.Cmd
	net    *httptest.Server

	mu   sync.Mutex
	rand *rand.Rand
	ills ills
	cut  chan struct{} // closed when the net is back; nil: it is there
	mute bool

	asked, befell int
}

// ills are the chances that something befalls a request.
type ills struct {
	busy float64 // not done, 503
	late float64 // done, without an answer
	lost float64 // not done, without an answer
}

// openBucket starts versitygw from the file program.
func openBucket(program, dir string) (*bucket, error) {
	if err := os.MkdirAll(filepath.Join(dir, "facts"), 0o700); err != nil {
		return nil, err
	}
	free := httptest.NewServer(nil) // a free port
	address := free.Listener.Addr().String()
	free.Close()
	b := &bucket{dir: dir, server: exec.Command(program, "--port", address, "posix", dir), rand: rand.New(rand.NewPCG(1, 1))}
	b.server.Env = append(os.Environ(), "ROOT_ACCESS_KEY=test", "ROOT_SECRET_KEY=testtest")
	if err := b.server.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	to := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
			r.Out.Host = r.In.Host // it is signed
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }, // not yet up
	}
	b.net = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.passRequest(to, w, r) }))
	return b, nil
}

func (b *bucket) closeServer() {
	b.restoreNetwork()
	b.net.Close()
	_ = b.server.Process.Kill() // gone already is as good
	_ = b.server.Wait()
}

// environment is what a drover needs to find it.
func (b *bucket) environment(prefix string) []string {
	return []string{"DROVER_STORE=s3://facts/" + prefix + "?endpoint=" + b.net.URL,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=testtest", "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull}
}

// passRequest has a request done, or not, and answers it, or not.
func (b *bucket) passRequest(to http.Handler, w http.ResponseWriter, r *http.Request) {
	cut, mute, what := b.drawOutcome()
	switch {
	case cut != nil && mute:
		select {
		case <-cut:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case cut != nil || what == "lost":
		panic(http.ErrAbortHandler)
	case what == "busy":
		w.WriteHeader(http.StatusServiceUnavailable)
	case what == "late":
		to.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	default:
		to.ServeHTTP(w, r)
	}
}

func (b *bucket) drawOutcome() (cut chan struct{}, mute bool, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	draw := b.rand.Float64()
	switch {
	case draw < b.ills.busy:
		what = "busy"
	case draw < b.ills.busy+b.ills.late:
		what = "late"
	case draw < b.ills.busy+b.ills.late+b.ills.lost:
		what = "lost"
	}
	if what != "" || b.cut != nil {
		b.befell++
	}
	return b.cut, b.mute, what
}

// setFaults has ills befall requests from now on.
func (b *bucket) setFaults(i ills) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ills = i
}

// resetCounts begins to count anew, and gives what was counted.
func (b *bucket) resetCounts() (asked, befell int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked, befell = b.asked, b.befell
	b.asked, b.befell = 0, 0
	return asked, befell
}

// cutNetwork takes the net away for a while, which ends by itself: a process that waits for
// something meanwhile need not see to it. mute: nothing is answered at all.
func (b *bucket) cutNetwork(length time.Duration, mute bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut == nil {
		b.cut = make(chan struct{})
		time.AfterFunc(length, b.restoreNetwork)
	}
	b.mute = mute
}

func (b *bucket) restoreNetwork() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut != nil {
		close(b.cut)
		b.cut = nil
	}
}
