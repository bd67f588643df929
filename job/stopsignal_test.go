package job

import (
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
)

func TestAStopSignalIsOneThatAProgramCanHeed(t *testing.T) {
	for text, want := range map[string]string{"": "", "INT": "", "sigint": "", "usr1": "SIGUSR1", "SIGTERM": "SIGTERM", "Hup": "SIGHUP"} {
		if got, err := ParseStopSignal(text); got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"KILL", "SIGSTOP", "9", "SIG", "SIGSEGV", "SIGTERM "} {
		if got, err := ParseStopSignal(text); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
}

func TestCtrlCLeavesTimeForEachOfItsSteps(t *testing.T) {
	for _, grace := range []Duration{0, Duration(time.Second), DefaultGrace} {
		s := Spec{Grace: grace}
		if s.FirstSignal() != "SIGINT" || s.StopTime()-s.TermTime() != time.Duration(grace) || s.TermTime() <= time.Duration(grace) {
			t.Errorf("grace %s: %s, %s and %s", grace, s.FirstSignal(), s.StopTime(), s.TermTime())
		}
		s.StopSignal = "SIGTERM"
		if s.StopTime() != s.TermTime() {
			t.Errorf("with SIGTERM alone: %s and %s", s.StopTime(), s.TermTime())
		}
	}
}
