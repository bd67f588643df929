package store_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// gets counts what is read.
type gets struct {
	store.Bucket
	n int
}

func (g *gets) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	g.n++
	return g.Bucket.Get(ctx, key, off, n)
}

// dial is a clock that a test turns.
type dial struct{ at time.Duration }

func (d *dial) Now() time.Time                             { return time.Unix(0, 0).Add(d.at) }
func (d *dial) Boot() time.Duration                        { return d.at }
func (d *dial) Sleep(context.Context, time.Duration) error { return nil }

type shelf struct {
	*store.Store
	t     *testing.T
	under *gets
	clock *dial
}

func newShelf(t *testing.T) *shelf {
	s := &shelf{t: t, under: &gets{Bucket: mem.New()}, clock: &dial{time.Hour}}
	s.Store = store.New(s.under, store.Options{Clock: s.clock, Rand: rand.Reader})
	return s
}

// reads says what a Fixed gave, "" for nothing, and how many requests it took.
func (s *shelf) reads(key string, age time.Duration, want string, requests int) {
	s.t.Helper()
	before := s.under.n
	b, err := s.Fixed(s.t.Context(), key, age, store.MaxWhole)
	if errors.Is(err, store.ErrNotExist) {
		b, err = nil, nil
	}
	if err != nil || string(b) != want || s.under.n-before != requests {
		s.t.Errorf("%s: %q in %d requests, %v, want %q in %d", key, b, s.under.n-before, err, want, requests)
	}
}

// by writes as another process does.
func (s *shelf) by(key, body string) {
	if err := s.under.Create(s.t.Context(), key, bytes.NewReader([]byte(body))); err != nil {
		s.t.Fatal(err)
	}
}

func TestWhatNeverChangesIsReadOnce(t *testing.T) {
	s := newShelf(t)
	s.by("log/0", "zero")
	s.reads("log/0", store.Forever, "zero", 1)
	s.reads("log/0", store.Forever, "zero", 0)
	if _, mine, err := s.CreateFixed(t.Context(), "log/1", []byte("mine")); err != nil || !mine {
		t.Fatal(mine, err)
	}
	s.reads("log/1", store.Forever, "mine", 0)
}

// An absence may end at any moment: it is asked for each time.
func TestAnAbsenceIsNeverRemembered(t *testing.T) {
	s := newShelf(t)
	s.reads("log/0", store.Forever, "", 1)
	s.reads("log/0", store.Forever, "", 1)
	s.by("log/0", "zero")
	s.reads("log/0", store.Forever, "zero", 1)
	if _, ok := s.Recall("log/1", store.Forever); ok {
		t.Error("what nobody has seen is known")
	}
}

// The loser of a race knows what won it.
func TestALostRaceIsRemembered(t *testing.T) {
	s := newShelf(t)
	s.by("log/0", "theirs")
	held, mine, err := s.CreateFixed(t.Context(), "log/0", []byte("mine"))
	if err != nil || mine || string(held) != "theirs" {
		t.Fatalf("%q %v %v", held, mine, err)
	}
	s.reads("log/0", store.Forever, "theirs", 0)
}

func TestKnowledgeThatIsTooOldIsAskedForAgain(t *testing.T) {
	s := newShelf(t)
	s.by("job", "spec")
	s.reads("job", time.Minute, "spec", 1)
	s.clock.at += 59 * time.Second
	s.reads("job", time.Minute, "spec", 0)
	s.clock.at += time.Second
	s.reads("job", time.Minute, "spec", 1) // and that is as good as new
	s.clock.at += 59 * time.Second
	s.reads("job", time.Minute, "spec", 0)
	if err := s.under.Delete(t.Context(), "job"); err != nil { // another process's gc
		t.Fatal(err)
	}
	s.reads("job", time.Minute, "spec", 0)
	s.clock.at += time.Second
	s.reads("job", time.Minute, "", 1)
	if _, ok := s.Recall("job", store.Forever); ok {
		t.Error("what was seen to be gone is still known")
	}
}

func TestWhatWasDeletedHereIsForgotten(t *testing.T) {
	s := newShelf(t)
	s.by("job", "spec")
	s.reads("job", store.Forever, "spec", 1)
	if err := s.Delete(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	s.reads("job", store.Forever, "", 1)
}

func TestAMemoryIsBounded(t *testing.T) {
	s := newShelf(t)
	s.by("large", string(make([]byte, 65<<10)))
	s.reads("large", store.Forever, string(make([]byte, 65<<10)), 1)
	s.reads("large", store.Forever, string(make([]byte, 65<<10)), 1)
	body := string(make([]byte, 64<<10-1))
	for n := range 200 { // twelve times what there is room for
		s.by(fmt.Sprint("log/", n), body)
		s.reads(fmt.Sprint("log/", n), store.Forever, body, 1)
	}
	there := 0
	for n := range 200 {
		if _, ok := s.Recall(fmt.Sprint("log/", n), store.Forever); ok {
			there++
		}
	}
	if there == 0 || there > 16 {
		t.Errorf("%d objects of 64 KiB are known, want 1 to 16", there)
	}
}
