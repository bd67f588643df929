package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
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
	Python       string // as job.Code has it
	CodeNote     string
	Digest       string // of the code
	Environment  env.Plan
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
	tree       bundle.Tree // of the code
	alike      string      // digest of a job's code that differs from ours in what is left out alone
	feeds      []feed
	seen       []string // folders of this machine that its items lie in
	since      int
	stateSince int
	typed      func(flag string) string // as Caller.Again
	before     ledger.Report            // the job that is there, when there is one
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
	if p.Offer, err = d.Offer(ctx, driver.Needs{Agents: 1, Place: driver.Place{Later: true}}); err != nil {
		return p, errors.Join(err, p.Close())
	}
	if p.ship, err = e.locate(ctx, spec, p.Items.files, others(p.Offer, spec)); err != nil {
		return p, errors.Join(err, p.Close())
	}
	notePasswords(&p.ship.files)
	p.Code, p.Script, p.CodeNote = p.ship.files, p.ship.script, p.ship.note
	p.Python = e.pythonFile(p)
	if !p.ship.nothing {
		if err = p.hashCode(ctx); err != nil {
			return p, errors.Join(err, p.Close())
		}
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
	if p.Offer.Attached {
		if _, err = job.Resolve(spec.Secrets, e.Caller.Environ, os.ReadFile); err != nil {
			return p, err
		}
	}
	if p.Offer.Attached && !p.Offer.Apart {
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
	names, err := env.Packages(p.Code.Dir)
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

// decide applies the second-command rule.
func (e *Engine) decide(ctx context.Context, p *Plan, force bool) error {
	path := job.Path{Project: p.Spec.Project, Task: p.Spec.Task}
	task, err := e.World.Task(ctx, path)
	if err != nil {
		return err
	}
	p.Action = Start
	path.Job = task.Newest()
	if path.Job == "" {
		return nil
	}
	rep, err := e.World.Look(ctx, path)
	if errors.Is(err, store.ErrNotExist) { // removed since
		gone := task.Gone[path.Job]
		p.begin(task, path.Job, gone.Since, gone.StateSince, force)
		if p.Spec.Rules == job.SSM {
			return e.ofSeed(ctx, p, task, force)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if rep.Map != nil {
		rep.Job = rep.Map.Map.Recoded(rep.Job)
	}
	if is := rep.Job.Spec.Task; is != path.Task && strings.EqualFold(is, path.Task) { // the store's folder ignores case
		return fault.New(fault.Invalid, "Use the name "+is+", or choose another -t.", "start task %s: the store has a task %s, and its file system takes the two names for one", path.Task, is)
	}
	p.before, p.Job = rep, path
	e.compareCode(ctx, p, rep.Job.Code)
	p.begin(task, path.Job, rep.Job.Since, rep.Job.StateSince, rep.State == job.Succeeded || force)
	if p.Spec.Verb == job.Map && rep.Map != nil {
		return e.ofItems(ctx, p, force)
	}
	if rep.Run.Settled == nil {
		return p.again(force)
	}
	if p.Spec.Rules == job.SSM {
		return e.ofSeed(ctx, p, task, force)
	}
	if rep.State != job.Succeeded {
		p.Note = fmt.Sprintf("job %s %s; this is a new one", rep.Job.Short, badEnd(rep.State))
		return nil
	}
	p.Changed = p.differences(rep.Job)
	switch {
	case p.Spec.Named && !force && len(p.Changed) == 0:
		p.Action = Skip
		p.Note = "complete since " + stamp(rep.Ended()) + "; --force runs it again"
	case p.Spec.Named && len(p.Changed) > 0:
		p.Note = "running again: " + strings.Join(p.Changed, ", ") + " changed since job " + rep.Job.Short + p.changedFiles()
	}
	return nil
}

// begin says from where on a new job may begin with checkpoints and state, given
// where the newest one might; fresh is with no checkpoints.
func (p *Plan) begin(task ledger.Task, newest string, since, stateSince int, fresh bool) {
	p.since, p.stateSince = since, stateSince
	place, _ := task.PlaceOf(newest)
	if fresh {
		p.since = place + 1
	}
	if p.Spec.CleanState {
		p.stateSince = place + 1
	}
}

// again decides for a job that has not settled.
func (p *Plan) again(force bool) error {
	rep := p.before
	id := rep.Job.Short
	changed := p.differences(rep.Job)
	if rep.Run.Stop != nil {
		p.Action = Replace
		p.Note = fmt.Sprintf("job %s is stopping (%s); a new one starts once it has settled", id, rep.Run.Stop.Reason)
		return nil
	}
	if p.Spec.Named && !p.Spec.Same(rep.Job.Spec) {
		return fault.New(fault.Invalid, "Wait for it with drover wait "+id+", end it with drover cancel "+id+", or choose another -t.",
			"start task %s: job %s is live with another command", p.Spec.Task, id)
	}
	seed := p.Spec.Rules == job.SSM // its scripts say --force_running each time, and mean the job that they started
	if force && !seed {
		return fault.New(fault.Invalid, "End it first: drover cancel "+id+".", "start task %s anew: job %s has not ended (%s)", p.Spec.Task, id, strings.ToLower(string(rep.State)))
	}
	code := slices.ContainsFunc(changed, func(c string) bool { return c == "code" || strings.HasPrefix(c, "input ") })
	switch {
	case rep.State != job.Interrupted && p.Spec.NewCode && code:
		return fault.New(fault.Invalid, "End it first: drover cancel "+id+"; then "+p.command("--new-code")+".",
			"run job %s with new code: it is live, and runs the code as it was", id)
	case rep.State != job.Interrupted:
		p.Action = Attach
		p.Note = fmt.Sprintf("already running since %[2]s as job %[1]s: showing its output", id, stamp(rep.Job.At))
		if code {
			p.Note += "; it runs the code as it was then"
			if files := p.changedFiles(); files != "" {
				p.Note += ", without changes since" + files
			}
		}
		if rep.State == job.Paused {
			p.Note += "; it is paused: drover resume " + id + " has it go on"
		}
	case seed && p.Spec.CleanState && !rep.Job.Spec.CleanState:
		p.Action = Replace
		p.Note = fmt.Sprintf("job %s was interrupted: it is cancelled, and a new job starts with an empty state", id)
	case code:
		p.Action = Replace
		p.Note = fmt.Sprintf("job %s was interrupted and %s changed: it is cancelled, and a new job starts from its checkpoints%s", id, strings.Join(changed, ", "), p.changedFiles())
	default:
		p.Action = Resume
		p.Note = fmt.Sprintf("job %s was interrupted; it continues", id)
	}
	return nil
}

// differences lists what differs between the plan and an earlier job, in the
// words that -t skipping explains itself with.
func (p *Plan) differences(old job.Job) []string {
	var diff []string
	s, o := p.Spec, old.Spec
	if s.Program != o.Program || s.Verb != o.Verb {
		diff = append(diff, "program")
	}
	if !p.sameCode(old.Code) {
		diff = append(diff, "code")
	}
	if !slices.Equal(s.Args, o.Args) {
		diff = append(diff, "arguments")
	}
	if !slices.Equal(s.Inputs, o.Inputs) {
		diff = append(diff, "inputs")
	}
	for _, in := range s.Inputs {
		if was, ok := old.Contents[in.Name]; ok && was != p.Contents[in.Name] {
			diff = append(diff, "input "+in.Name)
		}
	}
	if !maps.Equal(s.Env, o.Env) || !maps.Equal(s.Secrets, o.Secrets) {
		diff = append(diff, "environment variables")
	}
	if p.Environment.Digest != "" && p.Environment.Digest != old.Environment {
		diff = append(diff, "Python environment")
	}
	if s.Nodes != o.Nodes {
		diff = append(diff, "number of nodes")
	}
	if s.Launcher != o.Launcher || s.Procs != o.Procs || s.GPUs != o.GPUs {
		diff = append(diff, "launcher, processes or GPUs")
	}
	c := s.Container
	c.Mounts, c.Shm = o.Mounts, o.Shm
	if !c.Same(o.Container) || p.Image.Built != old.ImageBuilt {
		diff = append(diff, "image")
	}
	if !slices.Equal(s.Mounts, o.Mounts) || s.Shm != o.Shm {
		diff = append(diff, "mounts or shared memory")
	}
	if !maps.Equal(s.Hyperparameters, o.Hyperparameters) {
		diff = append(diff, "hyperparameters")
	}
	if !slices.Equal(s.Entrypoint, o.Entrypoint) {
		diff = append(diff, "entrypoint")
	}
	if !slices.Equal(s.Results, o.Results) {
		diff = append(diff, "results")
	}
	if s.Verb == job.Map {
		diff = append(diff, itemDifferences(s, o)...)
	}
	return diff
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// Submit carries a plan out as far as a job that is durably there: it ships
// code and inputs and submits, or finds that another command was quicker. The
// job it returns is live, unless the action was Skip. The plan's action and
// note are brought up to date.
func (e *Engine) Submit(ctx context.Context, p *Plan) (job.Path, error) {
	switch p.Action {
	case Attach, Resume, Skip:
		return p.Job, nil
	case Extend, Reopen:
		return e.reopen(ctx, p)
	}
	if err := e.build(ctx, p); err != nil {
		return job.Path{}, err
	}
	if p.Action == Replace {
		if _, err := e.World.Cancel(ctx, p.Job, e.Caller.By, "replaced by a new job with changed code"); err != nil {
			return job.Path{}, err
		}
		if _, err := e.Attend(ctx, p.Job); err != nil { // it may have been stopping before
			return job.Path{}, err
		}
	}
	e.sweep(ctx, p.Spec.On)
	j, err := e.propose(ctx, p)
	if err != nil {
		return job.Path{}, err
	}
	live, mine, err := e.World.Submit(ctx, j, e.Caller.By)
	if err != nil {
		return job.Path{}, err
	}
	path := j.Path()
	path.Job = live
	if mine {
		return path, nil
	}
	return path, e.lost(ctx, p, path)
}

// lost is a submit that another one has beaten: attach if it is the same command.
func (e *Engine) lost(ctx context.Context, p *Plan, path job.Path) error {
	winner, err := e.World.Load(ctx, path)
	if err != nil {
		return err
	}
	if !p.Spec.Same(winner.Spec) {
		return fault.New(fault.Invalid, "Wait for it with drover wait "+winner.Short+", or choose another -t.",
			"start task %s: job %s was started a moment ago with another command", p.Spec.Task, winner.Short)
	}
	p.Action, p.Job = Attach, path
	p.Note = fmt.Sprintf("job %s was started a moment ago: showing its output", winner.Short)
	return nil
}

// ship stores all that the job needs: a job is never named before (T1).
func (e *Engine) ship(ctx context.Context, p *Plan) (job.Job, error) {
	c := e.Caller
	j := job.Job{V: 1, Spec: p.Spec, Since: p.since, StateSince: p.stateSince, Environment: p.Environment.Digest, Interpreter: p.Environment.Active, Inputs: map[string]string{}, Contents: p.Contents,
		User: c.User, Host: c.Host, Folder: c.Folder, At: e.World.Store.Clock().Now().UTC(), Drover: c.Version}
	p.placeOf(&j)
	j.Code = job.Code{Script: p.Script, Python: p.Python, Note: p.CodeNote}
	if !p.ship.nothing {
		b, err := e.putCode(ctx, p)
		if err != nil {
			return j, err
		}
		j.Code.Blob, j.Code.Digest, j.Code.LeftOut = string(b.Blob), b.Content, p.leftOut()
		j.Code.Files, j.Code.Bytes = len(p.Code.Entries), p.Code.Bytes
		p.Digest = b.Content
	}
	return j, e.shipInputs(ctx, p, &j)
}
