package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// overwriting ignores create-if-absent, as servers do that do not know
// If-None-Match.
type overwriting struct{ *mem.Bucket }

func (o overwriting) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return o.Put(ctx, key, body)
}

// lying says "exists", and overwrites.
type lying struct{ *mem.Bucket }

func (l lying) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	r, err := l.Get(ctx, key, 0, 1)
	if err == nil {
		r.Close()
		err = store.ErrExists
	} else {
		err = nil
	}
	return errors.Join(err, l.Put(ctx, key, body))
}

// hiding does not show what was written.
type hiding struct{ *mem.Bucket }

func (h hiding) Get(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, store.ErrNotExist
}

// looking reads first and writes then: a writer in between wins too.
type looking struct {
	*mem.Bucket
	mu     sync.Mutex
	inside map[string]int
}

func (l *looking) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside[key]++
	if l.inside[key] <= 2 {
		return l.Put(ctx, key, body)
	}
	return l.Bucket.Create(ctx, key, body)
}

// closed allows nothing.
type closed struct{ *mem.Bucket }

func (closed) Create(context.Context, string, io.ReadSeeker) error {
	return fault.New(fault.Denied, "Get s3:PutObject.", "create: access denied")
}

// listless can be written and read, and not listed, as where a policy forgot it.
type listless struct{ *mem.Bucket }

func (listless) List(context.Context, string, string, int) ([]store.Object, bool, error) {
	return nil, false, fault.New(fault.Denied, "Get s3:ListBucket.", "list: access denied")
}

func TestProbeRefusesAStoreThatBreaksThePromises(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(m *mem.Bucket) store.Bucket
		why  string
	}{
		{"overwriting", func(m *mem.Bucket) store.Bucket { return overwriting{m} }, "create-if-absent replaced an object"},
		{"lying", func(m *mem.Bucket) store.Bucket { return lying{m} }, "an object changed after it was written"},
		{"hiding", func(m *mem.Bucket) store.Bucket { return hiding{m} }, "an object that was just written is not shown"},
		{"looking", func(m *mem.Bucket) store.Bucket { return &looking{Bucket: m, inside: map[string]int{}} }, "2 of 4 writers of one object were told that it is theirs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mem.New()
			err := store.New(c.make(m), store.Options{Clock: &storetest.Clock{}}).Probe(t.Context())
			if fault.KindOf(err) != fault.Invalid || fmt.Sprint(err) != "probe store mem:: "+c.why || fault.Hint(err) == "" {
				t.Errorf("probed: %v", err)
			}
			empty(t, m)
		})
	}
}

func TestProbeOfAGoodStoreLeavesNothing(t *testing.T) {
	m := mem.New()
	s := store.New(m, store.Options{})
	for range 20 {
		if err := s.Probe(t.Context()); err != nil {
			t.Error(err)
		}
	}
	empty(t, m)
}

func TestProbePassesARefusalOn(t *testing.T) {
	for bucket, hint := range map[store.Bucket]string{closed{mem.New()}: "Get s3:PutObject.", listless{mem.New()}: "Get s3:ListBucket."} {
		err := store.New(bucket, store.Options{}).Probe(t.Context())
		if fault.KindOf(err) != fault.Denied || fault.Hint(err) != hint {
			t.Errorf("probed: %v", err)
		}
	}
}

func empty(t *testing.T, m *mem.Bucket) {
	t.Helper()
	if left, _, err := m.List(t.Context(), "", "", 10); len(left) != 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
