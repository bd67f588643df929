package shed

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
)

// What tells a process which placement and number it has, and that it is the agent itself.
const (
	variable       = "SHED_PLACEMENT"
	numberVariable = "SHED_AGENT"
	agentVariable  = "SHED_BELOW"
)

const lockFD = 3

// Adopt makes this process a supervisor, or the agent below one.
func Adopt(driver.AgentProcess) (*driver.Allocation, error) {
	dir, ok := os.LookupEnv(variable)
	if !ok {
		return nil, nil
	}
	i, err := strconv.Atoi(os.Getenv(numberVariable))
	if err != nil {
		return nil, refusedAdoption(err)
	}
	if _, below := os.LookupEnv(agentVariable); !below {
		os.Exit(oversee(dir, i))
	}
	for _, name := range []string{variable, numberVariable, agentVariable} {
		os.Unsetenv(name)
	}
	if err := folder.SayIn(file(dir, i, "notes"), note{Agent: os.Getpid()}); err != nil {
		return nil, err
	}
	stop := file(dir, i, "stop")
	if grace, asked := folder.ReadWord(stop); asked && grace > 0 { // asked before it was up
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}
	return &driver.Allocation{
		Notice: func() driver.Notice {
			left, _ := folder.ReadWord(stop)
			return driver.Notice{Asked: true, Why: driver.AskedToStop, Left: left}
		},
		End: func(code int, reason string) {
			folder.SayIn(file(dir, i, "notes"), note{Ended: true, Code: code, Reason: reason})
		}}, nil
}

// oversee is the supervisor: it starts the agent, passes a Stop on, and kills it when the
// grace is over.
func oversee(dir string, i int) int {
	syscall.CloseOnExec(lockFD)
	stops, deaths := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTERM)
	signal.Notify(deaths, syscall.SIGCHLD)
	notes := file(dir, i, "notes")
	folder.SayIn(notes, note{Supervisor: os.Getpid()})
	agent, err := folder.Spawn("/proc/self/exe", os.Args, append(os.Environ(), agentVariable+"=1"), file(dir, i, "log"))
	if err != nil {
		folder.SayIn(notes, note{Ended: true, Code: -1, Reason: "its agent never started: " + err.Error()})
		return 1
	}
	var until time.Time
	var over <-chan time.Time
	for {
		if grace, asked := folder.ReadWord(file(dir, i, "stop")); asked && !until.Equal(never) {
			if at := time.Now().Add(grace); over == nil || at.Before(until) {
				until, over = at, time.After(grace)
				if grace > 0 && heard(dir, i).Agent > 0 { // one that is coming up finds the word itself
					syscall.Kill(agent, syscall.SIGTERM)
				}
			}
		}
		select {
		case <-stops:
		case <-over:
			syscall.Kill(-agent, syscall.SIGKILL)
			until, over = never, nil
		case <-deaths:
			if status, gone := folder.Reap(agent); gone {
				return folder.ShellStatus(status)
			}
		}
	}
}

// never is the end of one that was killed already.
var never = time.Unix(1, 0)
