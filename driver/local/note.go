package local

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver/folder"
)

// note is a line of an agent's file. The agent says Up and End, its starter End
// for one that never was and Fate for its child.
type note struct {
	Up   *up    `json:"up,omitempty"`
	End  *end   `json:"end,omitempty"`
	Fate string `json:"fate,omitempty"` // how the kernel says it ended
}

// up is an agent that has adopted its lock.
type up struct {
	PID   int    `json:"pid"`
	Space string `json:"space,omitempty"` // pidSpace: where PID means it
}

// end is a last word.
type end struct {
	Code   int    `json:"code"` // exit status; -1: there was none
	Reason string `json:"reason"`
}

func agentFile(dir string, i int) string { return filepath.Join(dir, strconv.Itoa(i)+".agent") }
func logFile(dir string, i int) string   { return filepath.Join(dir, strconv.Itoa(i)+".log") }
func stopFile(dir string, i int) string  { return filepath.Join(dir, strconv.Itoa(i)+".stop") }

// fold makes one of an agent's notes. The first End stands.
func fold(notes []note) (all note) {
	for _, n := range notes {
		if all.Up == nil {
			all.Up = n.Up
		}
		if all.End == nil {
			all.End = n.End
		}
		if n.Fate != "" {
			all.Fate = n.Fate
		}
	}
	return all
}

// look says whether the lock of an agent's file is held, and what its notes are.
// It looks with a shared lock: two looks do not disturb each other, and the only
// exclusive lock there will ever be was taken before the file could be found.
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
