package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// prepared is what the stages before the rendezvous found out.
type prepared struct {
	env    env.Ready
	inputs map[string]string // name -> folder
	failed error             // why the program cannot start at all
	gpus   GPUs              // that the program sees
	used   bool              // an attempt has run in the code folder
}

// prepare is the stages fetch, prepare and inputs: all that can be done before
// the others are there. It ends early when ctx does.
func (a *agent) prepare(ctx context.Context) error {
	began := time.Now()
	gpus := make(chan error, 1)
	go func() { gpus <- a.findGPUs(ctx) }() // asking for them takes as long as all the rest, often
	err := a.prepareFiles(ctx)
	if gerr := <-gpus; err == nil {
		err = gerr
	}
	if err != nil {
		return err
	}
	a.note("prepared in %.2fs", time.Since(began).Seconds())
	return nil
}

func (a *agent) prepareFiles(ctx context.Context) error {
	if err := a.fetch(ctx); err != nil {
		return err
	}
	if err := a.prepareEnv(ctx); err != nil {
		return err
	}
	return a.fetchInputs(ctx)
}

// findGPUs learns how many GPUs the program will see, and sets some apart for
// this node alone when the job asks for that: it waits until they are free.
func (a *agent) findGPUs(ctx context.Context) (err error) {
	if a.Machine.GPUs == nil {
		return nil
	}
	label := fmt.Sprintf("job %s", a.job.Short)
	a.ready.gpus, err = a.Machine.GPUs(ctx, a.job.Spec.GPUs, label, func(why string) {
		a.note("%s", why)
		a.beat.set(func(b *ledger.Beat) { b.Note = why })
	})
	return err
}

// fetch makes the contract's folders anew, lays the code out and remembers what
// it looked like. Inputs stay.
func (a *agent) fetch(ctx context.Context) error {
	p, code := a.paths(), a.paths().Code
	for _, dir := range append(p.Results, code, p.Model, p.Output, p.Checkpoints, p.State) { // nothing of the attempt before
		if err := removeAll(dir); err != nil {
			return fmt.Errorf("clear folder: %w", err)
		}
	}
	for _, dir := range a.paths().Folders() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fault.Wrap(err, fault.Full, "Free some space and run it again.", "make folder %s", dir)
		}
	}
	if a.job.Code.Blob != "" {
		r, err := a.World.Store.OpenBlob(ctx, store.Digest(a.job.Code.Blob))
		if err != nil {
			return fmt.Errorf("fetch code: %w", err)
		}
		defer r.Close()
		if err := bundle.Unpack(ctx, r, code, bundle.Caps{}); err != nil {
			return fmt.Errorf("fetch code: %w", err)
		}
	}
	var err error
	a.pristine, err = takeSnapshot(code)
	return err
}

// prepareEnv finds or builds what the script runs in.
func (a *agent) prepareEnv(ctx context.Context) error {
	spec := a.job.Spec
	plan, err := env.Resolve(ctx, env.Request{Dir: a.paths().Code, Script: a.job.Code.Script, Python: cmp.Or(a.job.Interpreter, spec.Python),
		NoEnv: spec.NoEnv, Environ: a.environ(), Cache: a.Machine.Cache})
	if err != nil {
		return err
	}
	began := time.Now()
	if plan.Build {
		a.beat.set(func(b *ledger.Beat) { b.Note = "building environment" })
		a.note("environment: %s", plan.Why)
	}
	a.ready.env, err = env.Build(ctx, plan, func(line string) { a.note("%s", line) })
	if err != nil {
		return err
	}
	switch {
	case plan.Build:
		a.note("environment built in %.1fs", time.Since(began).Seconds())
	case plan.Source != env.SourceNone:
		a.note("environment: %s", plan.Why)
	}
	a.beat.set(func(b *ledger.Beat) { b.Note = "" })
	return nil
}

// fetchInputs restores the job's inputs, each in a folder of its own.
func (a *agent) fetchInputs(ctx context.Context) error {
	a.ready.inputs = map[string]string{}
	for _, in := range a.job.Spec.Inputs {
		dir := filepath.Join(a.paths().Data, in.Name)
		if in.To != "" {
			dir = filepath.Join(a.root, in.To)
		}
		tree, err := bundle.LoadTree(ctx, a.World.Store, store.Digest(a.job.Inputs[in.Name]))
		if err != nil {
			return fmt.Errorf("fetch input %s: %w", in.Name, err)
		}
		if err := bundle.Restore(ctx, a.World.Store, tree, dir); err != nil {
			return fmt.Errorf("fetch input %s: %w", in.Name, err)
		}
		a.ready.inputs[in.Name] = dir
	}
	return nil
}

// afterPrepare lets the member join, also after a failure: only a member can
// record why it could not start.
func (a *agent) afterPrepare(ctx context.Context, err error) error {
	a.prepared = nil
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		a.ready.failed = err
		a.note("not started: %v", err)
	}
	if err == nil || a.ready.failed != nil {
		a.wantView()
		a.member.Ready()
		a.beat.set(func(b *ledger.Beat) { b.Phase = "waiting" })
	}
	return nil
}

// setUp makes ready for one attempt: fresh folders, and the state and
// checkpoints that the newest generation holds.
func (a *agent) setUp(ctx context.Context, o ledger.Order) error {
	a.fenced, a.gens, a.restored = false, nil, [2]kept{}
	a.attempt = o.Attempt
	if err := a.openLog(o.Attempt, o.Rank); err != nil {
		return err
	}
	if a.ready.failed != nil {
		return a.record(ctx, setupExit(a.ready.failed))
	}
	if a.ready.used {
		if err := a.fetch(ctx); err != nil {
			return a.record(ctx, setupExit(err))
		}
	}
	a.ready.used = true
	me := ledger.Restored{Job: a.job.ID, Place: a.place, Attempt: o.Attempt, Agent: a.id}
	complete := func(s ledger.Saved) (bool, error) { return a.complete(ctx, s) }
	gens, saved, err := a.World.Restore(ctx, a.Path, o.Rank, me, a.job.Since, complete)
	if errors.Is(err, ledger.ErrFenced) {
		a.fenced = true
		return nil
	}
	if err != nil {
		return err
	}
	a.gens = gens
	if saved == nil {
		return nil
	}
	dirs := [2]string{a.paths().Checkpoints, a.paths().State}
	for i, d := range [2]store.Digest{saved.Checkpoints, saved.State} {
		if d == "" {
			continue
		}
		dir := dirs[i]
		tree, err := bundle.LoadTree(ctx, a.World.Store, d)
		if err == nil {
			err = bundle.Restore(ctx, a.World.Store, tree, dir)
		}
		if err != nil {
			return a.record(ctx, setupExit(fmt.Errorf("restore %s: %w", filepath.Base(dir), err)))
		}
		a.restored[i] = kept{digest: tree.Digest(), blob: d}
		if n := len(tree.Files); n > 0 {
			a.note("restored %s: %d %s, %d bytes, saved by attempt %d of job %s", filepath.Base(dir), n, plural(n, "file"), tree.Bytes(), saved.Attempt, saved.Job[:job.MinShort])
		}
	}
	return nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// complete says whether every blob of a generation is there.
func (a *agent) complete(ctx context.Context, s ledger.Saved) (bool, error) {
	for _, d := range []store.Digest{s.State, s.Checkpoints} {
		if d == "" {
			continue
		}
		tree, err := bundle.LoadTree(ctx, a.World.Store, d)
		if errors.Is(err, store.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for _, f := range tree.Files {
			if ok, err := a.World.Store.HasBlob(ctx, f.SHA256); err != nil || !ok {
				return false, err
			}
		}
	}
	return true, nil
}

// setupExit is the exit of a rank whose program never started.
func setupExit(err error) ledger.Exit {
	return ledger.Exit{Verdict: ledger.Setup, Code: fault.ExitDrover, Reason: err.Error(), Hint: fault.Hint(err)}
}

// cleanUp removes the agent's folder, unless it holds results that nothing else
// does; and the job's when it is the last in it.
func (a *agent) cleanUp() {
	if a.keep {
		_ = os.Remove(filepath.Join(a.root, markName)) // or the next agent would sweep it away
		return
	}
	if err := removeAll(a.root); err != nil {
		a.Log.Warn("folder stays", "dir", a.root, "err", err)
	}
	_ = os.Remove(filepath.Dir(a.root)) // fails while another agent is in it
}

// mark is kept in an agent's folder, so that who comes later can tell whose it
// was and end what it left.
type mark struct {
	Host  ledger.Host `json:"host"`
	Token string      `json:"token"` // of the program's tree; "" before it has started
}

const markName = "mark.json"

// sweep ends processes and removes folders of agents, of any job, that died on
// this machine without a chance to.
func (a *agent) sweep() {
	marks, err := filepath.Glob(filepath.Join(a.Machine.Work, "*", "*", markName))
	if err != nil {
		return
	}
	for _, file := range marks {
		var m mark
		b, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(b, &m) != nil {
			continue
		}
		if gone, known := a.World.Gone(m.Host); !known || !gone {
			continue
		}
		dir := filepath.Dir(file)
		if m.Token != "" {
			if n, err := proc.Sweep(m.Token); err != nil || n > 0 {
				a.Log.Warn("ended processes of a lost agent", "dir", dir, "killed", n, "err", err)
			}
		}
		if err := removeAll(dir); err != nil {
			a.Log.Warn("folder stays", "dir", dir, "err", err)
		}
		_ = os.Remove(filepath.Dir(dir)) // fails while another agent is in it
	}
}

func (a *agent) leaveMark(token string) error {
	b, err := json.Marshal(mark{Host: a.Machine.Self, Token: token})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.root, markName), b, 0o600)
}
