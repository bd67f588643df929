package agent

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc"
)

// A door lies in an agent's folder while its program runs, or its items do: what
// somebody needs who wants to stand beside them, on the same machine, as the same
// user. Secrets are not in it: their variables are missing beside the program.

// door is what is beyond the machine's own environment.
type door struct {
	Agent int      `json:"agent"`          // its process, whose environment the program's begins with
	PID   int      `json:"pid,omitempty"`  // whose view of the machine it is; 0: there is none
	Dir   string   `json:"dir"`            // where the program begins, as it sees it
	Env   []string `json:"env,omitempty"`  // what the program has beside the agent's
	Hide  []string `json:"hide,omitempty"` // names that are secrets, or were read for some
}

const doorName = "door"

// openDoor leaves the door. Without one nobody can attach, and nothing else is lost.
func (a *agent) openDoor(pid int, dir string, environ []string) {
	d := door{Agent: os.Getpid(), Dir: dir}
	if a.view && a.Machine.Root == "" {
		d.PID = pid
	}
	for name, ref := range a.job.Spec.Secrets {
		d.Hide = append(d.Hide, name)
		if from, ok := strings.CutPrefix(ref, "env:"); ok {
			d.Hide = append(d.Hide, from)
		}
	}
	had := last(a.Machine.Environ)
	for name, value := range last(environ) {
		if old, same := had[name]; (!same || old != value) && !slices.Contains(d.Hide, name) && name != markVariable {
			d.Env = append(d.Env, name+"="+value)
		}
	}
	slices.Sort(d.Env)
	slices.Sort(d.Hide)
	b, err := json.Marshal(d)
	if err == nil {
		err = os.WriteFile(filepath.Join(a.root, doorName), b, 0o600)
	}
	if err != nil {
		a.Log.Warn("nobody can attach", "err", err)
	}
}

func (a *agent) closeDoor() { _ = os.Remove(filepath.Join(a.root, doorName)) }

// last is an environment by name: of two values the later counts.
func last(environ []string) map[string]string {
	by := map[string]string{}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			by[name] = value
		}
	}
	return by
}

// Roots are where the folders of an agent of a job are that a Machine with this
// Work, and no Root, has started.
func Roots(work, job string, placement, index int) []string {
	found, _ := filepath.Glob(filepath.Join(work, job, strconv.Itoa(placement)+"-"+strconv.Itoa(index)+"-*")) // of a pattern that is right
	return found
}

// anyShell is what is run beside a program if nothing is said.
var anyShell = []string{"sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"}

// Enter runs words, or a shell, beside what an agent of this machine runs, whose
// folder is among roots: in the program's view of the machine, its folder and its
// environment, with this process's terminal. It returns the exit status of that.
func Enter(roots, words []string) (status int, err error) {
	var d door
	for _, root := range roots {
		b, err := os.ReadFile(filepath.Join(root, doorName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(b, &d)
		}
		if err != nil {
			return fault.ExitDrover, fault.Wrap(err, fault.Denied, "", "attach")
		}
	}
	if d.Agent == 0 {
		return fault.ExitDrover, fault.New(fault.Missing, "Try again in a moment, or see drover worker ls.", "attach: nothing runs there now")
	}
	if len(words) == 0 {
		words = anyShell
	}
	return proc.Enter(proc.Entry{PID: d.PID, Dir: d.Dir, Env: d.environ(), Args: words})
}

// environ is the program's environment without its secrets, and with this terminal's
// kind.
func (d door) environ() []string {
	base := os.Environ()
	if text, err := os.ReadFile("/proc/" + strconv.Itoa(d.Agent) + "/environ"); err == nil {
		base = strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	}
	by := last(append(base, d.Env...))
	for _, name := range d.Hide {
		delete(by, name)
	}
	for _, name := range []string{"TERM", "COLORTERM"} {
		if v, ok := os.LookupEnv(name); ok {
			by[name] = v
		}
	}
	var environ []string
	for name, value := range by {
		if !strings.HasSuffix(name, "_AGENT") || !strings.HasPrefix(name, "DROVER_") { // a drover typed here is no agent
			environ = append(environ, name+"="+value)
		}
	}
	slices.Sort(environ)
	return environ
}
