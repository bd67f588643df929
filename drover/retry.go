package drover

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger"
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
}

// Retry has items of a map that ended without success run again, with fresh budgets
// for failures, and gives how many these are. It returns once that is durable; Start
// puts agents to work. A success is never undone.
func (j *Job) Retry(ctx context.Context, o RetryOptions) (n int, err error) {
	_, rec, err := j.view(ctx)
	if err != nil {
		return 0, err
	}
	again := &ledger.Reopened{States: o.States}
	if n, again.Items, err = j.chosen(ctx, o); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, fault.New(fault.Missing, "drover items "+rec.Short+" lists them; those that have succeeded stay as they are.", "retry items of job %s: none is %s", rec.Short, o.words())
	}
	r := ledger.Round{Again: again}
	if o.Limits != nil || o.Timeout != nil || o.Retries != nil {
		r.Amend = &ledger.Amended{Limits: o.Limits, Timeout: o.Timeout, Retries: o.Retries}
	}
	live, ok, err := j.c.world.Reopen(ctx, rec, j.c.engine.Caller.By, r)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fault.New(fault.Invalid, "Wait for it: drover wait "+live+".", "retry items of job %s: job %s of the same task is live", rec.Short, live)
	}
	return n, nil
}

// retryable are the states of items that can run again.
var retryable = []job.ItemState{job.ItemFailed, job.ItemQuarantined, job.ItemCancelled}

// chosen counts the items, and names them when their states and numbers alone do not
// tell.
func (j *Job) chosen(ctx context.Context, o RetryOptions) (n int, spans ledger.Spans, err error) {
	spans = o.Items
	var named ledger.Spans
	states := o.States
	if len(states) == 0 {
		states = retryable
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

// says looks for an expression in why an item failed and in what it printed last.
func (r ItemResult) says(re *regexp.Regexp) bool {
	return re.MatchString(r.Why()) || re.MatchString(r.Stdout) || re.MatchString(r.Tail)
}

func (o RetryOptions) words() string {
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
