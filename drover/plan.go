package drover

import (
	"context"
	"io"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/price"
	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/job"
)

// Action is what a command comes to, given what is there already.
type Action string

// The actions.
const (
	ActionStart   Action = "start"   // a new job
	ActionAttach  Action = "attach"  // the job is live: follow it
	ActionResume  Action = "resume"  // no agent is working on the job: go on with it
	ActionReplace Action = "replace" // interrupted, and the code has changed: a new job from its checkpoints
	ActionSkip    Action = "skip"    // a named task that is complete and unchanged
	ActionExtend  Action = "extend"  // a map that is live gets items that it does not have
	ActionReopen  Action = "reopen"  // a map that has ended goes on: what had no success, and new items
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

// PlannedCode is the files that go along with a plan's program.
type PlannedCode struct {
	Dir           string // the folder that they are read from
	WorkingFolder string // in it, where the program runs; "": Dir itself
	Files         int
	Bytes         int64
	Digest        string
	Note          string     // why less goes along than a person may expect; "": nothing to say
	Notes         []string   // what else was left out, a line each
	Left          []LeftFile // what was left out because the program makes it
	Unshipped     Unshipped
	ChangedFiles  []string // those that differ from the job that is there, by name
}

// LeftFile is a file that is no code, and why.
type LeftFile struct{ Name, Why string }

// Unshipped counts the ignored files in a code's folder, which do not go along.
type Unshipped struct {
	Files     int
	Bytes     int64
	More      bool     // there are more: not all were counted
	Names     []string // of the first few; a folder, with a slash, stands for all in it
	MoreNames bool     // Names are not all
	InPlace   bool     // the program finds them all the same
	Partial   bool     // the folder is too large to be shipped: they are not ignored ones alone
}

// PlannedPython is the Python environment that a plan's script will find; empty where that is
// found out on the machine.
type PlannedPython struct {
	Interpreter string // "": none is needed
	Source      string // what it was chosen by
	Why         string // one sentence
	Build       bool   // it is still to be built
}

// PlannedImage is what a planned job's agents run in.
type PlannedImage struct {
	Reference string // "": the target's own choice
	Python    string // the version that such a choice should bring, as "3.12"; "": any
	Why       string // for people; "" for the target's own choice
}

// PlannedItems is what a plan knows of a map's items.
type PlannedItems struct {
	Count  int
	Format string
	Fields []string
	Notes  []string // what was skipped or kept, for people
	New    int      // of these, items that the job which is there does not have
	Gone   int      // items that it has and are not given any more: their results stay
	Again  int      // items of it that ended without success and run again
	Chunks int
	// Uploads are the files that they name and the target does not see, as often as they are
	// named, and UploadBytes all these together.
	Uploads     int
	UploadBytes int64
}

// Requests are requests to an object store.
type Requests struct{ Writes, Lists, Reads int }

// Sum is all of them.
func (r Requests) Sum() int { return r.Writes + r.Lists + r.Reads }

// Dollars is an amount of money; as text it has as many digits as matter.
type Dollars float64

func (d Dollars) String() string { return price.Dollars(d).String() }

// StorePrice is what a maker of object stores asks for 1,000 requests.
type StorePrice struct {
	Name                 string // for people: "S3"
	Region               string
	Writes, Lists, Reads Dollars
	Source               string
	Day                  string // on which the source was read, 2006-01-02
}

// Cost is about what a job asks of an object store, and what the store's maker takes for
// that. Requests for inputs, outputs and environments are not in it: one for each object.
type Cost struct {
	Requests Requests // however long its program or its items take
	Minute   Requests // so many more in each minute that it works
	Price    StorePrice
	// Here says that the job's facts are in such a store. Else the price is S3's, for a
	// user that thinks of moving there.
	Here bool
}

// Of is what requests come to.
func (c Cost) Of(r Requests) Dollars {
	p := price.StorePrice{Writes: price.Dollars(c.Price.Writes), Lists: price.Dollars(c.Price.Lists), Reads: price.Dollars(c.Price.Reads)}
	return Dollars(p.Requests(r.Writes, r.Lists, r.Reads))
}

// After is what the job asks for when the work takes so many minutes.
func (c Cost) After(minutes float64) Requests {
	return Requests(protocol.Requests(c.Requests).Add(protocol.Requests(c.Minute).Times(minutes)))
}

func newPlan(c *Client, from engine.Plan) *Plan {
	p := &Plan{c: c, plan: from, Choices: from.Choices, Python: PlannedPython{Interpreter: from.Environment.Interpreter, Source: from.Environment.Source,
		Why: from.Environment.Why, Build: from.Environment.Build}, Properties: from.Properties, Offer: from.Offer, Said: from.Said,
		Image: PlannedImage{Reference: from.Image.Ref, Python: from.Image.Python, Why: from.Image.Why}, Pass: from.Pass,
		Cost: Cost{Requests: Requests(from.Cost.Requests), Minute: Requests(from.Cost.Minute), Here: from.Cost.Here, Price: priceOf(from.Cost.Price)}}
	p.copyFromEngine()
	return p
}

func priceOf(s price.StorePrice) StorePrice {
	return StorePrice{Name: s.Name, Region: s.Region, Writes: Dollars(s.Writes), Lists: Dollars(s.Lists), Reads: Dollars(s.Reads), Source: s.Source, Day: s.Day}
}

// copyFromEngine copies what Submit may have changed.
func (p *Plan) copyFromEngine() {
	from := &p.plan
	p.Spec, p.Action, p.Note, p.Changed, p.TakesNewCode, p.Job = from.Spec, Action(from.Action), from.Note, from.Changed, from.TakesNewCode, from.Job
	it := from.Items
	p.Items = PlannedItems{Count: it.Count, Format: it.Format, Fields: it.Fields, Notes: it.Notes, New: it.New, Gone: it.Gone, Again: it.Again, Chunks: it.Chunks,
		Uploads: it.Uploads, UploadBytes: it.UploadBytes}
	p.Code = PlannedCode{Dir: from.Code.Dir, WorkingFolder: from.Sub, Files: len(from.Code.Entries), Bytes: from.Code.Bytes, Digest: from.Digest, Note: from.CodeNote,
		Notes: from.Code.Notes, ChangedFiles: from.ChangedFiles,
		Unshipped: Unshipped{from.Seen.Files, from.Seen.Bytes, from.Seen.More, from.Seen.Names, from.Seen.MoreNames, from.InPlace, from.Code.How == bundle.Partly}}
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
	if p.plan.Watch = nil; p.Watch != nil {
		p.plan.Watch = func(what engine.Sending, now transfer.CopyProgress) { p.Watch(Sending(what), CopyProgress(now)) }
	}
	path, err := c.engine.Submit(ctx, &p.plan)
	p.copyFromEngine()
	if err != nil {
		return nil, err
	}
	return c.newJob(path), nil
}
