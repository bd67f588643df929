package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// Tests that planted faults asked for: docs/design/012-planted-faults.md.

// What a job is compared with, and shown as, has each setting as it binds now (J2).
func TestTheSettingsThatBindAreThoseOfTheNewestAmend(t *testing.T) {
	t.Parallel()
	spec := job.Spec{Verb: job.Map}
	spec.Limits, spec.ItemTimeout, spec.Retries, spec.RetryOn, spec.MemoryStep = job.Limits{CPUs: 1}, job.Duration(time.Second), 1, job.RetryOn{"1"}, 1.5
	limits, timeout, retries, on, step := job.Limits{CPUs: 2}, job.Duration(time.Minute), 2, job.RetryOn{"2"}, 2.5
	m := chunks.NewMap(job.Job{Spec: spec})
	if diff := cmp.Diff(spec, m.Bound()); diff != "" {
		t.Errorf("nothing was amended:\n%s", diff)
	}
	m.Fold(protocol.JobEntry{Amended: &protocol.Amended{Limits: &limits, Timeout: &timeout, Retries: &retries, RetryOn: &on, MemoryStep: &step}})
	spec.Limits, spec.ItemTimeout, spec.Retries, spec.RetryOn, spec.MemoryStep = limits, timeout, retries, on, step
	if diff := cmp.Diff(spec, m.Bound()); diff != "" {
		t.Errorf("all of it was amended:\n%s", diff)
	}
}

// A round that does not count amends nothing: its facts stand or fall together (L4).
func TestARoundThatDoesNotCountAmendsNothing(t *testing.T) {
	t.Parallel()
	three := 3
	amend := &protocol.Amended{Retries: &three}
	stop := protocol.JobEntry{Cancelled: &protocol.Stop{}}
	for name, e := range map[string]protocol.JobEntry{
		"reopened": {Reopened: &protocol.Reopened{}, Amended: amend},
		"extended": {Extended: &protocol.Extended{Manifest: job.Manifest{Count: 5}, First: 11, Size: 2}, Amended: amend},
	} {
		for _, stopped := range []bool{false, true} {
			m := chunks.NewMap(job.Job{Manifest: job.Manifest{Count: 10}, ChunkSize: 4})
			if stopped {
				m.Fold(stop)
			}
			if m.Fold(e); (m.Retries() == 3) == stopped {
				t.Errorf("%s, stopped %t: %d retries", name, stopped, m.Retries())
			}
		}
	}
}

// The number of a try counts all tries before it: those that failed, were interrupted or
// ended with their agent (M13).
func TestATryIsNumberedAfterAllBeforeIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.mapJob(4, 4, func(s *job.Spec) { s.Retries = 5 })
	released := wrote("1-0-a", 1, protocol.Result{Item: 1, Failed: true, Code: 1})
	released.Released = &protocol.Released{Flight: []int{1, 2}}
	m := mapagent.NewMapMember(d.World, j, "1-1-b", protocol.Host{}, mapagent.MapOptions{Slots: 2, Near: true})
	for n, e := range []protocol.ChunkEntry{claimedBy("1-0-a", 1, protocol.Untouched), released} {
		e.V, e.Nonce, e.At = protocol.Format, d.NewNonce(), d.clock.Now()
		d.create(m.Inventory.EntryKey(&chunks.Chunk{ID: "000000"}, n), e)
	}
	m.Ready()
	_, err := m.Poll(t.Context())
	d.check(err)
	h, err := m.Seek(t.Context())
	if d.check(err); h == nil {
		t.Fatal("it claims nothing")
	}
	for item, want := range []int{3, 2, 1, 1} {
		if try, ok := h.Next(); !ok || try.Item != item+1 || try.N != want {
			t.Errorf("try %+v, %t; want number %d of item %d", try, ok, want, item+1)
		}
	}
}

// When all but a few items have ended, results wait for the entry that ends the chunk: up
// to an eighth more than an entry has else, and no further (M9).
func TestTheEndOfAChunkTakesAnEighthMore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		printed int // bytes, by each of 98 items
		waits   bool
	}{{2600, true}, {2900, true}, {3000, false}, {3200, false}} {
		d := newDesk(t)
		j := d.mapJob(100, 100, nil)
		m := mapagent.NewMapMember(d.World, j, "1-0-a", protocol.Host{}, mapagent.MapOptions{Slots: 100})
		m.Ready()
		_, err := m.Poll(t.Context())
		d.check(err)
		h, err := m.Seek(t.Context())
		d.check(err)
		for range 100 {
			if _, ok := h.Next(); !ok {
				t.Fatal("an item does not begin")
			}
		}
		for item := 1; item <= 98; item++ {
			h.Done(protocol.Result{Item: item, Head: strings.Repeat("x", c.printed)})
		}
		if waits := h.Due() > 0; waits != c.waits {
			t.Errorf("98 results of %d bytes each wait: %t", c.printed, waits)
		}
	}
}
