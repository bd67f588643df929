package gcs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/storetest"
)

const large = 20 << 20

// cutAfter lets the server have n bytes of the body, and ends the connection.
func cutAfter(server http.Handler, n int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, n), broken{}))
		server.ServeHTTP(&discard{}, r)
		panic(http.ErrAbortHandler)
	}
}

// loseReply does it, and ends the connection.
func loseReply(server http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(&discard{}, r)
		panic(http.ErrAbortHandler)
	}
}

// discard is where an answer is lost.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header {
	if d.h == nil {
		d.h = http.Header{}
	}
	return d.h
}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func answer(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Error(w, "", status) }
}

func TestALargeBodyGoesOnWhereItBrokeOff(t *testing.T) {
	f := newFake()
	s := &script{server: f}
	s.steps = []http.HandlerFunc{nil, cutAfter(f, 9<<20+1000), nil, answer(503), nil, nil}
	b, body := at(t, serve(t, s), "gs://b-1/p"), pattern(large)
	if err := b.Create(t.Context(), "k", bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	whole, rest := fmt.Sprintf("PUT bytes 0-%d/%d", large-1, large), fmt.Sprintf("PUT bytes %d-%d/%d", 9<<20, large-1, large)
	ask := fmt.Sprintf("PUT bytes */%d", large)
	want := []string{"POST", whole, ask, rest, ask, rest}
	// Whether 503 came before or after the last byte was taken decides about one question.
	got := s.requests()
	if len(got) == len(want)-1 {
		want = []string{"POST", whole, ask, rest, rest}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := f.objects["p/k"].body; !bytes.Equal(got, body) {
		t.Errorf("the server has %d other bytes", len(got))
	}
}

func TestALargeBlobGoesOnThoughItIsCheckedOnItsWay(t *testing.T) {
	f := newFake()
	s := &script{server: f, steps: []http.HandlerFunc{nil /* HasBlob */, nil, cutAfter(f, 11<<20)}}
	st := store.New(at(t, serve(t, s), "gs://b-1"), store.Options{Clock: &storetest.Clock{}})
	d, _, err := st.PutBlob(t.Context(), bytes.NewReader(pattern(large)))
	if err != nil {
		t.Fatal(err)
	}
	if err := readBlob(t, st, d); err != nil {
		t.Error(err)
	}
	if n := f.counts()["resumable"]; n != 1 {
		t.Errorf("%d sessions were begun, want 1", n)
	}
}

func TestALostLastAnswerIsFoundByAsking(t *testing.T) {
	f := newFake()
	s := &script{server: f, steps: []http.HandlerFunc{nil, loseReply(f)}}
	b := at(t, serve(t, s), "gs://b-1")
	if err := b.Create(t.Context(), "k", bytes.NewReader(pattern(large))); err != nil {
		t.Errorf("what was written whole is answered with %v", err)
	}
	if diff := cmp.Diff(map[string]int{"resumable": 1, "part": 1, "status": 1}, f.counts()); diff != "" {
		t.Error(diff)
	}
}

func TestALargeBodyThatWasSentWholeMayStillLand(t *testing.T) {
	f := newFake()
	denied := func(w http.ResponseWriter, r *http.Request) { f.refuse(w, 403, "forbidden", "no") }
	s := &script{server: f, steps: []http.HandlerFunc{nil, loseReply(f), denied, denied, denied}} // also of its session, and whether it is there
	b := at(t, serve(t, s), "gs://b-1")
	if err := b.Create(t.Context(), "k", bytes.NewReader(pattern(large))); !errors.Is(err, store.ErrUnclear) {
		t.Errorf("says %v, and the object is there: %v", err, len(f.objects) == 1)
	}
	s.steps = []http.HandlerFunc{nil, cutAfter(f, 1<<20), denied} // so early that buffers on the way cannot hold the rest
	if err := b.Create(t.Context(), "k2", bytes.NewReader(pattern(large))); err == nil || errors.Is(err, store.ErrUnclear) {
		t.Errorf("says %v, and without its last byte nothing lands", err)
	}
}

func TestALostSessionIsBegunAgainAFewTimes(t *testing.T) {
	f := newFake()
	s := &script{server: f, steps: []http.HandlerFunc{nil, answer(410), nil, answer(404), nil, nil}}
	b := at(t, serve(t, s), "gs://b-1")
	if err := b.Create(t.Context(), "k", bytes.NewReader(pattern(large))); err != nil {
		t.Error(err)
	}
	s.steps = []http.HandlerFunc{nil, answer(410), nil, answer(410), nil, answer(410), nil, answer(410)}
	if err := b.Create(t.Context(), "k2", bytes.NewReader(pattern(large))); !errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrUnclear) {
		t.Errorf("without a session nothing can have been written, and the answer is %v", err)
	}
	if got := s.requests(); len(got) != 14 {
		t.Errorf("%d requests: %q", len(got), got)
	}
}

func TestAServerThatAlwaysWantsMoreIsGivenUp(t *testing.T) {
	f := newFake()
	for _, span := range []string{"", "bytes=0-99", fmt.Sprintf("bytes=0-%d", large-1)} {
		more := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPut {
				f.ServeHTTP(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if span != "" {
				w.Header().Set("Range", span)
			}
			w.WriteHeader(statusIncomplete)
		})
		err := at(t, serve(t, more), "gs://b-1").Create(t.Context(), "k", bytes.NewReader(pattern(large)))
		if !errors.Is(err, store.ErrBusy) || !strings.Contains(err.Error(), "takes no more than") {
			t.Errorf("%q for ever: %v", span, err)
		}
	}
}

func TestALargeCreateOfAnotherIsRefused(t *testing.T) {
	f := newFake()
	b := at(t, serve(t, f), "gs://b-1")
	for range 2 { // the second writer, in the middle of the first one's session
		_ = b.Create(t.Context(), "k", strings.NewReader("held"))
		if err := b.Create(t.Context(), "k", bytes.NewReader(pattern(large))); !errors.Is(err, store.ErrExists) {
			t.Errorf("create over another says %v", err)
		}
	}
}

// secondTime is a body that fails in the middle of its second reading.
type secondTime struct {
	*bytes.Reader
	seeks int
	err   error
}

func (s *secondTime) Seek(off int64, whence int) (int64, error) {
	s.seeks++
	return s.Reader.Seek(off, whence)
}

func (s *secondTime) Read(p []byte) (int, error) {
	if s.seeks > 1 && s.Len() < large/2 {
		return 0, s.err
	}
	return s.Reader.Read(p)
}

func TestALargeBodyThatBreaksOnItsWayLeavesNothing(t *testing.T) {
	f := newFake()
	b, gone := at(t, serve(t, f), "gs://b-1"), errors.New("the disk it is on has gone")
	for doing, write := range map[string]func(context.Context, string, io.ReadSeeker) error{"create": b.Create, "put": b.Put} {
		err := write(t.Context(), "k", &secondTime{Reader: bytes.NewReader(pattern(large)), err: gone})
		if !errors.Is(err, gone) || errors.Is(err, store.ErrUnclear) || errors.Is(err, store.ErrBusy) {
			t.Errorf("%s says %v, want the body's error alone", doing, err)
		}
	}
	if len(f.objects) != 0 || f.counts()["abandoned"] != 2 {
		t.Errorf("%d objects, and %d sessions given up of 2", len(f.objects), f.counts()["abandoned"])
	}
}

func TestADoneContextEndsALargeBody(t *testing.T) {
	f := newFake()
	why := errors.New("asked to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &script{server: f}
	stop := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
		cancel(why)
		_, _ = io.Copy(io.Discard, r.Body) // until the client hangs up
	}
	s.steps = []http.HandlerFunc{nil, stop}
	b := at(t, serve(t, s), "gs://b-1")
	if err := b.Create(ctx, "k", bytes.NewReader(pattern(64<<20))); !errors.Is(err, why) || errors.Is(err, store.ErrUnclear) {
		t.Errorf("says %v, want the cause alone: its last byte was never sent", err)
	}
}

// cutDown answers with n bytes of the answer, and ends the connection.
func cutDown(server http.Handler, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(&cutting{ResponseWriter: w, left: n}, r)
	}
}

type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) < c.left {
		c.left -= len(p)
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

func (c *cutting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func TestADownloadGoesOnWhereItBrokeOff(t *testing.T) {
	f := newFake()
	s := &script{server: f}
	b, body := at(t, serve(t, s), "gs://b-1"), pattern(large)
	if err := b.Create(t.Context(), "k", bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ off, n int64 }{"all": {0, -1}, "to the end": {100, -1}, "a range": {100, 8 << 20}} {
		s.seen, s.steps = nil, []http.HandlerFunc{cutDown(f, 5<<20), answer(503), cutDown(f, 1<<20)}
		r, err := b.Get(t.Context(), "k", c.off, c.n)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		end := int64(large)
		if c.n >= 0 {
			end = c.off + c.n
		}
		if err != nil || !bytes.Equal(got, body[c.off:end]) {
			t.Errorf("%s: read %d bytes, %v", name, len(got), err)
		}
		if n := len(s.requests()); n != 4 {
			t.Errorf("%s: %d requests: %q", name, n, s.requests())
		}
	}
}

func TestADownloadIsOfOneObject(t *testing.T) {
	f := newFake()
	s := &script{server: f}
	b := at(t, serve(t, s), "gs://b-1")
	if err := b.Put(t.Context(), "k", bytes.NewReader(pattern(large))); err != nil {
		t.Fatal(err)
	}
	s.steps = []http.HandlerFunc{cutDown(f, 1<<20)}
	r, err := b.Get(t.Context(), "k", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := b.Put(t.Context(), "k", bytes.NewReader(make([]byte, large))); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); !errors.Is(err, store.ErrBusy) {
		t.Errorf("read %d bytes of two objects, %v", len(got), err)
	}
}

func TestWhatWasDamagedIsNotReadAsWhole(t *testing.T) {
	f := newFake()
	s := &script{server: f}
	b := at(t, serve(t, s), "gs://b-1")
	rot := func(w http.ResponseWriter, r *http.Request) {
		f.ServeHTTP(&rotting{ResponseWriter: w}, r)
	}
	for _, size := range []int{10, atOnce, large} {
		if err := b.Put(t.Context(), "k", bytes.NewReader(pattern(size))); err != nil {
			t.Fatal(err)
		}
		s.steps = []http.HandlerFunc{rot, rot, rot, rot, rot}
		r, err := b.Get(t.Context(), "k", 0, -1)
		if err == nil {
			_, err = io.ReadAll(r)
			r.Close()
		}
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%d bytes, damaged: %v", size, err)
		}
		if size > atOnce {
			continue
		}
		s.steps = []http.HandlerFunc{rot, nil}
		if r, err = b.Get(t.Context(), "k", 0, -1); err != nil {
			t.Errorf("%d bytes, damaged once: %v", size, err)
			continue
		}
		if got, _ := io.ReadAll(r); !bytes.Equal(got, pattern(size)) {
			t.Errorf("%d bytes, damaged once: others are read", size)
		}
	}
}

type rotting struct{ http.ResponseWriter }

func (r *rotting) Write(p []byte) (int, error) {
	p = bytes.Clone(p)
	p[len(p)-1] ^= 1
	return r.ResponseWriter.Write(p)
}

func TestAServerWithoutRangesIsReadAllTheSame(t *testing.T) {
	whole := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("0123456789")) })
	b := at(t, serve(t, whole), "gs://b-1")
	for _, c := range []struct {
		off, n int64
		want   string
	}{{0, -1, "0123456789"}, {3, -1, "3456789"}, {3, 4, "3456"}, {10, 1, ""}, {99, -1, ""}, {0, 0, ""}, {8, 5, "89"}} {
		r, err := b.Get(t.Context(), "k", c.off, c.n)
		if err != nil {
			t.Errorf("%d bytes from %d: %v", c.n, c.off, err)
			continue
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != c.want {
			t.Errorf("%d bytes from %d are %q, %v; want %q", c.n, c.off, got, err, c.want)
		}
		r.Close()
	}
}

func TestAServerThatKeepsOtherBytesIsNotBelieved(t *testing.T) {
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"size":"1","crc32c":"AAAAAA=="}`)
	})
	err := at(t, serve(t, other), "gs://b-1").Create(t.Context(), "k", strings.NewReader("x"))
	if !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("says %v", err)
	}
}
