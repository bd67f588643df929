package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/contract"
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
	used   bool              // an attempt has run in the code folder
}

// paths are where this agent's program finds things. Until it has a view of its
// own they lie below the agent's folder, and the variables point there.
func (a *agent) paths() contract.Paths { return contract.Facts{Root: a.root}.Paths() }

// prepare is the stages fetch, prepare and inputs: all that can be done before
// the others are there. It ends early when ctx does.
func (a *agent) prepare(ctx context.Context) error {
	began := time.Now()
	if err := a.fetch(ctx); err != nil {
		return err
	}
	if err := a.prepareEnv(ctx); err != nil {
		return err
	}
	if err := a.fetchInputs(ctx); err != nil {
		return err
	}
	a.note("prepared in %.2fs", time.Since(began).Seconds())
	return nil
}

// fetch makes the contract's folders anew, lays the code out and remembers what
// it looked like. Inputs stay.
func (a *agent) fetch(ctx context.Context) error {
	p, code := a.paths(), a.paths().Code
	for _, dir := range []string{code, p.Model, p.Output, p.Checkpoints, p.State} { // nothing of the attempt before
		if err := os.RemoveAll(dir); err != nil {
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

// command is the program's command line and folder.
func (a *agent) command(environ []string) (proc.Command, error) {
	spec, code := a.job.Spec, a.paths().Code
	c := proc.Command{Dir: code, Env: environ}
	switch {
	case spec.Verb == job.Shell:
		sh, err := lookPath("bash", environ, code)
		if err != nil {
			sh, err = lookPath("sh", environ, code)
		}
		if err != nil {
			return c, err
		}
		c.Path, c.Args = sh, []string{sh, "-c", spec.Program}
		return c, nil
	case a.job.Code.Script == "":
		p, err := lookPath(spec.Program, environ, code)
		c.Path, c.Args = p, append([]string{spec.Program}, spec.Args...)
		return c, err
	}
	script := filepath.Join(code, filepath.FromSlash(a.job.Code.Script))
	switch {
	case a.ready.env.Interpreter != "":
		c.Path = a.ready.env.Interpreter
		c.Args = append([]string{c.Path, a.job.Code.Script}, spec.Args...)
	case strings.HasSuffix(script, ".sh") && !executable(script):
		sh, err := lookPath("bash", environ, code)
		if err != nil {
			return c, err
		}
		c.Path, c.Args = sh, append([]string{sh, a.job.Code.Script}, spec.Args...)
	default:
		c.Path, c.Args = script, append([]string{script}, spec.Args...)
	}
	return c, nil
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode()&0o111 != 0
}

// lookPath finds a program as a shell in that environment and folder would.
func lookPath(name string, environ []string, dir string) (string, error) {
	missing := fault.New(fault.Invalid, "Check the spelling, or install it where the job runs.", "start program: %q is not on PATH", name)
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return "", fault.New(fault.Invalid, "Check the path: it is looked up where the job runs.", "start program: %q is not there", name)
		}
		return name, nil
	}
	for _, kv := range environ {
		path, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(path) {
			if d == "" || !filepath.IsAbs(d) {
				d = filepath.Join(dir, d)
			}
			if full, err := exec.LookPath(filepath.Join(d, name)); err == nil {
				return full, nil
			}
		}
	}
	return "", missing
}

// cleanUp removes the agent's folder, unless it holds results that nothing else
// does; and the job's when it is the last in it.
func (a *agent) cleanUp() {
	if a.keep {
		_ = os.Remove(filepath.Join(a.root, markName)) // or the next agent would sweep it away
		return
	}
	if err := os.RemoveAll(a.root); err != nil {
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
		if err := os.RemoveAll(dir); err != nil {
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
