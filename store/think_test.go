package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// scripted answers as it is told to, and truly when the script is at its end.
type scripted struct {
	*mem.Bucket
	answers []answer
	asked   []string
}

type answer struct {
	err    error
	apply  bool   // a write: done nevertheless
	before string // another writer creates the key with this content first
}

func (s *scripted) next(op string) answer {
	s.asked = append(s.asked, op)
	if len(s.answers) == 0 {
		return answer{}
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a
}

func (s *scripted) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	a := s.next("create")
	if a.before != "" {
		_ = s.Bucket.Create(ctx, key, strings.NewReader(a.before))
	}
	if a.err == nil || a.apply {
		if err := s.Bucket.Create(ctx, key, body); a.err == nil {
			return err
		}
	}
	return a.err
}

func (s *scripted) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if a := s.next("put"); a.err != nil {
		return a.err
	}
	return s.Bucket.Put(ctx, key, body)
}

func (s *scripted) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if a := s.next("get"); a.err != nil {
		return nil, a.err
	}
	return s.Bucket.Get(ctx, key, off, n)
}

func (s *scripted) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	if a := s.next("list"); a.err != nil {
		return nil, false, a.err
	}
	return s.Bucket.List(ctx, prefix, after, min(limit, 2))
}

func (s *scripted) Delete(ctx context.Context, key string) error {
	if a := s.next("delete"); a.err != nil {
		return a.err
	}
	return s.Bucket.Delete(ctx, key)
}

func over(answers ...answer) (*store.Store, *scripted) {
	b := &scripted{Bucket: mem.New(), answers: answers}
	return store.New(b, store.Options{Clock: &storetest.Clock{}}), b
}

var (
	exists  = answer{err: store.ErrExists}
	unclear = answer{err: store.ErrUnclear}
	applied = answer{err: store.ErrUnclear, apply: true}
	busy    = answer{err: store.ErrBusy}
	missing = answer{err: store.ErrNotExist}
	truth   = answer{}
	full    = answer{err: fault.New(fault.Full, "Free space.", "disk full")}
)

func TestCreateOnceIsDecidedByTheObjectAlone(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []answer
		held    string // "": an error
		asked   string
	}{
		{"at once", nil, "mine", "create"},
		{"somebody was first", []answer{{before: "other"}}, "other", "create get"},
		{"unclear, not done", []answer{unclear}, "mine", "create create"},
		{"unclear, done", []answer{applied}, "mine", "create create get"},
		{"unclear, then somebody was first", []answer{unclear, {before: "other"}}, "other", "create create get"},
		{"exists, by one's own earlier request", []answer{{err: store.ErrExists, apply: true}}, "mine", "create get"},
		{"exists, but read as absent", []answer{{before: "other"}, missing}, "other", "create get create get"},
		{"exists, and deleted since", []answer{exists}, "mine", "create get create"},
		{"exists, and the read is busy", []answer{{before: "other"}, busy}, "other", "create get create get"},
		{"busy", []answer{busy, busy}, "mine", "create create create"},
		{"full", []answer{full}, "", "create get"},
		{"full, but somebody was first", []answer{{err: full.err, before: "other"}}, "other", "create get"},
		{"unclear, then full", []answer{unclear, full}, "", "create create get"},
		{"unclear and done, then full", []answer{applied, full}, "mine", "create create get"},
		{"full, and the read is busy", []answer{full, busy}, "", "create get"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, b := over(c.answers...)
			held, mine, err := s.CreateOnce(t.Context(), "log/0", []byte("mine"))
			if string(held) != c.held || mine != (c.held == "mine") || (err == nil) != (c.held != "") {
				t.Errorf("holds %q, mine is %v, %v; want %q", held, mine, err, c.held)
			}
			if diff := cmp.Diff(c.asked, strings.Join(b.asked, " ")); diff != "" {
				t.Error(diff)
			}
			if err == nil {
				return
			}
			wasUnclear := c.answers[0].err == store.ErrUnclear
			if fault.KindOf(err) != fault.Full || fault.Hint(err) != "Free space." || errors.Is(err, store.ErrUnclear) != wasUnclear {
				t.Errorf("refused with %v", err)
			}
		})
	}
}

func TestCreateOnceEndsWithItsContext(t *testing.T) {
	why := errors.New("the machine is going away")
	for _, a := range []answer{busy, unclear, {err: store.ErrExists}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := &endless{Bucket: mem.New(), err: a.err, calls: 5, then: func() { cancel(why) }}
		_, mine, err := store.New(b, store.Options{Clock: &storetest.Clock{}}).CreateOnce(ctx, "log/0", []byte("mine"))
		if mine || !errors.Is(err, why) || errors.Is(err, store.ErrUnclear) != (a.err == store.ErrUnclear) {
			t.Errorf("after %v: mine is %v, %v", a.err, mine, err)
		}
	}
}

// endless gives one answer to every create, and calls then after some of them.
type endless struct {
	*mem.Bucket
	err   error
	calls int
	then  func()
}

func (e *endless) Create(context.Context, string, io.ReadSeeker) error {
	if e.calls--; e.calls == 0 {
		e.then()
	}
	return e.err
}

// recording notes how long was slept.
type recording struct {
	storetest.Clock
	slept []time.Duration
}

func (r *recording) Sleep(ctx context.Context, d time.Duration) error {
	r.slept = append(r.slept, d)
	return r.Clock.Sleep(ctx, d)
}

func TestBackOffGrowsToItsLimitAndIsDrawn(t *testing.T) {
	for _, c := range []struct {
		draw byte
		want []time.Duration
	}{
		{0x00, []time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{0xff, nil},
	} {
		clock := &recording{}
		b := &scripted{Bucket: mem.New(), answers: []answer{busy, unclear, busy, busy, busy, busy, busy, busy, busy}}
		s := store.New(b, store.Options{Clock: clock, Rand: constant(c.draw)})
		if err := s.Put(t.Context(), "a", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if len(clock.slept) != 9 {
			t.Errorf("slept %d times", len(clock.slept))
		}
		if c.want != nil {
			if diff := cmp.Diff(c.want, clock.slept); diff != "" {
				t.Error(diff)
			}
		}
		for i, d := range clock.slept {
			if limit := min(50*time.Millisecond<<i, 5*time.Second); d < 0 || d >= limit {
				t.Errorf("pause %d is %v, want less than %v", i, d, limit)
			}
		}
	}
}

type constant byte

func (c constant) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(c)
	}
	return len(p), nil
}

func TestEveryMethodRetriesWhatMayBeRetried(t *testing.T) {
	s, b := over()
	ctx := t.Context()
	for key := range 5 {
		create(t, b.Bucket, fmt.Sprint(key), "x")
	}
	for name, f := range map[string]func() error{
		"put":    func() error { return s.Put(ctx, "0", []byte("x")) },
		"delete": func() error { return s.Delete(ctx, "gone") },
		"get": func() error {
			body, err := s.Get(ctx, "1")
			if err == nil && string(body) != "x" {
				return fmt.Errorf("read %q", body)
			}
			return err
		},
		"open": func() error {
			r, err := s.Open(ctx, "1", 0, 1)
			if err == nil {
				r.Close()
			}
			return err
		},
		"list": func() error {
			n := 0
			for o, err := range s.List(ctx, "") {
				if err != nil {
					return err
				}
				if o.Key != fmt.Sprint(n) {
					return fmt.Errorf("listed %s after %d others", o.Key, n)
				}
				n++
			}
			if n != 5 {
				return fmt.Errorf("listed %d of 5", n)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b.answers = []answer{busy, unclear, busy}
			if err := f(); err != nil {
				t.Errorf("after busy and unclear answers: %v", err)
			}
			b.answers = []answer{busy, full, truth}
			if err := f(); fault.KindOf(err) != fault.Full || len(b.answers) != 1 {
				t.Errorf("after a refusal: %v", err)
			}
		})
	}
}

func TestListStopsWhenItsReaderDoes(t *testing.T) {
	s, b := over()
	for key := range 5 {
		create(t, b.Bucket, fmt.Sprint(key), "x")
	}
	for range s.List(t.Context(), "") {
		break
	}
	if len(b.asked) != 1 {
		t.Errorf("asked for %d pages", len(b.asked))
	}
}

func create(t *testing.T, b store.Bucket, key, body string) {
	t.Helper()
	if err := b.Create(t.Context(), key, bytes.NewReader([]byte(body))); err != nil {
		t.Fatal(err)
	}
}

// bottomless is a bucket of objects that never end. read counts the bytes that were given.
type bottomless struct {
	*mem.Bucket
	read int
}

func (e *bottomless) Get(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return io.NopCloser(e), nil
}

func (e *bottomless) Read(p []byte) (int, error) {
	clear(p)
	e.read += len(p)
	return len(p), nil
}

// cut ends with an error after the first n bytes of a body.
type cut struct {
	store.Bucket
	n int64
}

func (c cut) Get(ctx context.Context, key string, off, _ int64) (io.ReadCloser, error) {
	r, err := c.Bucket.Get(ctx, key, off, c.n)
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(r, iotest.ErrReader(io.ErrUnexpectedEOF)), r}, err
}

func TestAnObjectIsReadWholeOrNotAtAll(t *testing.T) {
	b := mem.New()
	const most = 4 << 20
	for _, size := range []int{0, 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3<<20 + 5, most, most + 1} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(i * i >> 7)
		}
		if err := b.Put(t.Context(), "a/b", bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
		got, err := store.New(b, store.Options{}).GetAtMost(t.Context(), "a/b", most)
		if size > most && !errors.Is(err, store.ErrMalformed) || size <= most && (err != nil || !bytes.Equal(got, body)) {
			t.Errorf("of %d bytes %d came, %v", size, len(got), err)
		}
		for _, n := range []int64{0, int64(size) / 2, int64(size)} {
			if got, err := store.New(cut{b, n}, store.Options{}).GetAtMost(t.Context(), "a/b", most); got != nil || !errors.Is(err, io.ErrUnexpectedEOF) && size <= most {
				t.Errorf("of %d bytes that end with an error after %d came %d, %v", size, n, len(got), err)
			}
		}
	}
}

func TestAnObjectThatIsTooLargeIsNotReadWhole(t *testing.T) {
	e := &bottomless{Bucket: mem.New()}
	if err := e.Create(t.Context(), "a/b", strings.NewReader("another's")); err != nil {
		t.Fatal(err)
	}
	s := store.New(e, store.Options{})
	for doing, c := range map[string]struct {
		most int
		read func() ([]byte, error)
	}{
		"get":         {store.MaxWhole, func() ([]byte, error) { return s.Get(t.Context(), "a/b") }},
		"get at most": {4 << 20, func() ([]byte, error) { return s.GetAtMost(t.Context(), "a/b", 4<<20) }},
		"fixed":       {4 << 20, func() ([]byte, error) { return s.Fixed(t.Context(), "a/b", store.Forever, 4<<20) }},
		"create": {store.MaxWhole, func() ([]byte, error) {
			held, _, err := s.CreateOnce(t.Context(), "a/b", []byte("mine"))
			return held, err
		}},
	} {
		e.read = 0
		body, err := c.read()
		if !errors.Is(err, store.ErrMalformed) || body != nil {
			t.Errorf("%s gives %d bytes and %v", doing, len(body), err)
		}
		if e.read > c.most+1<<20 {
			t.Errorf("%s read %d bytes", doing, e.read)
		}
	}
}
