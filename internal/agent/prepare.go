package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/agent/workspace"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/env/packages"
	"github.com/drover-run/drover/internal/env/programs"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// prepared is what the stages before the rendezvous found out.
type prepared struct {
	env    env.Ready
	inputs map[string]string // name -> folder
	shares map[string]int    // name -> the rank of the share that is there, or wholeInput
	failed error             // why the program cannot start at all
	room   node.Room         // what of the machine is this node's
	hold   func()            // lets the environment be removed; nil: it is not held
	used   bool              // an attempt has run in the code folder
}

// prepareMachine is the stages fetch, prepare and inputs: all that can be done before
// the others are there. It ends early when ctx does.
func (a *agent) prepareMachine(ctx context.Context) error {
	began := time.Now()
	room := make(chan error, 1)
	inLine, leave := context.WithCancel(ctx)
	defer leave()
	go func() { room <- a.reserveResources(inLine) }() // it may wait for hours, and asking for GPUs alone takes as long as all the rest
	err := a.prepareFiles(ctx)
	if err != nil {
		leave()
	}
	if rerr := <-room; err == nil {
		err = rerr
	}
	if err != nil {
		return err
	}
	a.LogNote("prepared in %.2fs", time.Since(began).Seconds())
	return nil
}

func (a *agent) prepareFiles(ctx context.Context) error {
	if err := a.ready.failed; err != nil {
		return err // its secrets are not here
	}
	a.NoteSecrets()
	a.remains.saveDeadAgents(ctx)
	if err := a.space.EmptyMachine(); err != nil {
		return err
	}
	if err := a.fetchCode(ctx); err != nil {
		return err
	}
	if err := a.prep.prepareEnv(ctx); err != nil {
		return err
	}
	a.ready.inputs, a.ready.shares = map[string]string{}, map[string]int{}
	return a.prep.fetchInputs(ctx, wholeInput)
}

// reserveResources sets apart what the job asks of this machine, and waits until there is
// so much. It learns how many GPUs the program will see, too.
func (a *agent) reserveResources(ctx context.Context) (err error) {
	if a.Machine.Room == nil {
		return nil
	}
	spec := a.Job.Spec
	w := node.Wish{Job: a.Job.ID, Label: "job " + a.Job.Short, Nodes: spec.Nodes, CPUs: spec.CPUs, Memory: int64(spec.Memory), GPUs: spec.GPUs,
		Queue: spec.Queue, Priority: spec.Priority, Now: spec.Now, Share: spec.Share}
	if a.IsMap() {
		w = a.items.wishForSlots(w)
	}
	a.ready.room, err = a.Machine.Room(ctx, w, func(why string) {
		a.LogNote("%s", why)
		a.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) { b.Phase, b.Queue = protocol.Queued, why })
	})
	a.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) {
		b.Queue = ""
		if b.Phase == protocol.Queued {
			b.Phase = "preparing"
		}
	})
	return err
}

// fetchCode makes the contract's folders anew, lays the code out and remembers what
// it looked like. Inputs stay.
func (a *agent) fetchCode(ctx context.Context) error {
	p, code := a.space.HostPaths(), a.space.HostPaths().Code
	for _, dir := range append(p.Results, code, p.Model, p.Output, p.Checkpoints, p.State, p.Before, p.Notice) { // nothing of the attempt before
		if dir == "" {
			continue
		}
		if err := a.space.ClearFolder(dir); err != nil {
			return fmt.Errorf("clear folder: %w", err)
		}
	}
	for _, dir := range a.space.HostPaths().Folders() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fault.Wrap(err, fault.Full, "Free some space and run it again.", "make folder %s", dir)
		}
	}
	if err := a.space.UnpackCode(ctx, store.Digest(a.Job.Code.Blob), code); err != nil {
		return fmt.Errorf("fetch code: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(code, filepath.FromSlash(a.Job.Code.Sub)), 0o755); err != nil { // it may have no file that is shipped
		return fault.Wrap(err, fault.Full, "Free some space and run it again.", "make the working folder")
	}
	var err error
	a.space.Pristine, err = workspace.TakeSnapshot(code)
	return err
}

// installPackages installs the Linux packages that the code names, if the person
// has said so.
func (p *preparation) installPackages(ctx context.Context) error {
	if !p.Job.Spec.Packages || p.Job.Spec.NoEnv {
		return nil
	}
	names, err := packages.Read(p.envRequest())
	if err != nil || len(names) == 0 {
		return err
	}
	p.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) { b.Note = "installing packages" })
	return packages.Install(ctx, names, p.CallerEnviron(), func(line string) { p.LogNote("%s", line) })
}

// envRequest is what the script is and has around it.
func (p *preparation) envRequest() requirements.Request {
	spec, code := p.Job.Spec, p.Job.Code
	dir := p.space.HostPaths().Code
	if code.Partial && p.space.PlaceExists() { // what says which packages are needed was not shipped
		dir = code.Root
	}
	return programs.For(requirements.Request{Dir: dir, Sub: code.Sub, Python: cmp.Or(p.Job.Interpreter, spec.Python),
		NoEnv: spec.NoEnv, Environ: p.CallerEnviron(), Cache: p.Machine.Cache, Job: p.Root}, code.Script, code.Python, spec.Program)
}

// prepareEnv finds or builds what the script runs in.
func (p *preparation) prepareEnv(ctx context.Context) error {
	if err := p.installPackages(ctx); err != nil {
		return err
	}
	plan, err := env.Resolve(ctx, p.envRequest())
	if err != nil {
		return err
	}
	began := time.Now()
	if plan.Build {
		p.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) { b.Note = "building environment" })
		p.LogNote("environment: %s", plan.Why)
	}
	if p.ready.hold, err = plan.Hold(ctx); err != nil {
		return err
	}
	p.ready.env, err = env.Build(ctx, plan, func(line string) { p.LogNote("%s", line) })
	if err != nil {
		return err
	}
	switch {
	case plan.Build:
		p.LogNote("environment built in %.1fs", time.Since(began).Seconds())
	case plan.Source != requirements.SourceNone:
		p.LogNote("environment: %s", plan.Why)
	}
	p.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) { b.Note = "" })
	return nil
}

// afterPrepare lets the member join, also after a failure: only a member can
// record why it could not start.
func (a *agent) afterPrepare(ctx context.Context, err error) error {
	a.prepared = nil
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		a.ready.failed = err
		a.LogNote("not started: %v", err)
	}
	if err == nil || a.ready.failed != nil {
		a.space.DecideView(a.ready.env.Interpreter)
		a.space.WantLayers()
		a.member.Ready()
		a.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) { b.Phase = "waiting" })
	}
	return nil
}

// setUpAttempt makes ready for one attempt: fresh folders, and the state and
// checkpoints that the newest generation holds.
func (a *agent) setUpAttempt(ctx context.Context, o runagent.Order) error {
	a.fenced, a.state.gens, a.state.restored = false, nil, [3]kept{}
	a.attempt = o.Attempt
	if err := a.openAttemptLog(ctx, o.Attempt, o.Rank); err != nil {
		return err
	}
	if a.ready.failed != nil {
		return a.recordExit(ctx, setupExit(a.ready.failed))
	}
	if a.ready.used {
		a.remains.noteAllSaved()
		if err := a.fetchCode(ctx); err != nil {
			return a.recordExit(ctx, setupExit(err))
		}
	}
	a.ready.used = true
	if err := a.space.LayOutPlace(); err != nil {
		return a.recordExit(ctx, setupExit(err))
	}
	if err := a.prep.fetchInputs(ctx, o.Rank); err != nil {
		return a.recordExit(ctx, setupExit(err))
	}
	return a.restoreRank(ctx, o)
}

// restoreRank takes the rank's state over and lays out what it begins with.
func (a *agent) restoreRank(ctx context.Context, o runagent.Order) error {
	me := protocol.Restored{Job: a.Job.ID, Submission: a.Place, Attempt: o.Attempt, Agent: a.ID}
	complete := removal.Lasting(ctx, a.World, func(s protocol.Saved) ([]store.Digest, bool, error) { return a.state.allBlobsExist(ctx, s) })
	gens, saved, err := states.RestoreState(ctx, a.World, a.Path, o.Rank, me, a.Job.Since, complete)
	if errors.Is(err, states.ErrFenced) {
		a.fenced = true
		return nil
	}
	if err != nil {
		return err
	}
	a.state.gens = gens
	if saved == nil {
		saved = &protocol.Saved{Submission: -1}
	}
	state := *saved
	switch {
	case a.Job.Spec.Rules == job.SSM:
		state, err = a.state.sharedState(ctx, o)
		if errors.Is(err, states.ErrFenced) {
			a.fenced, a.state.gens = true, nil
			return nil
		}
		if err != nil {
			return err
		}
	case state.Submission < a.state.stateSince():
		state.State = ""
	}
	err = a.state.restoreFolder(ctx, restoredCheckpoints, saved.Checkpoints, a.space.HostPaths().Checkpoints, *saved)
	if err == nil {
		err = a.state.restoreFolder(ctx, restoredState, state.State, a.space.HostPaths().State, state)
	}
	if err == nil {
		err = a.state.layOutFiles(ctx, *saved)
	}
	if err != nil {
		return a.recordExit(ctx, setupExit(err))
	}
	return nil
}

// The folders of a generation, in the order of saver.folders.
const (
	restoredCheckpoints = iota
	restoredState
	restoredFiles
)

// stateSince is the first place with a state that counts.
func (s *rankState) stateSince() int {
	if s.Job.StateSince == 0 && !s.Job.Spec.CleanState {
		return -1 // what was put before the first job is there
	}
	return s.Job.StateSince
}

// restoreFolder restores one of the two folders, with the list d, and remembers what is in
// it; "" is nothing.
func (s *rankState) restoreFolder(ctx context.Context, which int, d store.Digest, dir string, from protocol.Saved) error {
	if d == "" {
		return nil
	}
	listing, err := tree.LoadTree(ctx, s.World.Store, d)
	if err == nil {
		err = tree.Restore(ctx, s.World.Store, listing, dir)
	}
	if before := s.space.HostPaths().Before; err == nil && which == restoredState && before != "" && len(listing.Files) > 0 {
		err = tree.Restore(ctx, s.World.Store, listing, before)
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", filepath.Base(dir), err)
	}
	s.restored[which] = kept{digest: listing.Digest(), blob: d, tree: listing}
	s.noteRestored(filepath.Base(dir), listing, from)
	return nil
}

// noteRestored tells of a folder that was restored.
func (s *rankState) noteRestored(what string, listing tree.Tree, from protocol.Saved) {
	if n := len(listing.Files); n > 0 {
		s.LogNote("restored %s: %d %s, %d bytes, %s", what, n, workspace.Plural(n, "file"), listing.Bytes(), whose(from))
	}
}

// whose gives the saver of a generation.
func whose(s protocol.Saved) string {
	if s.Job == "" {
		return "of all nodes"
	}
	if strings.HasPrefix(s.Agent, "cli-") {
		return "stored with drover put"
	}
	return fmt.Sprintf("saved by attempt %d of job %s", s.Attempt, s.Job[:min(job.MinShort, len(s.Job))])
}

// allBlobsExist says whether every blob of a generation is there, and which are needed.
func (s *rankState) allBlobsExist(ctx context.Context, saved protocol.Saved) (need []store.Digest, whole bool, err error) {
	for _, d := range saved.Lists() {
		listing, err := tree.LoadTree(ctx, s.World.Store, d)
		if errors.Is(err, store.ErrNotExist) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		if gone, err := tree.Missing(ctx, s.World.Store, listing); err != nil || len(gone) > 0 {
			return nil, false, err
		}
		need = append(append(need, d), listing.Blobs()...)
	}
	return need, true, nil
}

// setupExit is the exit of a rank with a program that never started.
func setupExit(err error) protocol.Exit {
	return protocol.Exit{Verdict: protocol.Setup, Code: fault.ExitDrover, Reason: err.Error(), Hint: fault.Hint(err)}
}

// removeFolder removes the agent's folder, unless it holds results that nothing else
// does; and the job's when it is the last in it. removed says that the job is gone.
func (a *agent) removeFolder(removed bool) {
	if a.over || removed {
		for _, d := range a.remains.dead {
			if err := removeFolder(d.dir); err != nil {
				a.Log.Warn("folder stays", "dir", d.dir, "err", err)
			}
		}
	}
	switch {
	case a.keep:
		_ = os.Remove(filepath.Join(a.Own, markName)) // or the next agent would sweep it away
		return
	case a.remains.unsaved != nil && !a.over && !removed:
		return // for the next agent of this task
	}
	if a.Root != a.Own { // first of all, or what is half emptied would be saved
		_ = os.Remove(filepath.Join(a.Own, markName))
	}
	if err := a.space.EmptyMachine(a.console.Archived(a.space.HostPaths())...); err != nil {
		a.Log.Warn("folders stay", "err", err)
	}
	if err := a.console.WriteEnd(); err != nil {
		a.Log.Warn("the engine is not told why the job has failed", "err", err)
	}
	if err := removeFolder(a.Own); err != nil {
		a.Log.Warn("folder stays", "dir", a.Own, "err", err)
	}
}
