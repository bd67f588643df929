package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/store"
)

// throughStore are promises that hold over buckets with faults too. Listings may be wrong
// there, so these promises use none.
var throughStore = []promise{
	{"one of many racers is told that it is his, and all are told the same", func(t *testing.T, first, second store.Bucket) {
		stores := [2]*store.Store{store.New(first, store.Options{Clock: &Clock{}}), store.New(second, store.Options{Clock: &Clock{}})}
		for round := range 5 {
			key := fmt.Sprintf("log/%08d", round)
			type answer struct {
				held string
				mine bool
				err  error
			}
			var answers [16]answer
			var all sync.WaitGroup
			for i := range answers {
				all.Go(func() {
					held, mine, err := stores[i%2].CreateOnce(t.Context(), key, fmt.Appendf(nil, "writer %d", i))
					answers[i] = answer{string(held), mine, err}
				})
			}
			all.Wait()
			winners := 0
			for i, a := range answers {
				if a.err != nil {
					t.Fatalf("%s: writer %d: %v", key, i, a.err)
				}
				if a.held != answers[0].held {
					t.Errorf("%s holds %q for one and %q for another", key, answers[0].held, a.held)
				}
				if a.mine != (a.held == fmt.Sprintf("writer %d", i)) {
					t.Errorf("%s: writer %d is told %v of %q", key, i, a.mine, a.held)
				}
				if a.mine {
					winners++
				}
			}
			if winners != 1 {
				t.Errorf("%s: %d winners", key, winners)
			}
		}
	}},
	{"an entry never changes", func(t *testing.T, first, second store.Bucket) {
		s, other := store.New(first, store.Options{Clock: &Clock{}}), store.New(second, store.Options{Clock: &Clock{}})
		for i := range 20 {
			key := fmt.Sprintf("log/%08d", i)
			if _, mine, err := s.CreateOnce(t.Context(), key, []byte("mine")); err != nil || !mine {
				t.Fatalf("create %s: mine is %v, %v", key, mine, err)
			}
			for _, late := range []*store.Store{other, s} {
				held, mine, err := late.CreateOnce(t.Context(), key, []byte("other"))
				if diff := cmp.Diff("mine", string(held)); diff != "" || mine || err != nil {
					t.Errorf("a second create of %s: mine is %v, %v %s", key, mine, err, diff)
				}
			}
		}
	}},
	{"a blob is found by its content, and only then", func(t *testing.T, first, second store.Bucket) {
		s, other := store.New(first, store.Options{Clock: &Clock{}}), store.New(second, store.Options{Clock: &Clock{}})
		for _, size := range []int{0, 1, 100_000} {
			body := pattern(size)
			d, n, err := s.PutBlob(t.Context(), bytes.NewReader(body))
			if err != nil || n != int64(size) {
				t.Fatalf("put %d bytes: %d, %v", size, n, err)
			}
			again, _, err := other.PutBlob(t.Context(), bytes.NewReader(body))
			if err != nil || again != d {
				t.Fatalf("put again: %s and %s, %v", d, again, err)
			}
			if got := blob(t, s, d); !bytes.Equal(got, body) {
				t.Errorf("blob %s: read %d bytes, want %d", d, len(got), size)
			}
		}
		none, _ := store.ParseDigest("00000000000000000000000000000000000000000000000000000000000000ff")
		if has, err := s.HasBlob(t.Context(), none); has || err != nil {
			t.Errorf("a blob nobody stored: %v, %v", has, err)
		}
		if _, err := s.OpenBlob(t.Context(), none); !errors.Is(err, store.ErrNotExist) {
			t.Errorf("open a blob nobody stored: %v", err)
		}
	}},
	{"a probe passes", func(t *testing.T, first, _ store.Bucket) {
		if err := store.New(first, store.Options{Clock: &Clock{}}).Probe(t.Context()); err != nil {
			t.Error(err)
		}
	}},
}

// blob reads d, which is known to exist: a bucket that says "absent" answers from old
// knowledge, which has ended after a minute of requests.
func blob(t *testing.T, s *store.Store, d store.Digest) []byte {
	t.Helper()
	for start := s.Clock().Boot(); ; {
		r, err := s.OpenBlob(t.Context(), d)
		if err == nil {
			defer r.Close()
			body, err := io.ReadAll(r)
			if err != nil {
				t.Fatalf("read blob: %v", err)
			}
			return body
		}
		if !errors.Is(err, store.ErrNotExist) || s.Clock().Boot()-start > 2*60e9 {
			t.Fatalf("open blob: %v", err)
		}
		_ = s.Clock().Sleep(t.Context(), 1e9)
	}
}
