package contract

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/job"
)

// Paths are the folders of the contract, two files that the program may leave and
// one that it may look for, as absolute paths if Root is one. "" is one that this
// contract has not.
type Paths struct {
	Code        string   // the copy of the user's code, and the working folder
	Input       string   // holds Data, and Config when training
	Config      string   // the JSON files
	Data        string   // inputs by name, where they are not elsewhere
	Model       string   // training: comes back as model.tar.gz
	Output      string   // holds Failure and Message, and OutputData when training
	OutputData  string   // comes back as output.tar.gz; processing: the first of Results
	Failure     string   // a file: why it failed, if the program cares to say
	Message     string   // a file: how it ended, if the program cares to say
	Notice      string   // a file: appears when the program is about to be stopped
	Checkpoints string   // kept across the attempts of a job
	State       string   // kept across the jobs of a task
	Results     []string // processing: the folders that come back, in their order in Facts
	Parents     []string // processing: what the folders of inputs are in

	// By the rules of ssm, else "":
	Instance    string // this node's own folder in State; "" while it is not known which node it is
	TensorBoard string // training: summaries for TensorBoard
	Before      string // processing: what State was when the job began
}

// Paths are where the contract lies below f.Root. A processing job has no model.
// SageMaker gives it no checkpoints either, but here it has them, and a state: a
// job that is interrupted goes on, whatever it does.
func (f Facts) Paths() Paths {
	p := Paths{
		Code:        f.pathBelowRoot("/opt/ml/code"),
		Input:       f.pathBelowRoot("/opt/ml/input"),
		Config:      f.pathBelowRoot("/opt/ml/input/config"),
		Data:        f.pathBelowRoot("/opt/ml/input/data"),
		Model:       f.pathBelowRoot("/opt/ml/model"),
		Output:      f.pathBelowRoot("/opt/ml/output"),
		OutputData:  f.pathBelowRoot("/opt/ml/output/data"),
		Failure:     f.pathBelowRoot("/opt/ml/output/failure"),
		Message:     f.pathBelowRoot("/opt/ml/output/message"),
		Notice:      f.pathBelowRoot("/opt/ml/notice"),
		Checkpoints: f.pathBelowRoot("/opt/ml/checkpoints"),
		State:       f.pathBelowRoot("/state"),
	}
	if f.SSM {
		f.setSSMPaths(&p)
	}
	if !f.Process {
		return p
	}
	p.Code = f.pathBelowRoot(job.Processing + "/input/code")
	p.Input = f.pathBelowRoot(job.Processing + "/input")
	p.Data, p.Model = p.Input, ""
	p.Config = f.pathBelowRoot("/opt/ml/config")
	for _, r := range f.resultsOrDefault() {
		p.Results = append(p.Results, f.pathBelowRoot(r.From))
	}
	p.OutputData = p.Results[0]
	ours := f.pathBelowRoot(job.Processing) + "/"
	for _, folder := range f.Inputs {
		if strings.HasPrefix(folder, ours) { // else it was there before us
			p.Parents = append(p.Parents, filepath.Dir(folder))
		}
	}
	slices.Sort(p.Parents)
	return p
}

func (f Facts) pathBelowRoot(path string) string { return filepath.Join(cmp.Or(f.Root, "/"), path) }

// resultsOrDefault are at least one, as job.Spec's normal form says.
func (f Facts) resultsOrDefault() []job.Result {
	if len(f.Results) == 0 {
		return []job.Result{{Name: "output", From: job.Processing + "/output"}}
	}
	return f.Results
}

// Folders lists every folder that must be there when the program starts, outer
// ones first. output/intermediate is not among them: SageMaker's toolkit takes
// its presence for a sign that another program looks after it.
func (p Paths) Folders() []string {
	all := []string{p.Code, p.Input, p.Config, p.Data, p.Model, p.Output, p.OutputData, p.Checkpoints, p.State, p.TensorBoard}
	all = append(append(all, p.Results...), p.Parents...)
	all = slices.DeleteFunc(all, func(folder string) bool { return folder == "" })
	slices.Sort(all) // a folder's path begins the paths of what is in it
	return slices.Compact(all)
}

// intermediate is where the toolkit uploads from while a job runs.
func (p Paths) intermediate() string { return filepath.Join(p.Output, "intermediate") }
