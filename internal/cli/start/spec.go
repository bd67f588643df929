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

// SpecReader makes the spec of a job from what was typed and what the config says.
type SpecReader struct{ *app.App }

// NewSpecReader returns a SpecReader of an invocation.
func NewSpecReader(a *app.App) SpecReader { return SpecReader{a} }

func (a SpecReader) startFlags(c *cobra.Command) *startFlags {
	s := &startFlags{}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	f := c.Flags()
	o := optionFlags{f}
	f.SetInterspersed(false) // after the script everything is the script's
	o.textFlag(&s.task, "Task")
	o.textFlag(&s.output, "Output")
	a.AddOverwriteFlag(f)
	o.textFlag(&s.source, "Source")
	o.listFlag(&s.deps, "Deps")
	o.listFlag(&s.inputs, "Inputs")
	o.listFlag(&s.env, "Env")
	f.StringArrayVar(&s.envFile, "env-file", nil, "file of NAME=VALUE lines; may be repeated")
	o.textFlag(&s.python, "Python")
	o.boolFlag(&s.noEnv, "NoEnv")
	o.numberFlag(&s.nodes, "Nodes", 1)
	o.numberFlag(&s.gpus, "GPUs", 0)
	o.boolFlag(&s.noMounts, "NoMounts")
	o.textFlag(&s.timeout, "Timeout")
	o.textFlag(&s.grace, "Grace")
	o.textFlag(&s.stopSignal, "StopSignal")
	o.numberFlag(&s.retries, "Retries", 0)
	s.use.addFlags(o)
	s.box.addFlags(o)
	f.StringVar(&a.Settings.AgentProfile, "agent-profile", "", "profile in ~/.aws, or Google account, that agents open the store as; machine: the identity of their machine (default: the config)")
	o.textFlag(&a.Settings.On, "On")
	s.at.addFlags(c, o)
	f.StringArrayVar(&s.after, "after", nil, "wait until this job has succeeded, before anything is planned or submitted; refused when it fails; may be repeated")
	f.BoolVar(&s.force, "force", false, "run though complete, from no checkpoint")
	o.boolFlag(&s.newCode, "NewCode")
	f.BoolVar(&s.detach, "detach", false, "return as soon as it is started")
	f.BoolVar(&s.plan, "plan", false, "say what would be done, and stop")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "no plan and no notes; with --detach print the id alone")
	a.AddNotifyFlag(f)
	f.BoolVarP(&s.yes, "yes", "y", false, "answer yes to every question")
	return s
}

// readSpec makes the spec of what was typed.
func (a SpecReader) readSpec(cmd *cobra.Command, s *startFlags, verb job.Verb, args []string) (job.Spec, error) {
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
	if err := s.at.applyFlags(&spec); err != nil {
		return spec, err
	}
	set(&spec.Output, s.output)
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
	if err := s.applyNumbers(cmd, &spec); err != nil {
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
	if err := s.use.applyFlags(cmd, &spec, conf); err != nil {
		return spec, err
	}
	if err := s.box.applyFlags(&spec); err != nil {
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
// options, the registries of its images, the identity of its agents.
func (a SpecReader) CheckSettings(c *config.Config, spec job.Spec) error {
	if err := c.MayTarget(spec.On); err != nil {
		return err
	}
	if spec.Framework != "" {
		if _, err := c.Use("image_mirror"); err != nil {
			return err
		}
	}
	if spec.Dockerfile != "" {
		if _, err := c.Use("image_registry"); err != nil {
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
				return fault.New(fault.Invalid, "Set it, or write `--env "+name+"=VALUE`.", "read --env: %s is not set here", name)
			}
		}
		if spec.Env == nil {
			spec.Env = map[string]string{}
		}
		spec.Env[name] = value
	}
	return nil
}
