package folder

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// attendShell supervises a shell as the agent, with an order that is in the file stop.
func attendShell(t *testing.T, script string) (s Supervisor, dir string) {
	t.Helper()
	dir = t.TempDir()
	return Supervisor{
		Begin: func() (int, error) {
			cmd := exec.Command("sh", "-c", script)
			cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setsid: true}
			err := cmd.Start() // Attend reaps it
			if err != nil {
				return 0, err
			}
			return cmd.Process.Pid, nil
		},
		Order: func() (time.Duration, bool) { return ReadWord(filepath.Join(dir, "stop")) },
		Look:  10 * time.Millisecond,
		Up:    func() bool { return Exists(filepath.Join(dir, "up")) },
		Kill:  func(agent int) { _ = syscall.Kill(-agent, syscall.SIGKILL) },
	}, dir
}

func TestAnOrderThatIsFoundByLookingIsCarriedOut(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		want   string
	}{
		"it heeds SIGTERM":      {"trap 'exit 7' TERM; : > up; printf 10m > stop.new; mv stop.new stop; while :; do sleep 0.01; done", time.Hour, "exit status 7"},
		"it ignores SIGTERM":    {"trap : TERM; printf 50ms > stop.new; mv stop.new stop; : > up; while :; do sleep 0.01; done", 0, "signal: killed"},
		"there is no grace":     {"trap 'exit 7' TERM; : > up; printf 0s > stop.new; mv stop.new stop; while :; do sleep 0.01; done", 0, "signal: killed"},
		"a later one is sooner": {"trap : TERM; printf 1h > stop.new; mv stop.new stop; : > up; sleep 0.1; printf 20ms > stop.new; mv stop.new stop; while :; do sleep 0.01; done", 0, "signal: killed"},
	} {
		s, _ := attendShell(t, c.script)
		status, begun, err := s.Attend()
		if got := Outcome(status); err != nil || !begun || got != c.want {
			t.Errorf("%s: %s, %t, %v; want %s", name, got, begun, err, c.want)
		}
	}
}

func TestAnOrderWithoutGraceKeepsAnAgentFromBeginning(t *testing.T) {
	s, dir := attendShell(t, ": > began")
	if err := LeaveWord(filepath.Join(dir, "stop"), 0); err != nil {
		t.Fatal(err)
	}
	if _, begun, err := s.Attend(); err != nil || begun || Exists(filepath.Join(dir, "began")) {
		t.Errorf("begun %t, %v", begun, err)
	}
}

func TestASignalWithoutAnOrderIsAWarning(t *testing.T) {
	s, _ := attendShell(t, "trap 'exit 7' TERM; : > up; kill -TERM $PPID; while :; do sleep 0.01; done")
	warned := false
	s.Warned = func() { warned = true }
	status, _, err := s.Attend()
	if got := Outcome(status); err != nil || !warned || got != "exit status 7" {
		t.Errorf("%s, warned %t, %v", got, warned, err)
	}
}
