package job_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

func TestWhatIsAskedOfMachinesHasOneForm(t *testing.T) {
	s := small()
	s.Machine, s.Where, s.Spot = " g5.xlarge, g6.*,g5.xlarge,", "zone != a AND not cpus < 4", job.SpotFirst
	n, err := s.Normal()
	if err != nil || n.Machine != "g5.xlarge,g6.*" || n.Where != "cpus >= 4 and zone != a" || n.Spot != job.SpotFirst {
		t.Errorf("it is %q, %q, %q (%v)", n.Machine, n.Where, n.Spot, err)
	}
	if diff := cmp.Diff([]string{"g5.xlarge", "g6.*"}, n.Machines()); diff != "" {
		t.Error(diff)
	}
	asked, err := n.Placement()
	if err != nil || asked.String() != "cpus >= 4 and (type == g5.xlarge or type =~ g6.*) and zone != a" {
		t.Errorf("all that is asked is %q (%v)", asked, err)
	}
	for machine, want := range map[string]string{"": "", "ml.m5.large": "ml.m5.large", "g6.*": "", "a,b": ""} {
		if got := (job.Spec{Machine: machine}).MachineType(); got != want {
			t.Errorf("of %q the type is %q, want %q", machine, got, want)
		}
	}
}

func TestWhatNoMachineCanBeIsRefused(t *testing.T) {
	for want, change := range map[string]func(*job.Spec){
		`read --where "colour == red": "colour" is not a property of machines`:                                               func(s *job.Spec) { s.Where = "colour == red" },
		`check job: --machine p3.2xlarge with --where type =~ g*: no machine can be that: type == p3.2xlarge and type =~ g*`: func(s *job.Spec) { s.Machine, s.Where = "p3.2xlarge", "type =~ g*" },
		`check job: "often" is not a way to buy machines`:                                                                    func(s *job.Spec) { s.Spot = "often" },
		`read --machine "a\nb": a value of type holds a control character or both kinds of quotes: "a\nb"`:                   func(s *job.Spec) { s.Machine = "a\nb" },
	} {
		s := small()
		change(&s)
		_, err := s.Normal()
		if err == nil || err.Error() != want || fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("got %v (%s), want %s", err, fault.Hint(err), want)
		}
	}
	s := small()
	s.Machine = "a\nb"
	if _, err := s.Normal(); fault.Hint(err) != "Write it as --machine g5.xlarge, or --machine 'g5.xlarge,g6.*'." {
		t.Errorf("next step %q", fault.Hint(err))
	}
}

// A named target adds what it asks of machines; what a job says of types and of spot
// capacity stands.
func TestATargetAsksOfMachinesToo(t *testing.T) {
	big := job.Target{On: "slurm", Where: "memory >= 64G", Machine: "g5.*", Spot: job.SpotOnly}
	s, err := big.Apply("big", small())
	if err != nil || s.Where != "memory >= 64G" || s.Machine != "g5.*" || s.Spot != job.SpotOnly {
		t.Errorf("%+v, %v", s, err)
	}
	own := small()
	own.Where, own.Machine, own.Spot = "cpus > 2 or zone == a", "g6.*", job.SpotNever
	s, err = big.Apply("big", own)
	if err != nil || s.Where != "(cpus > 2 or zone == a) and memory >= 64G" || s.Machine != "g6.*" || s.Spot != job.SpotNever {
		t.Errorf("%+v, %v", s, err)
	}
	own.Where = "memory < 1G"
	if _, err := big.Apply("big", own); err == nil || err.Error() != "place job on big: no machine can be that: memory < 1G and memory >= 64G" {
		t.Errorf("a contradiction is %v", err)
	}
	for _, where := range []string{"memory", "zone =="} {
		own.Where = where
		if _, err := big.Apply("big", own); err == nil || !strings.HasPrefix(err.Error(), "read --where ") {
			t.Errorf("%s: %v", where, err)
		}
	}
	if _, err := (job.Target{On: "slurm", Where: "x"}).Apply("big", small()); err == nil || !strings.HasPrefix(err.Error(), `place job on big: read --where "x"`) {
		t.Errorf("a target's own: %v", err)
	}
}

func TestOptionsForAnyTargetComeAfterItsOwn(t *testing.T) {
	s := job.Spec{TargetArgs: map[string][]string{"slurm": {"--qos=a"}, job.AnyTarget: {"--qos=b"}, "else": {"x"}}}
	if diff := cmp.Diff([]string{"--qos=a", "--qos=b"}, s.ArgsOf("slurm")); diff != "" {
		t.Error(diff)
	}
}
