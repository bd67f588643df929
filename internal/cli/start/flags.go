package start

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// startFlags are the flags of verbs that start a job.
type startFlags struct {
	task, output, source, python string
	deps, inputs, env, envFile   []string
	timeout, grace, stopSignal   string
	after                        []string
	retries, nodes, procs, gpus  int
	launcher                     string
	noMounts, process            bool
	noEnv, force, detach, plan   bool
	yes, newCode                 bool

	use useFlags
	box containerFlags
	at  placementFlags

	entrypoint string // of drover process
	results    []string
}

// programFlags are for verbs that start a program, not a command line.
func (s *startFlags) programFlags(c *cobra.Command) {
	o := optionFlags{c.Flags()}
	o.textFlag(&s.launcher, "Launcher")
	o.numberFlag(&s.procs, "Procs", 0)
	names := make([]string, len(job.Launchers))
	for i, l := range job.Launchers {
		names[i] = string(l)
	}
	_ = c.RegisterFlagCompletionFunc("launcher", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// Aliases are other spellings of flags, those of simple-sagemaker among them.
// They are taken, and not shown.
var Aliases = map[string]string{"ic": "nodes", "instance-count": "nodes", "it": "machine", "instance-type": "machine",
	"cs": "clean-state", "ks": "keep-state", "md": "metric", "df": "dockerfile", "slurm-arg": "target-arg"}

// applyNumbers takes over what was typed: 0 nodes is a slip of the pen, not a default.
func (s *startFlags) applyNumbers(cmd *cobra.Command, spec *job.Spec) error {
	for _, n := range []struct {
		flag  string
		value int
		least int
		field *int
	}{
		{"retries", s.retries, 0, &spec.Retries}, {"nodes", s.nodes, 1, &spec.Nodes},
		{"gpus", s.gpus, 0, &spec.GPUs}, {"procs-per-node", s.procs, 1, &spec.Procs},
	} {
		if f := cmd.Flags().Lookup(n.flag); f == nil || !f.Changed {
			continue
		}
		if n.value < n.least {
			return fault.New(fault.Invalid, fmt.Sprintf("Use %d or more.", n.least), "read --%s: %d", n.flag, n.value)
		}
		*n.field = n.value
	}
	return nil
}

// processing reads what only drover process has: the words before the script,
// and the folders that come back.
func (s *startFlags) processing(spec *job.Spec) error {
	if words := strings.Fields(s.entrypoint); len(words) > 0 {
		line := append(words[1:], spec.Program)
		if spec.Program == "" {
			line = words[1:]
		}
		spec.Program, spec.Args = words[0], append(line, spec.Args...)
	}
	for _, text := range s.results {
		name, from, ok := strings.Cut(text, "=")
		if !ok {
			return fault.New(fault.Invalid, "Write it as `--result NAME="+job.Processing+"/NAME`.", "read --result %q: the folder is missing", text)
		}
		spec.Results = append(spec.Results, job.Result{Name: name, From: from})
	}
	return nil
}
