package local

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver/folder"
)

// note is a line of an agent's file. The agent writes Up and End. The process that starts it
// writes End for an agent that never started, and Outcome for its child.
type note struct {
	Up      *up    `json:"up,omitempty"`
	End     *end   `json:"end,omitempty"`
	Outcome string `json:"outcome,omitempty"` // how the kernel says it ended
}

// up is the note of an agent that has taken over its lock.
type up struct {
	PID   int    `json:"pid"`
	Space string `json:"space,omitempty"` // pidSpace: where PID means it
}

// end is the last note.
type end struct {
	Code   int    `json:"code"` // exit status; -1: there was none
	Reason string `json:"reason"`
}

func agentFile(dir string, i int) string { return filepath.Join(dir, strconv.Itoa(i)+".agent") }
func logFile(dir string, i int) string   { return filepath.Join(dir, strconv.Itoa(i)+".log") }
func stopFile(dir string, i int) string  { return filepath.Join(dir, strconv.Itoa(i)+".stop") }

// fold joins an agent's notes. The first End counts.
func fold(notes []note) (all note) {
	for _, n := range notes {
		if all.Up == nil {
			all.Up = n.Up
		}
		if all.End == nil {
			all.End = n.End
		}
		if n.Outcome != "" {
			all.Outcome = n.Outcome
		}
	}
	return all
}

// look says whether the lock of an agent's file is held, and what its notes are. It tries a shared
// lock, so that two looks at once do not disturb each other. The only exclusive lock on the file
// is taken before the file can be found.
func look(path string) (held bool, n note, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, n, err
	}
	defer f.Close()
	err = folder.Flock(f, unix.LOCK_SH)
	held = errors.Is(err, folder.ErrHeld)
	if err != nil && !held {
		return false, n, err
	}
	// After the lock: its holder has noted everything by then.
	notes, err := folder.Hear[note](f)
	return held, fold(notes), err
}
