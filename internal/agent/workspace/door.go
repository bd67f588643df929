package workspace

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/proc/enter"
	"github.com/drover-run/drover/internal/proc/private"
	"github.com/drover-run/drover/internal/proc/process"
)

// A door lies in an agent's folder while its program runs, or its items do: what
// a person needs to stand beside them, on the same machine, as the same
// user. Secrets are not in it: their variables are missing beside the program.

// door is what is beyond the machine's own environment.
type door struct {
	Agent process.Identity `json:"agent"`          // its process; the program's environment begins with that one's
	View  process.Identity `json:"view,omitzero"`  // the process with this view of the machine; zero: there is none
	Dir   string           `json:"dir"`            // where the program begins, as it sees it
	Env   []string         `json:"env,omitempty"`  // what the program has beside the agent's
	Hide  []string         `json:"hide,omitempty"` // names that are secrets, or were read for some
}

const (
	DoorName = "door"
	maxDoor  = 32 << 20 // bytes; kernels hold an environment to a fraction of that
)

// WriteDoor leaves the door. Without one attaching is not possible, and nothing else is lost.
func (w *Workspace) WriteDoor(pid int, dir string, environ []string) {
	d := door{Agent: process.Self(), Dir: dir}
	var err error
	if w.View && w.Machine.Root == "" && pid > 0 {
		if d.View, err = process.Of(pid); err != nil {
			return // it has ended already
		}
	}
	for name, ref := range w.Job.Spec.Secrets {
		d.Hide = append(d.Hide, name)
		if from, ok := strings.CutPrefix(ref, "env:"); ok {
			d.Hide = append(d.Hide, from)
		}
	}
	had := last(w.Machine.Environ)
	for name, value := range last(environ) {
		if old, same := had[name]; (!same || old != value) && !slices.Contains(d.Hide, name) && name != node.MarkVariable {
			d.Env = append(d.Env, name+"="+value)
		}
	}
	slices.Sort(d.Env)
	slices.Sort(d.Hide)
	var b []byte
	if err == nil {
		b, err = json.Marshal(d)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(w.Own, DoorName), b, 0o600)
	}
	if err != nil {
		w.Log.Warn("attaching is not possible", "err", err)
	}
}

func (w *Workspace) RemoveDoor() { _ = os.Remove(filepath.Join(w.Own, DoorName)) }

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

// Root is the folder of an agent: Path below Base. Base is the first folder on the way
// that other users could have made, or could write to; Path begins with ".", or is it.
type Root struct{ Base, Path string }

// Roots returns the folders of the agents of a job, without a Machine.Root, when
// Machine.Work is the folder work below base; work may be ".".
func Roots(base, work, job string, placement, index int) (roots []Root) {
	prefix := strconv.Itoa(placement) + "-" + strconv.Itoa(index) + "-"
	found, _ := os.ReadDir(filepath.Join(base, work, job)) // not there: no agent of the job worked there
	for _, f := range found {
		if strings.HasPrefix(f.Name(), prefix) {
			roots = append(roots, Root{base, path.Join(work, job, f.Name())})
		}
	}
	return roots
}

// anyShell is what is run beside a program if nothing is said.
var anyShell = []string{"sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"}

// Enter runs words, or a shell, beside the program of an agent of this machine with a
// folder among roots: in the program's view of the machine, its folder and its
// environment, with this process's terminal. It returns the exit status of that.
//
// Other users can make folders where some roots lie. A door is read only if this user
// owns it and the folders that lead to it from Base, and no other user may write to
// them; it counts only while the agent that it names lives. Others are passed over,
// and are fault.Denied if there is no door that counts.
func Enter(roots []Root, words []string) (status int, err error) {
	d, err := findDoor(roots)
	if err != nil {
		return fault.ExitDrover, err
	}
	if len(words) == 0 {
		words = anyShell
	}
	return enter.Run(enter.Command{View: d.View, Dir: d.Dir, Env: d.terminalEnviron(), Args: words})
}

// findDoor returns the first door that counts.
func findDoor(roots []Root) (door, error) {
	var refused error
	for _, root := range roots {
		b, err := private.ReadOwned(root.Base, path.Join(root.Path, DoorName), maxDoor)
		var d door // of each by itself: no door adds to another
		if err == nil {
			err = json.Unmarshal(b, &d)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			refused = errors.Join(refused, fault.Wrap(err, fault.Denied, fault.MarkedHint(err), "attach"))
		case d.Agent.Lives():
			return d, nil
		}
	}
	if refused != nil {
		return door{}, refused
	}
	return door{}, fault.New(fault.Missing, "Try again in a moment, or see `drover worker ls`.", "attach: nothing runs there now")
}

// terminalEnviron is the program's environment without its secrets, and with this terminal's
// kind.
func (d door) terminalEnviron() []string {
	base := os.Environ()
	if text, err := os.ReadFile("/proc/" + strconv.Itoa(d.Agent.PID) + "/environ"); err == nil && d.Agent.Lives() {
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
