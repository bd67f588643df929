package slurm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// request is the content of the file of that name.
type request struct {
	Agents  int       `json:"agents"`
	Gang    bool      `json:"gang"` // one job on as many nodes
	Arrays  []int     `json:"arrays"`
	Started time.Time `json:"started"`
}

// firstAgentOf is the number of the first agent of the k-th array.
func (r request) firstAgentOf(k int) (n int) {
	for _, size := range r.Arrays[:k] {
		n += size
	}
	return n
}

// submitted is the content of the file job-<k>.
type submitted struct {
	ID      int    `json:"id"`                // Slurm's; 0: it was refused
	Refused string `json:"refused,omitempty"` // why
	Hint    string `json:"hint,omitempty"`
}

// orders are what an agent's supervisor is told.
type orders struct {
	Binary    string   `json:"binary"`
	Store     string   `json:"store"`
	Job       string   `json:"job"`
	Placement int      `json:"placement"`
	Agents    int      `json:"agents"`
	Gang      bool     `json:"gang"`
	Env       []string `json:"env"`
}

// bootFields is what an agent is started with.
func (o orders) bootFields() driver.Boot {
	return driver.Boot{Binary: o.Binary, Store: o.Store, Job: o.Job}
}

// note is a line of an agent's file. The agent writes End; its supervisor writes Up, Fate and Asked.
type note struct {
	Up      *up    `json:"up,omitempty"`
	End     *end   `json:"end,omitempty"`
	Fate    *end   `json:"fate,omitempty"`    // how the kernel says it ended
	Stopped bool   `json:"stopped,omitempty"` // of Fate: a Stop had reached it
	Asked   bool   `json:"asked,omitempty"`   // a person ended it by Slurm's own means
	Taken   bool   `json:"taken,omitempty"`   // Slurm told it to go
	Why     string `json:"why,omitempty"`     // of Asked and Taken
}

// up is the first note of a supervisor.
type up struct {
	Slurm   int    `json:"slurm"`   // the array's job id, or the job's
	Job     int    `json:"job"`     // this task's own id
	Restart int    `json:"restart"` // how often Slurm had started it before
	Node    string `json:"node"`
	Host    string `json:"host"`
	PID     int    `json:"pid"` // the agent's, on Host
}

// end is the last note.
type end struct {
	Code   int    `json:"code"` // exit status; -1: there was none
	Reason string `json:"reason"`
}

func itoa(n int) string { return strconv.Itoa(n) }

func askedFile(dir string) string   { return filepath.Join(dir, "asked") }
func ordersFile(dir string) string  { return filepath.Join(dir, "orders") }
func secretsFile(dir string) string { return filepath.Join(dir, "secrets") }
func passFile(dir string) string    { return filepath.Join(dir, "pass") }
func stopFile(dir string) string    { return filepath.Join(dir, "stop") }

func jobFile(dir string, k int) string    { return filepath.Join(dir, "job-"+itoa(k)) }
func scriptFile(dir string, k int) string { return filepath.Join(dir, "script-"+itoa(k)) }
func againFile(dir string, i int) string  { return filepath.Join(dir, "again-"+itoa(i)) }

// outFile is the file for Slurm's own output of a task; its pattern is given to sbatch.
func outFile(dir string, slurm, task int) string {
	return filepath.Join(dir, fmt.Sprintf("out-%d-%d", slurm, task))
}

// The files of one agent.
func notesFile(dir string, i int) string  { return filepath.Join(dir, itoa(i)+".notes") }
func logFile(dir string, i int) string    { return filepath.Join(dir, itoa(i)+".log") }
func noticeFile(dir string, i int) string { return filepath.Join(dir, itoa(i)+".notice") }
func claimFile(dir string, i int) string  { return filepath.Join(dir, itoa(i)+".claim") }

func say(dir string, i int, n note) error { return folder.SayIn(notesFile(dir, i), n) }

func heard(dir string, i int) note { return fold(folder.HearIn[note](notesFile(dir, i))) }

// fold joins an agent's notes. Of each kind the first counts.
func fold(notes []note) (all note) {
	for _, n := range notes {
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

// publishFolder makes a placement's folder, as folder.Publish.
func (d *Driver) publishFolder(dir string, facts request) error {
	return folder.Publish(dir, facts, func(dir string) error {
		for i := range facts.Agents { // or a file server's client would not see for a while that they have come
			if err := folder.Touch(notesFile(dir, i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func readRequest(dir string) (facts request, err error) {
	err = folder.ReadJSON(folder.RequestFile(dir), &facts)
	return facts, err
}

// word is the grace of a Stop. It opens the folder first: otherwise a file server's client may answer
// for a minute, from its cache, that there is no such file.
func word(dir string) (grace time.Duration, ok bool) {
	if f, err := os.Open(dir); err == nil {
		f.Close()
	}
	return folder.ReadWord(stopFile(dir))
}

// again lists, in order, the agents with tasks that Slurm has started again. The first new agent
// has the number after the last that was asked for.
func again(dir string, agents int) (of []int, err error) {
	for {
		var base int
		switch err := folder.ReadJSON(againFile(dir, agents+len(of)), &base); {
		case errors.Is(err, fs.ErrNotExist):
			return of, nil
		case err != nil:
			return nil, err
		case base < 0 || base >= agents:
			return nil, fault.New(fault.Invalid, "Remove its folder once nothing of it runs.", "read record of agents: %s is damaged", againFile(dir, agents+len(of)))
		}
		of = append(of, base)
	}
}

// newest is the number of the newest agent in base's place.
func newest(of []int, agents, base int) int {
	n := base
	for i, b := range of {
		if b == base {
			n = agents + i
		}
	}
	return n
}

// succeed gives base another number after was, unless another process has; it says
// which agent replaces it now.
func succeed(dir string, agents, base, was int) (int, error) {
	for {
		of, err := again(dir, agents)
		if err != nil {
			return 0, err
		}
		if n := newest(of, agents, base); n != was {
			return n, nil
		}
		n := agents + len(of)
		switch err := folder.CreateJSON(againFile(dir, n), base); {
		case errors.Is(err, fs.ErrExist):
		case err != nil:
			return 0, err
		default:
			return n, folder.Touch(notesFile(dir, n))
		}
	}
}

// hold is folder.Hold. On a file system without locks two processes may work at once; what they
// submit twice, the agents notice.
func hold(dir string) (lock *os.File, err error) {
	lock, err = folder.Hold(dir)
	if errors.Is(err, folder.ErrNoLocks) {
		return os.Open(folder.RequestFile(dir))
	}
	return lock, err
}

// firstLine is the part of a command's output that a sentence quotes.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
