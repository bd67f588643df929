package drivertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/driver"
)

// Script is what an agent of the suite does with its life.
type Script struct {
	Say   string // first of all, one line on its standard error
	Stay  bool   // then it waits to be asked to stop
	Deaf  bool   // with Stay: it does not hear the asking, and must be killed
	Code  int    // its exit status
	Marks string // the folder in which every start leaves a file of its own
}

// variable carries a Script to its agent.
const variable = "DROVER_DRIVERTEST"

// env is the script as Boot.Env has it.
func (s Script) env() []string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings, booleans and a number
	}
	// A program with the race detector otherwise stays a second when it ends.
	return []string{variable + "=" + string(text), "GORACE=atexit_sleep_ms=0"}
}

// ScriptOf reads the script out of a request, for places whose agents are not
// processes. ok is false when the request is not of this suite.
func ScriptOf(b driver.Boot) (s Script, ok bool) {
	for _, e := range b.Env {
		if text, found := strings.CutPrefix(e, variable+"="); found {
			return s, json.Unmarshal([]byte(text), &s) == nil
		}
	}
	return s, false
}

// Act plays the script and returns the exit status. ctx is done when the agent
// is asked to stop; killed is closed when it is dead and must go, and is nil
// where a process simply ends.
func (s Script) Act(ctx context.Context, killed <-chan struct{}, placement, index int, stderr io.Writer) int {
	if s.Say != "" {
		fmt.Fprintln(stderr, s.Say)
	}
	mark, err := os.CreateTemp(s.Marks, markName(placement, index)+"-*")
	if err != nil {
		fmt.Fprintln(stderr, "drivertest: leave a mark:", err)
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
		case <-killed:
		}
	}
	return s.Code
}

// markLost is the exit status of an agent that could not leave its mark.
const markLost = 99

func markName(placement, index int) string { return fmt.Sprintf("%d-%d", placement, index) }

// Main is TestMain for a driver whose agents are processes: it runs the tests,
// or, where a driver started this same program as an agent, acts the script.
//
// adopt is the target's, as drover's agent calls it at its own beginning; nil: the target
// has no side on its machines.
func Main(m *testing.M, adopt func() (*driver.Allocation, error)) {
	text, ok := os.LookupEnv(variable)
	if !ok {
		os.Exit(m.Run())
	}
	s, ok := ScriptOf(driver.Boot{Env: []string{variable + "=" + text}})
	if !ok {
		fmt.Fprintf(os.Stderr, "drivertest: read script: %q is none\n", text)
		os.Exit(markLost)
	}
	os.Exit(act(s, adopt))
}

// act is the agent's process. It listens for SIGTERM before it begins, as every
// drover agent must: a place may ask as soon as it knows of the agent.
func act(s Script, adopt func() (*driver.Allocation, error)) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	given := &driver.Allocation{}
	if adopt != nil {
		a, err := adopt()
		if err != nil {
			fmt.Fprintln(os.Stderr, "drivertest: adopt:", err)
			return markLost
		}
		if a != nil {
			given = a
		}
	}
	code := s.Act(ctx, nil, argument("--placement"), argument("--index"), os.Stderr)
	given.Ended(code, "the script is over")
	return code
}

// argument is the number behind a flag of this process; -1 when it is missing.
func argument(flag string) int {
	for i, a := range os.Args[:len(os.Args)-1] {
		if a == flag {
			if n, err := strconv.Atoi(os.Args[i+1]); err == nil {
				return n
			}
		}
	}
	return -1
}
