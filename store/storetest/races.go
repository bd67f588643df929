package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/drover-run/drover/store"
)

var races = []promise{
	{"one of 32 racing creators wins", func(t *testing.T, first, second store.Bucket) {
		for round := range 8 {
			key := fmt.Sprintf("race/%d/00000000", round)
			var errs [32]error
			var all sync.WaitGroup
			for i := range errs {
				b := [2]store.Bucket{first, second}[i%2]
				all.Go(func() { errs[i] = b.Create(t.Context(), key, strings.NewReader(fmt.Sprint(i))) })
			}
			all.Wait()
			winner := -1
			for i, err := range errs {
				switch {
				case err == nil && winner >= 0:
					t.Errorf("%s: both %d and %d won", key, winner, i)
				case err == nil:
					winner = i
				case !errors.Is(err, store.ErrExists):
					t.Errorf("%s: loser %d is told %v", key, i, err)
				}
			}
			holds(t, first, key, fmt.Sprint(winner))
		}
	}},
	{"readers never see half an object appear", func(t *testing.T, first, second store.Bucket) {
		body := pattern(1 << 20)
		for round := range 4 {
			key := fmt.Sprintf("appear/%d", round)
			written := make(chan error, 1)
			go func() { written <- first.Create(t.Context(), key, bytes.NewReader(body)) }()
			for done := false; !done; {
				select {
				case err := <-written:
					if err != nil {
						t.Fatal(err)
					}
					done = true
				default:
				}
				got, err := read(t, second, key, 0, -1)
				switch {
				case err == nil && bytes.Equal(got, body):
				case errors.Is(err, store.ErrNotExist) && !done:
				default:
					t.Fatalf("%s: read %d bytes, %v", key, len(got), err)
				}
			}
		}
	}},
	{"readers never see half of a put", func(t *testing.T, first, second store.Bucket) {
		bodies := [2][]byte{bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("b"), 70_000)}
		put := func(i int) error { return first.Put(t.Context(), "beat", bytes.NewReader(bodies[i%2])) }
		if err := put(0); err != nil {
			t.Fatal(err)
		}
		written := make(chan error, 1)
		go func() {
			var errs []error
			for i := range 50 {
				errs = append(errs, put(i))
			}
			written <- errors.Join(errs...)
		}()
		for done := false; !done; {
			select {
			case err := <-written:
				if err != nil {
					t.Fatal(err)
				}
				done = true
			default:
			}
			got, err := read(t, second, "beat", 0, -1)
			if err != nil || !bytes.Equal(got, bodies[0]) && !bytes.Equal(got, bodies[1]) {
				t.Fatalf("read %d bytes, %v: neither the old object nor the new one", len(got), err)
			}
		}
	}},
	{"deleting beside creating loses nothing", func(t *testing.T, first, second store.Bucket) {
		const rounds = 60
		var all sync.WaitGroup
		all.Go(func() {
			for range rounds {
				_ = second.Create(t.Context(), "x/y/gone", strings.NewReader("x"))
				remove(t, second, "x/y/gone")
			}
		})
		all.Go(func() {
			for i := range rounds {
				key := fmt.Sprintf("x/y/%d", i)
				if err := first.Create(t.Context(), key, strings.NewReader("x")); err != nil {
					t.Errorf("create %s: %v", key, err)
				}
				holds(t, second, key, "x")
				remove(t, first, key)
			}
		})
		all.Wait()
		if left, _ := page(t, first, "", "", 10); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	}},
}
