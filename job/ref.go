package job

import (
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
)

// TaskRef names what another task left: an input that is chained.
type TaskRef struct {
	Project string // "": the same one
	Task    string
	What    string // one of Chains
}

// Chains are what a task leaves for others: its state as it is now; the model and
// output of its newest job, which must have succeeded; the source of its newest job.
var Chains = []string{"state", "model", "output", "source"}

// taskScheme begins an input's path that is a TaskRef.
const taskScheme = "task:"

// TaskRef reads an input's path such as "task:train/model" or
// "task:vision/train/state"; ok is false for a path that is no such thing.
func (in Input) TaskRef() (r TaskRef, ok bool, err error) {
	rest, ok := strings.CutPrefix(in.Path, taskScheme)
	if !ok {
		return r, false, nil
	}
	parts := strings.Split(rest, "/")
	if len(parts) == 3 {
		r.Project, parts = parts[0], parts[1:]
	}
	if len(parts) == 2 {
		r.Task, r.What = parts[0], parts[1]
	}
	wrong := ValidName("task", r.Task) != nil || r.Project != "" && ValidName("project", r.Project) != nil
	if !wrong && slices.Contains(Chains, r.What) {
		return r, true, nil
	}
	hint := "Write it as " + in.Name + "=task:NAME/model; state, output and source work too."
	if near := fault.Nearest(r.What, Chains); near != "" && !wrong {
		hint = "Did you mean task:" + r.Task + "/" + near + "?"
	}
	return r, true, fault.New(fault.Invalid, hint, "check job: input %s: %q is not something that a task leaves", in.Name, in.Path)
}
