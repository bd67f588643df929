package verify

import (
	"fmt"
	"slices"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// rounds is the fold of a map's log: what was asked for, and how each round of the
// job was settled.
type rounds struct {
	v *verifier

	lists   []list              // the manifest's items, then those of extensions
	reopens []reopen            // those that count
	n       int                 // entries folded
	places  []report.VerifyNote // entries that began or declined a round, and in Item its place
	stops   map[int]bool        // numbers of the `cancelled` and `failing` that count
	settled []round             // in order
	// Retries bind the items started by agents that have read them (J2), so any of
	// those that ever stood may have bound one: the least and the most.
	fewest, most int
	// rules are those of retry that ever stood, for the same reason; told is that a
	// program may say itself that a failure is final.
	rules []job.RetryOn
	told  bool

	// Of the round that is open:
	place   int // of the task's log; 0 of the first
	stop    *protocol.Stop
	failing bool
	over    bool // it has settled
	spoken  int  // the highest place that is settled for; -1: none
}

// list is items that came together, and the chunks they make (M7).
type list struct {
	ext         int // number of the `extended`; 0: the manifest
	first, size int
	m           job.Manifest
}

func (l list) chunkCount() int { return (l.m.Count + l.size - 1) / l.size }

// reopen is a `reopened` that counts.
type reopen struct {
	n int
	protocol.Reopened
}

// round is one `settled` that ended a round, and what is recomputed for it.
type round struct {
	at      int // its number
	by      string
	said    protocol.Settled
	stop    *protocol.Stop
	failing bool
	items   int       // of the job by then
	tally   job.Tally // of all chunks, as they stood then
	early   bool      // not all of them had ended, which was said
}

func newRounds(v *verifier) *rounds {
	r := v.j.Spec.Retries
	return &rounds{v: v, lists: []list{{first: 1, size: v.j.ChunkSize, m: v.j.Manifest}}, stops: map[int]bool{},
		fewest: r, most: r, rules: []job.RetryOn{v.j.Spec.RetryOn}, told: v.j.Spec.Stream, spoken: -1}
}

func (r *rounds) itemCount() (n int) {
	for _, l := range r.lists {
		n += l.m.Count
	}
	return n
}

func (r *rounds) isReopening(n int) bool {
	return slices.ContainsFunc(r.reopens, func(x reopen) bool { return x.n == n })
}

// foldEntry folds an entry: facts of one entry in the order in which they are decided (L4).
func (r *rounds) foldEntry(n int, e protocol.JobEntry, foreign bool) {
	r.n = n + 1
	round := e.Extended != nil || e.Reopened != nil // which may amend, too
	one := count(e.Placed != nil, e.Amended != nil && !round, e.Paused != nil, e.Resumed != nil, e.Gone != nil, e.Drained != nil,
		e.Cancelled != nil, e.Failing != nil, e.Settled != nil, round)
	if foreign || e.Attempt != nil || one != 1 {
		r.v.addFinding(RuleEntry, report.VerifyNote{Log: "job", Entry: n, By: e.By, Why: "it is empty, or holds a fact that does not belong in the log of a map"})
		return
	}
	if n == 0 && (e.Cancelled != nil || e.Failing != nil || e.Extended != nil || e.Reopened != nil) {
		r.addFinding(RuleEntry, n, e, "it begins the log, and chunks must name what follows from it: 0 is not a number to name")
	}
	if e.Reopened != nil && !r.foldReopened(n, e) {
		return
	}
	if a := e.Amended; a != nil && a.Settings != nil {
		r.fewest, r.most = min(r.fewest, a.Settings.Retries), max(r.most, a.Settings.Retries)
		r.rules = append(r.rules, a.Settings.RetryOn)
	}
	if a := e.Amended; a != nil && a.Retries != nil {
		r.fewest, r.most = min(r.fewest, *a.Retries), max(r.most, *a.Retries)
	}
	if a := e.Amended; a != nil && a.RetryOn != nil {
		r.rules = append(r.rules, *a.RetryOn)
	}
	switch {
	case e.Extended != nil:
		r.foldExtended(n, e)
	case e.Drained != nil && e.Drained.Agent == "":
		r.addNote(n, e, "it drains an agent without naming one")
	case e.Placed != nil && r.over:
		r.addNote(n, e, "it requests agents after the job had ended")
	case e.Cancelled != nil || e.Failing != nil:
		r.foldStop(n, e)
	case e.Settled != nil:
		r.foldSettled(n, e)
	}
}

// endsItem says whether a failure may be final although retries are left.
func (r *rounds) endsItem(x protocol.Result) bool {
	return r.told || slices.ContainsFunc(r.rules, func(on job.RetryOn) bool { return !on.Matches(x.Code, x.Signal, x.Kind) })
}

// endsAlways says whether every rule that ever stood makes a failure final.
func (r *rounds) endsAlways(x protocol.Result) bool {
	return !slices.ContainsFunc(r.rules, func(on job.RetryOn) bool { return on.Matches(x.Code, x.Signal, x.Kind) })
}

func (r *rounds) addNote(n int, e protocol.JobEntry, why string, args ...any) {
	r.v.addNote(report.VerifyNote{Log: "job", Entry: n, By: e.By, Why: fmt.Sprintf(why, args...)})
}

func (r *rounds) addFinding(rule Rule, n int, e protocol.JobEntry, why string, args ...any) {
	r.v.addFinding(rule, report.VerifyNote{Log: "job", Entry: n, By: e.By, Why: fmt.Sprintf(why, args...)})
}

// checkPlaces sees that the task's log has submitted the job again wherever a round
// began or was declined (T2). That log was read to its end after the job's.
func (r *rounds) checkPlaces() {
	for _, x := range r.places {
		if place := x.Item; !r.v.task.broken && !r.v.task.wasResubmitted(place) {
			x.Item, x.Why = 0, fmt.Sprintf("it is for entry %d of the task's log, which does not submit the job again", place)
			r.v.addFinding(RuleTask, x)
		}
	}
}

// foldStop is the lower number (E1): a later stop, or one after the end, does not count.
// But an agent that has let items end may have them ended (E2); chunks name the entry that
// stopped the job all the same.
func (r *rounds) foldStop(n int, e protocol.JobEntry) {
	if !r.over && r.stop != nil && r.stop.Drain && e.Cancelled != nil && !e.Cancelled.Drain {
		r.stop = e.Cancelled
		return
	}
	if r.over || r.stop != nil {
		r.addNote(n, e, "it stops the job, which was stopped or had ended")
		return
	}
	r.stops[n] = true
	r.stop, r.failing = e.Cancelled, false
	if e.Failing != nil {
		r.stop, r.failing = e.Failing, true
	}
}

// foldExtended is E4. An extension's items follow those that the job has.
func (r *rounds) foldExtended(n int, e protocol.JobEntry) {
	x := *e.Extended
	switch {
	case r.over || r.stop != nil:
		r.addNote(n, e, "it adds items to a job that was stopped or had ended")
	case x.First != r.itemCount()+1 || x.Size < 1 || x.Manifest.Count < 1 || x.Manifest.Count > maxItems:
		r.addFinding(RuleManifest, n, e, "it adds items %d to %d in chunks of %d, and the job has %d", x.First, x.First+x.Manifest.Count-1, x.Size, r.itemCount())
	default:
		r.lists = append(r.lists, list{ext: n, first: x.First, size: x.Size, m: x.Manifest})
	}
}

// foldReopened begins a new round of a job that has settled, for a place of the task's log
// that is not settled for (T2); in a live one it selects more. After a stop it
// would have had to wait (E4).
func (r *rounds) foldReopened(n int, e protocol.JobEntry) bool {
	x := *e.Reopened
	switch {
	case !r.over && r.stop != nil:
		r.addNote(n, e, "it has items run again of a job that was stopped and had not ended")
		return false
	case r.over && x.Submission <= r.spoken:
		r.addNote(n, e, "it has items run again for entry %d of the task's log, for which the job had ended", x.Submission)
		return false
	case r.over:
		r.places = append(r.places, report.VerifyNote{Log: "job", Entry: n, By: e.By, Item: x.Submission})
		r.over, r.stop, r.failing, r.place = false, nil, false, x.Submission
	}
	r.reopens = append(r.reopens, reopen{n, x})
	return true
}

// foldSettled ends a round, or declines a later place for a job that has settled (T2).
func (r *rounds) foldSettled(n int, e protocol.JobEntry) {
	s := *e.Settled
	switch {
	case r.over && s.Submission <= r.spoken:
		r.addNote(n, e, "it ends the job, which had ended")
		return
	case r.over:
		r.spoken = s.Submission
		r.places = append(r.places, report.VerifyNote{Log: "job", Entry: n, By: e.By, Item: s.Submission})
		last := r.settled[len(r.settled)-1].said
		if s.State != last.State || s.Tally == nil || last.Tally == nil || *s.Tally != *last.Tally {
			r.addFinding(RuleSettled, n, e, "it ends the job again with another outcome")
		}
		return
	case s.Submission != r.place:
		r.addNote(n, e, "it ends the job for entry %d of the task's log, and this round is for entry %d", s.Submission, r.place)
		return
	}
	r.over, r.spoken = true, s.Submission
	r.settled = append(r.settled, round{at: n, by: e.By, said: s, stop: r.stop, failing: r.failing, items: r.itemCount()})
}

// settledFor says whether the log has settled the job for a place.
func (r *rounds) settledFor(place int) bool { return r.spoken >= place }

// checkCounts compares what a round has settled with what it came to (E1, E3).
func (x round) checkCounts(v *verifier) {
	doubt := func(rule Rule, why string, args ...any) {
		v.addFinding(rule, report.VerifyNote{Log: "job", Entry: x.at, By: x.by, Why: fmt.Sprintf(why, args...)})
	}
	switch {
	case x.said.Tally == nil:
		doubt(RuleTally, "it ends a map without counts")
	case v.blind || x.early:
	case *x.said.Tally != x.tally:
		doubt(RuleTally, "it counts %s; the logs say %s", tallied(*x.said.Tally), tallied(x.tally))
	case x.tally.Items != x.items:
		doubt(RuleTally, "it counts %d items, and the job had %d", x.tally.Items, x.items)
	case x.said.State != x.endState():
		doubt(RuleSettled, "it says %s, and by the logs it is %s", x.said.State, x.endState())
	case (x.said.State == job.Succeeded) != (x.said.Code == 0):
		doubt(RuleSettled, "it says %s with exit status %d", x.said.State, x.said.Code)
	}
}

// endState is how a round has ended by its counts and stop.
func (x round) endState() job.State {
	switch {
	case x.stop != nil && x.failing:
		return job.Failed
	case x.stop != nil:
		return job.Cancelled
	case x.tally.Failed+x.tally.Quarantined > 0:
		return job.Failed
	case x.tally.Cancelled > 0:
		return job.Cancelled
	}
	return job.Succeeded
}
