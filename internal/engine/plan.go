package engine

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/engine/code"
	"github.com/drover-run/drover/internal/engine/inputs"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/env/packages"
	"github.com/drover-run/drover/internal/env/programs"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/secret"
	"github.com/drover-run/drover/report"
)

// Plan is what a command would do. Nothing was changed to find it out, but for
// remembered verdicts in the cache.
type Plan struct {
	Spec    job.Spec
	Action  report.Action
	Note    string   // one sentence for people: why this action
	Changed []string // what differs from the task's last success
	// ChangedFiles are those of the code that differ from the job that is there, by name.
	ChangedFiles []string
	// Choices are what else a person may have meant, each with a command to paste.
	Choices []string
	// TakesNewCode says of ActionReopen that the job's items run with the code of this plan.
	TakesNewCode bool
	Job          job.Path // for ActionAttach, ActionResume, ActionReplace and ActionSkip: the job that is there
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
	Cost         report.Cost       // of its facts, in an object store
	Pass         string            // what agents open the store with, for people; "": nothing to say
	Said         driver.Said       // what the script says to the target's own scheduler; what was taken is in Spec

	// Watch hears how far Submit is with storing files that items name, or, of each
	// input, what is read of it. It may be nil.
	Watch func(what report.Sending, now report.CopyProgress)

	driver     driver.Opened
	ship       code.Shipment
	tree       tree.Tree // of the code
	alike      string    // digest of a job's code that differs from ours in what is left out alone
	feeds      []inputs.Feed
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

// planner finds out what a command needs and brings. It changes nothing that others see.
type planner struct{ *Engine }

func (e *Engine) newPlanner() planner { return planner{e} }

// planStep is one step of a plan: it adds to what is known, or refuses the command.
type planStep func(e planner, ctx context.Context, p *Plan) error

// planSteps are all steps of a plan. Each reads what the steps before it found out.
var planSteps = []planStep{
	planner.completeSpec,
	planner.readItems,
	planner.askTarget,
	planner.readStdin,
	planner.findCodeFiles,
	planner.findInputs,
	planner.checkOffer,
	planner.lookAtFiles,
	func(e planner, ctx context.Context, p *Plan) error { return e.noteOfPass(ctx, p) },
	planner.checkMachine,
	func(e planner, ctx context.Context, p *Plan) error { return e.newDecider().decideAction(ctx, p) },
}

// Plan returns what spec would do. force makes a complete task run again. A plan that is
// refused is closed already: it has left nothing of a map's items behind.
func (e *Engine) Plan(ctx context.Context, spec job.Spec, force bool) (Plan, error) {
	return e.newPlanner().runPlanSteps(ctx, Plan{Spec: spec, Contents: map[string]string{}, typed: e.Caller.Again, force: force}, planSteps)
}

// runPlanSteps runs the steps of a plan, and closes the plan when one of them refuses it.
func (e planner) runPlanSteps(ctx context.Context, p Plan, steps []planStep) (Plan, error) {
	for _, step := range steps {
		if err := step(e, ctx, &p); err != nil {
			return p, joinClose(err, p.Close())
		}
	}
	return p, nil
}

// joinClose adds what went wrong at a clean-up to the reason for it.
func joinClose(err, cleanUp error) error {
	if cleanUp == nil {
		return err
	}
	return errors.Join(err, cleanUp)
}

// completeSpec fills in what was not said, and what the script and the user's own names
// for targets say.
func (e planner) completeSpec(_ context.Context, p *Plan) (err error) {
	s := p.Spec
	if s.Task == "" {
		s.Task = job.TaskName(s, e.Caller.User, e.Caller.Host, e.Caller.Folder)
	}
	if err := e.absoluteMounts(&s); err != nil {
		return err
	}
	if s, p.Said, err = e.applyDirectives(s); err != nil {
		return err
	}
	if s, err = e.ApplyTargetName(s); err != nil {
		return err
	}
	if s, err = s.Normal(); err != nil {
		return err
	}
	p.Spec = s
	p.driver, err = e.Driver(s.On)
	return err
}

// readItems reads a map's items, and computes what the facts of the job will cost.
func (e planner) readItems(ctx context.Context, p *Plan) error {
	if p.Spec.Verb == job.Map {
		if err := e.collectItems(ctx, p); err != nil {
			return err
		}
	}
	p.Cost = e.estimateCost(p.Spec, p.Items.Count, p.Items.Chunks)
	return nil
}

// askTarget reads what a target is, before it is known what the job needs.
func (e planner) askTarget(_ context.Context, p *Plan) (err error) {
	p.Properties = p.driver.Properties
	err = e.refuseStore(p.driver, p.Spec.On)
	return err
}

// findCodeFiles finds the files that go along with the program, and hashes them.
func (e planner) findCodeFiles(ctx context.Context, p *Plan) (err error) {
	if p.ship, err = e.Code.Locate(ctx, p.Spec, code.Surroundings{Items: p.Items.files, Apart: code.OtherPrograms(p.Properties, p.Spec), InPlace: code.RunsInPlace(p.Properties, p.Spec)}); err != nil {
		return err
	}
	code.NotePasswords(&p.ship.Files)
	if err = e.addPython(ctx, p); err != nil || p.ship.Nothing {
		return err
	}
	if err = p.findCodeDigest(ctx); err != nil {
		return err
	}
	if p.Code.How != bundle.Alone {
		p.Seen = p.Code.Unshipped(p.ship.Judge.LeavesUnshipped)
		p.InPlace = code.RunsInPlace(p.Properties, p.Spec)
	}
	return nil
}

// addPython adds to the plan's code what its program needs of Python, and notes what the code is.
func (e planner) addPython(ctx context.Context, p *Plan) error {
	p.ship.Python = e.Code.PythonFile(p.Spec, p.ship)
	err := e.Code.AddPackages(ctx, p.Spec, p.Properties, &p.ship)
	s := p.ship
	p.Code, p.Script, p.Sub, p.CodeNote, p.Python, p.Paths = s.Files, s.Script, s.Sub, s.Note, s.Python, s.Paths
	return err
}

// findInputs finds what the inputs hold, and its digests.
func (e planner) findInputs(ctx context.Context, p *Plan) (err error) {
	if p.feeds, err = e.Inputs.FindAll(ctx, p.Spec); err != nil {
		return err
	}
	for _, f := range p.feeds {
		p.Contents[f.In.Name] = f.Tree.Digest()
	}
	return nil
}

// checkMachine refuses a job that lacks a secret, a Linux package, an environment or a
// launcher, as far as agents on this machine would.
func (e planner) checkMachine(ctx context.Context, p *Plan) (err error) {
	if !p.Properties.Attached {
		return nil
	}
	if _, err = secret.Resolve(p.Spec.Secrets, e.Caller.Environ, os.ReadFile); err != nil || p.Properties.Apart {
		return err
	}
	if err = e.checkPackages(ctx, *p); err != nil {
		return err
	}
	if p.Environment, err = e.resolveEnvironment(ctx, *p); err != nil {
		return err
	}
	return e.checkLauncher(ctx, *p)
}

// resolveEnvironment says what Python the script will find, where the machine is ours.
func (e planner) resolveEnvironment(ctx context.Context, p Plan) (env.Plan, error) {
	return env.Resolve(ctx, e.Code.PythonRequest(p.Spec, p.ship))
}

// checkPackages refuses a job with missing Linux packages, where the machine is this one
// and the user has not said that they may be installed.
func (e planner) checkPackages(ctx context.Context, p Plan) error {
	if p.Spec.Packages || p.Spec.NoEnv || p.ship.Nothing {
		return nil
	}
	names, err := packages.Read(e.Code.PythonRequest(p.Spec, p.ship))
	if err != nil || len(names) == 0 {
		return err
	}
	missing, known := packages.Missing(ctx, names, e.Caller.Environ)
	if !known {
		return nil // the program may well find what it needs
	}
	return packages.Refuse(missing)
}

// checkLauncher refuses a launcher that is missing, where the machine is ours and the
// environment is there already: one that is still to be built may bring it, so
// then the agent looks.
func (e planner) checkLauncher(ctx context.Context, p Plan) error {
	if p.Environment.Build {
		return nil
	}
	switch p.Spec.Launcher {
	case job.MPI:
		_, err := programs.FindMPI(ctx, e.Caller.Environ, p.Environment.Interpreter)
		return err
	case job.TorchRun:
		return programs.FindTorchrun(ctx, e.Caller.Environ, p.Environment.Interpreter)
	}
	return nil
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// submitter carries a plan out: it stores what the job needs, and names it.
type submitter struct{ *Engine }

func (e *Engine) newSubmitter() submitter { return submitter{e} }

// storeJob stores all that the job needs: a job is never named before (T1).
func (e submitter) storeJob(ctx context.Context, p *Plan) (job.Job, error) {
	c := e.Caller
	j := job.Job{V: job.Format, Spec: p.Spec, Since: p.since, StateSince: p.stateSince, Environment: p.Environment.Digest, Interpreter: p.Environment.Active, Inputs: map[string]string{}, Contents: p.Contents,
		User: c.User, Host: c.Host, Folder: c.Folder, At: e.World.Store.Clock().Now().UTC(), Drover: c.Version}
	p.setPlace(&j)
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
	return j, e.Inputs.StoreAll(ctx, p.feeds, &j, p.progressOf(report.SendingInputs))
}

// shipCode stores a plan's code and says what it is.
func (e submitter) shipCode(ctx context.Context, p *Plan) (job.Code, error) {
	code := job.Code{Script: p.Script, Sub: p.Sub, Python: p.Python, Paths: p.Paths, Note: p.CodeNote}
	if p.ship.Nothing {
		return code, nil
	}
	b, err := e.storeCodeArchive(ctx, p)
	if err != nil {
		return code, err
	}
	code.Blob, code.Digest, code.LeftOut = string(b.Blob), b.Content, p.namesLeftOut()
	code.Files, code.Bytes = len(p.Code.Entries), p.Code.Bytes
	if p.Code.How != bundle.Alone {
		code.Root, code.Partial = p.Code.Dir, p.Code.How == bundle.Partly
		if code.InPlace, code.UnshippedMore = p.InPlace, p.InPlace && p.Seen.More; p.InPlace && !p.Seen.More {
			code.Unshipped = p.Seen.Digest
		}
		code.Commit, code.Dirty = bundle.Commit(ctx, p.Code.Dir)
	}
	return code, nil
}
