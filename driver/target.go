package driver

import (
	"context"

	"github.com/drover-run/drover/store"
)

// Target is everything that a program knows of a kind of place to run: each package below
// driver has one as a value, and a main names nothing else of the package.
type Target struct {
	// Name is the word in --on, and in the handles of its driver: lower-case letters.
	Name string
	// New makes the driver, which keeps what it must remember of its placements in the
	// places that the Config names. New neither makes a folder nor asks an engine: a program makes the drivers of
	// all its targets, and uses one.
	New func(Config) Driver
	// Properties are the target's constants. They may depend on this machine's file systems,
	// and on nothing that takes longer to read.
	Properties func(Config) Properties
	// Adopt makes this process the agent that the target has started it as. The agent calls
	// it before it starts anything else, and after it has begun to listen for SIGTERM, by
	// which a target asks it to stop: the target may ask before the agent is up.
	//
	// In a process that the target has started to supervise an agent, Adopt never returns: it
	// starts the agent below the process, passes on what it is asked, and exits as the agent
	// did. In a process that the target did not start, Adopt changes nothing and the
	// allocation is nil.
	Adopt func(AgentProcess) (*Allocation, error)
	// Beside says where agents of the target work on their machine: Root, or Scratch, is set.
	// It is called on that machine, in a process that Member.Enter has started beside an
	// agent. Nil, or a nil allocation: agents work in the user's own state folder.
	Beside func() *Allocation
	// Script reads the options for the target's own scheduler at the head of a script. Nil:
	// scripts have none for it.
	Script Script
	// Setup makes and takes away what the target needs in an account or cluster. Nil: it
	// needs nothing.
	Setup func(Config) Setup
	// Policy gives what a party must be granted in the target's account or cluster, as text that
	// an administrator can apply. It asks nothing. Nil: the target grants nothing apart.
	Policy Policy
}

// Policy is a Target's function of this name.
type Policy func(Config, Party, Scope) (string, error)

// Party is the one that something is granted to.
type Party string

// The parties.
const (
	Agents     Party = "agents"     // on machines, with users' programs
	Submitters Party = "submitters" // people
)

// Config is what a program gives to its drivers. Folders are absolute.
type Config struct {
	// State is the driver's own folder on this machine for what it must remember, such as
	// $XDG_STATE_HOME/drover/NAME. It need not exist.
	State string
	// Store opens the store of the jobs that the program is about, as its caller may. A driver
	// calls it when it is first asked for a placement, not before. A target with machines that
	// do not see this one keeps the records of its placements there (package remote). Nil: the
	// program asks for nothing but offers.
	Store OpenStore
	// Reservations is the folder in which the agents of this machine reserve cores, memory
	// and GPUs; "": there is none.
	Reservations string
	// Work is the folder in which the agents that share this machine work: a folder for each
	// job, and in it one for each agent. A target that gives its agents a Root on this machine
	// moves the Root of one that was lost to there, with a file LostFile in it, so that the
	// next agent of its task saves what its program has written last. "": there is none.
	Work string
}

// AgentImageProgram is where an image of the agent has its program: drover image agent makes it, for
// targets that take the program out of an image.
const AgentImageProgram = "/drover-agent"

// OpenStore opens one store, each time that it is called.
type OpenStore func(context.Context) (*store.Store, error)

// LostFile is in the folder of an agent that was lost, for certain: its target says so.
const LostFile = "lost"

// Opened is a target with its driver, as one process uses it.
type Opened struct {
	Driver
	Properties
	Script Script // as in Target
	Setup  Setup  // nil: it needs none
	// Policy is the Target's, for its Config. Nil: the target grants nothing apart.
	Policy func(Party, Scope) (string, error)
}

// Open makes the target's driver.
func (t Target) Open(f Config) Opened {
	o := Opened{Script: t.Script}
	if t.Properties != nil {
		o.Properties = t.Properties(f)
	}
	o.Driver = keepOffers(t.New(f), o.Keeps)
	if t.Setup != nil {
		o.Setup = t.Setup(f)
	}
	if t.Policy != nil {
		o.Policy = func(whose Party, s Scope) (string, error) { return t.Policy(f, whose, s) }
	}
	return o
}

// Adopt makes this process the agent that one of the targets has started it as. In a process
// that none of the targets has started, the allocation is the whole machine, shared with others.
func Adopt(targets []Target, p AgentProcess) (*Allocation, error) {
	for _, t := range targets {
		if t.Adopt == nil {
			continue
		}
		if a, err := t.Adopt(p); a != nil || err != nil {
			return a, err
		}
	}
	return &Allocation{Stdin: true}, nil
}
