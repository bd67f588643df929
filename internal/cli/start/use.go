package start

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/secret"
)

// useFlags say what a job may use, where it waits for that, and what is kept of it.
type useFlags struct {
	cpus                   float64
	memory, disk           string
	processes, priority    int
	queue                  string
	now, packages          bool
	metrics, tags, secrets []string
	plainEnv               bool
	cleanState, keepState  bool
}

func (u *useFlags) addFlags(o optionFlags) {
	o.fractionFlag(&u.cpus, "CPUs")
	o.textFlag(&u.memory, "Memory")
	o.textFlag(&u.disk, "Disk")
	o.numberFlag(&u.processes, "Processes", 0)
	o.textFlag(&u.queue, "Queue")
	o.numberFlag(&u.priority, "Priority", 0)
	o.boolFlag(&u.now, "Now")
	o.boolFlag(&u.packages, "Packages")
	o.listFlag(&u.metrics, "Metrics")
	o.listFlag(&u.tags, "Tags")
	o.listFlag(&u.secrets, "Secrets")
	o.boolFlag(&u.plainEnv, "PlainEnv")
	o.boolFlag(&u.cleanState, "CleanState")
	o.BoolVar(&u.keepState, "keep-state", false, "begin with the task's /state, as always")
	_ = o.MarkHidden("keep-state") // the seed's word for the default
}

// applyFlags takes over what was typed.
func (u *useFlags) applyFlags(cmd *cobra.Command, spec *job.Spec, conf *config.Config) error {
	changed := cmd.Flags().Changed
	if changed("cpus") {
		spec.CPUs = u.cpus
	}
	for _, s := range []struct {
		flag, typed string
		field       *job.Bytes
	}{{"memory", u.memory, &spec.Memory}, {"disk", u.disk, &spec.Disk}} {
		if !changed(s.flag) {
			continue
		}
		b, err := job.ParseBytes(s.typed)
		if err != nil {
			return fmt.Errorf("read --%s: %w", s.flag, err)
		}
		*s.field = b
	}
	if changed("procs") {
		spec.Processes = u.processes
	}
	if changed("priority") {
		spec.Priority = u.priority
	}
	set(&spec.Queue, u.queue, spec.Queue)
	spec.Now = spec.Now || u.now
	spec.Packages = spec.Packages || u.packages
	spec.PlainEnv = spec.PlainEnv || u.plainEnv
	if u.cleanState && u.keepState {
		return fault.New(fault.Invalid, "Leave one of them out.", "read command line: both --clean-state and --keep-state")
	}
	spec.CleanState = spec.CleanState && !u.keepState || u.cleanState
	if err := addTags(spec, u.tags); err != nil {
		return err
	}
	if err := addSecrets(spec, u.secrets); err != nil {
		return err
	}
	for _, typed := range u.metrics {
		spec.Metrics = append(spec.Metrics, metric(typed))
	}
	var err error
	spec.Share, err = conf.Share(spec.On, spec.Queue)
	return err
}

// metric reads NAME=REGEX. What is before the first = is a name only if it could
// be one: an expression may hold = itself.
func metric(typed string) job.Metric {
	if slices.Contains(job.Presets, typed) {
		return job.Metric{Regex: typed}
	}
	if name, re, ok := strings.Cut(typed, "="); ok && name != "" && !strings.ContainsAny(name, "()[]\\^$*+?|{} ") {
		return job.Metric{Name: name, Regex: re}
	}
	return job.Metric{Regex: typed}
}

func addTags(spec *job.Spec, typed []string) error {
	for _, kv := range typed {
		key, value, ok := strings.Cut(kv, "=")
		if !ok {
			return fault.New(fault.Invalid, "Write it as `--tag "+kv+"=VALUE`.", "read --tag: %q has no value", kv)
		}
		if spec.Tags == nil {
			spec.Tags = map[string]string{}
		}
		spec.Tags[key] = value
	}
	return nil
}

func addSecrets(spec *job.Spec, typed []string) error {
	for _, text := range typed {
		name, ref, err := secret.Parse(text)
		if err != nil {
			return err
		}
		if file, ok := strings.CutPrefix(ref, "file:"); ok {
			if file, err = filepath.Abs(file); err != nil {
				return err
			}
			ref = "file:" + file
		}
		if spec.Secrets == nil {
			spec.Secrets = map[string]string{}
		}
		spec.Secrets[name] = ref
	}
	return nil
}
