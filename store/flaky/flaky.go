// Package flaky is a store with every fault that a real one may have, and no other: it delays,
// loses requests and replies, lets writes take effect late, answers ErrExists to one's own
// write, answers from old knowledge, and fills up.
//
// It is deterministic: what goes wrong follows from Plan.Rand and the order of the calls
// alone. It starts no goroutine, knows no time but Plan.Clock's, and does not depend on the
// order of a map. It refuses to know what the objects mean.
//
// storetest proves that it is a good bucket without faults, and flaky_test.go that store.Store
// keeps its promises over one with faults.
package flaky

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/drover-run/drover/store"
)

// Plan says what goes wrong and how often: each probability is per request, from 0 (never) to
// 1 (always). Those that end a request are drawn in the order in which they stand here. The
// zero Plan needs no Rand and has no faults.
type Plan struct {
	Rand  func(n int) int // uniform in [0, n)
	Clock store.Clock     // nil: store.System

	Delay    float64       // before a request, and again before its answer
	MaxDelay time.Duration // a delay is uniform below it

	Busy        float64 // not done, ErrBusy: 503
	LoseRequest float64 // not done, ErrUnclear; a read: ErrBusy
	LoseReply   float64 // done, ErrUnclear; a read: ErrBusy
	Conflict    float64 // Create: not done, ErrUnclear: 409
	Late        float64 // Create and Put: ErrUnclear, done during a later call or Flush
	Echo        float64 // Create: done, ErrExists: the client library sent it twice, 412
	FailSync    float64 // Create: done or not, ErrUnclear: a folder's failed fsync

	Room int64 // bytes that fit until fault.Full; 0: no limit; see Free

	ShortList   float64 // List: the end of the listing is missing, and more is false
	StaleList   float64 // List: some objects are missing
	StaleAbsent float64 // Get: absent, if it was absent for this handle within Absence
	Absence     time.Duration
	Corrupt     float64 // Get: one byte is wrong
}

// Bucket does what a Plan says over another bucket. It is one handle: a client with its own
// memory of what was absent and its own requests under way. Many handles may be over one
// bucket; each may be used by many goroutines.
type Bucket struct {
	bucket store.Bucket
	clock  store.Clock

	mu     sync.Mutex // never held during a call of bucket or a sleep
	plan   Plan
	used   int64
	late   []request
	absent map[string]map[string]time.Duration // folder, key: when it was last truly absent
	counts map[string]int
}

// request is a write under way.
type request struct {
	create bool
	key    string
	body   []byte
}

var _ store.Bucket = (*Bucket)(nil)

// New makes a handle on b that follows plan.
func New(b store.Bucket, plan Plan) *Bucket {
	if plan.Clock == nil {
		plan.Clock = store.System
	}
	return &Bucket{
		bucket: b,
		clock:  plan.Clock,
		plan:   plan,
		absent: make(map[string]map[string]time.Duration),
		counts: make(map[string]int),
	}
}

// String names the bucket below.
func (b *Bucket) String() string { return b.bucket.String() }

// Calm ends all faults from now on. Writes under way still take effect during later calls.
func (b *Bucket) Calm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plan = Plan{Rand: b.plan.Rand}
	clear(b.absent)
}

// Free empties the disk: Room bytes fit again.
func (b *Bucket) Free() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = 0
}

// Flush makes every write under way take effect now, as far as the bucket below accepts it.
func (b *Bucket) Flush(ctx context.Context) { b.applyLateWrites(ctx, true) }

// Counts says how often each fault has happened, by the name of its field in Plan; "Landed"
// and "Refused" count how late writes ended.
func (b *Bucket) Counts() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.counts)
}

// Create implements store.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.writeObject(ctx, "create", key, body)
}

// Put implements store.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.writeObject(ctx, "put", key, body)
}

func (b *Bucket) writeObject(ctx context.Context, doing, key string, body io.ReadSeeker) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if err := b.delayRequest(ctx); err != nil {
		return err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("%s %s in %s: %w", doing, key, b, err)
	}
	r := request{create: doing == "create", key: key, body: content}
	v := b.judgeWrite(r)
	if v.reach {
		err = b.passWriteOn(ctx, r)
	}
	if v.err != nil && (err == nil || v.always) {
		err = fmt.Errorf("%s %s in %s: %s: %w", doing, key, b, v.name, v.err)
	}
	if stop := b.delayOnce(ctx); stop != nil {
		// The answer came after ctx was done.
		return fmt.Errorf("%s %s in %s: %w: %w", doing, key, b, stop, store.ErrUnclear)
	}
	return err
}

// passWriteOn passes a write on. On NFS a client that has changed a folder asks the
// server again about the names in it.
func (b *Bucket) passWriteOn(ctx context.Context, r request) error {
	b.mu.Lock()
	delete(b.absent, folder(r.key))
	b.mu.Unlock()
	if r.create {
		return b.bucket.Create(ctx, r.key, bytes.NewReader(r.body))
	}
	return b.bucket.Put(ctx, r.key, bytes.NewReader(r.body))
}

// Get implements store.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, err
	}
	if err := b.delayRequest(ctx); err != nil {
		return nil, err
	}
	if err := b.readLoss("get " + key + " from "); err != nil {
		return nil, err
	}
	if b.believesAbsent(key) {
		return nil, fmt.Errorf("get %s from %s: %w", key, b, store.ErrNotExist)
	}
	asked := b.clock.Boot()
	r, err := b.bucket.Get(ctx, key, off, n)
	b.rememberAbsent(key, asked, err)
	if stop := b.delayOnce(ctx); stop != nil {
		if err == nil {
			r.Close()
		}
		return nil, stop
	}
	if err != nil {
		return nil, err
	}
	return b.corruptByte(r)
}

// List implements store.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	if err := b.delayRequest(ctx); err != nil {
		return nil, false, err
	}
	if err := b.readLoss("list " + prefix + " in "); err != nil {
		return nil, false, err
	}
	page, more, err := b.bucket.List(ctx, prefix, after, limit)
	if stop := b.delayOnce(ctx); stop != nil {
		return nil, false, stop
	}
	if err != nil {
		return nil, false, err
	}
	page, more = b.shortenPage(page, more)
	return page, more, nil
}

// Delete implements store.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if err := b.delayRequest(ctx); err != nil {
		return err
	}
	v := b.judgeDelete()
	var err error
	if v.reach {
		b.mu.Lock()
		delete(b.absent, folder(key))
		b.mu.Unlock()
		err = b.bucket.Delete(ctx, key)
	}
	if v.err != nil && err == nil {
		err = fmt.Errorf("delete %s in %s: %s: %w", key, b, v.name, v.err)
	}
	if stop := b.delayOnce(ctx); stop != nil {
		return fmt.Errorf("delete %s in %s: %w: %w", key, b, stop, store.ErrUnclear)
	}
	return err
}
