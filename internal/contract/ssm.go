package contract

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/job"
)

// Own are the folders in a state that nodes share, one for each node alone, in the
// order of their ranks.
func Own(nodes int) []string { return Hosts(nodes) }

// IsHost says whether a folder's name is one of Hosts, of however many.
func IsHost(name string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "algo-"))
	return err == nil && n > 0 && name == "algo-"+strconv.Itoa(n)
}

// setSSMPaths are where workers of simple-sagemaker look.
func (f Facts) setSSMPaths(p *Paths) {
	if f.Process {
		p.State, p.Before = f.pathBelowRoot(job.ProcessingState), f.pathBelowRoot(job.ProcessingBefore)
	} else {
		p.TensorBoard = f.pathBelowRoot("/opt/ml/output/tensorboard")
	}
	if len(f.Hosts) > 0 {
		p.Instance = p.State + "/" + f.ownHostname()
	}
}

// setSSMEnv are the variables of simple-sagemaker: those that its own module sets in a
// worker, for programs that do not use it, and those that it gives a processing job,
// which has no other SM_*.
func (f Facts) setSSMEnv(set map[string]string) {
	p := f.Paths()
	maps.Copy(set, map[string]string{
		"SAGEMAKER_JOB_NAME": f.Job,
		"SSM_STATE":          p.State,
		"SSM_INSTANCE_STATE": p.Instance,
		"SSM_NUM_NODES":      strconv.Itoa(len(f.Hosts)),
		"SSM_HOST_RANK":      strconv.Itoa(f.Rank),
	})
	if !f.Process {
		set["SSM_TENSORBOARD_DIR"] = p.TensorBoard
		return
	}
	set["SSM_OUTPUT"] = p.OutputData
	set["SM_HOSTS"], set["SM_CURRENT_HOST"] = compact(f.Hosts), f.ownHostname()
	for _, name := range slices.Sorted(maps.Keys(f.Inputs)) {
		both(set, "SM_CHANNEL_"+strings.ToUpper(name), f.Inputs[name])
	}
}

// customary are the folders that a job of simple-sagemaker finds besides. A Python
// program makes its own part of the state itself, if it wants one; for a command
// that tool's launcher does.
func (f Facts) customary() []string {
	if !f.SSM || f.Process || strings.HasSuffix(f.Program, ".py") {
		return nil
	}
	return []string{f.Paths().Instance}
}
