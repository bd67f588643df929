package engine

import (
	"context"
	"os"
	"strings"
	"sync"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/stdin"
	"github.com/drover-run/drover/job"
)

// The standard input of a run: docs/design/015-standard-input.md.

// readStdin has a plan say what its program would read, or refuses where it would be dropped.
func (e planner) readStdin(_ context.Context, p *Plan) error {
	in := e.Caller.Input
	if p.Spec.Verb == job.Map || in == nil || !in.Held() {
		return nil
	}
	switch {
	case p.Spec.Nodes > 1:
		return fault.New(fault.Invalid, "Give the data with `-i`, or type `< /dev/null` behind the command if the program reads none.",
			"give %s to the program: it runs on %d nodes, and one standard input cannot be read by several", in.Words(), p.Spec.Nodes)
	case !p.Properties.Stdin:
		return fault.New(fault.Invalid, "Give the data with `-i`, or type `< /dev/null` behind the command if the program reads none.",
			"give %s to the program: with --on %s it does not run beside this command line", in.Words(), p.Spec.On)
	}
	id, err := in.ID()
	p.Spec.StdinOf = id
	return err
}

// stdinGone refuses to go on with a job that had a standard input which this command does
// not have.
func stdinGone(j job.Job) error {
	hint, what := "Give it again: `... | drover resume "+j.Short+"`; or end the job with `drover cancel "+j.Short+"`.", "pipe"
	if strings.HasPrefix(j.Spec.StdinOf, "file:") {
		hint, what = "Give it again: `drover resume "+j.Short+" < FILE`; or end the job with `drover cancel "+j.Short+"`.", "file"
	}
	return fault.New(fault.Invalid, hint, "go on with job %s: its program reads a %s on standard input, and this command has none", j.Short, what)
}

// given says whether Caller.Input was given to the agent of a placement.
type given struct {
	sync.Mutex
	once bool
}

// stdinForPlacement returns the standard input for a placement of a job; nil is none.
func (e *Engine) stdinForPlacement(o driver.Properties, j job.Job) (*os.File, error) {
	in := e.Caller.Input
	if j.Spec.StdinOf != "" {
		if in == nil || !in.Held() {
			return nil, stdinGone(j)
		}
		id, err := in.ID()
		if err != nil {
			return nil, err
		}
		if in.Kind == stdin.File && strings.HasPrefix(j.Spec.StdinOf, "file:") && id != j.Spec.StdinOf {
			return nil, fault.New(fault.Invalid, "Give it the same file; or run its command again with this one, which makes a new job.",
				"go on with job %s: the file on standard input is another one than its program has read", j.Short)
		}
	}
	if in == nil || !o.Stdin || j.Spec.Verb == job.Map || j.Spec.Nodes > 1 {
		return nil, nil
	}
	if in.Kind == stdin.Terminal {
		if e.Caller.Terminal == nil {
			return nil, nil
		}
		return e.Caller.Terminal(), nil
	}
	e.given.Lock()
	defer e.given.Unlock()
	if e.given.once {
		if err := in.Again(); err != nil {
			return nil, err
		}
	}
	e.given.once = true
	if in.Kind == stdin.None {
		return nil, nil
	}
	return in.File, nil
}
