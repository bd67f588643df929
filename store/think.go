package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/drover-run/drover/fault"
)

// The pauses between two requests for the same thing: full jitter, doubled from the first
// step to the last. The last one is shorter than the 15 s of a heartbeat (rule D2 of
// docs/protocol.md), so that a store which did not answer is reached again in time.
const (
	firstStep = 50 * time.Millisecond
	lastStep  = 5 * time.Second
)

// pageSize is how many objects List asks for at once. A folder is read anew for
// every page, so pages are large; S3 cuts them to 1,000 itself.
const pageSize = 10_000

// Options replace parts of a Store for tests. All other code uses the zero value.
type Options struct {
	Clock Clock     // nil: System
	Rand  io.Reader // for back-off and probe keys; nil: crypto/rand
}

// Store adds retries and checks to a Bucket. Its methods may be called from many goroutines.
// Each of them retries what may be retried until its ctx is done; none has a time limit of
// its own.
type Store struct {
	bucket Bucket
	clock  Clock
	mu     sync.Mutex // rand need not be safe for many goroutines
	rand   io.Reader
	known  memory

	contact contact
}

// New makes a Store over b. It sends nothing; see Probe.
func New(b Bucket, o Options) *Store {
	if o.Clock == nil {
		o.Clock = System
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	return &Store{bucket: b, clock: o.Clock, rand: o.Rand}
}

// String names the store as a user would type it after --store.
func (s *Store) String() string { return s.bucket.String() }

// Clock is the clock with which this store waits.
func (s *Store) Clock() Clock { return s.clock }

// CreateOnce is rule L1 of docs/protocol.md: it sends body to key until key holds an object,
// and returns what key holds and whether that is body. Callers put a nonce into body, so that
// equal bytes are their own. The answer to a write decides nothing: only the object does.
//
// A definite refusal (disk full, not allowed) is returned, unless the key turns out to hold an
// object. If an earlier answer of this call was unclear, the error wraps ErrUnclear too: body
// may still appear under key.
func (s *Store) CreateOnce(ctx context.Context, key string, body []byte) (held []byte, mine bool, err error) {
	unclear := false
	asked := s.beginRequest(false)
	defer asked.endRequest()
	for try := 0; ; try++ {
		err = s.bucket.Create(ctx, key, bytes.NewReader(body))
		asked.recordAnswer(ctx, err)
		if err == nil {
			return body, true, nil
		}
		unclear = unclear || errors.Is(err, ErrUnclear)
		again := mayRetry(err)
		if !again {
			held, e := s.readOnce(ctx, key, MaxWhole)
			if e == nil {
				return held, bytes.Equal(held, body), nil
			}
			// ErrExists, and yet absent: one of the two answers is stale.
			if errors.Is(err, ErrExists) {
				err, again = e, mayRetry(e) || errors.Is(e, ErrNotExist)
			}
		}
		if again {
			stop := s.pauseBeforeTry(ctx, try)
			if stop == nil {
				continue
			}
			err = fmt.Errorf("create %s in %s: %w (last answer: %v)", key, s, stop, err)
		}
		if unclear && !errors.Is(err, ErrUnclear) {
			err = fmt.Errorf("%w (an earlier request for it: %w)", err, ErrUnclear)
		}
		return nil, false, err
	}
}

// Put writes a hint, and replaces what key held. It tries again after an unclear or busy
// answer; an older Put may still take effect after it.
func (s *Store) Put(ctx context.Context, key string, body []byte) error {
	return s.retryRequest(ctx, "put", key, func() error {
		return s.bucket.Put(ctx, key, bytes.NewReader(body))
	})
}

// Get reads the whole object. ErrNotExist if it is absent, ErrMalformed if it is larger
// than MaxWhole.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.GetAtMost(ctx, key, MaxWhole)
}

// GetAtMost is Get of an object that has at most most bytes, and reads no more into memory:
// a larger one is ErrMalformed. most is at most MaxWhole.
func (s *Store) GetAtMost(ctx context.Context, key string, most int) (body []byte, err error) {
	err = s.retryRequest(ctx, "get", key, func() (err error) {
		body, err = s.readOnce(ctx, key, most)
		return err
	})
	return body, err
}

// Open reads n bytes of key from off, as Bucket.Get does; n < 0 is all the rest. It retries
// the opening, and not the reading. The caller closes.
func (s *Store) Open(ctx context.Context, key string, off, n int64) (r io.ReadCloser, err error) {
	err = s.retryWithBody(ctx, "open", key, true, func() (err error) {
		r, err = s.bucket.Get(ctx, key, off, n)
		return err
	})
	return r, err
}

// List gives the objects with keys that begin with prefix, in byte order of their keys, page
// by page. It ends after the first error. It only says where to look (rule L6 of
// docs/protocol.md).
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return s.ListBy(ctx, prefix, pageSize)
}

// ListBy is List with pages of size objects: small ones for a caller that begins to work with
// the first of them.
func (s *Store) ListBy(ctx context.Context, prefix string, size int) iter.Seq2[Object, error] {
	return s.ListAfter(ctx, prefix, "", size)
}

// ListAfter is ListBy of the objects with keys after one key, which need not exist.
func (s *Store) ListAfter(ctx context.Context, prefix, after string, size int) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		after := after
		for {
			var page []Object
			var more bool
			err := s.retryRequest(ctx, "list", prefix, func() (err error) {
				page, more, err = s.bucket.List(ctx, prefix, after, size)
				return err
			})
			if err != nil {
				yield(Object{}, err)
				return
			}
			for _, o := range page {
				if !yield(o, nil) {
					return
				}
				after = o.Key
			}
			if !more || len(page) == 0 {
				return
			}
		}
	}
}

// Delete removes key; an absent key is not an error.
func (s *Store) Delete(ctx context.Context, key string) error {
	defer s.known.forgetKey(key) // afterwards: another goroutine may just have read it
	return s.retryRequest(ctx, "delete", key, func() error { return s.bucket.Delete(ctx, key) })
}

// readOnce is one request for a whole object of at most most bytes.
func (s *Store) readOnce(ctx context.Context, key string, most int) ([]byte, error) {
	r, err := s.bucket.Get(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	body, err := readAtMost(r, most)
	if errors.Is(err, errTooLarge) {
		err = fault.Wrap(ErrMalformed, fault.Bug, "", "get %s from %s: it is larger than %d MiB", key, s, most>>20)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// readPiece is how many bytes of a large object are read at a time: more than almost all
// objects have that are read whole.
const readPiece = 1 << 20

var errTooLarge = errors.New("too large")

// readAtMost reads all of r; the error is errTooLarge for more than most bytes. It keeps the
// pieces apart until it knows the size: a growing slice would leave several times the
// object's size as garbage.
func readAtMost(r io.Reader, most int) ([]byte, error) {
	r = io.LimitReader(r, int64(most)+1)
	body, err := io.ReadAll(io.LimitReader(r, readPiece))
	if err != nil || len(body) < readPiece {
		if len(body) > most {
			return nil, errTooLarge
		}
		return body, err
	}
	pieces, size := [][]byte{body}, len(body)
	for last := readPiece; last == readPiece; {
		piece := bytes.NewBuffer(make([]byte, 0, readPiece+bytes.MinRead)) // it grows no more
		if _, err := piece.ReadFrom(io.LimitReader(r, readPiece)); err != nil {
			return nil, err
		}
		last = piece.Len()
		pieces, size = append(pieces, piece.Bytes()), size+last
	}
	if size > most {
		return nil, errTooLarge
	}
	return bytes.Join(pieces, nil), nil
}

func mayRetry(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrUnclear)
}

// retryRequest calls f until its answer is neither busy nor unclear, or ctx is done: then the
// error holds both the cause and the last answer.
func (s *Store) retryRequest(ctx context.Context, doing, key string, f func() error) error {
	return s.retryWithBody(ctx, doing, key, false, f)
}

// retryWithBody is retryRequest; large says that f may send or read a large body.
func (s *Store) retryWithBody(ctx context.Context, doing, key string, large bool, f func() error) error {
	asked := s.beginRequest(large)
	defer asked.endRequest()
	for try := 0; ; try++ {
		err := f()
		asked.recordAnswer(ctx, err)
		if err == nil || !mayRetry(err) {
			return err
		}
		if stop := s.pauseBeforeTry(ctx, try); stop != nil {
			return fmt.Errorf("%s %s in %s: %w (last answer: %w)", doing, key, s, stop, err)
		}
	}
}

// pauseBeforeTry waits before the next try; it returns the cause if ctx is done.
func (s *Store) pauseBeforeTry(ctx context.Context, try int) error {
	step := lastStep
	if try < 7 { // 50 ms << 7 is above 5 s
		step = min(firstStep<<try, lastStep)
	}
	var b [8]byte
	s.mu.Lock()
	_, err := io.ReadFull(s.rand, b[:])
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("draw a random number: %w", err)
	}
	return s.clock.Sleep(ctx, time.Duration(binary.LittleEndian.Uint64(b[:])%uint64(step)))
}
