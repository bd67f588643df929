package ledger

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/option"
)

// bound is what a try is started with beside its code: what an amend may change (J2).
type bound struct {
	limits  job.Limits
	timeout time.Duration
	step    float64
}

func boundOf(s job.Spec) bound { return bound{s.Limits, time.Duration(s.ItemTimeout), s.MemoryStep} }

// boundTale is what binds items, and since when.
type boundTale struct {
	bound
	at time.Duration
}

// setBounds draws whether this world's amends change time limits, limits and the memory
// step, too, and whether some name all settings. It has randomness of its own: worlds
// without stay what they were.
func (s *yard) setBounds() {
	if rng := rand.New(rand.NewPCG(s.seed, 43)); rng.IntN(3) == 0 {
		s.bounds = rng
	}
	if rng := rand.New(rand.NewPCG(s.seed, 47)); s.bounds != nil && rng.IntN(3) == 0 {
		s.retypes = rng
	}
}

// newBound draws which of them an amend changes.
func (s *yard) newBound(a *protocol.Amended) {
	if s.bounds == nil {
		return
	}
	which := 1 + s.bounds.IntN(7)
	if which&1 != 0 {
		d := job.Duration(20*time.Second + time.Duration(s.bounds.Int64N(int64(70*time.Second))))
		a.Timeout = &d
	}
	if which&2 != 0 {
		a.Limits = &job.Limits{Memory: job.Bytes(1+s.bounds.IntN(64)) << 20}
	}
	if which&4 != 0 {
		step := 1 + float64(s.bounds.IntN(8))/4
		a.MemoryStep = &step
	}
}

// retyped is an amend as a command makes it that is typed again with other settings: it
// names all of them, and most are as the job was submitted.
func (s *yard) retyped(id string) protocol.Amended {
	spec := option.Settings(s.tales[id].j.Spec)
	spec.Retries = s.retypes.IntN(4)
	return protocol.Amended{Settings: &spec}
}

// rebound takes in what an amend that counts binds from now on: what it leaves out stays.
func (t *mapTale) rebound(a protocol.Amended) {
	b := t.bounds[len(t.bounds)-1].bound
	if a.Settings != nil { // none of those before binds any more
		b = boundOf(*a.Settings)
		t.s.seen["new settings"]++
	}
	if a.Timeout != nil {
		b.timeout = time.Duration(*a.Timeout)
	}
	if a.Limits != nil {
		b.limits = *a.Limits
	}
	if a.MemoryStep != nil {
		b.step = *a.MemoryStep
	}
	if b != t.bounds[len(t.bounds)-1].bound {
		t.s.seen["new limits"]++
		t.bounds = append(t.bounds, boundTale{b, t.s.now})
	}
}

// boundsSince are those that stood at some moment after one.
func (t *mapTale) boundsSince(at time.Duration) (some []bound) {
	for i, b := range t.bounds {
		if i+1 == len(t.bounds) || t.bounds[i+1].at > at {
			some = append(some, b.bound)
		}
	}
	return some
}

// checkBound is J2: what begins once its agent has read an amend is bound by it.
func (s *yard) checkBound(try *mapTry) {
	t, a := s.tales[try.job], try.agent
	b := bound{a.order.Limits, a.order.Timeout, a.order.Step}
	if known := t.boundsSince(a.heard); !slices.Contains(known, b) {
		s.violate("J2: item %d begins with %+v, and %s has read that it is %+v", try.item, b, a.agent, known)
	}
	if b != t.bounds[0].bound {
		s.seen["began with new limits"]++
	}
}
