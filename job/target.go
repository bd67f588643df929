package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/where"
)

// Target is a place to run that a person has named: a target and its detail, options
// of its own engine, and what one job may ask of it. Zero fields limit nothing.
type Target struct {
	On   string   `json:"on"`             // as in Spec.On: slurm/gpu
	Args []string `json:"args,omitempty"` // before those that a job brings itself

	Workers int      `json:"workers,omitempty"` // agents of a job: a run's nodes, a map's workers
	CPUs    float64  `json:"cpus,omitempty"`    // each, as all that follow
	Memory  Bytes    `json:"memory,omitempty"`
	GPUs    int      `json:"gpus,omitempty"`
	Timeout Duration `json:"timeout,omitempty"` // of a run, and what one has that names none
	// Where is asked of machines beside what a job asks; Machine and Spot hold for jobs that
	// say nothing of theirs.
	Where   string `json:"where,omitempty"`
	Machine string `json:"machine,omitempty"`
	Spot    Spot   `json:"spot,omitempty"`
	// Store is where jobs placed here keep their facts; "": as without.
	Store string `json:"store,omitempty"`
}

// SplitTarget parts a target as it is typed, such as slurm/gpu, into its name and its detail.
func SplitTarget(on string) (name, detail string) {
	name, detail, _ = strings.Cut(on, "/")
	return name, detail
}

// JoinTarget is a target as SplitTarget reads it.
func JoinTarget(name, detail string) string {
	if detail == "" {
		return name
	}
	return name + "/" + detail
}

// Base is the target without its detail.
func (t Target) Base() string {
	base, _ := SplitTarget(t.On)
	return base
}

// Apply is a job placed on a target called name, or a fault of kind Invalid that says
// which limit it exceeds.
func (t Target) Apply(name string, s Spec) (Spec, error) {
	agents, flag := max(s.Nodes, 1), "--nodes"
	if s.Verb == Map {
		agents, flag = max(s.Workers, 1), "--workers"
	}
	for _, l := range []struct {
		over             bool
		flag, asks, most string
	}{
		{t.Workers > 0 && agents > t.Workers, flag, fmt.Sprint(agents), fmt.Sprint(t.Workers)},
		{t.CPUs > 0 && s.CPUs > t.CPUs, "--cpus", fmt.Sprintf("%g", s.CPUs), fmt.Sprintf("%g", t.CPUs)},
		{t.Memory > 0 && s.Memory > t.Memory, "--memory", s.Memory.String(), t.Memory.String()},
		{t.GPUs > 0 && s.GPUs > t.GPUs, "--gpus", fmt.Sprint(s.GPUs), fmt.Sprint(t.GPUs)},
		{t.Timeout > 0 && s.Timeout > t.Timeout, "--timeout", s.Timeout.String(), t.Timeout.String()},
	} {
		if l.over {
			return s, fault.New(fault.Invalid, "Ask for at most "+l.flag+" "+l.most+", or choose another target with `--on`.",
				"place job on %s: it asks for %s %s, and that target's limit is %s", name, l.flag, l.asks, l.most)
		}
	}
	if s.Timeout == 0 && s.Verb != Map {
		s.Timeout = t.Timeout
	}
	s.On = t.On
	if s.Machine == "" {
		s.Machine = t.Machine
	}
	if s.Spot == SpotAny {
		s.Spot = t.Spot
	}
	if err := t.restrictMachines(name, &s); err != nil {
		return s, err
	}
	if len(t.Args) > 0 {
		s.TargetArgs = maps.Clone(s.TargetArgs)
		if s.TargetArgs == nil {
			s.TargetArgs = map[string][]string{}
		}
		s.TargetArgs[t.Base()] = slices.Concat(t.Args, s.TargetArgs[t.Base()])
	}
	return s, nil
}

// restrictMachines adds what the target asks of machines to what the job asks.
func (t Target) restrictMachines(name string, s *Spec) error {
	if t.Where == "" {
		return nil
	}
	own, err := where.Parse(t.Where)
	if err != nil {
		return fmt.Errorf("place job on %s: %w", name, err)
	}
	asked, err := where.Parse(s.Where)
	if err != nil {
		return err
	}
	both, err := where.All(own, asked)
	if err != nil {
		return fmt.Errorf("place job on %s: %w", name, err)
	}
	s.Where = both.String()
	return nil
}

// Limits are in words what a job may ask for; "" when nothing is limited.
func (t Target) Limits() string {
	var words []string
	add := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(t.Workers > 0, "%d workers", t.Workers)
	add(t.CPUs > 0, "%g cores", t.CPUs)
	add(t.Memory > 0, "%s of memory", t.Memory.Words())
	add(t.GPUs > 0, "%d GPUs", t.GPUs)
	add(t.Timeout > 0, "%s", time.Duration(t.Timeout))
	return strings.Join(words, ", ")
}
