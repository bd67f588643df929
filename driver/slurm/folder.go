package slurm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/beside"
	"github.com/drover-run/drover/fault"
)

// request is the file of that name.
type request struct {
	Agents  int       `json:"agents"`
	Gang    bool      `json:"gang"` // one job on as many nodes
	Arrays  []int     `json:"arrays"`
	Started time.Time `json:"started"`
}

// from is the number of the first agent of the k-th array.
func (r request) from(k int) (n int) {
	for _, size := range r.Arrays[:k] {
		n += size
	}
	return n
}

// submitted is the file job-<k>.
type submitted struct {
	ID      int    `json:"id"`                // Slurm's; 0: it was refused
	Refused string `json:"refused,omitempty"` // why
	Hint    string `json:"hint,omitempty"`
}

// orders are what an agent's minder is told.
type orders struct {
	Binary    string   `json:"binary"`
	Store     string   `json:"store"`
	Job       string   `json:"job"`
	Placement int      `json:"placement"`
	Agents    int      `json:"agents"`
	Gang      bool     `json:"gang"`
	Env       []string `json:"env"`
}

// boot is what an agent is started with.
func (o orders) boot() driver.Boot {
	return driver.Boot{Binary: o.Binary, Store: o.Store, Job: o.Job}
}

// note is a line of an agent's file. The agent says End; its minder Up, Fate and
// Asked.
type note struct {
	Up      *up    `json:"up,omitempty"`
	End     *end   `json:"end,omitempty"`
	Fate    *end   `json:"fate,omitempty"`    // how the kernel says it ended
	Stopped bool   `json:"stopped,omitempty"` // of Fate: a Stop had reached it
	Asked   bool   `json:"asked,omitempty"`   // a person ended it by Slurm's own means
	Taken   bool   `json:"taken,omitempty"`   // Slurm told it to go
	Why     string `json:"why,omitempty"`     // of Asked and Taken
}

// up is what a minder says first.
type up struct {
	Slurm   int    `json:"slurm"`   // the array's job id, or the job's
	Job     int    `json:"job"`     // this task's own id
	Restart int    `json:"restart"` // how often Slurm had started it before
	Node    string `json:"node"`
	Host    string `json:"host"`
	PID     int    `json:"pid"` // the agent's, on Host
}

// end is a last word.
type end struct {
	Code   int    `json:"code"` // exit status; -1: there was none
	Reason string `json:"reason"`
}

func itoa(n int) string { return strconv.Itoa(n) }

func requestFile(folder string) string { return filepath.Join(folder, "request") }
func askedFile(folder string) string   { return filepath.Join(folder, "asked") }
func ordersFile(folder string) string  { return filepath.Join(folder, "orders") }
func secretsFile(folder string) string { return filepath.Join(folder, "secrets") }
func passFile(folder string) string    { return filepath.Join(folder, "pass") }
func stopFile(folder string) string    { return filepath.Join(folder, "stop") }
func removeFile(folder string) string  { return filepath.Join(folder, "remove") }

func jobFile(folder string, k int) string    { return filepath.Join(folder, "job-"+itoa(k)) }
func scriptFile(folder string, k int) string { return filepath.Join(folder, "script-"+itoa(k)) }
func againFile(folder string, i int) string  { return filepath.Join(folder, "again-"+itoa(i)) }

// outFile is what Slurm itself writes for a task; its pattern is given to sbatch.
func outFile(folder string, slurm, task int) string {
	return filepath.Join(folder, fmt.Sprintf("out-%d-%d", slurm, task))
}

// The files of one agent.
func notesFile(folder string, i int) string  { return filepath.Join(folder, itoa(i)+".notes") }
func logFile(folder string, i int) string    { return filepath.Join(folder, itoa(i)+".log") }
func noticeFile(folder string, i int) string { return filepath.Join(folder, itoa(i)+".notice") }
func claimFile(folder string, i int) string  { return filepath.Join(folder, itoa(i)+".claim") }

// say appends a note in one write. One that is lost (a full disk) leaves an agent
// that looks as if it had died before it spoke, which is safe to believe.
func say(folder string, i int, n note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(notesFile(folder, i), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close()) // over a network what was written is there when it is closed
}

// maxNotes bounds what is read of an agent's notes, in bytes: four are a few hundred.
const maxNotes = 64 << 10

// heard folds an agent's notes. A line that is torn or strange says nothing. Of each
// kind the first stands.
func heard(folder string, i int) (all note) {
	f, err := os.Open(notesFile(folder, i))
	if err != nil {
		return all
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxNotes)) // what could be read will do
	return fold(text)
}

func fold(text []byte) (all note) {
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
		if all.Fate == nil {
			all.Fate, all.Stopped = n.Fate, n.Stopped
		}
		if (n.Asked || n.Taken) && !all.Asked && !all.Taken {
			all.Asked, all.Taken, all.Why = n.Asked, n.Taken, n.Why
		}
	}
	return all
}

// publish makes a placement's folder, durably. The last step, giving it its name,
// succeeds for one starter only; fs.ErrExist says that it was another.
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
			os.RemoveAll(tmp)
		}
	}()
	for i := range facts.Agents { // or a file server's client would not see for a while that they have come
		if err := beside.Touch(notesFile(tmp, i)); err != nil {
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
		if exists(folder) {
			return fs.ErrExist
		}
		return err
	}
	return beside.SyncFolder(d.dir)
}

// readJSON reads a file of ours; its error does not quote what it holds.
func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if json.Unmarshal(text, v) != nil {
		return fault.New(fault.Invalid, "Remove its folder once nothing of it runs.", "read placement: %s is damaged", path)
	}
	return nil
}

func readRequest(folder string) (facts request, err error) {
	return facts, readJSON(requestFile(folder), &facts)
}

// writeWhole writes a file that is never seen in part.
func writeWhole(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".write-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// createWhole is writeWhole where fs.ErrExist says that another one was quicker.
func createWhole(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".write-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}

// word is the grace of a Stop. The folder is opened before, or a file server's client
// may go on believing for a minute that there is none.
func word(folder string) (grace time.Duration, ok bool) {
	if f, err := os.Open(folder); err == nil {
		f.Close()
	}
	return beside.ReadWord(stopFile(folder))
}

// again lists, in order, in whose place agents came that Slurm started anew: the
// first has the number that follows the last that was asked for.
func again(folder string, agents int) (of []int, err error) {
	for {
		var base int
		switch err := readJSON(againFile(folder, agents+len(of)), &base); {
		case errors.Is(err, fs.ErrNotExist):
			return of, nil
		case err != nil:
			return nil, err
		case base < 0 || base >= agents:
			return nil, fault.New(fault.Invalid, "Remove its folder once nothing of it runs.", "read placement: %s is damaged", againFile(folder, agents+len(of)))
		}
		of = append(of, base)
	}
}

// newest is the number of the agent that stands in base's place.
func newest(of []int, agents, base int) int {
	n := base
	for i, b := range of {
		if b == base {
			n = agents + i
		}
	}
	return n
}

// succeed gives base another number after was, unless somebody has done so; it says
// which agent stands in its place now.
func succeed(folder string, agents, base, was int) (int, error) {
	for {
		of, err := again(folder, agents)
		if err != nil {
			return 0, err
		}
		if n := newest(of, agents, base); n != was {
			return n, nil
		}
		n := agents + len(of)
		switch err := createWhole(againFile(folder, n), base); {
		case errors.Is(err, fs.ErrExist):
		case err != nil:
			return 0, err
		default:
			return n, beside.Touch(notesFile(folder, n))
		}
	}
}

// errHeld says that somebody submits or removes this placement right now.
var errHeld = errors.New("another drover is at it")

// hold locks a placement. It is for the one who submits its jobs or removes them,
// and goes with the process. fs.ErrNotExist: the folder has gone. Where a file system
// has no locks two may be at it; what they submit twice, the agents find out.
func hold(folder string) (lock *os.File, err error) {
	f, err := os.OpenFile(requestFile(folder), os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := beside.Flock(f, unix.LOCK_EX); {
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, errHeld
	case err != nil && !errors.Is(err, unix.ENOLCK) && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS):
		f.Close()
		return nil, err
	}
	if same, err := beside.IsFile(f, f.Name()); err != nil || !same {
		f.Close()
		if err == nil {
			err = fs.ErrNotExist
		}
		return nil, err
	}
	return f, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// firstLine is what a sentence may quote of somebody's output.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
