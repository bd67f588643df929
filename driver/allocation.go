package driver

import "time"

// Allocation is everything that an agent knows of where it runs: what its target's engine
// has given it there, and what the process that started it has left for it. A target's Adopt
// makes it. A field with the zero value is not known to the target; the agent then uses what
// the machine itself says.
type Allocation struct {
	// Name is the engine's name of the machine, for people; "": its host name.
	Name string

	// Root is where the folders of the program's contract are, on a machine that is the
	// agent's own: Root/opt/ml and Root/state are the machine's /opt/ml and /state. It is "/"
	// where these are ordinary folders of the machine. "": the machine is shared with others, so
	// the agent makes a folder of its own, and shows the program a view of the machine in which
	// that folder is /opt/ml.
	//
	// A Root of the agent's own is removed with the agent. Where Root is "/", the agent empties
	// /opt/ml and /state before it begins and when it ends, and keeps its own files in Scratch or
	// State, which must not lie below them. What could not be stored is lost with such a machine.
	Root string
	// State is the folder for what an agent keeps while it lives; "": the user's own state folder.
	State string
	// Lost is a folder like Config.Work in which there are, in a folder of the job, the Roots
	// of its agents that were lost on this machine. The agent saves what is in them and removes
	// them. "": it looks where it works.
	Lost string
	// Scratch is a folder on a disk of the machine that other users may write to. The agent
	// makes a private folder in it and works there. "": it works in State.
	Scratch string
	// Cache is the folder for Python environments, which later agents use again; "": the
	// user's own cache folder.
	Cache string

	// Cores, Memory (bytes) and GPUs are what the agent may use; 0: what the machine has.
	Cores  int
	Memory int64
	GPUs   int
	// Shared says which processes use Cores, Memory and GPUs. Nil: the agent shares them with
	// all other agents of this user on this machine, and reserves its part. Not nil: as it says.
	Shared *Sharing

	// Secrets are the values of the job's secrets by variable; nil: the agent resolves them
	// in its own environment.
	Secrets map[string]string
	// Credential is the file that holds the credential for the store. A later Start replaces
	// the whole file before the credential ends. "": the agent opens the store with what its
	// machine has.
	Credential string

	// Hosts, with Root, is the file that is the machine's /etc/hosts. The agent writes the names
	// of the job's nodes into it, in place. "": it writes them nowhere.
	Hosts string
	// Stdin says that the agent's standard input is the program's.
	Stdin bool

	// Archives is true when the engine itself stores what lies in the folders of outputs when the agent has ended.
	// Users of simple-sagemaker look for it there: by its rules the agent leaves the outputs in place, where Root is "/".
	Archives bool
	// Failure is the file in which the engine looks, when the agent has ended, for the reason why the job has failed. The
	// agent of node 0 writes it, and ends with status 1. "": the engine looks for none.
	Failure string

	// OOMKills counts the processes of this machine, or of this container, that the kernel
	// has ended because memory was used up. Nil: not known.
	OOMKills func() int64

	// Signalled says that the engine sends SIGTERM to every process of the allocation, and not
	// to the agent alone. Then a program that ends by SIGTERM has not failed.
	Signalled bool
	// Notice says why the agent was asked to stop, after it has got SIGTERM. It may wait some
	// seconds for the engine's own reason, and is called again after each further SIGTERM, as
	// Left may have become shorter. Nil: a person has asked.
	Notice func() Notice
	// End reports the agent's exit status, with one sentence why, to the target. It is called
	// once, as the last thing that the agent does: an agent that ends without it is Lost. Nil:
	// the target goes by the exit status alone.
	End func(code int, reason string)
}

// Sharing says with which agents an allocation's cores, memory and GPUs are shared.
type Sharing struct {
	// Folder is where the agents of one machine make their reservations. "": the resources are
	// this agent's own, and the engine divides them.
	Folder string
	// Cores and Memory (bytes) are what those agents have in all.
	Cores  float64
	Memory int64
}

// Notice is why an agent must leave before its job has ended.
type Notice struct {
	// Asked is true when a person has asked for it, and false when the machine goes: that is
	// an interruption.
	Asked bool
	Why   string        // in one sentence
	Left  time.Duration // until the agent is killed; 0: not known
}

// AskedToStop is the Notice.Why of a Stop.
const AskedToStop = "asked to stop"

// Ended calls End, if there is one.
func (a *Allocation) Ended(code int, reason string) {
	if a.End != nil {
		a.End(code, reason)
	}
}

// Noticed returns why the agent was asked to stop.
func (a *Allocation) Noticed() Notice {
	if a.Notice == nil {
		return Notice{Asked: true, Why: AskedToStop}
	}
	return a.Notice()
}
