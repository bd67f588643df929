package job

import (
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/where"
)

// AnyTarget is the key of TargetArgs for options that go to any target the job goes to,
// after those of the target's own name.
const AnyTarget = "any"

// Spot says how machines are bought where a target has spot capacity: cheaper, and taken
// away when the provider needs them.
type Spot string

// The ways to buy machines.
const (
	SpotAny   Spot = ""      // the target's choice
	SpotOnly  Spot = "only"  // spot capacity
	SpotFirst Spot = "first" // spot capacity, and on-demand machines where there is none
	SpotNever Spot = "never" // on-demand
)

// Spots are the values that a user may write.
var Spots = []Spot{SpotOnly, SpotFirst, SpotNever}

// Machines are the types of machines that the job may run on, each a name or a glob of
// names; none: any.
func (s Spec) Machines() (types []string) {
	for part := range strings.SplitSeq(s.Machine, ",") {
		if part = strings.TrimSpace(part); part != "" && !slices.Contains(types, part) {
			types = append(types, part)
		}
	}
	return types
}

// MachineType is the one type of machine that the job names; "" for none, several or a
// glob.
func (s Spec) MachineType() string {
	if types := s.Machines(); len(types) == 1 && !strings.ContainsAny(types[0], "*?") {
		return types[0]
	}
	return ""
}

// ArgsOf are the options of a target's own engine, those for any target last.
func (s Spec) ArgsOf(target string) []string {
	return slices.Concat(s.TargetArgs[target], s.TargetArgs[AnyTarget])
}

// Placement is what the job asks of machines: Where, and one of the types of Machine.
func (s Spec) Placement() (where.Expr, error) {
	asked, err := where.Parse(s.Where)
	if err != nil {
		return asked, err
	}
	types, err := where.OneOf(where.Type, s.Machines()...)
	if err != nil {
		return types, fault.New(fault.Invalid, "Write it as `--machine g5.xlarge`, or `--machine 'g5.xlarge,g6.*'`.", "read --machine %q: %s", s.Machine, err)
	}
	both, err := where.All(asked, types)
	if err != nil {
		return both, fault.New(fault.Invalid, fault.MarkedHint(err), "check job: --machine %s with --where %s: %s", s.Machine, s.Where, err)
	}
	return both, nil
}

// normalPlacement is the spec with Where and Machine in canonical form, or why no machine
// can be what they say.
func (s Spec) normalPlacement() (Spec, error) {
	if !slices.Contains(Spots, s.Spot) && s.Spot != SpotAny {
		return s, fault.New(fault.Invalid, "Use `--spot`, `--spot=first` or `--on-demand`.", "check job: %q is not a way to buy machines", string(s.Spot))
	}
	if _, err := s.Placement(); err != nil {
		return s, err
	}
	asked, err := where.Parse(s.Where)
	if err != nil {
		return s, err
	}
	s.Where, s.Machine = asked.String(), strings.Join(s.Machines(), ",")
	return s, nil
}
