package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/drover-run/drover/driver/docker"
	"github.com/drover-run/drover/driver/slurm"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent"
)

// runEnter is "drover enter JOB PLACEMENT INDEX -- WORDS", which every target's
// Member.Enter ends in: on the agent's own machine it runs words, or a shell, beside
// the agent's program.
func runEnter(args []string) int {
	status, err := enter(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "drover: %s\n", err)
		if h := fault.Hint(err); h != "" {
			fmt.Fprintf(os.Stderr, "  %s\n", h)
		}
		return fault.ExitDrover
	}
	return status
}

func enter(args []string) (int, error) {
	if len(args) < 4 || args[3] != "--" {
		return 0, fault.New(fault.Invalid, "Use drover attach.", "enter: want a job's id, a placement, an index and --")
	}
	placement, err := strconv.Atoi(args[1])
	index, err2 := strconv.Atoi(args[2])
	if err = errors.Join(err, err2); err != nil {
		return 0, fault.Wrap(err, fault.Invalid, "Use drover attach.", "enter")
	}
	if root, in := docker.Root(); in {
		return agent.Enter([]string{root}, args[4:])
	}
	job := filepath.Base(args[0])
	roots := agent.Roots(workFolder(dirs()), job, placement, index)
	return agent.Enter(append(roots, agent.Roots(scratchFolder(slurm.Scratch(os.Getenv)), job, placement, index)...), args[4:])
}
