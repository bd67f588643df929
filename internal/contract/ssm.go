package contract

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/job"
)

// given says whether the hyperparameters were given apart from the arguments.
// Under simple-sagemaker's rules they always are: what it hands to the program
// behind "--" is none.
func (f Facts) given() bool { return len(f.Hyperparameters) > 0 || f.Rules == job.SSM }

// values are the hyperparameters as SM_HPS has them: text where they were given as
// text, else what the arguments' JSON says.
func (f Facts) values() map[string]any {
	if !f.given() {
		return Hyperparameters(f.Args)
	}
	values := map[string]any{}
	for name, text := range f.Hyperparameters {
		values[name] = text
	}
	return values
}

// documented are the hyperparameters as hyperparameters.json has them. Whoever
// reads that file decodes each value as JSON: given text stands there in quotes, as
// SageMaker's SDK puts it, so that 0.1 stays text.
func (f Facts) documented() map[string]string {
	if !f.given() {
		return flags(f.Args)
	}
	quoted := map[string]string{}
	for name, text := range f.Hyperparameters {
		quoted[name] = compact(text)
	}
	return quoted
}

// ssm are the variables that simple-sagemaker's own module adds to SageMaker's, for
// programs that do not load it; and of a processing job the few of SageMaker's that
// it sets there.
func (f Facts) ssm(set map[string]string) {
	p := f.Paths()
	maps.Copy(set, map[string]string{
		"SAGEMAKER_JOB_NAME":  f.Job,
		"SSM_STATE":           p.State,
		"SSM_INSTANCE_STATE":  f.instanceState(),
		"SSM_NUM_NODES":       strconv.Itoa(len(f.Hosts)),
		"SSM_HOST_RANK":       strconv.Itoa(f.Rank),
		"SSM_TENSORBOARD_DIR": f.tensorboard(),
	})
	if !f.Process {
		return
	}
	set["SSM_OUTPUT"] = p.OutputData
	set["SM_HOSTS"], set["SM_CURRENT_HOST"] = compact(f.Hosts), f.host()
	for _, name := range slices.Sorted(maps.Keys(f.Inputs)) {
		both(set, "SM_CHANNEL_"+strings.ToUpper(name), f.Inputs[name])
	}
}

// instanceState is this node's own part of the state.
func (f Facts) instanceState() string { return filepath.Join(f.Paths().State, f.host()) }

func (f Facts) tensorboard() string { return filepath.Join(f.Paths().Output, "tensorboard") }

// customary are the folders that a job of simple-sagemaker finds besides. A Python
// program makes its own part of the state itself, if it wants one; for a command
// that tool's launcher does.
func (f Facts) customary() []string {
	switch {
	case f.Rules != job.SSM:
		return nil
	case f.Process || strings.HasSuffix(f.Program, ".py"):
		return []string{f.tensorboard()}
	}
	return []string{f.tensorboard(), f.instanceState()}
}
