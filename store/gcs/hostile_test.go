package gcs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/gcs/gcstest"
	"github.com/drover-run/drover/store/storetest"
)

// hostile stands between a bucket and its server and does to one request in a few
// what networks and overloaded servers do.
type hostile struct {
	server http.Handler
	one    int // in so many requests something goes wrong

	mu    sync.Mutex
	rand  *rand.Rand
	late  []func()
	fates map[string]int
}

func newHostile(server http.Handler, one int) *hostile {
	return &hostile{server: server, one: one, rand: rand.New(rand.NewPCG(1, uint64(one))), fates: map[string]int{}}
}

var fates = []string{"throttled", "unavailable", "no connection", "reply lost", "done and unavailable", "sent twice", "late", "upload cut", "download cut", "damaged up", "damaged down"}

func (h *hostile) draw(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rand.IntN(n)
}

func (h *hostile) counts() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.fates)
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.land()
	if h.draw(h.one) != 0 {
		h.server.ServeHTTP(w, r)
		return
	}
	fate := fates[h.draw(len(fates))]
	h.mu.Lock()
	h.fates[fate]++
	h.mu.Unlock()
	switch fate {
	case "throttled":
		w.Header().Set("Retry-After", "1")
		http.Error(w, "slow down", http.StatusTooManyRequests)
		return
	case "unavailable":
		http.Error(w, "backend error", http.StatusServiceUnavailable)
		return
	case "no connection":
		panic(http.ErrAbortHandler)
	case "upload cut":
		// The server gets the beginning; the client hears nothing.
		cut := int64(h.draw(int(max(1, r.ContentLength))))
		h.pass(r, io.MultiReader(io.LimitReader(r.Body, cut), broken{}))
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	switch fate {
	case "late":
		h.mu.Lock()
		h.late = append(h.late, func() { h.pass(r, bytes.NewReader(body)) })
		h.mu.Unlock()
		http.Error(w, "time-out", http.StatusGatewayTimeout)
		return
	case "damaged up":
		if len(body) > 1000 { // not the description before it, which nothing protects
			body[len(body)-100] ^= 0x40
		}
	case "sent twice":
		h.pass(r, bytes.NewReader(body))
	}
	h.answer(w, h.pass(r, bytes.NewReader(body)), fate)
}

// answer passes an answer on, or not quite.
func (h *hostile) answer(w http.ResponseWriter, answer *httptest.ResponseRecorder, fate string) {
	content := answer.Body.Bytes()
	switch fate {
	case "reply lost":
		panic(http.ErrAbortHandler)
	case "done and unavailable":
		http.Error(w, "backend error", 500)
		return
	case "damaged down":
		if answer.Header().Get("X-Goog-Hash") != "" && answer.Code == 200 && len(content) > 0 {
			content[len(content)/2] ^= 1
		}
	}
	maps.Copy(w.Header(), answer.Header())
	if answer.Code != 204 {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	}
	w.WriteHeader(answer.Code)
	if fate == "download cut" && len(content) > 0 {
		_, _ = w.Write(content[:h.draw(len(content))])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(content)
}

// pass has the server answer into memory.
func (h *hostile) pass(r *http.Request, body io.Reader) *httptest.ResponseRecorder {
	again := r.Clone(context.WithoutCancel(r.Context()))
	again.Body = io.NopCloser(body)
	answer := httptest.NewRecorder()
	defer func() {
		if why := recover(); why != nil && why != http.ErrAbortHandler {
			panic(why)
		}
	}()
	h.server.ServeHTTP(answer, again)
	return answer
}

// land lets a late request arrive.
func (h *hostile) land() {
	h.mu.Lock()
	var next func()
	if len(h.late) > 0 && h.rand.IntN(4) == 0 {
		next, h.late = h.late[0], h.late[1:]
	}
	h.mu.Unlock()
	if next != nil {
		next()
	}
}

// broken is where a body breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestAStoreOverAHostileNetworkKeepsItsPromises(t *testing.T) {
	for _, one := range []int{20, 3} {
		t.Run(fmt.Sprintf("one in %d", one), func(t *testing.T) {
			storetest.RunStore(t, func(t *testing.T) (first, second store.Bucket) {
				endpoint := serve(t, newHostile(newFake(), one))
				return at(t, endpoint, "gs://b-1/drover"), at(t, endpoint, "gs://b-1/drover")
			})
		})
	}
}

func TestRealGCSBehindAHostileNetworkKeepsItsPromises(t *testing.T) {
	to, err := url.Parse(gcstest.Real(t))
	if err != nil {
		t.Fatal(err)
	}
	gcstest.Make(t, to.String(), "hostile")
	quiet := httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }}
	var serial atomic.Int64
	storetest.RunStore(t, func(t *testing.T) (first, second store.Bucket) {
		endpoint, place := serve(t, newHostile(&quiet, 5)), fmt.Sprintf("gs://hostile/%d", serial.Add(1))
		return at(t, endpoint, place), at(t, endpoint, place)
	})
}

// Everything a store does, on one hostile network: it ends as on a calm one.
func TestNothingIsLostOnAHostileNetwork(t *testing.T) {
	f := newFake()
	f.keep = 256 << 10
	h := newHostile(f, 4)
	clock := &storetest.Clock{}
	s := store.New(at(t, serve(t, h), "gs://b-1/drover"), store.Options{Clock: clock})
	var blobs []store.Digest
	for i, size := range []int{0, 5, 70_000, inOne, inOne + 1, 20 << 20, 12<<20 + 7} {
		d, n, err := s.PutBlob(t.Context(), bytes.NewReader(pattern(size)))
		if err != nil || n != int64(size) {
			t.Fatalf("blob %d: %d bytes, %v", i, n, err)
		}
		blobs = append(blobs, d)
	}
	for i := range 200 {
		if _, mine, err := s.CreateOnce(t.Context(), fmt.Sprintf("log/%08d", i), fmt.Appendf(nil, "entry %d", i)); err != nil || !mine {
			t.Fatalf("entry %d: mine is %v, %v", i, mine, err)
		}
	}
	for _, d := range blobs {
		if err := readBlob(t, s, d); err != nil {
			t.Errorf("blob %s: %v", d, err)
		}
	}
	var keys []string
	for o, err := range s.List(t.Context(), "log/") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	if len(keys) != 200 {
		t.Errorf("listed %d entries of 200", len(keys))
	}
	for i := range 200 {
		if body, err := s.Get(t.Context(), fmt.Sprintf("log/%08d", i)); err != nil || string(body) != fmt.Sprintf("entry %d", i) {
			t.Errorf("entry %d holds %q, %v", i, body, err)
		}
		if err := s.Delete(t.Context(), fmt.Sprintf("log/%08d", i)); err != nil {
			t.Errorf("delete entry %d: %v", i, err)
		}
	}
	for _, fate := range fates {
		if h.counts()[fate] == 0 {
			t.Errorf("%q never happened: %v", fate, h.counts())
		}
	}
}

// readBlob reads d to its end, again where the network damaged it.
func readBlob(t *testing.T, s *store.Store, d store.Digest) error {
	var last error
	for range 20 {
		r, err := s.OpenBlob(t.Context(), d)
		if err != nil {
			return err
		}
		_, last = io.Copy(io.Discard, r)
		r.Close()
		if !errors.Is(last, store.ErrCorrupt) {
			return last
		}
	}
	return last
}

// pattern is a body in which every place can be told from its neighbours.
func pattern(size int) []byte {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(i*31 + i>>8)
	}
	return body
}

// script answers the next requests by its steps, and later ones by the server. A
// step that is nil lets the server answer.
type script struct {
	server http.Handler
	mu     sync.Mutex
	steps  []http.HandlerFunc
	seen   []string // method and range of every request
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, strings.TrimSpace(r.Method+" "+r.Header.Get("Content-Range")+r.Header.Get("Range")))
	var step http.HandlerFunc
	if len(s.steps) > 0 {
		step, s.steps = s.steps[0], s.steps[1:]
	}
	s.mu.Unlock()
	if step == nil {
		step = s.server.ServeHTTP
	}
	step(w, r)
}

func (s *script) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}
