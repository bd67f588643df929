package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver/beside"
	"github.com/drover-run/drover/fault"
)

// request is the file of that name.
type request struct {
	Agents  int       `json:"agents"`
	Image   string    `json:"image"`
	Network string    `json:"network,omitempty"` // the job's own; "": docker's default
	Started time.Time `json:"started"`
}

// orders are what the agent in a container is told of its place.
type orders struct {
	Cache  string  `json:"cache"`
	Claims string  `json:"claims,omitempty"`
	Cores  float64 `json:"cores"`  // of the machine, not of the container
	Memory int64   `json:"memory"` // bytes, likewise
	Hosts  bool    `json:"hosts"`  // the file hosts is shown as /etc/hosts
}

// note is a line of an agent's file. The agent says Up and End; process 1 of its
// container says Fate; the starter says End for one that never was.
type note struct {
	Up   bool   `json:"up,omitempty"`
	End  *end   `json:"end,omitempty"`
	Fate string `json:"fate,omitempty"` // how the kernel says it ended
}

// end is a last word.
type end struct {
	Code   int    `json:"code"` // exit status; -1: there was none
	Reason string `json:"reason"`
}

func agentDir(folder string, i int) string { return filepath.Join(folder, strconv.Itoa(i)) }
func requestFile(folder string) string     { return filepath.Join(folder, "request") }
func begunFile(folder string) string       { return filepath.Join(folder, "begun") }
func removeFile(folder string) string      { return filepath.Join(folder, "remove") }

// The files of an agent's own folder.
func notesFile(dir string) string   { return filepath.Join(dir, "notes") }
func logFile(dir string) string     { return filepath.Join(dir, "log") }
func stopFile(dir string) string    { return filepath.Join(dir, "stop") }
func ordersFile(dir string) string  { return filepath.Join(dir, "orders") }
func secretsFile(dir string) string { return filepath.Join(dir, "secrets") }
func passFile(dir string) string    { return filepath.Join(dir, "pass") }
func hostsFile(dir string) string   { return filepath.Join(dir, "hosts") }

// The folders in it.
const (
	rootDir, stateDir, homeDir, tmpDir = "root", "state", "home", "tmp"
)

// say appends a note in one write. One that is lost (a full disk) leaves an agent
// that looks as if it had died before it spoke, which is safe to believe.
func say(dir string, n note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(notesFile(dir), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(append(text, '\n'))
	return err
}

// maxNotes bounds what is read of an agent's notes, in bytes: three are a few
// hundred.
const maxNotes = 64 << 10

// heard folds an agent's notes. A line that is torn or strange says nothing. The
// first End stands.
func heard(dir string) (all note) {
	f, err := os.Open(notesFile(dir))
	if err != nil {
		return all
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxNotes)) // what could be read will do
	for line := range bytes.Lines(text) {
		var n note
		if json.Unmarshal(line, &n) != nil {
			continue
		}
		all.Up = all.Up || n.Up
		if all.End == nil {
			all.End = n.End
		}
		if n.Fate != "" {
			all.Fate = n.Fate
		}
	}
	return all
}

// publish makes a desk, durably. The last step, giving it its name, succeeds for
// one starter only; fs.ErrExist says that it was another.
func (d *Driver) publish(folder string, facts request) (err error) {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(d.dir, beside.Making)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			removeTree(tmp)
		}
	}()
	for i := range facts.Agents {
		if err := os.Mkdir(agentDir(tmp, i), 0o700); err != nil {
			return err
		}
	}
	if err := beside.WriteDurably(requestFile(tmp), os.O_TRUNC, facts); err != nil {
		return err
	}
	if err := beside.SyncFolder(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, folder); err != nil {
		return err
	}
	return beside.SyncFolder(d.dir)
}

func readRequest(folder string) (request, error) {
	var facts request
	path := requestFile(folder)
	text, err := os.ReadFile(path)
	if err != nil {
		return facts, err
	}
	if err := json.Unmarshal(text, &facts); err != nil {
		return facts, fault.Wrap(err, fault.Invalid, "Remove its folder once nothing of it runs.", "read placement: %s", path)
	}
	return facts, nil
}

// errHeld says that somebody starts or removes this placement right now.
var errHeld = errors.New("another drover is at it")

// locked opens a file and takes its lock; errHeld says that another one has it.
func locked(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, how, 0o600)
	if err != nil {
		return nil, err
	}
	if err := beside.Flock(f, unix.LOCK_EX); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errHeld
		}
		return nil, err
	}
	return f, nil
}

// hold locks a desk. It is for the one who starts its containers or removes them,
// and goes with the process. fs.ErrNotExist: the desk has gone.
func hold(folder string) (lock *os.File, err error) {
	f, err := locked(requestFile(folder), os.O_RDWR)
	if err != nil {
		return nil, err
	}
	// Only its holder takes a desk away, so from here on the name stays what it is.
	if same, err := beside.IsFile(f, f.Name()); err != nil || !same {
		f.Close()
		if err == nil {
			err = fs.ErrNotExist
		}
		return nil, err
	}
	return f, nil
}

// holdPause is how long who waits for a desk stands back.
const holdPause = 20 * time.Millisecond

// holdPatiently is hold that waits until the other one is done.
func holdPatiently(ctx context.Context, folder string) (*os.File, error) {
	for {
		lock, err := hold(folder)
		if !errors.Is(err, errHeld) {
			return lock, err
		}
		pause := time.NewTimer(holdPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, context.Cause(ctx)
		case <-pause.C:
		}
	}
}

// isHeld says whether somebody holds a desk. It looks with a shared lock: looks do
// not disturb each other.
func isHeld(folder string) bool {
	f, err := os.Open(requestFile(folder))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(beside.Flock(f, unix.LOCK_SH), unix.EWOULDBLOCK)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// removeTree removes a folder, also one that a plain user's program has locked
// him out of: he owns it.
func removeTree(dir string) {
	if !errors.Is(os.RemoveAll(dir), fs.ErrPermission) {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() && err == nil { // told of before it is read
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
