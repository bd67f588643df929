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

func askedFile(folder string) string   { return filepath.Join(folder, "asked") }
func ordersFile(folder string) string  { return filepath.Join(folder, "orders") }
func secretsFile(folder string) string { return filepath.Join(folder, "secrets") }
func passFile(folder string) string    { return filepath.Join(folder, "pass") }
func stopFile(folder string) string    { return filepath.Join(folder, "stop") }

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

func say(folder string, i int, n note) error { return beside.SayIn(notesFile(folder, i), n) }

func heard(folder string, i int) note { return fold(beside.HearIn[note](notesFile(folder, i))) }

// fold makes one of an agent's notes. Of each kind the first stands.
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

// publish makes a placement's folder, as beside.Publish.
func (d *Driver) publish(folder string, facts request) error {
	return beside.Publish(folder, facts, func(folder string) error {
		for i := range facts.Agents { // or a file server's client would not see for a while that they have come
			if err := beside.Touch(notesFile(folder, i)); err != nil {
				return err
			}
		}
		return nil
	})
}

func readRequest(folder string) (facts request, err error) {
	err = beside.ReadJSON(beside.RequestFile(folder), &facts)
	return facts, err
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
		switch err := beside.ReadJSON(againFile(folder, agents+len(of)), &base); {
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
		switch err := beside.CreateJSON(againFile(folder, n), base); {
		case errors.Is(err, fs.ErrExist):
		case err != nil:
			return 0, err
		default:
			return n, beside.Touch(notesFile(folder, n))
		}
	}
}

// hold is beside.Hold. Where a file system has no locks two may be at it; what they
// submit twice, the agents find out.
func hold(folder string) (lock *os.File, err error) {
	lock, err = beside.Hold(folder)
	if errors.Is(err, beside.ErrNoLocks) {
		return os.Open(beside.RequestFile(folder))
	}
	return lock, err
}

// firstLine is what a sentence may quote of somebody's output.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
