package local

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// Adopt makes this process the agent that this driver started it as. It is to be
// called before anything else is started, and after the agent has begun to listen
// for SIGTERM, which no longer ends the process by itself from here on: it is
// how Stop asks, also when it asked before the agent had started.
//
// From then on no process that the agent starts can hold the agent's lock, and
// the process group is killed when the grace of a Stop is over. ended leaves the
// agent's exit status and a sentence why, and is called last: an agent that goes
// without it is lost. left is the grace of the Stop that asks for the soonest end; 0 when
// none has asked, as SIGTERM may come from others too.
//
// In a process that this driver did not start nothing happens, ended does nothing,
// and left is 0.
func Adopt() (ended func(code int, reason string), left func() time.Duration, err error) {
	base, ok := os.LookupEnv(inherited)
	if !ok {
		return func(int, string) {}, func() time.Duration { return 0 }, nil
	}
	os.Unsetenv(inherited) // an agent below us is not us
	dir := filepath.Dir(base)
	i, err := strconv.Atoi(filepath.Base(base))
	if err != nil || !holds(lockFD, agentFile(dir, i)) {
		return nil, nil, fault.New(fault.Invalid, "Unset "+inherited+".", "adopt agent: %s=%q is not this process", inherited, base)
	}
	unix.CloseOnExec(lockFD)
	// Not an os.File: the lock must not go with a garbage collection.
	own := descriptor(lockFD)
	if err := folder.Say(own, note{Up: &up{PID: os.Getpid(), Space: pidSpace()}}); err != nil {
		return nil, nil, fault.Wrap(err, fault.Full, "", "adopt agent: %s", dir)
	}
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, unix.SIGTERM)
	go enforce(terms, stopFile(dir, i)) // for as long as the process lives: nobody waits
	if _, asked := folder.ReadWord(stopFile(dir, i)); asked {
		unix.Kill(os.Getpid(), unix.SIGTERM)
	}
	return func(code int, reason string) {
			folder.Say(own, note{End: &end{Code: code, Reason: reason}})
		}, func() time.Duration {
			grace, _ := folder.ReadWord(stopFile(dir, i))
			return grace
		}, nil
}

// enforce ends this process when the grace that Stop left for it is over. The
// sooner of two ends stands.
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

// holds says whether an open descriptor is that file.
func holds(fd int, path string) bool {
	var a, b unix.Stat_t
	return unix.Fstat(fd, &a) == nil && unix.Stat(path, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// descriptor writes to an open file by its number.
type descriptor int

func (d descriptor) Write(p []byte) (int, error) { return unix.Write(int(d), p) }
