package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/drover-run/drover/store"
)

// RunPieces checks the promises of store.Pieces, of a bucket that has it.
func RunPieces(t *testing.T, open Open) { run(t, open, pieces) }

var pieces = []promise{
	{"what is looked at is what is held, and its pieces are its content", func(t *testing.T, first, second store.Bucket) {
		for _, size := range []int{0, 1, 1 << 20, 20<<20 + 7} {
			key, body := fmt.Sprintf("of/size/%d", size), pattern(size)
			if err := first.Create(t.Context(), key, bytes.NewReader(body)); err != nil {
				t.Fatalf("create %s: %v", key, err)
			}
			w := look(t, second, key)
			if w.Key != key || w.Size != int64(size) || w.Tag == "" || w.Time.IsZero() {
				t.Errorf("look at %s: %+v", key, w)
			}
			piece := w.Sum.Piece(3 << 20)
			var got []byte
			var sums [][]byte
			for at := int64(0); at < w.Size; at += piece {
				part, err := readOf(t.Context(), second, w.Object, at, piece)
				if err != nil {
					t.Fatalf("piece of %s at %d: %v", key, at, err)
				}
				h := w.Sum.New()
				h.Write(part)
				got, sums = append(got, part...), append(sums, h.Sum(nil))
			}
			if !bytes.Equal(got, body) || !w.Sum.Holds(sums, piece, w.Size) {
				t.Errorf("the pieces of %s are %d bytes; its sum: %+v", key, len(got), w.Sum)
			}
			if len(sums) > 0 && w.Sum.Of != "" {
				sums[0][0] ^= 1
				if w.Sum.Holds(sums, piece, w.Size) {
					t.Errorf("the sum of %s holds of another content", key)
				}
			}
		}
	}},
	{"what was replaced is said to be", func(t *testing.T, first, second store.Bucket) {
		put := func(body []byte) {
			if err := first.Put(t.Context(), "a", bytes.NewReader(body)); err != nil {
				t.Fatal(err)
			}
		}
		body := pattern(3 << 20)
		put(body)
		w := look(t, second, "a")
		if got, err := readOf(t.Context(), second, w.Object, 5, 10); err != nil || !bytes.Equal(got, body[5:15]) {
			t.Errorf("before: %q, %v", got, err)
		}
		body[0] ^= 1
		put(body)
		for _, n := range []int64{10, -1} {
			if _, err := readOf(t.Context(), second, w.Object, 0, n); !errors.Is(err, store.ErrReplaced) {
				t.Errorf("%d bytes of one that was replaced: %v, want ErrReplaced", n, err)
			}
		}
		w = look(t, second, "a")
		if err := first.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := readOf(t.Context(), second, w.Object, 0, 10); !errors.Is(err, store.ErrReplaced) {
			t.Errorf("of one that was deleted: %v, want ErrReplaced", err)
		}
		if _, err := second.(store.Pieces).Look(t.Context(), "a"); !errors.Is(err, store.ErrNotExist) {
			t.Errorf("look at one that was deleted: %v, want ErrNotExist", err)
		}
	}},
}

func look(t *testing.T, b store.Bucket, key string) store.Whole {
	t.Helper()
	w, err := b.(store.Pieces).Look(t.Context(), key)
	if err != nil {
		t.Fatalf("look at %s: %v", key, err)
	}
	return w
}

func readOf(ctx context.Context, b store.Bucket, o store.Object, off, n int64) ([]byte, error) {
	r, err := b.(store.Pieces).GetOf(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
