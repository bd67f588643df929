package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/code"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/job"
)

// NewCode is a map's code as it lies here now, found and not yet stored.
type NewCode struct {
	Same  bool // as what the job's items run with
	Dir   string
	Files int

	plan Plan
}

// FindCode finds a map's code in the folder where the caller is now, by the names that
// the map's command has. It changes nothing. The program must be the same one, and the
// code must be the caller's folder, or in it, or around it: which folder is shipped is
// decided by where the command is typed, and not by what the store says of the job, such
// as the folder where it was started or an absolute path.
func (e *Engine) FindCode(ctx context.Context, j job.Job, m *chunks.Map) (c NewCode, err error) {
	if file := e.newDecider().whyProgramIsMissing(j); file != "" {
		return c, fault.New(fault.Invalid, startedIn(j), "find code of job %s in %s: there is no %s, which its command names", j.Short, e.Caller.Folder, file)
	}
	r, err := manifest.Open(ctx, e.World.Store, m.Base, 1)
	if err != nil {
		return c, err
	}
	files, err := e.newPlanner().itemFiles(ctx, j.Spec.From, m.Base.Format, r.Range(ctx, 1, min(m.Base.Count, maxItemFiles)))
	if err != nil {
		return c, err
	}
	c.plan.Spec = j.Spec
	d, err := e.Driver(j.Spec.On)
	if err != nil {
		return c, err
	}
	c.plan.Properties = d.Properties
	if c.plan.Offer, err = d.Offer(ctx, needsOf(j)); err != nil {
		return c, err
	}
	if c.plan.ship, err = e.Code.Locate(ctx, j.Spec, code.Surroundings{Items: files, Apart: code.OtherPrograms(c.plan.Properties, j.Spec), InPlace: j.Code.InPlace}); err != nil {
		if kind := fault.KindOf(err); (kind == fault.Invalid || kind == fault.Missing) && j.Folder != e.Caller.Folder {
			err = fault.Wrap(err, kind, startedIn(j), "find code of job %s in %s", j.Short, e.Caller.Folder)
		}
		return c, err
	}
	p := &c.plan
	p.InPlace = j.Code.InPlace
	if err = e.newPlanner().addPython(ctx, p); err != nil {
		return c, err
	}
	c.Dir, c.Files = p.Code.Dir, len(p.Code.Entries)
	if !p.ship.Nothing && !code.Inside(e.Caller.Folder, c.Dir) && !code.Inside(c.Dir, e.Caller.Folder) {
		return c, fault.New(fault.Invalid, "If that is what you mean, change to it first: cd "+c.Dir+".", "find code of job %s: its command names %s, and this is %s", j.Short, c.Dir, e.Caller.Folder)
	}
	was := m.Code(j).Code
	if p.Script != was.Script || p.ship.Nothing != (was.Blob == "") {
		return c, fault.New(fault.Invalid, startedIn(j),
			"find code of job %s: %q is not the program that it was in %s", j.Short, j.Spec.Program, e.Caller.Folder)
	}
	if !p.ship.Nothing {
		if err = p.findCodeDigest(ctx); err != nil {
			return c, err
		}
		e.newDecider().compareCode(ctx, p, was)
	}
	c.Same = p.codeIsSame(was)
	if !p.Properties.Attached || p.Properties.Apart {
		return c, nil
	}
	p.Environment, err = e.newPlanner().resolveEnvironment(ctx, *p)
	return c, err
}

// whyProgramIsMissing returns a file that a map's command names beside its program, such as the script
// in "python3 work.py", if the folder where the map was started has it and the caller's
// has not: the caller's is then another project's. It is "" where that folder is not here.
func (e decider) whyProgramIsMissing(j job.Job) string {
	if j.Host != e.Caller.Host || j.Folder == e.Caller.Folder || j.Spec.Source != "" {
		return ""
	}
	for _, word := range append([]string{j.Spec.Program}, j.Spec.Args...) {
		if !filepath.IsLocal(word) {
			continue
		}
		was, err := os.Stat(filepath.Join(j.Folder, word))
		if err != nil || !was.Mode().IsRegular() {
			continue
		}
		if _, err := os.Stat(filepath.Join(e.Caller.Folder, word)); err != nil {
			return word
		}
	}
	return ""
}

// startedIn is the hint for a command that was typed in another folder than the job's.
func startedIn(j job.Job) string {
	return "Change to a folder that has the program, as the one where it was started had: cd " + j.Folder + "; or run the command anew for another job."
}

// Recode gives a map another round with new code: that is stored, then named, and what
// gc took meanwhile is stored again; only then the round begins, and items may ask for
// it. live is as ActionReopen gives it.
func (e *Engine) Recode(ctx context.Context, j job.Job, c NewCode, r control.Round) (live string, ok bool, err error) {
	sweeps, err := removal.ReadSweeps(ctx, e.World)
	if err != nil {
		return "", false, err
	}
	if r.Amend, err = e.newSubmitter().storeCode(ctx, &c.plan, j.Short, r.Amend); err != nil {
		return "", false, err
	}
	c.plan.before.Job, c.plan.Job = j, j.Path()
	if err := e.newSubmitter().nameRound(ctx, &c.plan, r, sweeps); err != nil {
		return "", false, err
	}
	return control.ReopenMap(ctx, e.World, j, e.Caller.By, r)
}

// storeCode stores a plan's code, and gives what binds a job's items from then on: that
// code, and what else is in amend, which may be nil.
func (e submitter) storeCode(ctx context.Context, p *Plan, short string, amend *protocol.Amended) (*protocol.Amended, error) {
	shipped, err := e.shipCode(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("store code of job %s: %w", short, err)
	}
	code := protocol.Code{Environment: p.Environment.Digest, Interpreter: p.Environment.Active, Code: shipped}
	all := protocol.Amended{}
	if amend != nil {
		all = *amend
	}
	all.Code = &code
	return &all, nil
}

// storeCodeAgain stores a plan's code once more: it must be the same blob.
func (e submitter) storeCodeAgain(ctx context.Context, p *Plan, blob string) error {
	if p.ship.Nothing {
		return nil
	}
	again, err := e.storeCodeArchive(ctx, p)
	if err == nil && string(again.Blob) != blob {
		err = fault.New(fault.Invalid, "Run it again.", "store code of job %s: it changed meanwhile", p.before.Job.Short)
	}
	return err
}
