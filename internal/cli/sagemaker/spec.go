package sagemaker

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/ssm"
	"github.com/drover-run/drover/internal/cli/start"
	"github.com/drover-run/drover/job"
)

// Specs makes the spec of a job from a command line of simple-sagemaker.
type Specs struct {
	*app.App
	project, task string // as names that drover takes
}

// NewSpecs makes specs of jobs of a task.
func NewSpecs(a *app.App, project, task string) Specs { return Specs{a, project, task} }

// JobSpec makes the spec of a command line of simple-sagemaker's.
func (a Specs) JobSpec(c ssm.Command) (job.Spec, error) {
	conf, err := a.ReadConfig()
	if err != nil {
		return job.Spec{}, err
	}
	spec := job.Spec{Project: a.project, Task: a.task, Named: true, Rules: job.SSM, Nodes: c.Nodes, Deps: c.Dependencies,
		CleanState: c.CleanState, Output: c.Output, Hyperparameters: c.HyperparameterText(), PlainEnv: true}
	spec.On = a.Settings.On
	if err := cmp.Or(conf.Fill(&spec.On, "on"), conf.Fill(&spec.Python, "python")); err != nil {
		return spec, err
	}
	if c.Nodes < 1 {
		return spec, ssmRefuse("Use 1 or more.", "--ic: %d", c.Nodes)
	}
	if c.MaxRun < 1 {
		return spec, ssmRefuse("Use 1 or more.", "--max_run_mins: %d", c.MaxRun)
	}
	if c.MaxRun > mostMinutes {
		return spec, ssmRefuse("Use 1440, a day, or at most "+strconv.Itoa(mostMinutes)+".", "--max_run_mins: %d", c.MaxRun)
	}
	spec.Timeout = job.Duration(time.Duration(c.MaxRun) * time.Minute)
	if c.Typed["instance_type"] && !strings.Contains(c.Machine, "local") { // the tool's own word for this machine
		spec.Machine = c.Machine
	}
	program := map[ssm.Verb]func(ssm.Command, *job.Spec) error{ssm.Run: ssmScript, ssm.Shell: SsmLine, ssm.Process: ssmProcess}[c.Verb]
	if err := program(c, &spec); err != nil {
		return spec, err
	}
	if spec.Inputs, err = a.jobInputs(c); err != nil {
		return spec, err
	}
	spec.Container = a.jobContainer(c)
	on, err := a.findProperties(spec.On)
	if err != nil {
		return spec, err
	}
	a.setDistribution(c, &spec)
	spec.Metrics = a.JobMetrics(c)
	for _, t := range c.Tags {
		if spec.Tags == nil {
			spec.Tags = map[string]string{}
		}
		spec.Tags[t.Name] = t.Value
	}
	if on.SSM {
		if err := a.setAWS(c, &spec); err != nil {
			return spec, err
		}
	}
	if spec.Share, err = conf.Share(spec.On, spec.Queue); err != nil {
		return spec, err
	}
	return spec, start.NewSpecReader(a.App).CheckSettings(conf, spec)
}

// mostMinutes are a hundred years, the longest time limit of a job.
const mostMinutes = 36500 * 24 * 60

func ssmRefuse(hint, format string, args ...any) error {
	return fault.New(fault.Invalid, hint, "read command line: "+format, args...)
}

// ssmScript is ssm run: a script with its arguments. One for a shell gets what
// stands after "--" and no hyperparameters, as under the tool.
func ssmScript(c ssm.Command, spec *job.Spec) error {
	file := filepath.Join(c.Source, c.Entry)
	is := func(name string) bool { info, err := os.Stat(name); return err == nil && !info.IsDir() }
	if !is(file) && !is(c.Entry) { // in the folder of -s as it is called there, or here
		hint := "Check the path; with `-s` it is that below this folder."
		if entries, err := os.ReadDir(filepath.Dir(file)); err == nil {
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if near := fault.Nearest(filepath.Base(file), names); near != "" && near != filepath.Base(file) {
				hint = "Did you mean `-e " + filepath.Join(filepath.Dir(c.Entry), near) + "`?"
			}
		}
		return ssmRefuse(hint, "-e: there is no script %q", file)
	}
	spec.Verb, spec.Source, spec.Program, spec.Args = job.Run, c.Source, c.Entry, c.ProgramArgs()
	switch ext := filepath.Ext(c.Entry); {
	case ext == ".sh":
		spec.Args = c.Words
	case ext != ".py" && c.Source == "" && !strings.ContainsRune(c.Entry, '/'):
		spec.Program = "./" + c.Entry // the file here, and no program of that name on PATH
	}
	return nil
}

// SsmLine is ssm shell: one line for bash, beside the files of --dir_files.
func SsmLine(c ssm.Command, spec *job.Spec) error {
	switch {
	case len(c.Words) > 0:
		return ssmRefuse("Put them into the line: --cmd_line '...'.", "ssm shell takes no words after \"--\"")
	case strings.TrimSpace(c.CommandLine) == "":
		return ssmRefuse("Add --cmd_line 'LINE'.", "ssm shell needs a command line")
	}
	spec.Verb, spec.Program = job.Shell, c.CommandLine
	if c.DirFiles == "" {
		return nil
	}
	entries, err := os.ReadDir(c.DirFiles)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "Name a folder: `--dir_files ./code`.", "read --dir_files")
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			spec.Deps = append(spec.Deps, filepath.Join(c.DirFiles, e.Name()))
		}
	}
	return nil
}

// ssmProcess is ssm process: a script with the words before it, or a program.
func ssmProcess(c ssm.Command, spec *job.Spec) error {
	spec.Verb, spec.Hyperparameters = job.Process, nil
	args := slices.Concat(c.Arguments, c.Words)
	for _, e := range c.Env {
		if spec.Env == nil {
			spec.Env = map[string]string{}
		}
		spec.Env[e.Name] = e.Value
	}
	switch {
	case c.Code != "" && len(c.Entrypoint) > 0:
		return ssmRefuse("Write the words before it with --command.", "ssm process takes --code or --entrypoint, not both")
	case c.Code != "":
		spec.Program, spec.Args, spec.Entrypoint = c.Code, args, c.Interpreter
		python := len(c.Interpreter) == 0 || len(c.Interpreter) == 1 && c.Interpreter[0] == "python3"
		switch {
		case python && filepath.Ext(c.Code) == ".py":
			spec.Entrypoint = nil // its name says so, and the environment's own Python is found
		case python:
			spec.Entrypoint = []string{"python3"}
		}
		return nil
	case len(c.Interpreter) > 0:
		return ssmRefuse("Add --code FILE, or write --entrypoint for --command.", "--command is for --code, which is missing")
	case len(c.Entrypoint) == 0:
		return ssmRefuse("Add --code FILE, or --entrypoint PROGRAM.", "ssm process needs a program to run")
	}
	spec.Program, spec.Args = c.Entrypoint[0], slices.Concat(c.Entrypoint[1:], args)
	return nil
}

// jobInputs are the data of a job, where the tool puts them. Only the first -i
// counts, and the last --iis or --iit says how it is spread.
func (a Specs) jobInputs(c ssm.Command) (list []job.Input, err error) {
	add := func(name, path, dist, subdir string) {
		in := job.Input{Name: name, Path: path, Sharded: dist == ssm.Sharded}
		if subdir != "" {
			in.Subdir = filepath.Clean(subdir)
		}
		if c.Verb == ssm.Process {
			in.To = job.Processing + "/input/data/" + name
			if name == "data" && len(list) == 0 && len(c.Inputs) > 0 {
				in.To = job.Processing + "/data"
			}
		}
		list = slices.DeleteFunc(list, func(o job.Input) bool { return o.Name == name }) // of one name the last one counts
		list = append(list, in)
	}
	if len(c.Inputs) > 0 {
		add("data", c.Inputs[0].Path, c.DataDistribution(), c.Inputs[0].Subdir)
	}
	if c.ModelURI != "" {
		add("model", c.ModelURI, ssm.Replicated, "")
	}
	for _, in := range c.Tasks {
		task := validName(a.App, "task", in.Task)
		if err := job.ValidName("task", task); err != nil {
			return nil, err
		}
		add(in.Name, "task:"+task+"/"+in.What, in.Distribution, in.Subdir)
	}
	for _, in := range c.Buckets {
		add(in.Name, in.Path, in.Distribution, in.Subdir)
	}
	return list, nil
}

// jobContainer is what was said of images. The tool's default is no wish: where
// none was typed the target chooses, but for a Dockerfile, which may stand on it.
func (a Specs) jobContainer(c ssm.Command) (box job.Container) {
	box.Dockerfile = c.Dockerfile
	if c.Dockerfile == "" && !c.Typed["framework"] && !c.Typed["framework_version"] && !c.Typed["py_version"] {
		return box
	}
	box.Framework = c.Framework
	if c.Typed["framework_version"] {
		box.Framework += ":" + c.FrameworkVersion
		if c.Py != "" {
			box.Framework += ":" + c.Py
		}
	} else if c.Py != "" {
		a.Note("note: --pv %s counts with --fv VERSION alone", c.Py)
	}
	return box
}

// setDistribution reads what SageMaker's SDK takes as an estimator's distribution.
func (a Specs) setDistribution(c ssm.Command, spec *job.Spec) {
	if c.Distribution == "" {
		return
	}
	var ways map[string]struct {
		Enabled bool    `json:"enabled"`
		Procs   float64 `json:"processes_per_host"`
	}
	if err := json.Unmarshal([]byte(c.Distribution), &ways); err != nil || spec.Verb == job.Shell {
		a.Note("note: --distribution has no effect here")
		return
	}
	launchers := map[string]job.Launcher{"mpi": job.MPI, "parameter_server": job.TF, "multi_worker_mirrored_strategy": job.TF,
		"torch_distributed": job.Torch, "pytorchddp": job.Torch}
	for name, way := range ways {
		l, known := launchers[name]
		switch {
		case !way.Enabled:
		case !known:
			a.Note("note: --distribution: %s has no effect here", name)
		default:
			spec.Launcher, spec.Procs = l, int(max(-1, min(way.Procs, 1e6))) // what is too many is refused as such
			if l == job.MPI && spec.Procs == 0 {
				spec.Procs = 1
			}
		}
	}
}

// JobMetrics leaves out an expression that cannot be used: under the tool it finds
// nothing either, and the job runs.
func (a Specs) JobMetrics(c ssm.Command) (list []job.Metric) {
	for i, m := range c.Metrics {
		last := !slices.ContainsFunc(c.Metrics[i+1:], func(o ssm.Pair) bool { return o.Name == m.Name })
		re, err := regexp.Compile(m.Value)
		switch {
		case !last: // of one name the last one counts
		case err != nil:
			a.Note("note: --md %s is left out: %q is not a regular expression that drover reads", m.Name, m.Value)
		case re.NumSubexp() == 0:
			a.Note("note: --md %s is left out: %q has no group for the number", m.Name, m.Value)
		default:
			list = append(list, job.Metric{Name: m.Name, Regex: m.Value})
		}
	}
	return list
}
