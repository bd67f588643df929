package job

import "github.com/drover-run/drover/fault"

// Rules say by which system's rules a command is understood: when a task is complete,
// what another task's outputs need, which jobs share /state. They change nothing of the
// protocol on the store.
type Rules string

// The rules. Drover's own are DESIGN section 7; those of simple-sagemaker are
// what its users' scripts rely on (docs/design/008).
const (
	Drover Rules = ""
	SSM    Rules = "ssm"
)

// Where processing jobs by the rules of ssm find their state, and what it was when
// they began.
const (
	ProcessingState  = Processing + "/state"
	ProcessingBefore = Processing + "/state_prev"
)

// Completes says whether a job of s, once it has succeeded, makes the task of o
// complete. By the rules of ssm a task's training jobs and its processing jobs each
// count for themselves.
func (s Spec) Completes(o Spec) bool {
	return o.Rules != SSM || (s.Verb == Process) == (o.Verb == Process)
}

func checkCustoms(s Spec) error {
	switch {
	case s.Rules != Drover && s.Rules != SSM:
		return fault.New(fault.Bug, "", "check job: unknown rules %q", string(s.Rules))
	case len(s.Entrypoint) > 0 && s.Verb != Process:
		return fault.New(fault.Invalid, "Use verb: process, or begin the command with these words.", "check job: only processing jobs have an entrypoint")
	}
	return nil
}
