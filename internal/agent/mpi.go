package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/launcher"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/env/programs"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
)

// With MPI, node 0 runs mpiexec, which wants processes started on the others.
// There is no sshd: it asks the desk of its agent, the agents carry the command
// line through the store (ledger.World.Call), and a small server inside the
// other node's tree runs it there. So each process is born in its own node's
// view and environment, and dies with that node's tree.

// desk is one attempt's end of that, on one node. It is nil where nothing is
// to be carried.
type calls struct {
	a       *agent
	program *program
	attempt int
	rank    int
	hosts   []string
	joins   []protocol.Join
	socket  *launcher.Open
	once    sync.Once
}

var _ launcher.Calls = (*calls)(nil)

// startCalls opens it, and tells the program's environment where.
func (p *program) startCalls(a *agent, o runagent.Order, environ []string) ([]string, error) {
	if a.Job.Spec.Launcher != job.MPI {
		return environ, nil
	}
	d := &calls{a: a, program: p, attempt: o.Attempt, rank: o.Rank, hosts: contract.Hosts(len(o.Joins)), joins: o.Joins}
	socket, addr, err := launcher.Listen(filepath.Join(a.Own, "desk"), d)
	if err != nil {
		return nil, err
	}
	d.socket, p.calls = socket, d
	return append(environ, launcher.CallsVariable+"="+addr), nil
}

// restTime is what an MPI's own processes have when all that they had started has
// ended: mpiexec needs no more than a moment, and the others wait for a word from it.
const restTime = 2 * time.Second

// stopRanks sends sig to the processes of this node, and has the rest end when they have;
// false says that there are none.
func (d *calls) stopRanks(sig syscall.Signal) bool {
	if d == nil {
		return false
	}
	rest := func() {
		d.program.wait.CompareAndSwap(nil, time.AfterFunc(restTime, func() { d.program.proc.Stop(restTime) }))
	}
	return d.socket.StopRanks(sig, rest) > 0
}

func (d *calls) closeCalls() {
	if d != nil {
		d.once.Do(func() { d.socket.Close() })
	}
}

// Call has another node run a line, and waits until it has ended there.
func (d *calls) Call(ctx context.Context, host, line string) (status int, err error) {
	rank := slices.Index(d.hosts, host)
	if rank < 0 {
		rank = slices.IndexFunc(d.joins, func(j protocol.Join) bool { return j.Address == host })
	}
	if rank == d.rank {
		return 0, launcher.ErrHere
	}
	if rank < 0 {
		return 0, fault.New(fault.Invalid, "Use one of "+fmt.Sprint(d.hosts)+".", "call %s: it is not another node of this job", host)
	}
	w, p := d.a.World, d.a.Path
	n, err := runagent.PostCall(ctx, w, p, d.attempt, rank, 0, d.a.ID, line)
	if err != nil {
		return 0, err
	}
	for pause := d.pollInterval(); ; pause = min(2*pause, d.a.Poll) {
		answer, ok, err := runagent.ReadAnswer(ctx, w, p, d.attempt, rank, n)
		if err != nil || ok {
			return answer.Status, err
		}
		if err := w.Store.Clock().Sleep(ctx, pause); err != nil {
			return 0, err
		}
	}
}

// Serve gives this node's server what other nodes ask for, until it is gone.
func (d *calls) Serve(ctx context.Context, run func(context.Context, string) int) error {
	w, p := d.a.World, d.a.Path
	var running sync.WaitGroup
	defer running.Wait()
	pause := d.pollInterval()
	for n := 0; ; {
		call, ok, err := runagent.ReadCall(ctx, w, p, d.attempt, d.rank, n)
		if err != nil {
			return err
		}
		if ok {
			d.a.LogNote("node 0 starts here: %.200s", call.Line)
			number := n
			running.Go(func() {
				status := run(ctx, call.Line)
				if err := runagent.PostAnswer(context.WithoutCancel(ctx), w, p, d.attempt, d.rank, number, d.a.ID, status); err != nil {
					d.a.Log.Warn("call not answered", "err", err)
				}
			})
			n, pause = n+1, d.pollInterval()
			continue
		}
		if err := w.Store.Clock().Sleep(ctx, pause); err != nil {
			return nil // the server is gone
		}
		pause = min(2*pause, d.a.Poll)
	}
}

// alarmTime is what MPI has to end by itself when one of its processes has ended
// badly. Open MPI takes four seconds, hydra five when it lost a node.
const alarmTime = 15 * time.Second

// Alarm ends a program that goes on waiting for a part of it that has ended.
func (d *calls) Alarm(status int) {
	d.program.alarmed.CompareAndSwap(0, int64(status))
	d.program.wait.CompareAndSwap(nil, time.AfterFunc(alarmTime, func() { // stopped when the tree is gone
		d.program.stuck.Store(true)
		d.program.proc.Stop(time.Duration(d.a.Job.Spec.Grace))
	}))
}

// pollInterval is how often the store is asked at first: a node waits for its start.
func (d *calls) pollInterval() time.Duration {
	if d.a.Machine.Near {
		return 5 * time.Millisecond
	}
	return time.Second
}

// mpiCommand is mpiexec on node 0, and a server for its calls on the others.
func (l *commands) mpiCommand(ctx context.Context, c proc.Command, f contract.Facts) ([]string, error) {
	if f.Rank > 0 {
		return launcher.Serve(l.Machine.Drover), nil
	}
	interpreter := l.ready.env.Interpreter
	tool, err := programs.FindMPI(ctx, c.Env, interpreter)
	if err != nil {
		return c.Args, err
	}
	line := whole(c)
	if interpreter != "" && c.Path == interpreter && programs.HasModule(ctx, c.Env, interpreter, "mpi4py") {
		// So an exception in one process ends all of them, not only that one.
		line = append([]string{interpreter, "-m", "mpi4py"}, line[1:]...)
	}
	o := launcher.MPIOptions{Tool: tool, Hosts: f.Hosts, Procs: f.Procs, Interface: f.Interface, Named: l.space.View, Argv: line}
	for _, p := range f.Peers {
		o.Addresses = append(o.Addresses, p.Address)
	}
	return launcher.MPI(l.Machine.Drover, o)
}

// followFirst ends this node's part when node 0 has: mpiexec's end is the end of
// the program, and its status the program's. It says whether it did.
func (a *agent) followFirst(ctx context.Context) (bool, error) {
	if a.program == nil || a.Job.Spec.Launcher != job.MPI || a.program.rank == 0 {
		return false, nil
	}
	if first, ok := a.member.ExitOf(0); !ok || first.Verdict != protocol.Done {
		return false, nil
	}
	p := a.program
	exit := a.endProgram(node.Notice{Why: "node 0 has ended"})
	exit.Verdict, exit.Code, exit.Signal, exit.Reason, exit.Trace = protocol.Done, 0, "", "", ""
	if bad := int(p.alarmed.Load()); bad != 0 { // some mpiexecs say 0 when they have lost a node
		exit.Verdict, exit.Code, exit.Reason = protocol.Broke, bad, fmt.Sprintf("the process that mpiexec started here exited with status %d", bad)
	}
	return true, a.recordExit(ctx, exit)
}
