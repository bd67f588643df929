package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/agent/workspace"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/metric"
)

// program is the user's running program and the goroutines around it.
type program struct {
	proc    *proc.Process
	attempt int
	rank    int
	started time.Time
	tail    tail // of stderr
	pumps   sync.WaitGroup
	saver   *saver
	starved int64                      // Machine.Starved before it began
	apart   bool                       // it ended by that, and not by a limit of its own
	limit   *time.Timer                // --timeout; nil: none
	late    atomic.Bool                // the limit was reached
	full    atomic.Int64               // bytes in its folders, once that is more than --disk
	meter   *meter                     // finds metrics and samples what it uses
	ports   *portWatch                 // looks which process listens where the nodes meet; nil: nothing to see
	calls   *calls                     // takes calls between nodes; nil: there are none
	alarmed atomic.Int64               // the status of a part that has ended badly; 0: none
	stuck   atomic.Bool                // the rest was ended, as it waited for that
	asked   sync.Once                  // it is asked to stop once: a second SIGTERM may mean "give up saving"
	kill    atomic.Pointer[time.Timer] // for when grace is over, where that is ours to count
	wait    atomic.Pointer[time.Timer] // for when what goes on waiting is to be ended
	ended   chan struct{}
}

// treeGone is closed when the whole process tree is gone and all it said was read.
// A nil program's is never closed.
func (p *program) treeGone() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.ended
}

// contractFacts is what the contract is made of, as the program is to see it.
func (a *agent) contractFacts(o runagent.Order) (contract.Facts, error) {
	spec := a.Job.Spec
	f := a.space.FolderFacts(a.space.ProgramRoot())
	f.Job, f.ID, f.Project, f.Task = contract.JobName(spec.Project, spec.Task, a.Job.Short), a.Job.ID, spec.Project, spec.Task
	f.Attempt, f.Args, f.Env = o.Attempt, spec.Args, spec.Env
	f.Hyperparameters, f.Entrypoint = spec.Hyperparameters, spec.Entrypoint
	f.Program = orElse(a.Job.Code.Script, spec.Program)
	f.Hosts, f.Rank = contract.Hosts(spec.Nodes), o.Rank
	f.Machine, f.Region, f.CPUs = spec.MachineType(), a.Machine.Region, a.Machine.CPUs
	if spec.CPUs > 0 {
		f.CPUs = min(f.CPUs, int(math.Ceil(spec.CPUs)))
	}
	f.GPUs, f.Pinned = a.ready.room.GPUs, a.ready.room.Pinned
	f.Launcher, f.Procs = spec.Launcher, a.meeting.processesPerNode()
	f.Inputs, f.Shards = map[string]string{}, map[string]bool{}
	for _, in := range spec.Inputs {
		f.Shards[in.Name] = in.Sharded
	}
	for name, dir := range a.ready.inputs {
		f.Inputs[name] = a.space.PathInView(dir)
	}
	var err error
	f.Peers, f.Interface, err = a.meeting.resolvePeers(o)
	return f, err
}

// launchProgram is the stage that starts the program: the contract's files, its
// environment, its view of the machine, its pipes, its process tree.
func (a *agent) launchProgram(ctx context.Context, o runagent.Order) error {
	if err := a.stdinAgain(); err != nil {
		return a.recordExit(ctx, setupExit(err))
	}
	p, err := a.startProgram(ctx, o)
	if why, refused := workspace.RefusedLayers(err); refused {
		if err = a.space.WithoutLayers(why); err == nil {
			p, err = a.startProgram(ctx, o)
		}
	}
	if why, refused := workspace.RefusedView(err); refused {
		a.space.WithoutView(why)
		if err = a.space.WithoutLayers(a.space.WhyNoLayers()); err == nil {
			p, err = a.startProgram(ctx, o)
		}
	}
	if err != nil {
		return a.recordExit(ctx, setupExit(err))
	}
	a.program, a.stdinRead = p, true
	a.member.Started()
	a.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) {
		b.Phase, b.Attempt, b.Rank, b.Since = "running", o.Attempt, o.Rank, p.started.UTC()
	})
	p.saver = a.startSaver(ctx)
	if d := time.Duration(a.Job.Spec.Timeout); d > 0 {
		grace := time.Duration(a.Job.Spec.Grace)
		p.limit = time.AfterFunc(d, func() {
			p.late.Store(true)
			a.space.WriteNotice(fmt.Sprintf("time limit of %s reached", d), grace)
			p.askToStop(grace)
		})
	}
	return nil
}

// stdinAgain lets the program of a further attempt read what the first one of this agent
// was given, or says why it cannot: an attempt must not run on the rest.
func (a *agent) stdinAgain() error {
	if a.Machine.Stdin == nil || !a.stdinRead {
		return nil
	}
	return a.Machine.Stdin.Again()
}

// askToStop asks the program to end, once, and kills its tree when grace is over. An
// MPI's own processes are not asked, only what they have started: they would end
// it within a second.
func (p *program) askToStop(grace time.Duration) {
	p.asked.Do(func() {
		if grace > 0 && p.calls.stopRanks(syscall.SIGTERM) {
			p.kill.Store(time.AfterFunc(grace, func() { p.proc.Stop(0) }))
			return
		}
		p.proc.Stop(grace)
	})
}

// interrupt gives the program its stop signal as a terminal would: the whole of its
// process group, or of an MPI the program's own processes.
func (p *program) interrupt(sig syscall.Signal) {
	if !p.calls.stopRanks(sig) {
		p.proc.Interrupt(sig)
	}
}

// startProgram starts it; in vain, nothing of it is left.
func (a *agent) startProgram(ctx context.Context, o runagent.Order) (*program, error) {
	facts, err := a.contractFacts(o)
	if err != nil {
		return nil, err
	}
	under := a.Root // where the program's "/" is
	if !a.space.View {
		under = ""
	}
	if err := facts.Write(under); err != nil {
		return nil, err
	}
	p := &program{attempt: o.Attempt, rank: o.Rank, ended: make(chan struct{})}
	environ := append(facts.Defaults(), a.CallerEnviron()...)
	environ = append(environ, a.ready.env.Environ...)
	environ = append(environ, facts.Environ()...)
	environ = a.WithSecrets(environ)
	if environ, err = a.withModule(environ, a.space.CodePathInView()); err != nil {
		return nil, err
	}
	environ = append(environ, node.MarkVariable+"=1")
	if environ, err = p.startCalls(a, o, environ); err != nil {
		return nil, err
	}
	c, err := a.cmd.programCommand(ctx, facts, environ)
	if err == nil {
		c.View, err = a.space.ProgramView(facts, o.Joins)
	}
	if err == nil {
		c.Limits = a.programLimits()
		c.Token = strings.ReplaceAll(fmt.Sprintf("%s-%d", a.ID, o.Attempt), ":", "-")
		a.remains.noteUnsaved(o, a.state.gens != nil)
		err = a.remains.leaveMark(c.Token)
	}
	if err == nil {
		a.meeting.releasePort() // the program may want it in its first moment
		err = p.startProcess(ctx, a, c)
	}
	if err == nil {
		p.ports = a.watchPorts(o, p)
		a.space.WriteDoor(p.proc.Pid(), c.Dir, environ)
		select {
		case <-p.ended: // it was quicker than the door
			a.space.RemoveDoor()
		default:
		}
	}
	if err != nil {
		p.calls.closeCalls()
		return nil, err
	}
	return p, nil
}

// pipe reads what a process tree writes. It ends when all ends are closed, or
// when the tree is gone and what it left is read: a process outside the tree may
// have been handed its end (SCM_RIGHTS), and must not hold us up.
type pipe struct {
	f    *os.File
	gone <-chan struct{}
	late int // bytes and time-outs since the tree was gone
}

const (
	pipeRest = 1 << 20                // a pipe holds no more (pipe-max-size)
	pipeWait = 100 * time.Millisecond // what is in a pipe is read at once
)

func (p *pipe) Read(b []byte) (int, error) {
	for {
		ended := false
		select {
		case <-p.gone:
			ended = true
			_ = p.f.SetReadDeadline(time.Now().Add(pipeWait))
		default:
		}
		n, err := p.f.Read(b)
		if ended {
			p.late += n
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			if p.late > pipeRest {
				return n, io.EOF
			}
			return n, err
		}
		if p.late += pipeRest / 2; p.late > pipeRest { // the third: the first may be the one that woke us
			return 0, io.EOF
		}
	}
}

// startProcess starts the process with a pipe for each stream, and the goroutines that
// read them. They end when the tree is gone and what it said was read.
func (p *program) startProcess(ctx context.Context, a *agent, c proc.Command) error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return fault.Wrap(err, fault.Full, "Close some programs, or raise `ulimit -n`.", "start program")
	}
	defer outW.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		return fault.Wrap(err, fault.Full, "Close some programs, or raise `ulimit -n`.", "start program")
	}
	defer errW.Close()
	c.Stdout, c.Stderr = outW, errW
	if in := a.Machine.Stdin; in != nil {
		c.Stdin = in.File
	}
	p.started = time.Now()
	p.starved = a.exits.starvedKills()
	if p.proc, err = a.Machine.Start(ctx, c); err != nil {
		outR.Close()
		errR.Close()
		return err
	}
	a.LogNote("started %s as attempt %d, node %d, process %d", strings.Join(shown(c.Args), " "), p.attempt, p.rank, p.proc.Pid())
	out := a.Out
	if why := p.proc.Limits().Why; why != "" {
		a.LogNote("limits: the kernel does not enforce all of them: %s", why)
	}
	p.meter = a.startMeter(ctx, p)
	pump := func(s record.Stream, r *os.File, in io.Reader) {
		defer r.Close()
		if _, err := out.Copy(s, 0, &metric.Unmarked{In: p.meter.scanMetrics(in)}); err != nil {
			a.Log.Warn("output lost", "stream", s, "err", err)
			_, _ = io.Copy(io.Discard, in) // the program must not hang on a full pipe
		}
	}
	gone := make(chan struct{})
	p.pumps.Go(func() { pump(record.Stdout, outR, &pipe{f: outR, gone: gone}) })
	p.pumps.Go(func() {
		last := a.Redact.Writer(&p.tail)
		pump(record.Stderr, errR, io.TeeReader(&pipe{f: errR, gone: gone}, last))
		_ = last.Close() // a tail takes everything
	})
	go func() {
		p.proc.Wait()
		close(gone)
		_ = outR.SetReadDeadline(time.Now()) // wakes a pump; pipe reads on
		_ = errR.SetReadDeadline(time.Now())
		for _, timer := range []*time.Timer{p.kill.Load(), p.wait.Load()} {
			if timer != nil {
				timer.Stop()
			}
		}
		p.pumps.Wait()
		p.calls.closeCalls()
		a.space.RemoveDoor()
		close(p.ended)
	}()
	return nil
}

// killUnrecorded kills a program with an end that cannot be recorded: the store is lost.
func (a *agent) killUnrecorded(ctx context.Context) {
	if p := a.program; p != nil {
		p.proc.Kill()
		p.proc.Wait()
		if ctx.Err() != nil {
			p.meter.storeMetrics(ctx, a) // it stores nothing any more
		}
		p.ports.stopWatching()
		p.saver.quit()
		<-p.saver.gone
	}
}

// shown shortens a command line for the log.
func shown(args []string) []string {
	const most = 12
	words := []string{filepath.Base(args[0])}
	for i, w := range args[1:] {
		if i == most {
			return append(words, "...")
		}
		if len(w) > 60 {
			w = w[:57] + "..."
		}
		words = append(words, strings.ReplaceAll(w, "\n", " "))
	}
	return words
}

// tail keeps the end of a stream, for the reason of a failure.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// tailSize holds a Python traceback through a deep framework.
const tailSize = 16 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if len(t.buf) > 2*tailSize {
		t.buf = append([]byte(nil), t.buf[len(t.buf)-tailSize:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf[max(0, len(t.buf)-tailSize):])
}
