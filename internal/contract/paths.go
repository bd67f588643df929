package contract

import (
	"cmp"
	"path/filepath"
)

// Paths are the folders of the contract, and the failure file, as absolute paths
// if Root is one.
type Paths struct {
	Code        string // the copy of the user's code, and the working folder
	Input       string // holds Config and Data
	Config      string // the three JSON files
	Data        string // inputs by name, where they are not elsewhere
	Model       string // comes back as model.tar.gz
	Output      string // holds OutputData and Failure
	OutputData  string // comes back as output.tar.gz
	Failure     string // a file: why it failed, if the program cares to say
	Checkpoints string // kept across the attempts of a job
	State       string // kept across the jobs of a task
}

// Paths are where the contract lies below f.Root.
func (f Facts) Paths() Paths {
	below := func(path string) string { return filepath.Join(cmp.Or(f.Root, "/"), path) }
	return Paths{
		Code:        below("opt/ml/code"),
		Input:       below("opt/ml/input"),
		Config:      below("opt/ml/input/config"),
		Data:        below("opt/ml/input/data"),
		Model:       below("opt/ml/model"),
		Output:      below("opt/ml/output"),
		OutputData:  below("opt/ml/output/data"),
		Failure:     below("opt/ml/output/failure"),
		Checkpoints: below("opt/ml/checkpoints"),
		State:       below("state"),
	}
}

// Folders lists every folder that must be there when the program starts, outer
// ones first. output/intermediate is not among them: SageMaker's toolkit takes
// its presence for a sign that somebody else looks after it.
func (p Paths) Folders() []string {
	return []string{p.Code, p.Input, p.Config, p.Data, p.Model, p.Output, p.OutputData, p.Checkpoints, p.State}
}

// intermediate is where the toolkit uploads from while a job runs.
func (p Paths) intermediate() string { return filepath.Join(p.Output, "intermediate") }
