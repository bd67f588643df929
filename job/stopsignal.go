package job

import (
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
)

// StopSignals are the signals that Ctrl-C may send a program first. Each can be caught,
// and has no other meaning to the system.
var StopSignals = []string{"SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"}

// ParseStopSignal reads the name of one, in any case and with or without SIG. "" and
// SIGINT, the default, are "".
func ParseStopSignal(text string) (string, error) {
	name := strings.ToUpper(text)
	if name != "" && !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	switch {
	case name == "" || name == "SIGINT":
		return "", nil
	case slices.Contains(StopSignals, name):
		return name, nil
	}
	return "", fault.New(fault.Invalid, "Use "+strings.Join(StopSignals[:len(StopSignals)-1], ", ")+" or "+StopSignals[len(StopSignals)-1]+".",
		"read --stop-signal: %q is not a signal that asks a program to end", text)
}

// FirstSignal is the name of the signal that Ctrl-C sends first.
func (s Spec) FirstSignal() string {
	if s.StopSignal == "" {
		return "SIGINT"
	}
	return s.StopSignal
}

// storeTime is added to what a program has to end: what it saved is stored then.
const storeTime = 30 * time.Second

// StopTime is how long an agent has from the first Ctrl-C until it is killed: the program
// gets its stop signal, after the grace SIGTERM, and after that once more SIGKILL. An agent
// that has less sends SIGTERM at once.
func (s Spec) StopTime() time.Duration {
	if s.FirstSignal() == "SIGTERM" {
		return s.TermTime()
	}
	return time.Duration(s.Grace) + s.TermTime()
}

// TermTime is how long an agent has from the second Ctrl-C, with SIGTERM, until it is killed.
func (s Spec) TermTime() time.Duration { return time.Duration(s.Grace) + storeTime }
