// Package itemstest has what the tests of items and its packages share: lists made
// without a source, a bucket with reads that go wrong, and checks of refusals.
package itemstest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/store"
)

func DigestOf(n int) store.Digest { return store.Digest(fmt.Sprintf("%064x", n)) }

// ListOf is a list of lines; they hold no newline.
func ListOf(t testing.TB, lines ...string) *manifest.List {
	t.Helper()
	l, err := manifest.Build(t.TempDir(), manifest.Lines, func(p *manifest.Packer) error {
		for _, text := range lines {
			if err := manifest.AddItem(p, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func ReadTexts(t testing.TB, r *manifest.Reader) []string {
	t.Helper()
	var all []string
	for it, err := range r.Range(t.Context(), r.First(), r.Last()) {
		if err != nil {
			t.Fatal(err)
		}
		if want := r.First() + len(all); it.N != want {
			t.Fatalf("item %d came as number %d", want, it.N)
		}
		all = append(all, it.Text)
	}
	return all
}

func Store(t testing.TB, b store.Bucket, l *manifest.List, first int) (*store.Store, *manifest.Reader) {
	t.Helper()
	s := store.New(b, store.Options{})
	m, err := l.Put(t.Context(), s, "p/t/j/items")
	if err != nil {
		t.Fatal(err)
	}
	r, err := manifest.Open(t.Context(), s, m, first)
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

// Incompressible does not shrink, so that a few MB of it fill several parts.
func Incompressible(n, length int) []string {
	rnd := rand.New(rand.NewPCG(3, 3))
	lines := make([]string, n)
	for i := range lines {
		b := make([]byte, length)
		for j := range b {
			b[j] = byte(1 + rnd.UintN(255))
			if b[j] == '\n' || b[j] == '\r' {
				b[j] = 'x'
			}
		}
		lines[i] = string(b)
	}
	return lines
}

// FaultyBucket is a bucket with reads that go wrong: the first times reads of a key that ends
// so, each by break.
type FaultyBucket struct {
	store.Bucket
	mu     sync.Mutex
	Suffix string
	Times  int
	Harm   func(text []byte) ([]byte, error)
	Gets   int
}

func (b *FaultyBucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := b.Bucket.Get(ctx, key, off, n)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || !strings.HasSuffix(key, b.Suffix) {
		return r, err
	}
	b.Gets++
	if b.Times == 0 {
		return r, nil
	}
	b.Times--
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if text, err = b.Harm(text); err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

// Harms are what may happen to bytes on their way or where they lie.
var Harms = map[string]func(text []byte) ([]byte, error){
	"flipped": func(text []byte) ([]byte, error) { text[len(text)/2] ^= 1; return text, nil },
	"cut":     func(text []byte) ([]byte, error) { return text[:len(text)/2], nil },
	"zeros":   func(text []byte) ([]byte, error) { return make([]byte, len(text)), nil },
	"empty":   func([]byte) ([]byte, error) { return nil, nil },
	"gone":    func([]byte) ([]byte, error) { return nil, store.ErrNotExist },
}

// all reads a list's items.
func ReadItems(t testing.TB, r *manifest.Reader) []manifest.Item {
	t.Helper()
	var got []manifest.Item
	for it, err := range r.Range(t.Context(), r.First(), r.Last()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, it)
	}
	return got
}

func CheckRefused(t *testing.T, err error) {
	t.Helper()
	if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Fatalf("%v without kind or hint", err)
	}
}

// CheckError checks what a user reads of an error: the whole text, and the whole hint.
func CheckError(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || err.Error() != text || fault.Hint(err) != hint || fault.KindOf(err) != kind {
		t.Errorf("kind %v: %v\n%s\nwant %v: %s\n%s", fault.KindOf(err), err, fault.Hint(err), kind, text, hint)
	}
}
