package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/store"
)

// RunResumes checks the promises of store.Resumer, of a bucket that has it. least is how
// much of a write that was ended its server keeps at least: none, if that is a poor one.
func RunResumes(t *testing.T, open Open, least int64) { run(t, open, resumes(least)) }

// A body that is ended at some seventy megabytes is long enough that every bucket has
// answered for some of it.
const (
	longBody = 80 << 20
	endedAt  = 76 << 20
)

// long is a body in which no part is as another.
func long() []byte { return slices.Clone(noise()) }

var noise = sync.OnceValue(func() []byte {
	body := make([]byte, longBody)
	_, _ = rand.NewChaCha8([32]byte{}).Read(body) // it never fails
	return body
})

var errEnded = errors.New("ended")

// ending is a body that ends with an error, once it is sent.
type ending struct {
	*bytes.Reader
	at   string // what goes on with it
	stop func() // called before
}

func (e *ending) Read(p []byte) (int, error) {
	pos := e.Size() - int64(e.Len())
	if e.at == "" || pos < endedAt {
		return e.Reader.Read(p[:min(int64(len(p)), max(1<<10, endedAt-pos))])
	}
	e.stop()
	return 0, errEnded
}

func (e *ending) recordBegun(at string) error { e.at = at; return nil }

// end ends a PutOn of body in the middle, and gives what the next goes on with.
func end(t *testing.T, b store.Bucket, body []byte) (at string) {
	t.Helper()
	e := &ending{Reader: bytes.NewReader(body), stop: func() {}}
	_, err := b.(store.Resumer).PutOn(t.Context(), "a/long", e, "", e.recordBegun)
	if !errors.Is(err, errEnded) || e.at == "" {
		t.Fatalf("a write that is ended: %v, to go on with %q", err, e.at)
	}
	return e.at
}

// on goes on with a write, and says how much of it was there.
func on(t *testing.T, b store.Bucket, body []byte, at string) (there int64) {
	t.Helper()
	there, err := goOn(t, b, body, at)
	if err != nil {
		t.Fatalf("go on: %v", err)
	}
	return there
}

// goOn is on where the server may refuse that. What it takes it must hold.
func goOn(t *testing.T, b store.Bucket, body []byte, at string) (there int64, err error) {
	t.Helper()
	there, err = b.(store.Resumer).PutOn(t.Context(), "a/long", bytes.NewReader(body), at, func(string) error { return nil })
	if err != nil {
		return there, err
	}
	if got, err := read(t, b, "a/long", 0, -1); err != nil || !bytes.Equal(got, body) {
		t.Errorf("it holds %d bytes, %v; want the %d that were sent", len(got), err, len(body))
	}
	return there, nil
}

func resumes(least int64) []promise {
	return []promise{
		{"a large write that was ended is gone on with, by anybody", func(t *testing.T, first, second store.Bucket) {
			body := long()
			var at string
			for try := 0; ; try++ {
				at = end(t, first, body)
				if try == 0 {
					absent(t, second, "a/long")
				}
				<-time.After(time.Duration(try) * 200 * time.Millisecond)
				there := on(t, second, body, at)
				if there >= least && there <= endedAt {
					break
				}
				if try == 5 { // a server may not have seen yet that the first one has gone
					t.Fatalf("%d bytes of it were there", there)
				}
			}
			if there := on(t, first, body, at); there != 0 { // it is over, and its name is not valid
				t.Errorf("after it has ended well %d bytes were there", there)
			}
		}},
		{"a large write whose writer is told to stop is gone on with", func(t *testing.T, first, second store.Bucket) {
			ctx, stop := context.WithCancelCause(t.Context())
			body := long()
			e := &ending{Reader: bytes.NewReader(body), stop: func() { stop(errEnded) }}
			_, err := first.(store.Resumer).PutOn(ctx, "a/long", e, "", e.recordBegun)
			if !errors.Is(err, errEnded) || e.at == "" {
				t.Fatalf("it says %v, to go on with %q", err, e.at)
			}
			on(t, second, body, e.at)
		}},
		{"of a write that was ended nothing goes into another one", func(t *testing.T, first, second store.Bucket) {
			body := long()
			at := end(t, first, body)
			body[0] ^= 1 // in what was sent first
			if there := on(t, second, body, at); there >= endedAt {
				t.Errorf("%d bytes of it were there", there)
			}
			at = end(t, first, body)
			on(t, second, body[:longBody/2], at)
		}},
		{"what was dropped is gone, and what says nothing begins anew", func(t *testing.T, first, second store.Bucket) {
			body := long()
			for try := 0; ; try++ {
				at := end(t, first, body)
				// A server may not have seen yet that its writer has gone: what of it is
				// stored behind Drop stays, and would be in the way.
				<-time.After(time.Duration(try) * 200 * time.Millisecond)
				for range 2 {
					if err := store.New(second, store.Options{}).Drop(t.Context(), "a/long", at); err != nil {
						t.Fatal(err)
					}
				}
				there, err := goOn(t, first, body, at)
				if err == nil && there == 0 {
					break
				}
				if try == 5 {
					t.Fatalf("with %q %d bytes were there, %v", at, there, err)
				}
			}
			if there := on(t, first, body, "1 2 /3"); there != 0 {
				t.Errorf("with nothing that says where %d bytes were there", there)
			}
		}},
		{"who cannot note a write does not begin it", func(t *testing.T, first, _ store.Bucket) {
			_, err := first.(store.Resumer).PutOn(t.Context(), "a/long", bytes.NewReader(long()), "", func(string) error { return io.ErrShortWrite })
			if !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("it says %v", err)
			}
			absent(t, first, "a/long")
		}},
	}
}
