package docker

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/drover-run/drover/driver/folder"
)

// request is the content of the file of that name.
type request struct {
	Agents  int       `json:"agents"`
	Image   string    `json:"image"`
	Network string    `json:"network,omitempty"` // the job's own; "": docker's default
	Started time.Time `json:"started"`
}

// orders are what the agent in a container is told of its machine.
type orders struct {
	Cache  string  `json:"cache"`
	Claims string  `json:"claims,omitempty"`
	Cores  float64 `json:"cores"`  // of the machine, not of the container
	Memory int64   `json:"memory"` // bytes, likewise
	Hosts  bool    `json:"hosts"`  // the file hosts is shown as /etc/hosts
	Lost   string  `json:"lost,omitempty"`
}

// note is a line of an agent's file. The agent writes Up and End; process 1 of its container writes
// Outcome; the process that starts the agent writes End for an agent that never started.
type note struct {
	Up      bool   `json:"up,omitempty"`
	End     *end   `json:"end,omitempty"`
	Outcome string `json:"outcome,omitempty"` // how the kernel says it ended
}

// end is the last note.
type end struct {
	Code   int    `json:"code"` // exit status; -1: there was none
	Reason string `json:"reason"`
}

func agentDir(dir string, i int) string { return filepath.Join(dir, strconv.Itoa(i)) }
func begunFile(dir string) string       { return filepath.Join(dir, "begun") }

// The files of an agent's own folder.
func notesFile(dir string) string   { return filepath.Join(dir, "notes") }
func logFile(dir string) string     { return filepath.Join(dir, "log") }
func stopFile(dir string) string    { return filepath.Join(dir, "stop") }
func ordersFile(dir string) string  { return filepath.Join(dir, "orders") }
func secretsFile(dir string) string { return filepath.Join(dir, "secrets") }
func passFile(dir string) string    { return filepath.Join(dir, "pass") }
func hostsFile(dir string) string   { return filepath.Join(dir, "hosts") }

// The folders in that folder.
const (
	rootDir, stateDir, homeDir, tmpDir = "root", "state", "home", "tmp"
)

func say(dir string, n note) error { return folder.SayIn(notesFile(dir), n) }

// heard joins an agent's notes. The first End counts.
func heard(dir string) (all note) {
	for _, n := range folder.HearIn[note](notesFile(dir)) {
		all.Up = all.Up || n.Up
		if all.End == nil {
			all.End = n.End
		}
		if n.Outcome != "" {
			all.Outcome = n.Outcome
		}
	}
	return all
}

// publishFolder makes a placement folder, as folder.Publish.
func (d *Driver) publishFolder(dir string, facts request) error {
	return folder.Publish(dir, facts, func(dir string) error {
		for i := range facts.Agents {
			if err := os.Mkdir(agentDir(dir, i), 0o700); err != nil {
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
