// Package records is the folder of a placement on a Slurm cluster: its files, and the notes of its
// agents in them. Both the submitting machine and the nodes read and write it. Proved by the tests
// of package slurm.
package records

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

// Request is the content of the file of that name.
type Request struct {
	Agents  int       `json:"agents"`
	Gang    bool      `json:"gang"` // one job on as many nodes
	Arrays  []int     `json:"arrays"`
	Started time.Time `json:"started"`
}

// FirstAgentOf is the number of the first agent of the k-th array.
func (r Request) FirstAgentOf(k int) (n int) {
	for _, size := range r.Arrays[:k] {
		n += size
	}
	return n
}

// Submitted is the content of the file job-<k>.
type Submitted struct {
	ID      int    `json:"id"`                // Slurm's; 0: it was refused
	Refused string `json:"refused,omitempty"` // why
	Hint    string `json:"hint,omitempty"`
}

// Orders are what an agent's supervisor is told.
type Orders struct {
	Binary    string   `json:"binary"`
	Store     string   `json:"store"`
	Job       string   `json:"job"`
	Placement int      `json:"placement"`
	Agents    int      `json:"agents"`
	Gang      bool     `json:"gang"`
	Env       []string `json:"env"`
}

// BootFields is what an agent is started with.
func (o Orders) BootFields() driver.Boot {
	return driver.Boot{Binary: o.Binary, Store: o.Store, Job: o.Job}
}

// Note is a line of an agent's file. The agent writes End; its supervisor writes Up, Outcome and Asked.
type Note struct {
	Up      *Up    `json:"up,omitempty"`
	End     *End   `json:"end,omitempty"`
	Outcome *End   `json:"outcome,omitempty"` // how the kernel says it ended
	Stopped bool   `json:"stopped,omitempty"` // of Outcome: a Stop had reached it
	Asked   bool   `json:"asked,omitempty"`   // a person ended it by Slurm's own means
	Taken   bool   `json:"taken,omitempty"`   // Slurm told it to go
	Why     string `json:"why,omitempty"`     // of Asked and Taken
}

// Up is the first note of a supervisor.
type Up struct {
	Slurm   int    `json:"slurm"`   // the array's job id, or the job's
	Job     int    `json:"job"`     // this task's own id
	Restart int    `json:"restart"` // how often Slurm had started it before
	Node    string `json:"node"`
	Host    string `json:"host"`
	PID     int    `json:"pid"` // the agent's, on Host
}

// End is the last note.
type End struct {
	Code   int    `json:"code"` // exit status; -1: there was none
	Reason string `json:"reason"`
}

func Itoa(n int) string { return strconv.Itoa(n) }

func AskedFile(dir string) string   { return filepath.Join(dir, "asked") }
func OrdersFile(dir string) string  { return filepath.Join(dir, "orders") }
func SecretsFile(dir string) string { return filepath.Join(dir, "secrets") }
func PassFile(dir string) string    { return filepath.Join(dir, "pass") }
func StopFile(dir string) string    { return filepath.Join(dir, "stop") }

func JobFile(dir string, k int) string    { return filepath.Join(dir, "job-"+Itoa(k)) }
func ScriptFile(dir string, k int) string { return filepath.Join(dir, "script-"+Itoa(k)) }
func AgainFile(dir string, i int) string  { return filepath.Join(dir, "again-"+Itoa(i)) }

// OutFile is the file for Slurm's own output of a task; its pattern is given to sbatch.
func OutFile(dir string, slurm, task int) string {
	return filepath.Join(dir, fmt.Sprintf("out-%d-%d", slurm, task))
}

// The files of one agent.
func notesFile(dir string, i int) string  { return filepath.Join(dir, Itoa(i)+".notes") }
func LogFile(dir string, i int) string    { return filepath.Join(dir, Itoa(i)+".log") }
func NoticeFile(dir string, i int) string { return filepath.Join(dir, Itoa(i)+".notice") }
func ClaimFile(dir string, i int) string  { return filepath.Join(dir, Itoa(i)+".claim") }

func Say(dir string, i int, n Note) error { return folder.SayIn(notesFile(dir, i), n) }

func Heard(dir string, i int) Note { return fold(folder.HearIn[Note](notesFile(dir, i))) }

// fold joins an agent's notes. Of each kind the first counts.
func fold(notes []Note) (all Note) {
	for _, n := range notes {
		if all.Up == nil {
			all.Up = n.Up
		}
		if all.End == nil {
			all.End = n.End
		}
		if all.Outcome == nil {
			all.Outcome, all.Stopped = n.Outcome, n.Stopped
		}
		if (n.Asked || n.Taken) && !all.Asked && !all.Taken {
			all.Asked, all.Taken, all.Why = n.Asked, n.Taken, n.Why
		}
	}
	return all
}

// Publish makes a placement's folder, as folder.Publish.
func Publish(dir string, facts Request) error {
	return folder.Publish(dir, facts, func(dir string) error {
		for i := range facts.Agents { // or a file server's client would not see for a while that they have come
			if err := folder.Touch(notesFile(dir, i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func ReadRequest(dir string) (facts Request, err error) {
	err = folder.ReadJSON(folder.RequestFile(dir), &facts)
	return facts, err
}

// Word is the grace of a Stop. It opens the folder first: otherwise a file server's client may answer
// for a minute, from its cache, that there is no such file.
func Word(dir string) (grace time.Duration, ok bool) {
	if f, err := os.Open(dir); err == nil {
		f.Close()
	}
	return folder.ReadWord(StopFile(dir))
}

// Again lists, in order, the agents with tasks that Slurm has started again. The first new agent
// has the number after the last that was asked for.
func Again(dir string, agents int) (of []int, err error) {
	for {
		var base int
		switch err := folder.ReadJSON(AgainFile(dir, agents+len(of)), &base); {
		case errors.Is(err, fs.ErrNotExist):
			return of, nil
		case err != nil:
			return nil, err
		case base < 0 || base >= agents:
			return nil, fault.New(fault.Invalid, "Remove its folder once nothing of it runs.", "read record of agents: %s is damaged", AgainFile(dir, agents+len(of)))
		}
		of = append(of, base)
	}
}

// Newest is the number of the newest agent in base's place.
func Newest(of []int, agents, base int) int {
	n := base
	for i, b := range of {
		if b == base {
			n = agents + i
		}
	}
	return n
}

// Succeed gives base another number after was, unless another process has; it says
// which agent replaces it now.
func Succeed(dir string, agents, base, was int) (int, error) {
	for {
		of, err := Again(dir, agents)
		if err != nil {
			return 0, err
		}
		if n := Newest(of, agents, base); n != was {
			return n, nil
		}
		n := agents + len(of)
		switch err := folder.CreateJSON(AgainFile(dir, n), base); {
		case errors.Is(err, fs.ErrExist):
		case err != nil:
			return 0, err
		default:
			return n, folder.Touch(notesFile(dir, n))
		}
	}
}

// Hold is folder.Hold. On a file system without locks two processes may work at once; what they
// submit twice, the agents notice.
func Hold(dir string) (lock *os.File, err error) {
	lock, err = folder.Hold(dir)
	if errors.Is(err, folder.ErrNoLocks) {
		return os.Open(folder.RequestFile(dir))
	}
	return lock, err
}

// FirstLine is the part of a command's output that a sentence quotes.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
