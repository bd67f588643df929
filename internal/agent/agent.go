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
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/stdin"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/metric"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Config is what an agent is started with.
type Config struct {
	World     protocol.World
	Path      job.Path
	Placement int
	Index     int
	Machine   Machine
	Log       *slog.Logger // for developers
}

// Machine is what the target's machine knows about itself, as cmd wires it in.
type Machine struct {
	Self protocol.Host
	Name string // host name, for people
	// Address is where peers reach this machine, by Interface. Those that share
	// its Stack do by Loopback, an interface's name.
	Address, Interface, Loopback, Stack string
	// Port keeps a free TCP port from others until release is called. Nil: the
	// job's nodes have none.
	Port func() (port int, release func(), err error)
	// Listeners returns the sockets, of any user, that listen on a TCP port of this
	// machine. Nil, or an error: not known.
	Listeners func(port int) ([]Listener, error)
	// Room waits until this machine has what is wished for and sets it apart; told
	// hears what it waits for, each time that changes. Without a wish it says what
	// GPUs there are. Nil: nothing is set apart here, and there are no GPUs.
	Room func(ctx context.Context, w Wish, told func(string)) (Room, error)
	// Traffic counts the bytes that this machine's network has carried. Nil: not known.
	Traffic func() (in, out int64, err error)
	// GPUUse says what GPUs are doing; pinned is a Room's. Nil: not known.
	GPUUse  func(ctx context.Context, pinned string) ([]metric.GPUSample, error)
	Drover  string // this program's file, for what is to run inside a program's tree
	Region  string
	CPUs    int
	Memory  int64    // bytes; 0: not known
	Work    string   // folder for the job's files, on a disk with room
	Lost    string   // driver.Allocation.Lost
	Cache   string   // root of drover's cache, for environments
	Environ []string // what the program's environment begins with
	// Root is the agent's folder on a machine that is its own, a container
	// with /opt/ml and /state at Root/opt/ml and Root/state already: there is no view to
	// be made. "": the agent makes a folder below Work, and views.
	Root string
	// Hosts, with Root, is the file that is the machine's /etc/hosts, to be rewritten
	// in place: the names of a job's nodes go there. "": they go nowhere.
	Hosts string
	// Secrets are the values of the job's secrets, by variable, where the target has
	// brought them; nil: they are read here. Others among them belong into Environ,
	// and are no secrets of the job's.
	Secrets map[string]string
	// Starved counts what the kernel has ended because the machine's memory, which a
	// container's limit is, was used up: what is kept in /dev/shm counts there and in
	// no process. Nil: not known.
	Starved func() int64
	// OpenPlace opens a bucket of any owner by its URL, as this machine may: for inputs
	// that are read where they are, and items that are objects. Nil: there are none.
	OpenPlace func(ctx context.Context, url string) (store.Bucket, error)
	// Notice says that the machine is about to go, or that a person wants the
	// agent to stop. One value, then the agent leaves.
	Notice <-chan Notice
	// Struck is closed when an engine has sent SIGTERM to all processes of this machine,
	// before Notice says why: what ends then has not failed. Nil: engines here signal
	// the agent alone.
	Struck <-chan struct{}
	// Sooner is closed when the agent has less time since than Notice said. Nil: it is
	// never told.
	Sooner <-chan struct{}
	// Near says that the store answers in microseconds, as a folder on this
	// machine does: it is then asked and told more often. To the agents of a map that
	// has more than a few it counts as far all the same.
	Near bool
	// Shared says of a store that is Near that a server keeps it for many machines. It
	// then counts as far to the agents of a run that has more than a few nodes, too.
	Shared bool
	// Disk is the size in bytes of the file system that Work is on; 0: it is asked.
	Disk int64
	// SaveEvery is the shortest time between two generations of checkpoints.
	SaveEvery time.Duration
	// Patience is how long a program's results wait for room in a full store;
	// 0 is 10 minutes.
	Patience time.Duration
	// Stdin is what the program of a run reads as its standard input. Nil: nothing.
	Stdin *stdin.Input
	// Start starts the program; nil is proc.Start. A seam for tests.
	Start func(context.Context, proc.Command) (*proc.Process, error)
}

// Wish is what one node of a job wants of its machine, and in which line it waits.
type Wish struct {
	Job    string // nodes of one job are given room together
	Label  string // "job 7fk2", for people
	Nodes  int    // of the job on this machine
	CPUs   float64
	Memory int64 // bytes
	GPUs   int

	Queue    string
	Priority int
	Now      bool      // do not wait
	Share    job.Share // what the queue may hold in all
}

// Room is what was set apart for one node.
type Room struct {
	Cores   []int  // numbers of the cores that are its own; nil: it may use all
	GPUs    int    // how many its program sees
	Pinned  string // CUDA_VISIBLE_DEVICES when they are for this node alone; "": as the machine has it
	Release func() // gives it back; nil: nothing to give
}

// Notice is why an agent must leave before its job has ended.
type Notice struct {
	Asked bool   // by a person (Ctrl-C), not by the machine: it counts for nothing
	Why   string // one sentence
	// Left is how long the agent has until it is killed; 0: not known.
	Left time.Duration
}

// verdictOnProgram is the one on a program that is ended by n.
func (n Notice) verdictOnProgram() protocol.Verdict {
	if n.Asked {
		return protocol.AskedToStop
	}
	return protocol.Interrupted
}

const (
	// exitLater is EX_TEMPFAIL: engines that restart on failure start another
	// agent, work is left.
	exitLater = 75
	// nearPoll is how often the job's log is read in a folder: how long a cancel
	// is waited for by a person at this machine.
	nearPoll = 200 * time.Millisecond
)

// agent is one run of Run: it goes through the stages and carries out what its member
// of the ledger decides. Each of its parts has one job.
type agent struct {
	*node
	space   *workspace
	state   *rankState
	remains *remains
	outs    *outputs
	cmd     *commands
	items   *itemSetup
	meeting *rendezvous
	exits   *exits
	prep    *preparation

	member *runagent.Member
	keep   bool // root holds results that could not be stored

	notice   chan Notice // one that was read while something else was done
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
func newAgent(c Config) *agent {
	n := &node{Config: c}
	space := &workspace{node: n}
	a := &agent{node: n, space: space, prepared: make(chan error, 1), notice: make(chan Notice, 1)}
	a.state = &rankState{node: n, space: space}
	a.remains = &remains{node: n, space: space}
	a.outs = &outputs{node: n, space: space}
	a.cmd = &commands{node: n, space: space, ready: &a.ready}
	a.items = &itemSetup{node: n, space: space, ready: &a.ready}
	a.meeting = &rendezvous{node: n, ready: &a.ready}
	a.exits = &exits{node: n, space: space}
	a.prep = &preparation{node: n, space: space, ready: &a.ready}
	return a
}

// Run works for one job until it has settled, the machine must go, or the store
// is lost for good. It returns the status its process should end with.
func Run(ctx context.Context, c Config) (status int, err error) {
	a := newAgent(c)
	a.poll = protocol.Poll
	if a.Machine.Near {
		a.poll = nearPoll
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
	ctx, a.vanish = context.WithCancelCause(ctx)
	defer a.vanish(nil)
	defer a.superviseStore(ctx)()
	if err := a.readIdentity(ctx); err != nil {
		if errors.Is(err, store.ErrNotExist) {
			return 0, nil // the job was removed (E6)
		}
		return fault.ExitDrover, err
	}
	work, drop := context.WithCancelCause(ctx)
	defer drop(nil)
	a.beat.startHeartbeats(ctx)
	defer a.beat.stopHeartbeats(ctx)
	defer func() { a.removeFolder(errors.Is(context.Cause(ctx), errRemoved)) }()
	if a.isMap() {
		if err := a.countSlots(ctx); err != nil {
			a.ready.failed = err
		}
	}
	idle := make(chan struct{})
	go func() { // ends with work; the channel has room
		defer close(idle)
		a.prepared <- a.prepareMachine(work)
	}()
	if a.isMap() {
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
	cerr := a.out.Close(ctx)
	switch {
	case errors.Is(context.Cause(ctx), errRemoved):
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
				return 0, nil
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
		tick.Reset(min(a.poll, a.member.Again()))
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
		_, err := a.saveAndLeave(ctx, Notice{Why: o.Why})
		return false, true, err
	case runagent.Finish:
		drop(errors.New("the job has ended"))
		a.over = true
		if err := a.assembleOutputs(ctx, o); err != nil {
			return false, false, err
		}
		return false, true, a.member.Leave(ctx)
	case runagent.Leave:
		a.vanish(errRemoved)
		return false, true, nil
	}
	return false, false, nil
}

// saveAndLeave is the way out before the end: save what there is, say so, go (R1).
func (a *agent) saveAndLeave(ctx context.Context, n Notice) (int, error) {
	verdict, status := n.verdictOnProgram(), exitLater
	if n.Asked {
		status = 0
	}
	if a.out.Err() != nil {
		if a.checkRemoved(ctx); ctx.Err() != nil {
			return status, context.Cause(ctx) // Run ends the program
		}
	}
	a.Machine.Patience = 0 // an agent that must go does not wait for room
	a.logNote("leaving: %s", n.Why)
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
		_, err := a.member.Poll(ctx) // what follows from it is written; no other process waits for this
		return status, err
	default:
	}
	if a.program != nil {
		a.interruptProgram(n)
		exit := a.endProgram(n.Why)
		exit.Verdict, exit.Reason = verdict, n.Why
		return status, a.recordExit(ctx, exit)
	}
	if attempt, _ := a.member.Joined(); attempt > 0 {
		return status, a.member.Ended(ctx, protocol.Exit{Verdict: verdict, Reason: n.Why})
	}
	return status, nil
}

// logNote writes one line of drover's own into the job's log.
func (n *node) logNote(format string, args ...any) { n.out.Note(fmt.Sprintf(format, args...)) }

// readIdentity is the first stage: which agent this is, and of which job.
func (a *agent) readIdentity(ctx context.Context) error {
	j, err := tasks.LoadAccepted(ctx, a.World, a.Path)
	if err != nil {
		return err
	}
	if a.job = j; a.isMap() { // what binds items may have been changed since it was submitted
		m, err := chunks.ReadMap(ctx, a.World, j)
		if err != nil {
			return err
		}
		a.job = m.Bind(j)
	}
	if !mapagent.Few(j.Spec.Workers) || a.Machine.Shared && !mapagent.Few(j.Spec.Nodes) {
		a.Machine.Near, a.poll = false, protocol.Poll
	}
	place, ok, err := tasks.ReadPlace(ctx, a.World, j)
	if err != nil {
		return err
	}
	if !ok {
		return fault.New(fault.Bug, "", "start agent: job %s was never submitted", j.ID)
	}
	a.place = place
	a.id = liveness.NewAgentID(a.World, a.Placement, a.Index)
	if a.own = a.Machine.Root; a.own == "" || a.own == wholeMachine {
		a.own = filepath.Join(a.Machine.Work, j.ID, a.id)
	}
	if a.root = a.own; a.Machine.Root == wholeMachine {
		a.root = wholeMachine
	}
	if err := os.MkdirAll(a.own, 0o700); err != nil {
		return fault.Wrap(err, fault.Full, "Free some space, or set TMPDIR to a folder with room.", "start agent: make %s", a.own)
	}
	if err := a.remains.leaveMark(""); err != nil {
		return fault.Wrap(err, fault.Full, "Free some space, or set XDG_STATE_HOME to a folder with room.", "start agent")
	}
	a.remains.sweepDeadAgents(ctx)
	a.openSecrets()
	a.member = runagent.NewMember(a.World, j, a.id, protocol.Join{Host: a.Machine.Self, Name: a.Machine.Name, Address: a.Machine.Address, Stack: a.Machine.Stack})
	a.member.Joining = a.meeting.completeJoin
	if !a.Machine.Near {
		a.member.Pace = protocol.Poll / 2
	}
	a.beat = newHeart(a.World, a.Path, protocol.Heartbeat{Agent: a.id, Host: a.Machine.Self, Name: a.Machine.Name,
		Phase: "preparing", Rank: -1}, a.Log)
	if !a.Machine.Near {
		a.beat.rest = protocol.Poll
	}
	return a.openAttemptLog(ctx, 0, a.Index)
}

// openAttemptLog begins the log of an attempt; 0 is what comes before the first. The
// one before it is stored to its end.
func (a *agent) openAttemptLog(ctx context.Context, attempt, rank int) error {
	if a.out != nil {
		if err := a.out.Close(ctx); err != nil {
			a.Log.Warn("log not stored", "err", err)
		}
	}
	out, err := a.newWriter(ctx, protocol.LogsPrefix(a.Path), attempt, rank)
	if err != nil {
		return err
	}
	a.out = out
	live, err := out.Listen(a.own)
	if err != nil {
		a.Log.Warn("live output is off", "err", err) // the store's log objects remain
	}
	a.beat.changeNow(func(b *protocol.Heartbeat) { b.Live = live })
	return nil
}

// checkRemoved looks whether the job, or the whole store, was removed: then all that
// waits for the store ends, and nothing is written any more (E6).
func (n *node) checkRemoved(ctx context.Context) {
	if errors.Is(liveness.CheckExists(ctx, n.World, n.Path), liveness.ErrRemoved) {
		n.vanish(errRemoved)
	}
}

// newWriter makes a writer of records of one attempt.
func (n *node) newWriter(ctx context.Context, prefix string, attempt, rank int) (*record.Writer, error) {
	_, random, _ := strings.Cut(strings.TrimPrefix(n.id, fmt.Sprintf("%d-", n.Placement)), "-")
	w, err := record.NewWriter(record.Options{Store: n.World.Store, Prefix: prefix,
		Attempt: attempt, Rank: rank, ID: random, Clock: n.World.Store.Clock(), Redact: n.redact,
		OnError: func(err error) {
			n.Log.Warn("record not stored yet", "prefix", prefix, "err", err)
			n.checkRemoved(ctx)
		}})
	if err != nil {
		return nil, err
	}
	w.Hurry(n.Machine.Near) // a lost agent takes what it has not stored with it
	return w, nil
}
