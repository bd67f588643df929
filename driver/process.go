package driver

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// AgentProcess is a process that a target has started as an agent, or as the supervisor of one.
type AgentProcess struct {
	Args AgentArgs
	// Open opens the store that Args name. credential is as in Allocation. Open tries for some
	// minutes where the network is not up yet.
	Open func(ctx context.Context, credential string) (*store.Store, error)
}

// AgentArgs are what an agent's command line says.
type AgentArgs struct {
	Store     string // as typed after --store; absolute
	Job       string // project/task/job
	Placement int
	Index     int
}

// Argv is the command line of an agent with the program binary.
func (a AgentArgs) Argv(binary string) []string {
	return []string{binary, "agent", "--store", a.Store, "--placement", fmt.Sprint(a.Placement), "--index", fmt.Sprint(a.Index), a.Job}
}

// ParseAgentArgs reads a command line that Argv has made, without its first two words.
func ParseAgentArgs(args []string) (a AgentArgs, err error) {
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the error says it
	f.StringVar(&a.Store, "store", "", "")
	f.IntVar(&a.Placement, "placement", 1, "")
	f.IntVar(&a.Index, "index", 0, "")
	if err := f.Parse(args); err != nil {
		return a, fault.Wrap(err, fault.Invalid, byHand, "start agent")
	}
	if a.Job = f.Arg(0); f.NArg() > 1 {
		return a, fault.New(fault.Invalid, byHand, "start agent: %q is too much", f.Arg(1))
	}
	return a, nil
}

const byHand = "Drover starts agents itself, for `drover run` and map; `drover worker ls` shows those of live jobs."
