package slurm

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/fault"
)

const (
	// agentMemory is the memory that is requested beyond what the program was promised: the
	// agent and its supervisor use a tenth of a GB, and where Slurm enforces the limit it
	// would end them all.
	agentMemory = 256 << 20
	// aroundTime is what a job may take beyond its program's own limit: to fetch what it
	// needs, and to save.
	aroundTime = 10 * time.Minute
)

// sbatchArgs are the arguments of sbatch. The user's own options come last, so that they win.
func sbatchArgs(p plan, k int) []string {
	n, size := p.request.Needs, p.facts.Arrays[k]
	args := []string{"--parsable", "--job-name=" + nameOf(p.handle, k), "--comment=drover", "--chdir=/", "--export=ALL", "--input=/dev/null",
		"--requeue", "--open-mode=append"}
	switch {
	case p.facts.Gang:
		args = append(args, "--nodes="+records.Itoa(size), "--ntasks="+records.Itoa(size), "--ntasks-per-node=1", "--output="+filepath.Join(p.folder, "out-%j-batch"))
	case size == 1 && p.facts.Agents == 1:
		args = append(args, "--nodes=1", "--ntasks=1", "--output="+filepath.Join(p.folder, "out-%j-0"))
	default:
		args = append(args, "--array=0-"+records.Itoa(size-1), "--nodes=1", "--ntasks=1", "--output="+filepath.Join(p.folder, "out-%A-%a"))
	}
	args = append(append(args, needArgs(n)...), p.match...)
	return append(append(args, n.Args...), records.ScriptFile(p.folder, k))
}

// cores returns how many cores are requested for each agent; 0 leaves it to Slurm, which mostly
// gives one. For an agent that runs items side by side it is one core each, unless the user's own
// options decide: those that sbatch cannot combine with a number of cores, and those that give
// whole nodes.
func cores(n driver.Needs) int {
	switch {
	case n.CPUs > 0:
		return int(math.Ceil(n.CPUs))
	case n.Slots < 2, slices.Contains(n.Args, "--exclusive"), option(n.Args, "--cpus-per-task", "-c", "--cpus-per-gpu", "--exclusive") != "":
		return 0
	}
	return n.Slots
}

// needArgs say what each agent must have.
func needArgs(n driver.Needs) (args []string) {
	if n.Detail != "" {
		args = append(args, "--partition="+n.Detail)
	}
	if c := cores(n); c > 0 {
		args = append(args, "--cpus-per-task="+records.Itoa(c))
	}
	if n.Memory > 0 {
		args = append(args, "--mem="+records.Itoa(int((n.Memory+agentMemory+1<<20-1)>>20))+"M")
	}
	if n.GPUs > 0 {
		args = append(args, "--gres=gpu:"+records.Itoa(n.GPUs))
	}
	if n.Time > 0 {
		args = append(args, "--time="+records.Itoa(int((n.Time+aroundTime+time.Minute-1)/time.Minute)))
	}
	return args
}

// taken are options of sbatch for things that drover itself decides, each with the option of
// drover's that decides it.
var taken = []struct {
	names []string
	hint  string
}{
	{[]string{"-a", "--array"}, "Set the number of agents with --workers of drover map."},
	{[]string{"-N", "--nodes"}, "Use --nodes of drover run."},
	{[]string{"-n", "--ntasks", "--ntasks-per-node", "--ntasks-per-core", "--ntasks-per-socket", "--ntasks-per-gpu"}, "Use --nodes of drover run, and --procs-per-node for more of a launcher's processes."},
	{[]string{"-J", "--job-name"}, "drover finds its jobs by their names; -t names a task."},
	{[]string{"-o", "--output", "-e", "--error", "-i", "--input", "--open-mode"}, "Output is stored by drover: drover logs."},
	{[]string{"-D", "--chdir"}, "Programs run in a copy of their folder; -s names another one."},
	{[]string{"--wrap", "--parsable", "-W", "--wait", "--test-only", "-h", "--help", "-V", "--version", "--usage", "-H", "--hold", "--ignore-pbs"}, "Leave it out."},
	{[]string{"--export", "--export-file", "--get-user-env"}, "Use --env NAME=VALUE, or --secret NAME."},
	{[]string{"--signal"}, "Programs get SIGTERM before the time limit and when they have to go: docs/how-to/slurm.md."},
	{[]string{"-d", "--dependency"}, "Wait for the other job first."},
}

// longArgs are options as sbatch reads them: account=bio is --account=bio.
func longArgs(args []string) (long []string) {
	for _, a := range args {
		if a != "" && !strings.HasPrefix(a, "-") {
			a = "--" + a
		}
		long = append(long, a)
	}
	return long
}

// checkArgs refuses options that contradict what drover relies on.
func checkArgs(args []string) error {
	for _, a := range args {
		name, _, _ := strings.Cut(a, "=")
		if strings.ContainsAny(a, "\x00\n") {
			return fault.New(fault.Invalid, "", "read --target-arg %q: it is not an option", a)
		}
		if !strings.HasPrefix(a, "-") || strings.Contains(name, " ") {
			return fault.New(fault.Invalid, "Write option and value as one word: `--target-arg account=bio`.", "read --target-arg %q: it is not an option of sbatch", a)
		}
		if !strings.HasPrefix(a, "--") && len(a) > 2 {
			name = a[:2]
		}
		for _, t := range taken {
			if slices.Contains(t.names, name) {
				return fault.New(fault.Invalid, t.hint, "read --target-arg %q: drover decides this itself", a)
			}
		}
	}
	return nil
}

// option is what the user's Args say of one thing: the value of the last option with one of the
// names; "" without any.
func option(args []string, names ...string) (value string) {
	for _, a := range args {
		for _, n := range names {
			if rest, ok := strings.CutPrefix(a, n); ok {
				if strings.HasPrefix(n, "--") && !strings.HasPrefix(rest, "=") {
					continue
				}
				value = strings.TrimPrefix(rest, "=")
			}
		}
	}
	return value
}
