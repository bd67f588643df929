package drover

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// RetryOptions choose items of a map that ended without success, and change what
// binds them. The zero value is all of them, as they were.
type RetryOptions struct {
	States []job.ItemState // none: failed, quarantined and cancelled
	Error  *regexp.Regexp  // that says why they failed, or is in what they printed last; nil: whatever it was
	Items  [][2]int        // ranges of numbers, both ends included, in order and apart; none: all

	Limits  *job.Limits   // of each item; nil: as before
	Timeout *job.Duration // of one try; 0: none
	Retries *int
	// RetryOn and MemoryStep are the rules of retry from now on; nil: as before.
	RetryOn    *job.RetryOn
	MemoryStep *float64
	// NewCode has these items, and all that begin later, run with the code as it is
	// now in Options.Folder, where the map's program must be: not in the folder that the
	// job names. OnCode, if not nil, is told what is shipped, before it is.
	NewCode bool
	OnCode  func(dir string, files int)
}

// Retry has items of a map that ended without success run again, with fresh budgets
// for failures, and gives how many these are. It returns once that is durable; Start
// puts agents to work. A success is never undone.
func (j *Job) Retry(ctx context.Context, o RetryOptions) (n int, err error) {
	rec, err := j.readMapRecord(ctx)
	if err != nil {
		return 0, err
	}
	again := &protocol.Reopened{States: o.States}
	if n, again.Items, err = j.countChosen(ctx, o); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, fault.New(fault.Missing, "`drover items "+rec.Short+"` lists them; those that have succeeded stay as they are.", "retry items of job %s: none is %s", rec.Short, o.chosenWords())
	}
	r := control.Round{Again: again}
	if a := (protocol.Amended{Limits: o.Limits, Timeout: o.Timeout, Retries: o.Retries, RetryOn: o.RetryOn, MemoryStep: o.MemoryStep}); a != (protocol.Amended{}) {
		r.Amend = &a
		if err := j.checkAmended(ctx, rec, a); err != nil {
			return 0, err
		}
	}
	live, ok := "", false
	if o.NewCode {
		live, ok, err = j.retryWithNewCode(ctx, rec, r, o.OnCode)
	} else {
		live, ok, err = control.ReopenMap(ctx, j.c.world, rec, j.c.engine.Caller.By, r)
	}
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fault.New(fault.Invalid, "Wait for it: `drover wait "+live+"`.", "retry items of job %s: job %s of the same task is live", rec.Short, live)
	}
	return n, nil
}

// retryWithNewCode gives the map a round with new code. Agents that live have the old
// one, and perhaps no attached command line is there to replace them.
func (j *Job) retryWithNewCode(ctx context.Context, rec job.Job, r control.Round, onCode func(string, int)) (live string, ok bool, err error) {
	s, err := j.Status(ctx)
	switch {
	case err != nil:
		return "", false, err
	case s.Workers > 0 && !s.State.Settled():
		return "", false, fault.New(fault.Invalid, "Let what runs end first: `drover cancel --drain "+rec.Short+"`; then retry it so.",
			"retry items of job %s with new code: it is running, and its agents have the earlier code", rec.Short)
	}
	m, err := chunks.ReadMap(ctx, j.c.world, rec)
	if err != nil {
		return "", false, err
	}
	c, err := j.c.engine.FindCode(ctx, rec, m)
	switch {
	case err != nil:
		return "", false, err
	case c.Same:
		return "", false, fault.New(fault.Invalid, "Leave `--new-code` out, or change the code first.", "retry items of job %s with new code: the code has not changed in %s", rec.Short, c.Dir)
	}
	if onCode != nil {
		onCode(c.Dir, c.Files)
	}
	return j.c.engine.Recode(ctx, rec, c, r)
}

// CodeChanged says whether a map's code in Options.Folder is another than its items run
// with; where the map's program is not there, it is not.
func (j *Job) CodeChanged(ctx context.Context) bool {
	rec, err := j.Spec(ctx)
	if err != nil {
		return false
	}
	m, err := chunks.ReadMap(ctx, j.c.world, rec)
	if err != nil {
		return false
	}
	c, err := j.c.engine.FindCode(ctx, rec, m)
	return err == nil && !c.Same
}

// checkAmended refuses what would have no effect, or none that a new job could have:
// what binds from now on has to be a spec like any other.
func (j *Job) checkAmended(ctx context.Context, rec job.Job, a protocol.Amended) error {
	m, err := chunks.ReadMap(ctx, j.c.world, rec)
	if err != nil {
		return err
	}
	m.Amend(a)
	_, err = m.Bound().Normal()
	return err
}

// retryable are the states of items that can run again.
var retryable = []job.ItemState{job.ItemFailed, job.ItemQuarantined, job.ItemCancelled}

// countChosen counts the items, and names them when their states and numbers alone do not
// tell.
func (j *Job) countChosen(ctx context.Context, o RetryOptions) (n int, spans protocol.Spans, err error) {
	spans = o.Items
	var named protocol.Spans
	states := o.States
	if len(states) == 0 {
		states = retryable
	}
	if o.Error == nil && len(o.Items) == 0 { // the counts tell, and no result need be read
		s, err := j.Status(ctx)
		if err != nil {
			return 0, nil, err
		}
		of := map[job.ItemState]int{job.ItemFailed: s.Items.Failed, job.ItemQuarantined: s.Items.Quarantined, job.ItemCancelled: s.Items.Cancelled}
		for _, state := range states {
			n, of[state] = n+of[state], 0 // said twice it counts once
		}
		return n, nil, nil
	}
	for r, err := range j.Results(ctx, ResultOptions{States: states, Error: o.Error}) {
		if err != nil {
			return 0, nil, err
		}
		if len(spans) > 0 && !spans.Has(r.Item) {
			continue
		}
		n++
		if last := len(named) - 1; last >= 0 && named[last][1]+1 == r.Item {
			named[last][1]++
		} else if o.Error != nil {
			named = append(named, [2]int{r.Item, r.Item})
		}
	}
	if o.Error != nil {
		spans = named
	}
	return n, spans, nil
}

func (o RetryOptions) chosenWords() string {
	states := o.States
	if len(states) == 0 {
		states = retryable
	}
	var words []string
	for _, s := range states {
		words = append(words, strings.ToLower(string(s)))
	}
	text := strings.Join(words, " or ")
	if o.Error != nil {
		text += fmt.Sprintf(" with %q", o.Error)
	}
	if len(o.Items) > 0 {
		text += " among those chosen"
	}
	return text
}
