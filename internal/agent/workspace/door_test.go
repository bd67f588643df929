package workspace

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/process"
)

// leaveDoor makes the folder of an agent with a door, with a command that ends with status if
// it is entered: by a variable, as a door merged into another would set it.
func leaveDoor(t *testing.T, base, agent string, id process.Identity, status string) Root {
	t.Helper()
	dir := filepath.Join(base, "work", "job", agent)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(door{Agent: id, Dir: "/", Env: []string{"STATUS=" + status}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, DoorName), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	roots := Roots(base, "work", "job", 1, 0)
	return roots[len(roots)-1]
}

// What another user leaves where an agent's folder could be decides nothing, whether
// it comes before or after the agent's own.
func TestADoorThatOthersCouldHaveMadeIsNotEntered(t *testing.T) {
	t.Parallel()
	words := []string{"/bin/sh", "-c", "exit $STATUS"}
	own := leaveDoor(t, t.TempDir(), "1-0-own", process.Self(), "3")
	for name, spoil := range map[string]func(base string) error{
		"folder that others may write": func(base string) error { return os.Chmod(base, 0o777) },
		"door that others may write":   func(base string) error { return os.Chmod(base+"/work/job/1-0-planted/door", 0o666) },
		"folder of another user":       func(base string) error { return chownAll(base) },
	} {
		base := t.TempDir()
		planted := leaveDoor(t, base, "1-0-planted", process.Self(), "9")
		if name == "folder of another user" && os.Geteuid() != 0 {
			continue // only root can make one
		}
		if err := spoil(base); err != nil {
			t.Fatal(err)
		}
		for _, roots := range [][]Root{{own, planted}, {planted, own}} {
			if status, err := Enter(roots, words); status != 3 || err != nil {
				t.Errorf("%s: the command ended with %d, %v; want 3 by the agent's own door", name, status, err)
			}
		}
		if status, err := Enter([]Root{planted}, words); fault.KindOf(err) != fault.Denied || fault.Hint(err) == "" {
			t.Errorf("%s: entered with status %d, %v", name, status, err)
		}
	}
}

func chownAll(base string) error {
	return filepath.WalkDir(base, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, 54321, 54321)
		}
		return err
	})
}

// A door that an agent has left behind names a process number that may be another
// process's by now.
func TestADoorCountsOnlyWhileItsAgentLives(t *testing.T) {
	t.Parallel()
	words := []string{"/bin/sh", "-c", "exit $STATUS"}
	self := process.Self()
	ended := exec.Command("/bin/sh", "-c", "read x")
	in, err := ended.StdinPipe()
	if err == nil {
		err = ended.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	gone, err := process.Of(ended.Process.Pid)
	in.Close()
	_ = ended.Wait() // it ends with 1: there was nothing to read
	if err != nil {
		t.Fatal(err)
	}
	own := leaveDoor(t, t.TempDir(), "1-0-own", self, "3")
	for name, id := range map[string]process.Identity{
		"ended":             gone,
		"another boot":      {Boot: "x", Namespace: self.Namespace, PID: self.PID, Start: self.Start},
		"another namespace": {Boot: self.Boot, Namespace: "pid:[1]", PID: self.PID, Start: self.Start},
		"another start":     {Boot: self.Boot, Namespace: self.Namespace, PID: self.PID, Start: self.Start + 1},
		"only a number":     {PID: self.PID},
	} {
		old := leaveDoor(t, t.TempDir(), "1-0-old", id, "9")
		if status, err := Enter([]Root{old, own}, words); status != 3 || err != nil {
			t.Errorf("%s: the command ended with %d, %v; want 3 by the living agent's door", name, status, err)
		}
		if status, err := Enter([]Root{old}, words); fault.KindOf(err) != fault.Missing {
			t.Errorf("%s: entered with status %d, %v", name, status, err)
		}
	}
}
