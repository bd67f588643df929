package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/workspace"
)

// runEnter is "drover enter JOB PLACEMENT INDEX -- WORDS", with which every target's
// Member.Enter ends: on the agent's own machine it runs the words as a command, or a shell,
// beside the agent's program.
func (p *program) runEnter(args []string) int {
	status, err := p.enterAgent(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "drover: %s\n", err)
		if h := fault.Hint(err); h != "" {
			fmt.Fprintf(os.Stderr, "  %s\n", h)
		}
		return fault.ExitDrover
	}
	return status
}

func (p *program) enterAgent(args []string) (int, error) {
	if len(args) < 4 || args[3] != "--" {
		return 0, notForHands()
	}
	placement, err := strconv.Atoi(args[1])
	index, err2 := strconv.Atoi(args[2])
	if err != nil || err2 != nil {
		return 0, notForHands()
	}
	job := filepath.Base(args[0])
	work := workFolder(p.dirs)
	if real, err := filepath.EvalSymlinks(work); err == nil { // a user may keep it on another disk
		work = real
	}
	roots := workspace.Roots(work, ".", job, placement, index)
	for _, t := range p.targets {
		if t.Beside == nil {
			continue
		}
		switch a := t.Beside(); {
		case a == nil:
		case a.Root != "" && a.Root != "/":
			return workspace.Enter([]workspace.Root{{Base: a.Root, Path: "."}}, args[4:])
		case a.Scratch != "":
			roots = append(roots, workspace.Roots(scratchBase(a.Scratch), scratchWork, job, placement, index)...)
		}
	}
	return workspace.Enter(roots, args[4:])
}

// notForHands is the error of a command line that no target makes.
func notForHands() error {
	return fault.New(fault.Invalid, "Use `drover attach`.", "enter: want a job's id, a placement, an index and --")
}
