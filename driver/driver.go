// Package driver is the contract between drover and the targets that it runs on.
//
// A target is asked for one thing only: start N agents with these resources, say whether
// they live, stop them. A driver knows machines and images; it never knows user code, items,
// results or retries. What holds for every job on a target is in its Properties; what the
// target cannot do for one job is data in Offer's answer. There are no optional interfaces.
//
// One suite, drivertest, proves every driver; package mem is the reference.
package driver

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// Driver starts and stops agents on a target. All methods may be called from many
// goroutines and from several processes at once.
type Driver interface {
	// Offer says whether what is needed fits here, and at what price, without changing
	// anything. A need that does not fit gives an Offer with a reason, not an error. A list of
	// targets calls Offer of each one: where no account or cluster is configured, Offer says so
	// within 50 ms and sends nothing, not even to look up a host name (Configured in
	// cloud/amazon and cloud/google).
	Offer(ctx context.Context, n Needs) (Offer, error)

	// Start starts r.Agents agents under the name (r.Job, r.Placement), and makes whatever the
	// target needs under names that follow from these. It is idempotent by that name: a second
	// Start with it, also after an ambiguous answer, also from another process, also after the
	// agents have ended, starts nothing and returns the same handle. It returns when the request
	// is durable with the engine; the agents may come up later. Refusals are faults: Full,
	// Denied, Invalid.
	Start(ctx context.Context, r Request) (Handle, error)

	// Status says of each agent of a handle whether it lives, with the engine's own reason,
	// and the tail of its own log when it never came up. A handle that the target does not
	// know gives no members; that is not an error.
	Status(ctx context.Context, h Handle) ([]Member, error)

	// Stop ends the agents of a handle: it asks them to stop (SIGTERM), and kills them when
	// grace has passed; grace 0 kills at once. Of several Stops the one that ends soonest
	// stands. Stop returns when the request was delivered, not when the agents are gone: the
	// target kills them in time also when the caller has exited. Agents that Stop ended are
	// Ended; one that was Lost before stays Lost. To stop what has ended, or never was, is not
	// an error. With remove, Stop also takes away everything that the target keeps for the
	// handle, once its agents are gone; Status then gives no members.
	Stop(ctx context.Context, h Handle, grace time.Duration, remove bool) error

	// List names everything of ours that the target still holds. Where a target has several
	// places and some do not answer, it gives the handles of the others, and an error that
	// names the silent ones.
	List(ctx context.Context) ([]Handle, error)
}

// Needs is what one agent must have.
type Needs struct {
	Agents int
	CPUs   float64 // cores each; 0: not said
	Memory int64   // bytes each; 0: not said
	GPUs   int     // each; 0: none
	// Slots is how many items of a map an agent runs at once, where that was said; 0: as
	// many as it gets cores for. CPUs, Memory and GPUs are for all of these items together.
	// Where CPUs is 0, a target that by default gives an agent few cores requests one core for
	// each slot.
	Slots int
	// Detail is what a target's name says after its slash, as gpu in slurm/gpu;
	// "": the target's own choice. For a job that was submitted it is the Detail of its Offer,
	// if that had one.
	Detail string
	// Time is how long the program may run, for engines that want to know; 0: as
	// long as the target allows.
	Time time.Duration
	// Grace is how long the program may take to end once it was asked to, for engines that
	// set such a time when an agent is started; 0: not said.
	Grace time.Duration
	// Args are options of the target's own engine, verbatim. Where they contradict what the
	// driver makes of the other needs, Args win.
	Args []string
	// Disk is how much disk the program may fill, in bytes each; 0: no limit. A target that
	// makes a disk for each agent makes it so large; a target of machines that have disks
	// refuses more than they hold, where it knows.
	Disk int64
	// Machine are the types of machines of which any will do, each a name or a glob of names;
	// none: the target's choice. On a target without types of machines, a single name is a label.
	Machine []string
	// Where is the condition that each machine must meet. A machine for which the target cannot
	// tell, now or before an agent starts there, is not used.
	Where where.Expr
	// Spot says how machines are bought. A target without spot capacity refuses SpotOnly and
	// SpotFirst.
	Spot job.Spot
	// Keep is how long machines may stay for the next placement once the agents have ended; 0: not at all. It is said to
	// targets with Properties.Keeps alone: those of others refuse it (Target.Open).
	Keep time.Duration
	// Labels name the job for bills and for lists of the engine: project, task, job, and its
	// tags by their names. A target without labels ignores them.
	Labels map[string]string
	// Console is what the engine's own console may show of the job. A target without one ignores it.
	Console Console
	// Place is the container that the agents run in.
	Place Place
}

// Console is what an engine's own console shows of a job beside its labels.
type Console struct {
	Hyperparameters map[string]string // the program's own, as text
	Metrics         []job.Metric      // that are read in the program's output
}

// Place describes the container that agents run in, where a target has containers. Other
// targets ignore it.
type Place struct {
	Image string // a reference; "": the target's own choice
	// Later says that Image is made between Offer and Start: Offer accepts that it is missing.
	Later bool
	// Python is the version, as "3.12", that an image should have which the target chooses;
	// "": any.
	Python string
	// Entrypoint is that of Image, for a target with Properties.Entrypoint; nil: it has none, or
	// this machine could not see it.
	Entrypoint []string
	// Nodes is how many agents of the job must reach each other; 0 and 1: none.
	Nodes  int
	Shm    int64 // bytes of /dev/shm; 0: the target's choice
	Mounts []job.Mount
	// Seen are files and folders of the submitting machine that the job's programs get by
	// name: they are shown under these names, read-only.
	Seen []string
}

// Script reads the options for a target's own scheduler at the head of a script. What was
// said of the job otherwise is in n, and wins. A head without options is no error.
type Script func(head []byte, n Needs) (Said, error)

// Said are the options at the head of a script.
type Said struct {
	Mark  string   `json:"mark"`            // what their lines begin with, such as #SBATCH
	Args  []string `json:"args,omitempty"`  // as in Needs
	Nodes int      `json:"nodes,omitempty"` // machines that the script wants; 0: it does not say
	Left  []string `json:"left,omitempty"`  // options that are ignored, and why
	Many  error    `json:"-"`               // why the script must be items of a map and cannot be one program; nil: it can
}

// Offer is a target's answer to Needs.
type Offer struct {
	Fits bool
	// Detail is what Needs.Detail, which may be short or "", means in full, for a target with names
	// that may come to mean another place: a cluster, region or account. It is the Detail of
	// all Handles of the job, and of its later Needs. It has no control characters. "": handles
	// of this target have no Detail.
	Detail string
	Reason string // why not, in one sentence, when it does not fit
	Hint   string // what to do about it, in one sentence with something to paste; "": ask for less
	// Missing are permissions that the caller does not have, in the engine's own words: "patch
	// pods". An offer that fits works without them, but for what they say.
	Missing []string
	// Notes are what the user may not expect of an offer that fits, a sentence each without a full
	// stop, for the plan: what agents get that was not asked for, or what the target lacks.
	Notes   []string
	Machine string // the machine that it would run on, for the plan: "this machine, 8 cores, 32 GB"
	Price   Price  // of that machine
	Spot    bool   // it would run on spot capacity
	// System is the system of the machines, as "linux/arm64", where agents run a program of
	// Boot.Programs; "": they run Boot.Binary. The plan refuses a system without a program.
	System string
	// Identity names the account or role that agents would have there, in words for the plan,
	// where only the account tells: "the job role drover-agents of account 123456789012". "": as
	// Properties say. It counts for a target with an Identity in its Properties.
	Identity string
	// Registry is the prefix below which images for jobs there are pushed, of a target that Pulls and has
	// a registry in the caller's account: "123456789012.dkr.ecr.us-east-1.amazonaws.com/team". It is
	// also that of an offer that does not fit. "": the caller has to name one.
	Registry string
	// Cores and Memory (bytes) are what the target has in all; 0: not known.
	Cores  int
	Memory int64
	// Choices are the kinds of machine that the target has, in its own order; none:
	// there is only one.
	Choices []Choice
}

// Choice is one kind of machine of a target, such as a partition.
type Choice struct {
	Detail  string        // as in Needs
	Default bool          // the target's choice when Needs.Detail is ""
	Machine string        // "4 cores, 16 GB, 2 GPUs"
	Free    int           // agents with these needs that could begin now
	All     int           // agents with these needs that could begin if nothing else ran; 0: they do not fit
	Price   Price         // the zero value: the Offer's
	Time    time.Duration // the longest that an agent may live; 0: no limit
	Reason  string        // why not, when it does not fit
}

// Request is what Start is asked for.
type Request struct {
	Job       string // the job's id
	Placement int    // 1, 2, ...: with Job it is the name of these agents
	Agents    int
	Needs     Needs
	Run       Boot
}

// Boot is what an agent needs to begin: above all, where the job's facts are. It never
// holds a secret. Argv makes the agent's command line of it.
type Boot struct {
	Binary string // the agent's program on this machine; agents elsewhere run one of Programs
	Store  string // as typed after --store; absolute
	Job    string // project/task/job
	Env    []string

	// Programs stores the agent's program for other systems, for a target with machines that
	// do not see this one. Nil: there is no other program than Binary.
	Programs Programs
	// ProgramFile finds the agent's program for another system on this machine, for a target that
	// sends it itself. Nil: there is no other program than Binary.
	ProgramFile func(system string) (path string, err error)
	// Folders are the folders of this machine that an agent beside the command line reads
	// and writes under their own names, also when it runs in a container: its store, when
	// that is a folder. They exist.
	Folders []string
	// Secrets are references (secret.Resolve) by variable, for a target with agents that do
	// not inherit this process's environment: the target reads the values at Start and hands
	// them over where no list of processes, no log and no record of the target shows them.
	Secrets map[string]string
	// Tools are programs of this machine that agents elsewhere may want: static
	// ones, such as uv. They find them on their PATH, last.
	Tools []string
	// Stdin is what a placement's agents have as their standard input, the open file
	// itself, where the target's Properties say Stdin. It stays the caller's to close. Nil: it
	// is empty.
	Stdin *os.File
	// Pass makes the credential with which an agent opens the store, where its machine has
	// none of its own: the contents of a file, secret, good for a while. Nil: it needs none.
	// A target with agents that do not inherit this process's environment calls it at Start
	// and hands it over as it does Secrets; a later Start of the same placement replaces the
	// file, whole, where agents look again. Nil contents: none is needed.
	Pass func(context.Context) ([]byte, error)
}

// Argv is the command line of agent number index of a placement.
func (b Boot) Argv(placement, index int) []string {
	return AgentArgs{Store: b.Store, Job: b.Job, Placement: placement, Index: index}.Argv(b.Binary)
}

// Handle names the agents of one placement on one target, for ever. It follows
// from the job's record and the placement, so that it is never lost, and is
// printable: "local:v1:7fk2...:1", "kube/train@prod:v1:7fk2...:1".
type Handle struct {
	Target    string
	Detail    string // the Offer's
	Job       string
	Placement int
}

// Enter ends a Member's Enter: by it the program that is binary on the machine of
// agent number index runs what follows beside that agent's program.
func (h Handle) Enter(binary string, index int) []string {
	return []string{binary, "enter", h.Job, fmt.Sprint(h.Placement), fmt.Sprint(index), "--"}
}

// handleFormat is the version in a handle's text.
const handleFormat = "v1"

// String is the handle's printable, versioned form.
func (h Handle) String() string {
	return fmt.Sprintf("%s:%s:%s:%d", job.JoinTarget(h.Target, h.Detail), handleFormat, h.Job, h.Placement)
}

// ParseHandle reads what String wrote.
func ParseHandle(text string) (Handle, error) {
	var h Handle
	parts := strings.Split(text, ":")
	n := len(parts) - 3 // a Detail may have colons, as an address has
	if n < 1 || parts[n] != handleFormat {
		return h, fmt.Errorf("read handle: %q is not a handle of this version of drover", text)
	}
	h.Target, h.Detail = job.SplitTarget(strings.Join(parts[:n], ":"))
	h.Job = parts[n+1]
	if h.Target == "" || strings.Contains(h.Target, ":") || strings.ContainsFunc(h.Detail, unicode.IsControl) {
		return h, fmt.Errorf("read handle: %q has no target", text)
	}
	if _, err := fmt.Sscanf(parts[n+2], "%d", &h.Placement); err != nil || h.String() != text {
		return h, fmt.Errorf("read handle: %q has no placement", text)
	}
	return h, nil
}

// State is where an engine says an agent stands.
type State string

// The states of a member. Only Waiting and Running are alive.
const (
	Waiting State = "waiting" // accepted, not started yet
	Running State = "running"
	Ended   State = "ended" // by itself, or by Stop
	Lost    State = "lost"  // started, and gone without a word
	Taken   State = "taken" // the engine took the machine away: an interruption
)

// Alive says whether the agent may still be working, now or later.
func (s State) Alive() bool { return s == Waiting || s == Running }

// Member is one agent as its engine sees it.
type Member struct {
	// Index is the agent's number: 0 to Request.Agents-1 for those that were requested, any
	// higher number for one that the engine has started in the place of another. Members are
	// in the order of their numbers.
	Index  int
	State  State
	Code   int    // the agent's own exit status once ended, 128 and more for a signal; -1: not known, or forgotten by the engine
	Reason string // the engine's own words
	Hint   string // what to do about it, in one sentence with something to paste; "": nothing is known
	Tail   string // the end of the agent's own log, when it ended badly or never came up
	Where  string // machine, for people; "": none yet
	PID    int    // on this machine; 0: elsewhere
	// Enter is the command that, typed on this machine, runs the words after it
	// beside a running agent's program, with this terminal; without any words, a
	// shell. It ends with Handle.Enter. Nil: the target has no way.
	Enter []string
}
