package agent

import (
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/agent/workspace"
	"github.com/drover-run/drover/internal/ledger/states"
)

// rankState is the state of this node's rank: the generations that it restores from
// and adds to.
type rankState struct {
	*node.Node
	space    *workspace.Workspace
	gens     *states.Generations
	restored [3]kept // checkpoints, state and files, as the generation we began from says
}

// remains are what agents leave that die: the mark of this agent's folder, by which a
// later agent knows what is not saved, and the folders of agents of this task that
// died on this machine.
type remains struct {
	*node.Node
	space   *workspace.Workspace
	dead    []deadFolder // their files are not saved yet
	unsaved *unsaved     // what this agent's folder holds that may not be stored; nil: nothing
	token   string       // of the program's tree, as the mark says
}

// outputs stores what a program that has ended left to be brought home.
type outputs struct {
	*node.Node
	space *workspace.Workspace
}

// commands makes the command line of this node's program.
type commands struct {
	*node.Node
	space *workspace.Workspace
	ready *prepared
}

// itemSetup is what the items of a map are given: variables, GPUs, memory.
type itemSetup struct {
	*node.Node
	space *workspace.Workspace
	ready *prepared
}

// rendezvous is how this node and the other nodes of an attempt reach each other.
type rendezvous struct {
	*node.Node
	ready    *prepared
	freePort func() // gives the attempt's port back; nil: none is kept
}

// exits makes the exit of a program that has ended: whether it failed, and why.
type exits struct {
	*node.Node
	space *workspace.Workspace
}

// preparation fetches what the program needs before it starts.
type preparation struct {
	*node.Node
	space *workspace.Workspace
	ready *prepared
}
