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

// RunResumes checks the promises of store.Resumer, of a bucket that has it. least is how many
// bytes of an interrupted write its server keeps at least: 0 for a server that may keep none. size
// is how large a body must be so that the bucket stores some of it before its end, in bytes and at
// most MostResumed.
func RunResumes(t *testing.T, open Open, least, size int64) {
	run(t, open, resumer{least, size}.promises())
}

// MostResumed is the largest body of RunResumes.
const MostResumed = 80 << 20

// resumer is a bucket as RunResumes is told of it.
type resumer struct{ least, size int64 }

// endedAt is where an interrupted write ends.
func (r resumer) endedAt() int64 { return r.size - r.size/20 }

// long is a body with different bytes in every part.
func (r resumer) long() []byte { return slices.Clone(noise()[:r.size]) }

var noise = sync.OnceValue(func() []byte {
	body := make([]byte, MostResumed)
	_, _ = rand.NewChaCha8([32]byte{}).Read(body) // it never fails
	return body
})

var errEnded = errors.New("ended")

// ending is a body that ends with an error, after it was sent.
type ending struct {
	*bytes.Reader
	until int64  // where it ends
	at    string // the text with which a later write goes on
	stop  func() // called before the error
}

func (e *ending) Read(p []byte) (int, error) {
	pos := e.Size() - int64(e.Len())
	if e.at == "" || pos < e.until {
		return e.Reader.Read(p[:min(int64(len(p)), max(1<<10, e.until-pos))])
	}
	e.stop()
	return 0, errEnded
}

func (e *ending) recordBegun(at string) error { e.at = at; return nil }

// end interrupts a PutOn of body in the middle, and gives the at for the next one. Parts that are on
// their way have so long to arrive.
func (r resumer) end(t *testing.T, b store.Bucket, body []byte, arrive time.Duration) (at string) {
	t.Helper()
	e := &ending{Reader: bytes.NewReader(body), until: r.endedAt(), stop: func() { <-time.After(arrive) }}
	_, err := b.(store.Resumer).PutOn(t.Context(), "a/long", e, "", e.recordBegun)
	if !errors.Is(err, errEnded) || e.at == "" {
		t.Fatalf("a write that is ended: %v, to go on with %q", err, e.at)
	}
	return e.at
}

// on goes on with a write, and says how many bytes were there.
func on(t *testing.T, b store.Bucket, body []byte, at string) (there int64) {
	t.Helper()
	there, err := goOn(t, b, body, at)
	if err != nil {
		t.Fatalf("go on: %v", err)
	}
	return there
}

// goOn is on, for servers that may refuse it. What a server accepts it must hold.
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

func (r resumer) promises() []promise {
	return []promise{
		{"a large write that was ended is gone on with, by anybody", func(t *testing.T, first, second store.Bucket) {
			body := r.long()
			var at string
			for try := 0; ; try++ {
				wait := time.Duration(try) * 200 * time.Millisecond
				at = r.end(t, first, body, wait)
				if try == 0 {
					absent(t, second, "a/long")
				}
				<-time.After(wait)
				there := on(t, second, body, at)
				if there >= r.least && there <= r.endedAt() {
					break
				}
				if try == 5 { // the server may not have seen yet that the first writer has gone
					t.Fatalf("%d bytes of it were there", there)
				}
			}
			if there := on(t, first, body, at); there != 0 { // that write is complete, and its at is not valid any more
				t.Errorf("after it has ended well %d bytes were there", there)
			}
		}},
		{"a large write whose writer is told to stop is gone on with", func(t *testing.T, first, second store.Bucket) {
			ctx, stop := context.WithCancelCause(t.Context())
			body := r.long()
			e := &ending{Reader: bytes.NewReader(body), until: r.endedAt(), stop: func() { stop(errEnded) }}
			_, err := first.(store.Resumer).PutOn(ctx, "a/long", e, "", e.recordBegun)
			if !errors.Is(err, errEnded) || e.at == "" {
				t.Fatalf("it says %v, to go on with %q", err, e.at)
			}
			on(t, second, body, e.at)
		}},
		{"of a write that was ended nothing goes into another one", func(t *testing.T, first, second store.Bucket) {
			body := r.long()
			at := r.end(t, first, body, 0)
			body[0] ^= 1 // in the bytes that were sent first
			if there := on(t, second, body, at); there >= r.endedAt() {
				t.Errorf("%d bytes of it were there", there)
			}
			at = r.end(t, first, body, 0)
			on(t, second, body[:r.size/2], at)
		}},
		{"what was dropped is gone, and what says nothing begins anew", func(t *testing.T, first, second store.Bucket) {
			body := r.long()
			for try := 0; ; try++ {
				at := r.end(t, first, body, 0)
				// The server may not have seen yet that its writer has gone: bytes that it stores
				// after Drop stay, and would make the test fail.
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
			_, err := first.(store.Resumer).PutOn(t.Context(), "a/long", bytes.NewReader(r.long()), "", func(string) error { return io.ErrShortWrite })
			if !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("it says %v", err)
			}
			absent(t, first, "a/long")
		}},
	}
}
