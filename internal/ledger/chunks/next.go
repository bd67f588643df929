package chunks

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/unit"
)

// Evidence is what the decision may know of a map beside the job's log.
type Evidence struct {
	// Done says that every chunk was read to its end and is Done; Tally counts their items.
	Done  bool
	Tally job.Tally
	// Failed is how many items are known to have failed for good in this round.
	Failed int
}

// ChunkEvidence is what the decision may know of a chunk beside the logs of job and chunk.
type ChunkEvidence struct {
	Death func(agent string) liveness.Death
	// StopAge is how long ago the observer first read the job's stop entry, on
	// a clock that goes on while the machine sleeps.
	StopAge time.Duration
}

// Step is what any process that sees a map in this state should append next. Nothing set
// means: nothing to do but wait.
type Step struct {
	Fail   *protocol.Stop // append `failing`
	Settle *protocol.Settled
}

// Next decides what follows for the whole job from what is written. It is pure: engine and
// agents both call it, and two callers with the same evidence get the same.
func (m *Map) Next(ev Evidence) Step {
	if m.Settled != nil {
		return Step{}
	}
	if ev.Done {
		return Step{Settle: m.verdict(ev.Tally)}
	}
	if limit, limited := m.Spec.FailLimit(m.Items()); limited && ev.Failed > limit && m.Stop == nil {
		return Step{Fail: &protocol.Stop{Code: fault.ExitItems, Reason: fmt.Sprintf("%s items failed, at most %s may", unit.Comma(ev.Failed), mostFails(m.Spec.MaxFails))}}
	}
	return Step{}
}

// verdict settles a map after all its chunks are done.
func (m *Map) verdict(t job.Tally) *protocol.Settled {
	s := &protocol.Settled{State: job.Succeeded, Tally: &t, Submission: m.Place}
	bad := t.Failed + t.Quarantined
	switch {
	case m.Stop != nil && m.Failing:
		s.State, s.Code, s.Reason = job.Failed, fault.ExitDrover, m.Stop.Reason
	case m.Stop != nil:
		s.State, s.Code, s.Reason = job.Cancelled, fault.ExitInterrupted, "cancelled"
		if m.Stop.Reason != "" {
			s.Reason = m.Stop.Reason
		}
	case bad > 0:
		s.State, s.Code, s.Reason = job.Failed, fault.ExitItems, fmt.Sprintf("%s of %s items failed", unit.Comma(bad), unit.Comma(t.Items))
	}
	if m.Stop != nil && m.Stop.Code != 0 {
		s.Code = m.Stop.Code
	}
	return s
}

// mostFails is the limit in words: a number, or percent as they were typed.
func mostFails(text string) string {
	if n, err := strconv.Atoi(text); err == nil {
		return unit.Comma(n)
	}
	return text
}

// NextOf decides what follows for one chunk: what any process that sees it so should append
// to its log, as the job's log asks for it (E2, M4). ok is false while there is nothing, or
// while it is for the chunk's owner to append. What runs may end after a drain, so a living
// owner is waited for then. It is pure, as Next is.
func (m *Map) NextOf(c *Chunk, ev ChunkEvidence) (e protocol.ChunkEntry, ok bool) {
	switch {
	case m.Settled != nil || m.Done(c):
		return e, false
	case m.Stop != nil && c.Mark > m.StopAt:
		return e, false
	case m.Stop != nil:
		_, free := c.Free(ev.Death)
		e.Ended = &protocol.Ended{By: m.StopAt}
		return e, c.Closed || free || !m.Stop.Drain && ev.StopAge >= protocol.StopGrace
	case c.Closed:
		items, by := m.pendingItems(c)
		e.Again = &protocol.Again{By: by, Items: protocol.SpansOf(items)}
		return e, true
	}
	return e, false
}

// Done says that nothing more can come of a chunk in this round.
func (m *Map) Done(c *Chunk) bool {
	if !c.Closed {
		return false
	}
	items, _ := m.pendingItems(c)
	return len(items) == 0
}

// pendingItems are the items that reopens of the job select in a closed chunk, and the
// newest of these (M4); none when nothing is selected.
func (m *Map) pendingItems(c *Chunk) (items []int, by int) {
	if !c.Closed {
		return nil, 0
	}
	return m.selectedItems(c)
}

// selectedItems are the items of a chunk, closed or not, that reopens select as they stand.
func (m *Map) selectedItems(c *Chunk) (items []int, by int) {
	for _, r := range m.Reopened {
		if r.N > c.Mark {
			by = r.N
		}
	}
	if by == 0 || c.Tally.Succeeded == c.Tally.Items || c.States == nil {
		return nil, 0
	}
	// This is asked of every chunk again and again, and few of its items matter.
	var chosen [len(itemStates)]bool
	for s, state := range itemStates {
		chosen[s] = slices.ContainsFunc(m.Reopened, func(r Numbered[protocol.Reopened]) bool { return r.Fact.TakesState(state) })
	}
	place := -1
	for item := range c.Items.All {
		if place++; !chosen[c.States[place]] {
			continue
		}
		state := itemStates[c.States[place]]
		for _, r := range m.Reopened {
			if r.N > c.Mark && r.Fact.SelectsItem(item, state) {
				items = append(items, item)
				break
			}
		}
	}
	return items, by
}
