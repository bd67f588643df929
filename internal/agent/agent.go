// Package agent is drover's part on every machine: it runs one member of one
// job, whatever the machine is, in stages, a file each: identify, fetch,
// prepare, inputs, rendezvous, launch, watch, save, record. In a map, package maprunner
// takes the place of the stages after inputs.
//
// ledger.Member decides what follows from the logs; the agent carries it out:
// the agent owns the program's processes, folders and pipes. What a target's machine
// knows about itself reaches it as plain values in Machine.
//
// It refuses to know targets, command lines and other agents' machines. Proved
// by its own tests over the memory store with real processes, by cmd/drover's
// scripts, and, for the protocol, by the simulator in package ledger.
// docs/agent.md draws every goroutine.
package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/console"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/agent/workspace"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/store"
)

const (
	// nearPoll is how often the job's log is read in a folder: how long a cancel
	// is waited for by a person at this machine.
	nearPoll = 200 * time.Millisecond
)

// agent is one run of Run: it goes through the stages and carries out what its member
// of the ledger decides. Each of its parts has one job.
type agent struct {
	*node.Node
	space   *workspace.Workspace
	state   *rankState
	remains *remains
	outs    *outputs
	cmd     *commands
	items   *itemSetup
	meeting *rendezvous
	exits   *exits
	prep    *preparation
	console *console.Console

	member *runagent.Member
	keep   bool // root holds results that could not be stored

	notice   chan node.Notice // one that was read while something else was done
	prepared chan error
	ready    prepared

	attempt int // folders and state are set up for this one
	fenced  bool
	stopped time.Time // when it was first known that the job was stopped; zero: it is not
	program *program
	over    bool // the job has settled

	stdinRead bool // a program was given Machine.Stdin
}

// newAgent makes an agent and its parts, before it has read anything.
func newAgent(c node.Config) *agent {
	n := &node.Node{Config: c}
	space := &workspace.Workspace{Node: n}
	a := &agent{Node: n, space: space, prepared: make(chan error, 1), notice: make(chan node.Notice, 1)}
	a.state = &rankState{Node: n, space: space}
	a.remains = &remains{Node: n, space: space}
	a.outs = &outputs{Node: n, space: space}
	a.cmd = &commands{Node: n, space: space, ready: &a.ready}
	a.items = &itemSetup{Node: n, space: space, ready: &a.ready}
	a.meeting = &rendezvous{Node: n, ready: &a.ready}
	a.exits = &exits{Node: n, space: space}
	a.prep = &preparation{Node: n, space: space, ready: &a.ready}
	a.console = &console.Console{Node: n}
	return a
}

// Run works for one job until it has settled, the machine must go, or the store
// is lost for good. It returns the status its process should end with.
func Run(ctx context.Context, c node.Config) (status int, err error) {
	a := newAgent(c)
	a.Poll = protocol.Poll
	if a.Machine.Near {
		a.Poll = nearPoll
	}
	if a.Machine.Patience == 0 {
		a.Machine.Patience = 10 * time.Minute
	}
	if a.Machine.Start == nil {
		a.Machine.Start = proc.Start
	}
	if !a.Machine.Near {
		if err := a.World.Store.Clock().Sleep(ctx, mapagent.Stagger(a.Index)); err != nil {
			return fault.ExitDrover, err
		}
	}
	ctx, a.Vanish = context.WithCancelCause(ctx)
	defer a.Vanish(nil)
	defer a.superviseStore(ctx)()
	if err := a.readIdentity(ctx); err != nil {
		if errors.Is(err, store.ErrNotExist) {
			return 0, nil // the job was removed (E6)
		}
		return fault.ExitDrover, err
	}
	work, drop := context.WithCancelCause(ctx)
	defer drop(nil)
	a.Heartbeats.StartHeartbeats(ctx)
	defer a.Heartbeats.StopHeartbeats(ctx)
	defer func() { a.removeFolder(errors.Is(context.Cause(ctx), node.ErrRemoved)) }()
	if a.IsMap() {
		if err := a.countSlots(ctx); err != nil {
			a.ready.failed = err
		}
	}
	idle := make(chan struct{})
	go func() { // ends with work; the channel has room
		defer close(idle)
		a.prepared <- a.prepareMachine(work)
	}()
	if a.IsMap() {
		status, err = a.workItems(ctx, drop)
	} else {
		status, err = a.runOrders(ctx, drop)
	}
	drop(errors.New("the agent ends"))
	<-idle // or it would write into a folder that is cleaned up, and leave pip behind
	a.killUnrecorded(ctx)
	a.meeting.releasePort()
	for _, give := range []func(){a.ready.room.Release, a.ready.hold} {
		if give != nil {
			give()
		}
	}
	cerr := a.Out.Close(ctx)
	switch {
	case errors.Is(context.Cause(ctx), node.ErrRemoved):
		return 0, nil
	case err == nil && cerr != nil:
		err = fmt.Errorf("store logs: %w", cerr)
	}
	return status, err
}

// runOrders carries out the member's orders until one of them is to leave.
func (a *agent) runOrders(ctx context.Context, drop context.CancelCauseFunc) (int, error) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case n := <-a.Machine.Notice:
			drop(errors.New(n.Why))
			return a.saveAndLeave(ctx, n)
		case err := <-a.prepared:
			if err != nil && a.hitByStopSignal(true) {
				return a.leaveAfterSignal(ctx, drop)
			}
			if err := a.afterPrepare(ctx, err); err != nil {
				return fault.ExitDrover, err
			}
		case <-a.program.treeGone():
			if a.hitByStopSignal(a.program.proc.Wait().Status() != 0) {
				return a.leaveAfterSignal(ctx, drop)
			}
			if err := a.programEnded(ctx); err != nil {
				return fault.ExitDrover, err
			}
		case <-a.program.portIsTaken():
			if err := a.leavePort(ctx); err != nil {
				return fault.ExitDrover, err
			}
		case <-tick.C:
		}
		for {
			select {
			case n := <-a.notice: // it came while something was stored
				drop(errors.New(n.Why))
				return a.saveAndLeave(ctx, n)
			default:
			}
			o, err := a.member.Poll(ctx)
			if err != nil {
				return fault.ExitDrover, err
			}
			again, left, err := a.executeOrder(ctx, o, drop)
			if err != nil {
				return fault.ExitDrover, err
			}
			if left {
				return a.console.Status(), nil
			}
			if !again {
				break
			}
		}
		followed, err := a.followFirst(ctx)
		if err != nil {
			return fault.ExitDrover, err
		}
		if followed {
			tick.Reset(0)
			continue
		}
		tick.Reset(min(a.Poll, a.member.Again()))
	}
}

// executeOrder carries out one order. again asks for the next one at once.
func (a *agent) executeOrder(ctx context.Context, o runagent.Order, drop context.CancelCauseFunc) (again, left bool, err error) {
	switch o.Do {
	case runagent.Launch:
		if a.attempt != o.Attempt {
			return true, false, a.setUpAttempt(ctx, o) // then ask again: it may have taken long
		}
		if a.fenced {
			return false, false, nil
		}
		return false, false, a.launchProgram(ctx, o)
	case runagent.Halt:
		a.noteStopTime(o)
		return true, false, a.haltProgram(ctx, o)
	case runagent.Yield:
		drop(errors.New(o.Why))
		_, err := a.saveAndLeave(ctx, node.Notice{Why: o.Why})
		return false, true, err
	case runagent.Finish:
		drop(errors.New("the job has ended"))
		a.over = true
		a.console.NoteEnd(o)
		if err := a.assembleOutputs(ctx, o); err != nil {
			return false, false, err
		}
		return false, true, a.member.Leave(ctx)
	case runagent.Leave:
		a.Vanish(node.ErrRemoved)
		return false, true, nil
	}
	return false, false, nil
}

// saveAndLeave is the way out before the end: save what there is, say so, go (R1).
func (a *agent) saveAndLeave(ctx context.Context, n node.Notice) (int, error) {
	verdict, status := n.VerdictOnProgram(), fault.ExitLater
	if n.Asked {
		status = 0
	}
	if a.Out.Err() != nil {
		if a.CheckRemoved(ctx); ctx.Err() != nil {
			return status, context.Cause(ctx) // Run ends the program
		}
	}
	a.Machine.Patience = 0 // an agent that must go does not wait for room
	a.LogNote("leaving: %s", n.Why)
	ended := a.program.treeGone()
	if a.hitByStopSignal(false) {
		ended = nil
	}
	select {
	case <-ended: // it has ended by itself in this very moment
		a.notice <- n // so that storing its results does not wait for room
		if err := a.programEnded(ctx); err != nil {
			return status, err
		}
		o, err := a.member.Poll(ctx) // what follows from it is written; no other process waits for this
		return a.console.StatusAfter(o, status), err
	default:
	}
	if a.program != nil {
		a.interruptProgram(n)
		exit := a.endProgram(n)
		exit.Verdict, exit.Reason = verdict, n.Why
		return status, a.recordExit(ctx, exit)
	}
	if attempt, _ := a.member.Joined(); attempt > 0 {
		if err := a.member.Ended(ctx, protocol.Exit{Verdict: verdict, Reason: n.Why}); err != nil || a.Machine.Failure == "" {
			return status, err
		}
		o, err := a.member.Poll(ctx) // the job may have settled without this agent, which the engine wants to know
		return a.console.StatusAfter(o, status), err
	}
	return status, nil
}

// readIdentity is the first stage: which agent this is, and of which job.
func (a *agent) readIdentity(ctx context.Context) error {
	j, err := tasks.LoadAccepted(ctx, a.World, a.Path)
	if err != nil {
		return err
	}
	if a.Job = j; a.IsMap() { // what binds items may have been changed since it was submitted
		m, err := chunks.ReadMap(ctx, a.World, j)
		if err != nil {
			return err
		}
		a.Job = m.Bind(j)
	}
	if !mapagent.Few(j.Spec.Workers) || a.Machine.Shared && !mapagent.Few(j.Spec.Nodes) {
		a.Machine.Near, a.Poll = false, protocol.Poll
	}
	place, ok, err := tasks.ReadPlace(ctx, a.World, j)
	if err != nil {
		return err
	}
	if !ok {
		return fault.New(fault.Bug, "", "start agent: job %s was never submitted", j.ID)
	}
	a.Place = place
	a.ID = liveness.NewAgentID(a.World, a.Placement, a.Index)
	if a.Own = a.Machine.Root; a.Own == "" || a.Own == workspace.WholeMachine {
		a.Own = filepath.Join(a.Machine.Work, j.ID, a.ID)
	}
	if a.Root = a.Own; a.Machine.Root == workspace.WholeMachine {
		a.Root = workspace.WholeMachine
	}
	if err := os.MkdirAll(a.Own, 0o700); err != nil {
		return fault.Wrap(err, fault.Full, "Free some space, or set TMPDIR to a folder with room.", "start agent: make %s", a.Own)
	}
	if err := a.remains.leaveMark(""); err != nil {
		return fault.Wrap(err, fault.Full, "Free some space, or set XDG_STATE_HOME to a folder with room.", "start agent")
	}
	a.remains.sweepDeadAgents(ctx)
	a.openSecrets()
	a.member = runagent.NewMember(a.World, j, a.ID, protocol.Join{Host: a.Machine.Self, Name: a.Machine.Name, Address: a.Machine.Address, Stack: a.Machine.Stack})
	a.member.Joining = a.meeting.completeJoin
	if !a.Machine.Near {
		a.member.Pace = protocol.Poll / 2
	}
	a.Heartbeats = node.NewHeartbeats(a.World, a.Path, protocol.Heartbeat{Agent: a.ID, Host: a.Machine.Self, Name: a.Machine.Name,
		Phase: "preparing", Rank: -1}, a.Log)
	if !a.Machine.Near {
		a.Heartbeats.Rest = protocol.Poll
	}
	return a.openAttemptLog(ctx, 0, a.Index)
}

// openAttemptLog begins the log of an attempt; 0 is what comes before the first. The
// one before it is stored to its end.
func (a *agent) openAttemptLog(ctx context.Context, attempt, rank int) error {
	if a.Out != nil {
		if err := a.Out.Close(ctx); err != nil {
			a.Log.Warn("log not stored", "err", err)
		}
	}
	out, err := a.NewWriter(ctx, protocol.LogsPrefix(a.Path), attempt, rank)
	if err != nil {
		return err
	}
	a.Out = out
	live, err := out.Listen(a.Own)
	if err != nil {
		a.Log.Warn("live output is off", "err", err) // the store's log objects remain
	}
	a.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) { b.Live = live })
	return nil
}
