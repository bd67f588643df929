package drover

import (
	"context"
	"io"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/job"
)

// Plan is what a spec comes to, given what is there already. Exported fields
// are for showing; Submit carries the plan out, and brings Action, Note and Job up to date.
type Plan struct {
	Spec    job.Spec
	Action  Action
	Note    string   // one sentence for people: why this action
	Changed []string // what differs from the task's last success
	// Choices are what else a person may have meant, each with a command to paste.
	Choices []string
	// TakesNewCode says of ActionReopen that the job's items run with the code of this plan.
	TakesNewCode bool
	Job          job.Path // for all but ActionStart: the job that is there
	Code         PlannedCode
	Python       PlannedPython
	Properties   driver.Properties // of the target
	Offer        driver.Offer      // the target's answer
	Said         driver.Said       // what the script says to the target's own scheduler; what was taken is in Spec
	Image        PlannedImage      // where the target has containers
	Items        PlannedItems      // of a map; Close the plan when it is done with
	Cost         Cost              // of its facts, in an object store
	Pass         string            // what agents open the store with, for people; "": nothing to say

	// Watch hears how far Submit is with storing files that items name, or, of each
	// input, what is read of it. It may be nil.
	Watch func(what Sending, now CopyProgress)

	c    *Client
	plan engine.Plan
}

func newPlan(c *Client, from engine.Plan) *Plan {
	p := &Plan{c: c, plan: from, Choices: from.Choices, Python: PlannedPython{Interpreter: from.Environment.Interpreter, Source: from.Environment.Source,
		Why: from.Environment.Why, Build: from.Environment.Build}, Properties: from.Properties, Offer: from.Offer, Said: from.Said,
		Image: from.Image.PlannedImage, Pass: from.Pass,
		Cost: from.Cost}
	p.copyFromEngine()
	return p
}

// copyFromEngine copies what Submit may have changed.
func (p *Plan) copyFromEngine() {
	from := &p.plan
	p.Spec, p.Action, p.Note, p.Changed, p.TakesNewCode, p.Job = from.Spec, from.Action, from.Note, from.Changed, from.TakesNewCode, from.Job
	p.Items = from.Items.PlannedItems
	p.Code = PlannedCode{Dir: from.Code.Dir, WorkingFolder: from.Sub, Files: len(from.Code.Entries), Bytes: from.Code.Bytes, Digest: from.Digest, Note: from.CodeNote,
		Notes: from.Code.Notes, ChangedFiles: from.ChangedFiles,
		Unshipped: Unshipped{Files: from.Seen.Files, Bytes: from.Seen.Bytes, More: from.Seen.More, Names: from.Seen.Names, MoreNames: from.Seen.MoreNames, InPlace: from.InPlace,
			Partial: from.Code.How == bundle.Partly}}
	for _, l := range from.Code.Left {
		p.Code.Left = append(p.Code.Left, LeftFile(l))
	}
	p.Choices = from.Choices
}

// KeepsCode says that the job which is there goes on with the code that it has, and since
// when it has that; what Code and Python say is not what runs.
func (p *Plan) KeepsCode() (since time.Time, keeps bool) { return p.plan.KeepsCode() }

// Close removes what the plan has kept of a map's items. It may be called twice.
func (p *Plan) Close() error { return p.plan.Close() }

// PlanOptions say how a spec is meant. The zero value is right for most.
type PlanOptions struct {
	Force bool // a complete task runs again
	// Values are a map's items themselves, in the place of what Spec.From names. None holds a
	// line break.
	Values []string
	// Stdin is read to its end where a map's From is "-".
	Stdin io.Reader
}

// Plan finds out what Run or Map would do: of a map it reads the items to their end. It changes
// nothing in the store. The caller closes a map's plan.
func (c *Client) Plan(ctx context.Context, spec job.Spec, o PlanOptions) (*Plan, error) {
	e, s := *c.engine, *c.engine.Session // its caller's input is this plan's alone
	e.Session, s.Caller.Stdin = &s, o.Stdin
	if o.Values != nil {
		if err := checkValues(spec, o.Values); err != nil {
			return nil, err
		}
		spec.From, spec.Format, s.Caller.Stdin = "-", "lines", &valueReader{left: o.Values}
	}
	p, err := e.Plan(ctx, spec, o.Force)
	if err != nil {
		return nil, err
	}
	return newPlan(c, p), nil
}

// Submit carries the plan out as far as a job that is durably in the store. No
// agent is asked for yet: Wait does that, or Start.
func (p *Plan) Submit(ctx context.Context) (*Job, error) {
	c := p.c
	if p.Action != ActionSkip {
		if err := c.probeStore(ctx); err != nil {
			return nil, err
		}
	}
	p.plan.Watch = p.Watch
	path, err := c.engine.Submit(ctx, &p.plan)
	p.copyFromEngine()
	if err != nil {
		return nil, err
	}
	return c.newJob(path), nil
}
