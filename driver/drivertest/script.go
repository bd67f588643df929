package drivertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/job/secret"
)

// Script says what an agent of the suite does.
type Script struct {
	Say   string // the first line on its standard error
	Stay  bool   // then it waits until it is asked to stop
	Deaf  bool   // with Stay: it ignores that it is asked, and must be killed
	Code  int    // its exit status
	Marks string // the folder in which every start makes a file of its own
	// Tell makes the agent write a Report of what it knows, and another when it was asked to
	// stop.
	Tell bool
	// Secret is the reference of the secret that a Report must contain.
	Secret string
	// Wordless makes the agent end without a call of its allocation's End.
	Wordless bool
}

// Report is what an agent knows of where it runs, and why it has to stop.
type Report struct {
	Variable string // the value of EnvName
	Secret   string // the value of the secret SecretName
	Notice   driver.Notice
}

// The variable of the environment in requests of the suite, and the name of their secret.
const (
	EnvName    = "DRIVERTEST_VARIABLE"
	SecretName = "DRIVERTEST_SECRET"
)

// Agent is one agent of the suite, as its target started it.
type Agent struct {
	Placement, Index int
	Given            *driver.Allocation
	Environ          []string        // its environment
	Killed           <-chan struct{} // closed when it is dead and must go; nil where a process simply ends
	Log              io.Writer       // its standard error
}

// variable carries a Script to its agent.
const variable = "DROVER_DRIVERTEST"

// Environ is the script as Boot.Env carries it, for a Place that makes its own Boot.
func (s Script) Environ() []string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings, booleans and a number
	}
	// Without this, a program with the race detector stays a second when it ends.
	return []string{variable + "=" + string(text), EnvName + "=as the request says", "GORACE=atexit_sleep_ms=0"}
}

// ScriptOf reads the script from a request, for targets on which agents are not processes.
// ok is false when the request is not of this suite.
func ScriptOf(b driver.Boot) (s Script, ok bool) {
	for _, e := range b.Env {
		if text, found := strings.CutPrefix(e, variable+"="); found {
			return s, json.Unmarshal([]byte(text), &s) == nil
		}
	}
	return s, false
}

// Act does what the script says, calls the allocation's End, and returns the exit status. ctx
// is done when the agent is asked to stop.
func (s Script) Act(ctx context.Context, a Agent) int {
	if s.Say != "" {
		fmt.Fprintln(a.Log, s.Say)
	}
	if err := s.writeReport(a, "knows", driver.Notice{}); err != nil {
		return markLost
	}
	mark, err := os.CreateTemp(s.Marks, markName(a.Placement, a.Index)+"-*")
	if err != nil {
		fmt.Fprintln(a.Log, "drivertest: leave a mark:", err)
		return markLost
	}
	mark.Close()
	asked := ctx.Done()
	if s.Deaf {
		asked = nil
	}
	if s.Stay {
		select {
		case <-asked:
			if err := s.writeReport(a, "notice", a.Given.Noticed()); err != nil {
				return markLost
			}
		case <-a.Killed:
		}
	}
	if !s.Wordless {
		a.Given.Ended(s.Code, "the script is over")
	}
	return s.Code
}

// writeReport writes what the agent knows into a file that appears whole or not at all.
func (s Script) writeReport(a Agent, kind string, n driver.Notice) error {
	if !s.Tell {
		return nil
	}
	r := Report{Variable: valueOf(a.Environ, EnvName), Secret: a.Given.Secrets[SecretName], Notice: n}
	if a.Given.Secrets == nil && s.Secret != "" { // the agent resolves them in its own environment
		values, err := secret.Resolve(map[string]string{SecretName: s.Secret}, a.Environ, os.ReadFile)
		if err != nil {
			fmt.Fprintln(a.Log, "drivertest: read the secret:", err)
			return err
		}
		r.Secret = values[SecretName]
	}
	text, err := json.Marshal(r)
	path := reportFile(s.Marks, a.Placement, a.Index, kind)
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		fmt.Fprintln(a.Log, "drivertest: leave a report:", err)
	}
	return err
}

// reportFile lies beside the marks, under a name that does not count as a mark.
func reportFile(marks string, placement, index int, kind string) string {
	return filepath.Join(marks, kind+"."+markName(placement, index))
}

// valueOf is a variable of an environment, in which the later of two values counts.
func valueOf(environ []string, name string) (value string) {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// markLost is the exit status of an agent that could not make its mark.
const markLost = 99

func markName(placement, index int) string { return fmt.Sprintf("%d-%d", placement, index) }

// Main is TestMain for a driver with agents that are processes: it runs the tests, or, where
// a driver started this same program as an agent, does what the script says.
//
// adopt is the target's Adopt, which an agent of drover calls when it begins; nil: the target
// has none. Its process has no Open: a target that opens the store gives a function that fills
// it in.
//
// Folders are removed once all tests have run.
func Main(m *testing.M, adopt func(driver.AgentProcess) (*driver.Allocation, error), folders ...string) {
	text, ok := os.LookupEnv(variable)
	if !ok {
		code := m.Run()
		for _, dir := range folders {
			_ = os.RemoveAll(dir) // what is left is the temporary folder's
		}
		os.Exit(code)
	}
	s, ok := ScriptOf(driver.Boot{Env: []string{variable + "=" + text}})
	if !ok {
		fmt.Fprintf(os.Stderr, "drivertest: read script: %q is none\n", text)
		os.Exit(markLost)
	}
	os.Exit(act(s, adopt))
}

// act is the agent's process. It listens for SIGTERM before it begins, as every agent of
// drover must: a target may ask as soon as it knows of the agent.
func act(s Script, adopt func(driver.AgentProcess) (*driver.Allocation, error)) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	given := &driver.Allocation{}
	args, err := driver.ParseAgentArgs(os.Args[min(2, len(os.Args)):])
	if err != nil {
		fmt.Fprintln(os.Stderr, "drivertest: read the arguments:", err)
		return markLost
	}
	if adopt != nil {
		a, err := adopt(driver.AgentProcess{Args: args})
		if err != nil {
			fmt.Fprintln(os.Stderr, "drivertest: adopt:", err)
			return markLost
		}
		if a != nil {
			given = a
		}
	}
	return s.Act(ctx, Agent{Placement: args.Placement, Index: args.Index, Given: given, Environ: os.Environ(), Log: os.Stderr})
}
