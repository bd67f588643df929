package engine

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/job"
)

// Action is what a command comes to, given what is there already.
type Action string

// The actions, DESIGN section 7.
const (
	Start   Action = "start"   // a new job
	Attach  Action = "attach"  // it is live: follow it
	Resume  Action = "resume"  // no agent is working on it: go on with it
	Replace Action = "replace" // interrupted, and the code has changed: a new job from its checkpoints
	Skip    Action = "skip"    // a named task that is complete and unchanged
	Extend  Action = "extend"  // a map that is live gets items that it does not have
	Reopen  Action = "reopen"  // a map that has ended goes on: what had no success, and new items
)

// Plan is what a command would do. Nothing was changed to find it out, but for
// remembered verdicts in the cache.
type Plan struct {
	Spec    job.Spec
	Action  Action
	Note    string   // one sentence for people: why this action
	Changed []string // what differs from the task's last success
	// ChangedFiles are those of the code that differ from the job that is there, by name.
	ChangedFiles []string
	// Choices are what else a person may have meant, each with a command to paste.
	Choices []string
	// TakesNewCode says of Reopen that the job's items run with the code of this plan.
	TakesNewCode bool
	Job          job.Path // for Attach, Resume, Replace and Skip: the job that is there
	Code         bundle.List
	Script       string
	Python       string   // as job.Code has it
	Paths        []string // as job.Code has it
	Sub          string   // the working folder, in the code
	CodeNote     string
	Digest       string      // of the code
	Seen         bundle.Seen // what lies in the code's folder and is not shipped
	InPlace      bool        // as job.Code has it
	Environment  env.Plan
	Properties   driver.Properties // of the target
	Offer        driver.Offer
	Image        Image             // where the target has containers
	Contents     map[string]string // digests of what the inputs hold, by name
	Items        ItemsPlan         // of a map; Close the plan when it is done with
	Cost         Cost              // of its facts, in an object store
	Pass         string            // what agents open the store with, for people; "": nothing to say
	Said         driver.Said       // what the script says to the target's own scheduler; what was taken is in Spec

	// Watch hears how far Submit is with storing files that items name, or, of each
	// input, what is read of it. It may be nil.
	Watch func(what Sending, now transfer.Progress)

	ship       shipment
	tree       tree.Tree // of the code
	alike      string    // digest of a job's code that differs from ours in what is left out alone
	feeds      []feed
	seen       []string // folders of this machine that its items lie in
	since      int
	stateSince int
	typed      func(flag string) string // as Caller.Again
	before     views.Report             // the job that is there, when there is one
	differ     differ                   // from that job
	inherited  *job.Inherited           // the variables that its program would have from here; nil: not compared
	amend      *protocol.Amended        // the settings that a map which is there goes on with; nil: those that it has
	besides    []beside
	force      bool
	undecided  *Plan // the plan before it was decided
}

// Plan finds out what spec would do. force makes a complete task run again.
func (e *Engine) Plan(ctx context.Context, spec job.Spec, force bool) (Plan, error) {
	if spec.Task == "" {
		spec.Task = job.TaskName(spec, e.Caller.User, e.Caller.Host, e.Caller.Folder)
	}
	if err := e.absoluteMounts(&spec); err != nil {
		return Plan{}, err
	}
	spec, said, err := e.directed(spec)
	if err != nil {
		return Plan{}, err
	}
	if spec, err = e.named(spec); err != nil {
		return Plan{}, err
	}
	spec, err = spec.Normal()
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Spec: spec, Said: said, Contents: map[string]string{}, typed: e.Caller.Again}
	d, err := e.Driver(spec.On)
	if err != nil {
		return p, err
	}
	if spec.Verb == job.Map {
		if err := e.collect(ctx, &p); err != nil {
			return p, errors.Join(err, p.Close())
		}
	}
	p.Cost = e.cost(spec, p.Items.Count, p.Items.Chunks)
	p.Properties = d.Properties
	if err = e.refuseStore(d, spec.On); err != nil {
		return p, errors.Join(err, p.Close())
	}
	if err = e.readStdin(&p); err != nil {
		return p, errors.Join(err, p.Close())
	}
	if p.ship, err = e.locate(ctx, spec, p.Items.files, others(p.Properties, spec)); err != nil {
		return p, errors.Join(err, p.Close())
	}
	notePasswords(&p.ship.files)
	p.Code, p.Script, p.Sub, p.CodeNote = p.ship.files, p.ship.script, p.ship.sub, p.ship.note
	p.Python = e.pythonFile(p)
	if err = e.addPackages(ctx, &p); err != nil {
		return p, errors.Join(err, p.Close())
	}
	if !p.ship.nothing {
		if err = p.hashCode(ctx); err != nil {
			return p, errors.Join(err, p.Close())
		}
	}
	if !p.ship.nothing && p.Code.How != bundle.Alone {
		p.Seen, p.InPlace = p.Code.Unshipped(p.ship.judge.leavesUnshipped), p.Properties.InPlace && spec.Rules != job.SSM && spec.Verb != job.Process
	}
	if p.feeds, err = e.feeds(ctx, spec); err != nil {
		return p, err
	}
	for _, f := range p.feeds {
		p.Contents[f.in.Name] = f.tree.Digest()
	}
	if err = e.offer(ctx, d, &p); err != nil {
		return p, errors.Join(err, p.Close())
	}
	if err = e.lookAtFiles(ctx, &p); err != nil {
		return p, errors.Join(err, p.Close())
	}
	if err = e.noteOfPass(ctx, &p); err != nil {
		return p, errors.Join(err, p.Close())
	}
	if p.Properties.Attached {
		if _, err = job.Resolve(spec.Secrets, e.Caller.Environ, os.ReadFile); err != nil {
			return p, err
		}
	}
	if p.Properties.Attached && !p.Properties.Apart {
		if err = e.packages(ctx, p); err != nil {
			return p, err
		}
		if p.Environment, err = e.environment(ctx, p); err != nil {
			return p, err
		}
		if err := e.launcher(ctx, p); err != nil {
			return p, err
		}
	}
	return p, e.decide(ctx, &p, force)
}

// environment says what Python the script will find, where the machine is ours.
func (e *Engine) environment(ctx context.Context, p Plan) (env.Plan, error) {
	return env.Resolve(ctx, e.pythonRequest(p))
}

// packages refuses a job whose Linux packages are missing, where the machine is
// ours and nobody has said that they may be installed.
func (e *Engine) packages(ctx context.Context, p Plan) error {
	if p.Spec.Packages || p.Spec.NoEnv || p.ship.nothing {
		return nil
	}
	names, err := env.Packages(e.pythonRequest(p))
	if err != nil || len(names) == 0 {
		return err
	}
	missing, known := env.CheckPackages(ctx, names, e.Caller.Environ)
	if !known {
		return nil // the program may well find what it needs
	}
	return env.LackPackages(missing)
}

// launcher refuses a launcher that is missing, where the machine is ours and the
// environment is there already: one that is still to be built may bring it, so
// then the agent looks.
func (e *Engine) launcher(ctx context.Context, p Plan) error {
	if p.Environment.Build {
		return nil
	}
	switch p.Spec.Launcher {
	case job.MPI:
		_, err := env.FindMPI(ctx, e.Caller.Environ, p.Environment.Interpreter)
		return err
	case job.TorchRun:
		return env.FindTorchrun(ctx, e.Caller.Environ, p.Environment.Interpreter)
	}
	return nil
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// ship stores all that the job needs: a job is never named before (T1).
func (e *Engine) ship(ctx context.Context, p *Plan) (job.Job, error) {
	c := e.Caller
	j := job.Job{V: 1, Spec: p.Spec, Since: p.since, StateSince: p.stateSince, Environment: p.Environment.Digest, Interpreter: p.Environment.Active, Inputs: map[string]string{}, Contents: p.Contents,
		User: c.User, Host: c.Host, Folder: c.Folder, At: e.World.Store.Clock().Now().UTC(), Drover: c.Version}
	p.placeOf(&j)
	if p.inherited == nil && p.Properties.Inherits() { // the first command of this user on this machine
		p.inherited = e.inherited(p.Spec, true)
	}
	j.Inherited, j.SettingsKey = p.inherited, settingsKey(p.Spec, p.inherited)
	code, err := e.shipCode(ctx, p)
	if err != nil {
		return j, err
	}
	if j.Code = code; code.Blob != "" {
		p.Digest = code.Digest
	}
	return j, e.shipInputs(ctx, p, &j)
}

// shipCode stores a plan's code and says what it is.
func (e *Engine) shipCode(ctx context.Context, p *Plan) (job.Code, error) {
	code := job.Code{Script: p.Script, Sub: p.Sub, Python: p.Python, Paths: p.Paths, Note: p.CodeNote}
	if p.ship.nothing {
		return code, nil
	}
	b, err := e.putCode(ctx, p)
	if err != nil {
		return code, err
	}
	code.Blob, code.Digest, code.LeftOut = string(b.Blob), b.Content, p.leftOut()
	code.Files, code.Bytes = len(p.Code.Entries), p.Code.Bytes
	if p.Code.How != bundle.Alone {
		code.Root = p.Code.Dir
		if code.InPlace, code.UnshippedMore = p.InPlace, p.InPlace && p.Seen.More; p.InPlace && !p.Seen.More {
			code.Unshipped = p.Seen.Digest
		}
		code.Commit, code.Dirty = bundle.Commit(ctx, p.Code.Dir)
	}
	return code, nil
}
