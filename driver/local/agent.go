package local

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// Adopt makes this process the agent that this driver started it as. From then on SIGTERM
// no longer ends the process by itself, no process that the agent starts can hold the
// agent's lock, and the process group is killed when the grace of a Stop is over. An agent
// that ends without its allocation's End is lost.
func Adopt(driver.AgentProcess) (*driver.Allocation, error) {
	base, ok := os.LookupEnv(inherited)
	if !ok {
		return nil, nil
	}
	os.Unsetenv(inherited) // an agent below this process must not take it for its own
	dir := filepath.Dir(base)
	i, err := strconv.Atoi(filepath.Base(base))
	if err != nil || !holds(lockFD, agentFile(dir, i)) {
		return nil, fault.New(fault.Invalid, "Unset "+inherited+".", "adopt agent: %s=%q is not this process", inherited, base)
	}
	unix.CloseOnExec(lockFD)
	// Not an os.File: the lock would be lost when that is garbage-collected.
	own := descriptor(lockFD)
	if err := folder.Say(own, note{Up: &up{PID: os.Getpid(), Space: pidSpace()}}); err != nil {
		return nil, fault.Wrap(err, fault.Full, "", "adopt agent: %s", dir)
	}
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, unix.SIGTERM)
	go enforce(terms, stopFile(dir, i)) // for as long as the process lives: nothing waits for it
	if _, asked := folder.ReadWord(stopFile(dir, i)); asked {
		unix.Kill(os.Getpid(), unix.SIGTERM)
	}
	return &driver.Allocation{Stdin: true,
		End: func(code int, reason string) { folder.Say(own, note{End: &end{Code: code, Reason: reason}}) },
		Notice: func() driver.Notice {
			grace, _ := folder.ReadWord(stopFile(dir, i)) // 0 without a file: other processes may send SIGTERM too
			return driver.Notice{Asked: true, Why: driver.AskedToStop, Left: grace}
		}}, nil
}

// enforce ends this process when the grace that Stop wrote for it is over. Of two graces the one
// that ends sooner counts.
func enforce(terms <-chan os.Signal, word string) {
	var end time.Time
	var over <-chan time.Time
	for {
		select {
		case <-terms:
			grace, ok := folder.ReadWord(word)
			if at := time.Now().Add(grace); ok && (over == nil || at.Before(end)) {
				end, over = at, time.After(grace)
			}
		case <-over:
			unix.Kill(-os.Getpid(), unix.SIGKILL) // fails unless we lead a group
			unix.Kill(os.Getpid(), unix.SIGKILL)
		}
	}
}

// holds says whether an open descriptor is the file at path.
func holds(fd int, path string) bool {
	var a, b unix.Stat_t
	return unix.Fstat(fd, &a) == nil && unix.Stat(path, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// descriptor writes to an open file by its number.
type descriptor int

func (d descriptor) Write(p []byte) (int, error) { return unix.Write(int(d), p) }
