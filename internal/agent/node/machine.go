package node

import (
	"context"
	"log/slog"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/stdin"
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
	// Archives and Failure are driver.Allocation's.
	Archives bool
	Failure  string
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

// TermTime is how long a program may take after SIGTERM: its grace, or less where the agent itself has
// less, of which it keeps a fifth, and at most 3 s, to say how the program has ended.
func (n Notice) TermTime(grace time.Duration) time.Duration {
	if n.Left <= 0 {
		return grace
	}
	return min(grace, n.Left-min(n.Left/5, 3*time.Second))
}

// FirstSignal is what a program gets before SIGTERM when a person asks it to end, and there is time for
// both; 0: nothing.
func (n Notice) FirstSignal(spec job.Spec) syscall.Signal {
	if sig := unix.SignalNum(spec.FirstSignal()); n.Asked && n.Left >= spec.StopTime() && sig != syscall.SIGTERM {
		return sig
	}
	return 0
}

// VerdictOnProgram is the one on a program that is ended by n.
func (n Notice) VerdictOnProgram() protocol.Verdict {
	if n.Asked {
		return protocol.AskedToStop
	}
	return protocol.Interrupted
}

// Listener is a socket that listens on a TCP port of this machine.
type Listener struct {
	UID    int
	Socket uint64 // its inode
}
