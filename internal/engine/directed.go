package engine

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// headSize is more than any script says before its first command.
const headSize = 64 << 10

// applyDirectives puts what a job's script says to the target's own scheduler into its spec, so
// that a job goes on without the script: options before those that were typed, which
// so win, and the number of nodes where none was typed. It comes before a named
// target's limits, which hold for that number, too.
func (e planner) applyDirectives(s job.Spec) (job.Spec, driver.Said, error) {
	var said driver.Said
	on := s.On
	if t, ok := e.Targets[on]; ok {
		on = t.On
	}
	target, _ := job.SplitTarget(on)
	read := e.Drivers[target].Script
	if read == nil {
		return s, said, nil
	}
	head, err := e.readScriptHead(s)
	if err != nil || head == nil {
		return s, said, err
	}
	asked := s
	asked.On = on
	said, err = read(head, needs(asked))
	if err == nil && s.Verb != job.Map {
		err = said.Many
	}
	if err != nil {
		return s, said, fmt.Errorf("place job on %s: %w", s.On, err)
	}
	if len(said.Args) > 0 {
		s.TargetArgs = maps.Clone(s.TargetArgs)
		if s.TargetArgs == nil {
			s.TargetArgs = map[string][]string{}
		}
		s.TargetArgs[target] = slices.Concat(said.Args, s.TargetArgs[target])
	}
	s.Nodes = agreed(s, &said)
	if len(said.Args) == 0 && said.Nodes == 0 && len(said.Left) == 0 {
		said = driver.Said{}
	}
	return s, said, nil
}

// agreed is how many nodes a job has, given what its script says.
func agreed(s job.Spec, said *driver.Said) int {
	wanted := said.Nodes
	if wanted == 0 {
		return s.Nodes
	}
	said.Nodes = 0
	switch {
	case s.Verb == job.Map:
		if wanted > 1 {
			said.Left = append(said.Left, fmt.Sprintf("--nodes=%d: An item runs on one node; --workers sets how many agents there are.", wanted))
		}
	case s.Nodes == 0:
		said.Nodes = wanted
		return wanted
	case s.Nodes != wanted:
		said.Left = append(said.Left, fmt.Sprintf("--nodes=%d: The command says %d.", wanted, s.Nodes))
	}
	return s.Nodes
}

// readScriptHead is the begin of a job's script; nil where its program is none of ours.
func (e planner) readScriptHead(s job.Spec) ([]byte, error) {
	dir, script, err := e.Code.FindProgram(s, true)
	if err != nil || script == "" {
		return nil, nil // locate says it, with the words that the target calls for
	}
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(script)))
	if err != nil {
		return nil, fault.Wrap(err, fault.Denied, "", "read script: %q", s.Program)
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, headSize))
	if err != nil {
		return nil, fault.Wrap(err, fault.Failed, "", "read script: %q", s.Program)
	}
	return head, nil
}
