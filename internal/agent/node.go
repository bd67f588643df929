package agent

import (
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/states"
)

// workspace is the agent's folder as the program sees it: the contract's folders, the
// view of the machine that shows them, and the layer for what the program writes.
type workspace struct {
	*node.Node
	view     bool     // the program has a view of its own
	layered  bool     // the program runs where its code stands, with a layer of its own
	pristine snapshot // the code's folder before the program ran
	linked   snapshot // the user's own files that the code folder has as links
}

// rankState is the state of this node's rank: the generations that it restores from
// and adds to.
type rankState struct {
	*node.Node
	space    *workspace
	gens     *states.Generations
	restored [3]kept // checkpoints, state and files, as the generation we began from says
}

// remains are what agents leave that die: the mark of this agent's folder, by which a
// later agent knows what is not saved, and the folders of agents of this task that
// died on this machine.
type remains struct {
	*node.Node
	space   *workspace
	dead    []deadFolder // their files are not saved yet
	unsaved *unsaved     // what this agent's folder holds that may not be stored; nil: nothing
	token   string       // of the program's tree, as the mark says
}

// outputs stores what a program that has ended left to be brought home.
type outputs struct {
	*node.Node
	space *workspace
}

// commands makes the command line of this node's program.
type commands struct {
	*node.Node
	space *workspace
	ready *prepared
}

// itemSetup is what the items of a map are given: variables, GPUs, memory.
type itemSetup struct {
	*node.Node
	space *workspace
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
	space *workspace
}

// preparation fetches what the program needs before it starts.
type preparation struct {
	*node.Node
	space *workspace
	ready *prepared
}
