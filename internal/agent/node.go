package agent

import (
	"context"
	"time"

	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/job"
)

// node is what every part of an agent uses: what the agent was started with, the job
// that it works for, its folder, and where its notes, records and heartbeats go.
type node struct {
	Config
	id    string // the agent's, as heartbeats and entries name it
	job   job.Job
	place int           // the job's submission number
	poll  time.Duration // how often the job's log is read at least
	own   string        // this agent's folder, which goes with it
	root  string        // what the program has as "/": its opt/ml and state are in it; own, or the machine's
	slots int           // of a map: items at once
	beat  *heart
	out   *record.Writer

	secrets map[string]string // values, by the name of their variable
	redact  *redact.Redactor  // takes them out of all that is recorded

	vanish context.CancelCauseFunc // ends all that waits for the store; with errRemoved
}

// workspace is the agent's folder as the program sees it: the contract's folders, the
// view of the machine that shows them, and the layer for what the program writes.
type workspace struct {
	*node
	view     bool     // the program has a view of its own
	layered  bool     // the program runs where its code stands, with a layer of its own
	pristine snapshot // the code's folder before the program ran
	linked   snapshot // the user's own files that the code folder has as links
}

// rankState is the state of this node's rank: the generations that it restores from
// and adds to.
type rankState struct {
	*node
	space    *workspace
	gens     *states.Generations
	restored [3]kept // checkpoints, state and files, as the generation we began from says
}

// remains are what agents leave that die: the mark of this agent's folder, by which a
// later agent knows what is not saved, and the folders of agents of this task that
// died on this machine.
type remains struct {
	*node
	space   *workspace
	dead    []deadFolder // their files are not saved yet
	unsaved *unsaved     // what this agent's folder holds that may not be stored; nil: nothing
	token   string       // of the program's tree, as the mark says
}

// outputs stores what a program that has ended left to be brought home.
type outputs struct {
	*node
	space *workspace
}

// commands makes the command line of this node's program.
type commands struct {
	*node
	space *workspace
	ready *prepared
}

// itemSetup is what the items of a map are given: variables, GPUs, memory.
type itemSetup struct {
	*node
	space *workspace
	ready *prepared
}

// rendezvous is how this node and the other nodes of an attempt reach each other.
type rendezvous struct {
	*node
	ready    *prepared
	freePort func() // gives the attempt's port back; nil: none is kept
}

// exits makes the exit of a program that has ended: whether it failed, and why.
type exits struct {
	*node
	space *workspace
}

// preparation fetches what the program needs before it starts.
type preparation struct {
	*node
	space *workspace
	ready *prepared
}
