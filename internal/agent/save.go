package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/agent/workspace"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// haltProgram carries out an order to end the program: it stops it and records that
// something else was the cause. A program that has not been started is not started any
// more, and that is recorded: the other nodes wait for this node's exit.
func (a *agent) haltProgram(ctx context.Context, o runagent.Order) error {
	p := a.program
	if p == nil {
		return a.recordExit(ctx, protocol.Exit{Verdict: protocol.Halted, Reason: o.Why})
	}
	a.LogNote("ending the program: %s", o.Why)
	exit := a.endProgram(node.Notice{Why: o.Why})
	if exit.Verdict != protocol.TimedOut { // its own limit came first
		exit.Verdict, exit.Reason = protocol.Halted, o.Why
	}
	return a.recordExit(ctx, p.notBlamed(exit))
}

// interruptProgram gives the program its stop signal, as Ctrl-C does at a terminal, and waits
// until it has ended, its grace is over, or there is no time left for that.
func (a *agent) interruptProgram(n node.Notice) {
	sig := n.FirstSignal(a.Job.Spec)
	if sig == 0 {
		return
	}
	p, grace := a.program, time.Duration(a.Job.Spec.Grace)
	a.space.WriteNotice(n.Why, 2*grace)
	p.interrupt(sig)
	over := time.NewTimer(grace)
	defer over.Stop()
	select {
	case <-p.ended:
	case <-a.Machine.Sooner:
	case <-over.C:
	}
}

// endProgram stops the program, as gently as the spec's grace and the notice allow, and
// returns once its tree is gone.
func (a *agent) endProgram(n node.Notice) protocol.Exit {
	p, left := a.program, n.TermTime(time.Duration(a.Job.Spec.Grace))
	a.space.WriteNotice(n.Why, left)
	p.askToStop(left)
	<-p.ended
	return a.exits.programExit(p)
}

// programEnded records the exit of a program that ended by itself or by its
// time limit.
func (a *agent) programEnded(ctx context.Context) error {
	return a.recordExit(ctx, a.exits.programExit(a.program))
}

// recordExit is the last stage of an attempt: state, outputs, then the exit that
// names them (R5). Storing comes first, so an exit is never more than it says.
func (a *agent) recordExit(ctx context.Context, exit protocol.Exit) error {
	saved := true
	if p := a.program; p != nil {
		if p.limit != nil {
			p.limit.Stop()
		}
		p.ports.stopWatching()
		if why := p.ports.checkPorts(); why != "" && exit.Verdict == protocol.Interrupted {
			a.LogNote("interrupted: %s", why)
		}
		p.meter.storeMetrics(ctx, a)
		a.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) { b.Phase = "saving" })
		a.program = nil
		err := a.untilStopped(ctx, func(ctx context.Context) error { return a.storeLeft(ctx, p, &exit) })
		switch {
		case err == nil:
		case errors.Is(err, node.ErrRemoved):
			return nil // the member's next Poll says so
		case errors.Is(err, errGivenUp):
			exit = a.exitWithoutResults(exit, err)
		case errors.Is(err, tree.ErrLimit):
			exit = a.exitOfRefusedResults(exit, err)
		case fault.KindOf(err) == fault.Full:
			exit, saved = a.exitOfUnstoredResults(exit, err), false
		default:
			return err
		}
	}
	exit = a.RedactExit(exit)
	attempt, rank := a.member.Joined()
	a.LogNote("attempt %d, node %d: %s", attempt, rank, exitText(exit))
	if err := a.Out.Flush(ctx); err != nil {
		return fmt.Errorf("store logs: %w", err)
	}
	err := a.patiently(ctx, func() error { return a.member.Ended(ctx, exit) })
	if err == nil && saved {
		a.remains.noteAllSaved()
	}
	return err
}

func exitText(e protocol.Exit) string {
	text := string(e.Verdict)
	if e.Reason != "" {
		text += ", " + e.Reason
	}
	return text
}

// promiseOutputs stores what the program made and names it, so that no gc takes any
// of it before the exit does (docs/design/004-gc.md). What is beyond a limit is
// tree.ErrLimit, and all else is stored and named.
func (o *outputs) promiseOutputs(ctx context.Context, attempt, rank int, exit *protocol.Exit) error {
	in := &watched{Store: o.World.Store, w: o.World}
	notes := exit.Notes
	need, refused, err := o.storeOutputs(ctx, in, exit)
	if err != nil {
		return err
	}
	if len(need) == 0 {
		return refused // it made nothing else: there is nothing to name
	}
	sweeps, err := in.watchRemovals(ctx)
	if err != nil {
		return err
	}
	if err := removal.NameOutputs(ctx, o.World, o.Path, attempt, rank, o.ID, exit.Outputs); err != nil {
		return err
	}
	err = sweeps.Assure(ctx, func() ([]store.Digest, error) { return need, nil }, func(ctx context.Context, _ []store.Digest) error {
		exit.Notes = notes
		_, _, err := o.storeOutputs(ctx, in, exit) // the program has ended: they are the same
		return err
	})
	return cmp.Or(err, refused)
}

// storeOutputs stores what the program made: model, output/data or the results
// of a processing job, and the files it created or changed beside itself. refused
// says which of them is beyond a limit, the first of several.
func (o *outputs) storeOutputs(ctx context.Context, in *watched, exit *protocol.Exit) (need []store.Digest, refused, err error) {
	p := o.space.HostPaths()
	exit.Outputs = map[string]store.Digest{}
	kinds := []struct {
		name    string
		listing func() (tree.Tree, error)
	}{
		{"model", func() (tree.Tree, error) {
			return o.saveFolder(ctx, in, p.Model, tree.SaveOptions{As: o.space.PathInView(p.Model)})
		}},
		{"output", func() (tree.Tree, error) { return o.saveResults(ctx, in) }},
		{"files", func() (tree.Tree, error) {
			w := o.space.WorkFiles()
			listing, err := o.saveFolder(ctx, in, w.Dir, tree.SaveOptions{As: w.As, Skip: workspace.NeverSaved, SkipFile: w.Shipped})
			listing.Dirs = nil // the script's own folders, with nothing new in them
			return listing, err
		}},
	}
	for _, kind := range kinds {
		listing, err := kind.listing()
		if err == nil && len(listing.Files)+len(listing.Links)+len(listing.Dirs) > 0 {
			if exit.Outputs[kind.name], err = tree.PutTree(ctx, in, listing); err != nil {
				delete(exit.Outputs, kind.name)
			}
		}
		if errors.Is(err, tree.ErrLimit) {
			refused = cmp.Or(refused, fmt.Errorf("store %s: %w", kind.name, err))
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("store %s: %w", kind.name, err)
		}
		for _, note := range listing.Notes {
			exit.Notes = append(exit.Notes, kind.name+": "+note)
		}
		if d, ok := exit.Outputs[kind.name]; ok {
			need = append(need, d)
		}
		for _, f := range listing.Files {
			need = append(need, f.SHA256)
		}
	}
	return need, refused, nil
}

// saveFolder stores the files of a folder, all of it unless opt says what not; the
// program may have removed it.
func (o *outputs) saveFolder(ctx context.Context, in *watched, dir string, opt tree.SaveOptions) (tree.Tree, error) {
	if dir == "" {
		return tree.Tree{}, nil
	}
	folder, why := o.space.LeftFolder(dir)
	if folder == "" {
		if why != "" {
			why = opt.As + ": " + why
			return tree.Tree{Notes: []string{why}}, nil
		}
		return tree.Tree{}, nil
	}
	opt.Settled, opt.MaxBytes = true, o.MaxStoredBytes()
	listing, err := tree.Save(ctx, in, folder, opt)
	if errors.Is(err, fs.ErrPermission) {
		workspace.Unlock(ctx, folder)
		listing, err = tree.Save(ctx, in, folder, opt)
	}
	if errors.Is(err, fs.ErrPermission) { // the program's own doing, or its user's: its exit is not lost for that
		return tree.Tree{Notes: []string{err.Error()}}, nil
	}
	return listing, err
}

// saveResults stores output/data, or the results of a processing job: below
// their names, unless there is but the one that has no name.
func (o *outputs) saveResults(ctx context.Context, in *watched) (tree.Tree, error) {
	results := o.Job.Spec.Results
	if len(results) == 0 {
		return o.saveFolder(ctx, in, o.space.HostPaths().OutputData, tree.SaveOptions{As: o.space.ProgramPaths().OutputData})
	}
	var all tree.Tree
	for _, r := range results {
		from := filepath.Join(o.Root, r.From)
		listing, err := o.saveFolder(ctx, in, from, tree.SaveOptions{As: o.space.PathInView(from)})
		if err != nil {
			return all, fmt.Errorf("%s: %w", r.Name, err)
		}
		if len(results) == 1 && r.Name == "output" {
			return listing, nil
		}
		all.Add(r.Name, listing)
	}
	return all, nil
}

// programExit says how a program that is gone has ended.
func (r *exits) programExit(p *program) protocol.Exit {
	x := p.proc.Wait()
	if !x.OOM && x.Status() != 0 && r.starvedKills() > p.starved {
		x.OOM = true
		p.apart = true
	}
	r.measureLeft(p)
	exit := protocol.Exit{Verdict: protocol.Done, Code: x.Status(), Started: p.started.UTC(), Ended: time.Now().UTC(),
		CPU: x.User + x.System, MaxRSS: x.MaxRSS, Peak: max(x.PeakMemory, p.meter.peakMemory())}
	if x.Signal != 0 {
		exit.Signal = signalName(x.Signal)
	}
	if x.Left > 0 {
		exit.Notes = append(exit.Notes, leftNote(x.Left))
	}
	if note := workspace.ChangedNote(r.space.ChangedThroughLinks()); note != "" {
		exit.Notes = append(exit.Notes, note)
		r.LogNote("%s", note)
	}
	switch {
	case p.late.Load():
		exit.Verdict, exit.Code = protocol.TimedOut, fault.ExitTimeLimit
		exit.Reason = fmt.Sprintf("time limit of %s reached", r.Job.Spec.Timeout)
		exit.Hint = "Give it more with --timeout, or run it again: it continues from its checkpoint."
	case p.stuck.Load():
		exit.Verdict, exit.Code, exit.Signal = protocol.Broke, int(p.alarmed.Load()), ""
		exit.Reason = fmt.Sprintf("one process exited with status %d, and the others kept waiting for it", exit.Code)
		exit.Trace = p.tail.String()
	case x.OOM || x.Crowd || p.full.Load() > 0:
		r.exitBeyondLimits(&exit, x, p)
	case x.Lost:
		exit.Verdict, exit.Code, exit.Reason = protocol.Broke, 137, "killed from outside, or out of memory"
	case exit.Code != 0:
		exit.Verdict = protocol.Broke
		exit.Trace = p.tail.String()
		exit.Reason = r.failureReason(exit)
	case r.Job.Spec.Verb != job.Process:
		// To SageMaker a job that leaves a failure file has failed, whatever its status.
		if text := firstText(r.space.HostPaths().Failure); text != "" {
			exit.Verdict, exit.Code, exit.Reason, exit.Trace = protocol.Broke, 1, text, p.tail.String()
			exit.Notes = append(exit.Notes, "it exited with status 0, but left a failure file")
		}
	}
	exit.Message = firstText(r.space.HostPaths().Message)
	return p.notBlamed(exit)
}

// starvedKills is Machine.Starved for a job with a limit that it can tell of.
func (r *exits) starvedKills() int64 {
	if r.Machine.Starved == nil || r.Job.Spec.Memory == 0 {
		return 0
	}
	return r.Machine.Starved()
}

// exitBeyondLimits is the exit of a program that wanted more than its limits allow.
func (r *exits) exitBeyondLimits(exit *protocol.Exit, x proc.Exit, p *program) {
	spec := r.Job.Spec
	exit.Verdict, exit.Code, exit.Signal, exit.Trace = protocol.Broke, 137, "", p.tail.String()
	switch {
	case x.OOM:
		exit.Reason = fmt.Sprintf("out of memory: %s limit", spec.Memory.Words())
		if p.apart {
			exit.Reason += ", which includes /dev/shm"
		} else if exit.Peak > 0 {
			exit.Reason += fmt.Sprintf(", %s in use at the peak", job.Bytes(exit.Peak).Words())
		}
		more := max(2*int64(spec.Memory), exit.Peak*3/2)
		exit.Hint = fmt.Sprintf("Give it more: --memory %s.", wholeMegabytes(more))
	case x.Crowd:
		exit.Reason = fmt.Sprintf("too many processes: limit of %d", spec.Processes)
		exit.Hint = fmt.Sprintf("Give it more: --procs %d.", 2*spec.Processes)
	default:
		used := p.full.Load()
		exit.Reason = fmt.Sprintf("out of disk: %s limit, %s in its folders", spec.Disk.Words(), job.Bytes(used).Words())
		exit.Hint = fmt.Sprintf("Give it more: --disk %s.", wholeMegabytes(max(2*int64(spec.Disk), used*3/2)))
	}
}

// wholeMegabytes is a size as it is typed, rounded up.
func wholeMegabytes(n int64) job.Bytes {
	const unit = 64 << 20
	return job.Bytes((n + unit - 1) / unit * unit)
}

func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGTERM: "SIGTERM", syscall.SIGSEGV: "SIGSEGV",
		syscall.SIGINT: "SIGINT", syscall.SIGABRT: "SIGABRT", syscall.SIGHUP: "SIGHUP", syscall.SIGBUS: "SIGBUS",
		syscall.SIGFPE: "SIGFPE", syscall.SIGILL: "SIGILL", syscall.SIGPIPE: "SIGPIPE", syscall.SIGQUIT: "SIGQUIT"}
	if n, ok := names[s]; ok {
		return n
	}
	return fmt.Sprintf("signal %d", int(s))
}

// failureReason is one line about a failure: what the program wrote into its failure
// file, else the exception of its traceback, else its exit status.
func (r *exits) failureReason(e protocol.Exit) string {
	if text := firstText(r.space.HostPaths().Failure); text != "" {
		return text
	}
	if text := firstText(r.space.HostPaths().Message); text != "" && r.Job.Spec.Verb == job.Process {
		return text
	}
	status := fmt.Sprintf("exit status %d", e.Code)
	if e.Signal != "" {
		status = "ended by " + e.Signal
	}
	if t, ok := lastTraceback(e.Trace, r.space.CodePathInView()); ok {
		return t.String() + " (" + status + ")"
	}
	return status
}

// maxText is how much of a failure or message file is read, in characters:
// SageMaker's own limit.
const maxText = 1024

// firstText is the beginning of a failure or message file. The program made it,
// so it may be a fifo, a link to a device, or endless.
func firstText(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	b, _ := io.ReadAll(io.LimitReader(f, maxText*utf8.UTFMax)) // what could be read will do
	text := []rune(strings.ToValidUTF8(strings.TrimSpace(string(b)), ""))
	return string(text[:min(len(text), maxText)])
}

// leftNote says that processes of the program live on.
func leftNote(n int) string {
	if n == 1 {
		return "1 process could not be ended: it runs as another user"
	}
	return fmt.Sprintf("%d processes could not be ended: they run as another user", n)
}
