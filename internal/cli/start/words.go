// Package start has the verbs that start a job: run, shell, process and map. It reads what
// was typed, the job file and the config into a spec, shows the plan, and submits it.
// What a plan does is package drover's. Proved by the scripts run_* and map_*.
package start

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/internal/cli/follow"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/jobfile"
	"github.com/drover-run/drover/job"
)

// specReader makes the spec of a job from what was typed and what the config says.
type specReader struct{ *app.App }

func NewSpecReader(a *app.App) specReader { return specReader{a} }

func (a specReader) startFlags(c *cobra.Command) *startFlags {
	s := &startFlags{}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	f := c.Flags()
	f.SetInterspersed(false) // after the script everything is the script's
	f.StringVarP(&s.task, "task", "t", "", "name of the task: its state survives, and it is skipped when complete")
	f.StringVarP(&s.output, "output", "o", "", "folder, or s3://bucket/folder, that receives model/, output/, files/ and logs/")
	a.AddOverwriteFlag(f)
	f.StringVarP(&s.source, "source", "s", "", "folder shipped as code, and the working folder (default: the git repository, or the folder where it is typed)")
	f.StringArrayVarP(&s.deps, "dependency", "d", nil, "another file or folder to put into the working folder, ignored by git or not; may be repeated")
	f.StringArrayVarP(&s.inputs, "input", "i", nil, "data the program reads: PATH or NAME=URI[:sharded][:subfolder], a URI being a path, a glob, https://, s3://, gs:// or task:NAME/model; may be repeated")
	f.StringArrayVar(&s.env, "env", nil, "environment variable: NAME=VALUE, or NAME to copy yours; may be repeated")
	f.StringArrayVar(&s.envFile, "env-file", nil, "file of NAME=VALUE lines; may be repeated")
	f.StringVar(&s.python, "python", "", "interpreter: a path, a name or a version")
	f.BoolVar(&s.noEnv, "no-env", false, "take the interpreter as it is, whatever requirements.txt says")
	f.IntVar(&s.nodes, "nodes", 1, "how many nodes run the command together")
	f.IntVar(&s.gpus, "gpus", 0, "GPUs for each node alone (default: it sees all there are)")
	f.StringVar(&s.machine, "machine", "", "type of machine, such as ml.m5.xlarge; a label where there are no types")
	f.BoolVar(&s.noMounts, "no-mounts", false, "no private /opt/ml and /state; variables say where the folders are (sudo works then)")
	f.StringVar(&s.timeout, "timeout", "", "time limit of one attempt, such as 90s or 2h")
	f.StringVar(&s.grace, "grace", "", "time between SIGTERM and SIGKILL, and between the stop signal and SIGTERM (default 30s)")
	f.StringVar(&s.stopSignal, "stop-signal", "", "what Ctrl-C sends first: "+strings.Join(job.StopSignals, ", ")+" (default SIGINT)")
	f.IntVar(&s.retries, "retries", 0, "how often the program may fail and start again; interruptions are free")
	s.use.add(f)
	s.box.add(f)
	f.StringVar(&a.Settings.AgentProfile, "agent-profile", "", "profile in ~/.aws, or Google account, that agents open the store as; machine: the identity of their machine (default: the config)")
	f.StringVar(&a.Settings.On, "on", "", "target (default: $DROVER_ON, the config, local)")
	f.StringArrayVar(&s.slurmArgs, "slurm-arg", nil, "option of sbatch, for --on slurm: --account=bio, --constraint=a100; may be repeated")
	f.StringArrayVar(&s.after, "after", nil, "wait until this job has succeeded, before anything is planned or submitted; refused when it fails; may be repeated")
	f.BoolVar(&s.force, "force", false, "run though complete, from no checkpoint")
	f.BoolVar(&s.newCode, "new-code", false, "run nothing with code as it was: refused while a job with other code is live")
	f.BoolVar(&s.detach, "detach", false, "return as soon as it is started")
	f.BoolVar(&s.plan, "plan", false, "say what would be done, and stop")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "no plan and no notes; with --detach print the id alone")
	a.AddNotifyFlag(f)
	f.BoolVarP(&s.yes, "yes", "y", false, "answer yes to every question")
	return s
}

// readSpec makes the spec of what was typed.
func (a specReader) readSpec(cmd *cobra.Command, s *startFlags, verb job.Verb, args []string) (job.Spec, error) {
	spec := job.Spec{Verb: verb}
	err := follow.NewNotifier(a.App).CheckNotify(s.detach)
	if err != nil {
		return spec, err
	}
	if len(args) > 0 && verb != job.Shell && isJobFile(args[0]) {
		if spec, err = readJobFile(args[0]); err != nil {
			return spec, err
		}
		spec.Args = append(spec.Args, args[1:]...)
	} else if len(args) > 0 {
		spec.Program, spec.Args = args[0], args[1:]
	}
	conf, err := a.ReadConfig()
	if err != nil {
		return spec, err
	}
	if spec.Project == "" || a.Settings.Project != "" {
		if spec.Project, spec.ProjectOf, err = a.ProjectAndFolder(); err != nil {
			return spec, err
		}
	}
	if s.task != "" {
		spec.Task, spec.Named = s.task, true
	}
	set(&spec.Source, s.source)
	set(&spec.Python, s.python)
	set(&spec.On, a.Settings.On)
	if len(s.slurmArgs) > 0 {
		if spec.TargetArgs == nil {
			spec.TargetArgs = map[string][]string{}
		}
		spec.TargetArgs["slurm"] = append(spec.TargetArgs["slurm"], s.slurmArgs...)
	}
	set(&spec.Output, s.output)
	set(&spec.Machine, s.machine, spec.Machine)
	if err := conf.Complete(&spec); err != nil {
		return spec, err
	}
	spec.Deps = append(spec.Deps, s.deps...)
	spec.NoEnv, spec.NewCode = spec.NoEnv || s.noEnv, s.newCode
	spec.NoMounts = spec.NoMounts || s.noMounts
	if s.process {
		spec.Verb = job.Process
	}
	if s.launcher != "" {
		spec.Launcher = job.Launcher(s.launcher)
	}
	if err := s.numbers(cmd, &spec); err != nil {
		return spec, err
	}
	if s.timeout != "" {
		if spec.Timeout, err = job.ParseDuration(s.timeout); err != nil {
			return spec, err
		}
	}
	if s.grace != "" {
		if spec.Grace, err = job.ParseDuration(s.grace); err != nil {
			return spec, err
		}
	}
	if s.stopSignal != "" {
		if spec.StopSignal, err = job.ParseStopSignal(s.stopSignal); err != nil {
			return spec, err
		}
	}
	if err := s.use.apply(cmd, &spec, conf); err != nil {
		return spec, err
	}
	if err := s.box.apply(&spec); err != nil {
		return spec, err
	}
	if err := a.CheckSettings(conf, spec); err != nil {
		return spec, err
	}
	if err := addInputs(&spec, s.inputs); err != nil {
		return spec, err
	}
	if err := s.processing(&spec); err != nil {
		return spec, err
	}
	return spec, addEnv(&spec, s.envFile, s.env)
}

// CheckSettings refuses a job that would act on a setting that was not confirmed: its target's
// options, the registry of its framework's image, as whom its agents act.
func (a specReader) CheckSettings(c *config.Config, spec job.Spec) error {
	if err := c.MayTarget(spec.On); err != nil {
		return err
	}
	if spec.Framework != "" {
		if _, err := c.Use("image_mirror"); err != nil {
			return err
		}
	}
	return a.CheckMayStart()
}

// set gives a field the first value that is not empty.
func set(field *string, values ...string) {
	for _, v := range values {
		if v != "" {
			*field = v
			return
		}
	}
}

func isJobFile(name string) bool {
	return filepath.Ext(name) == ".yaml" || filepath.Ext(name) == ".yml"
}

func readJobFile(name string) (job.Spec, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return job.Spec{}, fault.Wrap(err, fault.Invalid, "Check the path.", "read job file")
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return job.Spec{}, err
	}
	return jobfile.Parse(full, b)
}

// addInputs reads what stands after each -i.
func addInputs(spec *job.Spec, typed []string) (err error) {
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	for _, text := range typed {
		if spec.Inputs, err = input.Add(spec.Inputs, text, there); err != nil {
			return err
		}
	}
	return nil
}

func addEnv(spec *job.Spec, files, typed []string) error {
	var lines []string
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return fault.Wrap(err, fault.Invalid, "Check the path.", "read --env-file")
		}
		defer f.Close()
		sc := bufio.NewScanner(f)
		for sc.Scan() {
			line := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(sc.Text()), "export "))
			if line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
		if err := sc.Err(); err != nil {
			return fault.Wrap(err, fault.Invalid, "", "read --env-file %q", file)
		}
	}
	for _, kv := range append(lines, typed...) {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			if value, ok = os.LookupEnv(name); !ok {
				return fault.New(fault.Invalid, "Set it, or write --env "+name+"=VALUE.", "read --env: %s is not set here", name)
			}
		}
		if spec.Env == nil {
			spec.Env = map[string]string{}
		}
		spec.Env[name] = value
	}
	return nil
}
