package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver/beside"
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

func agentFile(folder string, i int) string { return filepath.Join(folder, strconv.Itoa(i)+".agent") }
func logFile(folder string, i int) string   { return filepath.Join(folder, strconv.Itoa(i)+".log") }
func stopFile(folder string, i int) string  { return filepath.Join(folder, strconv.Itoa(i)+".stop") }
func removeFile(folder string) string       { return filepath.Join(folder, "remove") }

// say appends a note in one write. One that is lost (a full disk) leaves an agent
// that looks as if it had died before it spoke, which is safe to believe.
func say(w io.Writer, n note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// heard folds an agent's notes. A line that is torn or strange says nothing. The
// first End stands.
func heard(text []byte) note {
	var all note
	for line := range bytes.Lines(text) {
		var n note
		if json.Unmarshal(line, &n) != nil {
			continue
		}
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

// maxNotes bounds what is read of an agent's file, in bytes: three notes are a
// few hundred.
const maxNotes = 64 << 10

// look says whether the lock of an agent's file is held, and what its notes are.
// It looks with a shared lock: two looks do not disturb each other, and the only
// exclusive lock there will ever be was taken before the file could be found.
func look(path string) (held bool, n note, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, n, err
	}
	defer f.Close()
	switch err := beside.Flock(f, unix.LOCK_SH); {
	case errors.Is(err, unix.EWOULDBLOCK):
		held = true
	case err != nil:
		return false, n, err
	}
	// After the lock: whoever held it has said everything by then.
	text, err := io.ReadAll(io.LimitReader(f, maxNotes))
	return held, heard(text), err
}
