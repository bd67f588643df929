// Package launcher is the small programs that stand between an agent and the
// processes of its node, inside the program's tree, and the words they speak
// with the agent. They are this same drover binary, run as "drover launch MODE",
// or "drover rsh" where an MPI asks for a remote shell:
//
//	ranks   starts the processes of one node, each with its rank
//	mpi     runs mpiexec on node 0, and has started elsewhere what it asks for
//	rank    becomes one process of an MPI program
//	serve   runs on the other nodes what node 0 asks for
//
// What is to be started on another node is requested from the agent through a unix
// socket; the agents carry the request. So every process starts in the tree, the view
// and the environment of its own node, without sshd.
//
// It refuses to know jobs, stores and how agents find each other. Proved by its
// tests with real processes, and with every MPI there is by cmd/drover's.
package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/drover-run/drover/fault"
)

// Main is "drover launch": args are what follows it. It gives the exit status.
func Main(args []string) int {
	modes := map[string]func(context.Context, []string) (int, error){"ranks": ranks, "mpi": mpi, "rank": rank, "serve": serve}
	if len(args) == 0 || modes[args[0]] == nil {
		return say(fault.New(fault.Invalid, "Use `drover run --launcher`.", "launch: this command is for drover itself"))
	}
	status, err := modes[args[0]](context.Background(), args[1:])
	if err != nil {
		return say(err)
	}
	return status
}

// say tells an error where the program's own are told, and gives its status.
func say(err error) int {
	fmt.Fprintf(os.Stderr, "drover: %s\n", err)
	if hint := fault.Hint(err); hint != "" {
		fmt.Fprintf(os.Stderr, "  %s\n", hint)
	}
	return fault.Exit(err)
}

// options reads "--name value" pairs up to "--", and what follows that.
func options(args []string) (pairs map[string]string, rest []string, err error) {
	pairs = map[string]string{}
	for len(args) > 0 {
		if args[0] == "--" {
			return pairs, args[1:], nil
		}
		name, ok := strings.CutPrefix(args[0], "--")
		if !ok || len(args) < 2 {
			break
		}
		pairs[name] = args[1]
		args = args[2:]
	}
	if len(args) > 0 {
		return nil, nil, fault.New(fault.Bug, "", "launch: %q is not an option", args[0])
	}
	return pairs, nil, nil
}

func number(pairs map[string]string, name string) (int, error) {
	n, err := strconv.Atoi(pairs[name])
	if err != nil || n < 0 {
		return 0, fault.New(fault.Bug, "", "launch: --%s %q is not a number", name, pairs[name])
	}
	return n, nil
}

// statusOf is what a shell would say of a command's end.
func statusOf(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return exit.ExitCode()
	}
	return fault.ExitDrover
}
