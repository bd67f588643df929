package transfer

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/s3/s3test"
	"github.com/drover-run/drover/store/storetest"
)

// brake lets so many parts of an upload through, and then ends what sends them.
type brake struct {
	srv *s3test.Server

	mu    sync.Mutex
	after int // below 0: all
	asked int
	end   func()
}

func braked(srv *s3test.Server) *brake {
	b := &brake{srv: srv, after: -1}
	srv.Before = b.stop
	return b
}

func (b *brake) stop(w http.ResponseWriter, r *http.Request) bool {
	if !r.URL.Query().Has("partNumber") {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if b.after < 0 || b.asked <= b.after {
		return false
	}
	if b.srv.Parts() >= b.after {
		b.end()
	}
	s3test.Refuse(w, 503, "SlowDown", "")
	return true
}

func (b *brake) set(after int, end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.after, b.asked, b.end = after, 0, end
}

// put ends a Put when so many parts have arrived. One or two more may do so later.
func (b *brake) put(t *testing.T, s *store.Store, file, key, notes string, after int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	enough := errors.New("enough")
	b.set(after, func() { cancel(enough) })
	if _, err := Put(ctx, file, Place{Store: s, Key: key}, Options{Notes: notes}); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	b.set(-1, nil)
}

func holdsObject(t *testing.T, s *store.Store, key, want string) {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %d bytes, %v; want the %d that were sent", key, len(got), err, len(want))
	}
}

func TestAPutThatWasEndedGoesOnInsideTheFile(t *testing.T) {
	srv, s := server(t)
	b := braked(srv)
	body := noise(32 << 20) // four parts of 8 MiB
	dir := write(t, t.TempDir(), map[string]string{"big": body})
	file, notes := filepath.Join(dir, "big"), filepath.Join(t.TempDir(), "state", "uploads")

	b.put(t, s, file, "big", notes, 3)
	if srv.Uploads() != 1 {
		t.Errorf("%d uploads are open, want the one to go on with", srv.Uploads())
	}
	done, err := Put(t.Context(), file, Place{Store: s, Key: "big"}, Options{Notes: notes})
	if err != nil || done.Files != 1 || done.SameBytes < 3*(8<<20) || done.Bytes+done.SameBytes != int64(len(body)) {
		t.Errorf("%+v, %v; want three parts there already", done, err)
	}
	holdsObject(t, s, "big", body)
	nothingLeft := func() {
		t.Helper()
		if left, err := os.ReadDir(notes); err != nil || len(left) > 0 || srv.Uploads() > 0 {
			t.Errorf("left: notes %v, %v; %d uploads", left, err, srv.Uploads())
		}
	}
	nothingLeft()

	t.Run("with a file that has changed since", func(t *testing.T) {
		b.put(t, s, file, "other", notes, 3)
		changed := "X" + body[1:] + "grown"
		write(t, dir, map[string]string{"big": changed})
		defer write(t, dir, map[string]string{"big": body})
		if _, err := Put(t.Context(), file, Place{Store: s, Key: "other"}, Options{Notes: notes}); err != nil {
			t.Fatal(err)
		}
		holdsObject(t, s, "other", changed)
		nothingLeft()
	})
	t.Run("after the upload is gone", func(t *testing.T) {
		b.put(t, s, file, "gone", notes, 3)
		srv.DropUploads()
		if done, err := Put(t.Context(), file, Place{Store: s, Key: "gone"}, Options{Notes: notes}); err != nil || done.SameBytes != 0 {
			t.Errorf("%+v, %v", done, err)
		}
		holdsObject(t, s, "gone", body)
		nothingLeft()
	})
	t.Run("with a note of nonsense", func(t *testing.T) {
		b.put(t, s, file, "note", notes, 3)
		left, err := filepath.Glob(notes + "/*")
		if err != nil || len(left) != 1 || os.WriteFile(left[0], []byte(`{"place":`), 0o600) != nil {
			t.Fatal(left, err)
		}
		if _, err := Put(t.Context(), file, Place{Store: s, Key: "note"}, Options{Notes: notes}); err != nil {
			t.Fatal(err)
		}
		holdsObject(t, s, "note", body)
		srv.DropUploads() // which no run knew any more
		nothingLeft()
	})
	t.Run("while another process sends it", func(t *testing.T) {
		b.put(t, s, file, "two", notes, 3)
		left, err := filepath.Glob(notes + "/*")
		if err != nil || len(left) != 1 {
			t.Fatal(left, err)
		}
		f, err := os.Open(left[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		if done, err := Put(t.Context(), file, Place{Store: s, Key: "two"}, Options{Notes: notes}); err != nil || done.SameBytes != 0 {
			t.Errorf("%+v, %v; want it sent whole, without the other's parts", done, err)
		}
		f.Close()
		holdsObject(t, s, "two", body)
		if srv.Uploads() != 1 {
			t.Errorf("%d uploads, want the other's", srv.Uploads())
		}
		srv.DropUploads()
	})
}

// An upload that is not resumed is thrown away, by a later put to its bucket.
func TestOldUploadsAreThrownAway(t *testing.T) {
	srv, s := server(t)
	b := braked(srv)
	dir := write(t, t.TempDir(), map[string]string{"big": noise(40 << 20), "small": "small"})
	notes := t.TempDir()
	b.put(t, s, filepath.Join(dir, "big"), "big", notes, 2)
	put := func() {
		t.Helper()
		if _, err := Put(t.Context(), filepath.Join(dir, "small"), Place{Store: s, Key: "small"}, Options{Notes: notes, Checksum: true}); err != nil {
			t.Fatal(err)
		}
	}
	put()
	if srv.Uploads() != 1 {
		t.Errorf("%d uploads: one of today is gone", srv.Uploads())
	}
	left, err := filepath.Glob(notes + "/*")
	if err != nil || len(left) != 1 {
		t.Fatal(left, err)
	}
	old := time.Now().Add(-forgotten - time.Hour)
	if err := os.Chtimes(left[0], old, old); err != nil {
		t.Fatal(err)
	}
	put()
	if left, err = filepath.Glob(notes + "/*"); err != nil || len(left) > 0 || srv.Uploads() > 0 {
		t.Errorf("left: %v, %v; %d uploads", left, err, srv.Uploads())
	}
}

// Behind a net that loses, cuts and changes, what was ended is gone on with all the same.
func TestPutAndGetGoOnBehindAHostileNet(t *testing.T) {
	srv := &s3test.Server{Bucket: "data"}
	r := rand.New(rand.NewPCG(5, 6))
	hostile := &s3test.Hostile{Next: srv, Rand: r.IntN, Evils: s3test.Evils{Refuse: 0.05, SlowDown: 0.05, Fail: 0.05, Lose: 0.05, LoseLate: 0.05, Truncate: 0.05, Flip: 0.05}}
	h := httptest.NewServer(hostile)
	t.Cleanup(h.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testtest")
	b, err := s3.Open(t.Context(), "s3://data", s3.Options{Endpoint: h.URL, Region: "us-east-1", Foreign: true, Clock: &storetest.Clock{}})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(b, store.Options{Clock: &storetest.Clock{}})
	body := noise(40<<20 + 5)
	dir, notes := write(t, t.TempDir(), map[string]string{"big": body}), t.TempDir()
	var once sync.Once
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	srv.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("partNumber") == "5" {
			once.Do(cancel)
		}
		return false
	}
	if _, err := Put(ctx, dir, Place{Store: s, Key: "x"}, Options{Notes: notes}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := Put(t.Context(), dir, Place{Store: s, Key: "x"}, Options{Notes: notes}); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, err := Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{piece: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	brought(t, to, "big", body)
	if len(hostile.Met()) < 5 {
		t.Errorf("met %v", hostile.Met())
	}
}
