package driver

// Target is everything that a program knows of a kind of place to run: the value that each
// package below driver gives, and the only thing that a main names of it.
type Target struct {
	// Name is what stands in --on, and in the handles of its driver: lower-case letters.
	Name string
	// New makes the driver, which keeps what it must remember of its placements in the
	// folders. It neither makes a folder nor asks an engine: a program makes the drivers of
	// all its targets, and uses one.
	New func(Folders) Driver
	// Properties are the target's constants. They may depend on this machine's file systems,
	// and follow from nothing that takes longer to read.
	Properties func(Folders) Properties
	// Adopt makes this process the agent that the target has started it as. It is called
	// before anything else is started, and after the agent has begun to listen for SIGTERM,
	// by which a target asks it to stop, also when it asked before the agent was up.
	//
	// A process that the target has started to supervise an agent never comes back from it:
	// it starts the agent below it, passes on what it is asked, and ends as the agent did. In
	// a process that the target did not start the allocation is nil, and nothing happens.
	Adopt func() (*Allocation, error)
	// Beside says, on an agent's machine, where agents of the target work there, for a
	// process that Member.Enter has started beside one: Root, or Scratch, is set. Nil, or a
	// nil allocation: where the user's own state folder is.
	Beside func() *Allocation
	// Script reads what a script's head says to the target's own scheduler. Nil: a script
	// says nothing to it.
	Script Script
	// Setup makes and takes away what the target stands on in an account or cluster. Nil: it
	// stands on nothing.
	Setup func(Folders) Setup
}

// Folders are where drivers keep what they must remember on the machine of the command
// line. All are absolute.
type Folders struct {
	// State is the driver's own, such as $XDG_STATE_HOME/drover/NAME. It need not be there.
	State string
	// Reservations is the folder in which the agents of this machine reserve cores, memory
	// and GPUs; "": there is none.
	Reservations string
}

// Opened is a target as one process uses it.
type Opened struct {
	Driver
	Properties
	Script Script // as in Target
	Setup  Setup  // nil: it stands on nothing
}

// Open makes the target's driver.
func (t Target) Open(f Folders) Opened {
	o := Opened{Driver: t.New(f), Script: t.Script}
	if t.Properties != nil {
		o.Properties = t.Properties(f)
	}
	if t.Setup != nil {
		o.Setup = t.Setup(f)
	}
	return o
}

// Adopt makes this process the agent that one of the targets has started it as. In a process
// that none of them has started, the allocation is the whole machine, shared with others.
func Adopt(targets []Target) (*Allocation, error) {
	for _, t := range targets {
		if t.Adopt == nil {
			continue
		}
		if a, err := t.Adopt(); a != nil || err != nil {
			return a, err
		}
	}
	return &Allocation{Stdin: true}, nil
}
