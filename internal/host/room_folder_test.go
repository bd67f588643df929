package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

func TestWhatTheDeadLeaveIsRemoved(t *testing.T) {
	r := roomOf(t, 2)
	if err := os.MkdirAll(filepath.Join(r.Folder, claimName(8)+"/full"), 0o700); err != nil {
		t.Fatal(err)
	}
	dead := map[string]string{
		claimName(1):  `{"label":"job dead","members":1,"each":{"cpus":2},"view":{"cores":[0,1],"cpus":2},"parts":[{"cores":[0,1]}],"part":0}`,
		claimName(2):  "torn{",
		claimName(3):  "",
		"gate.lock":   "a count that is none",
		"paused.json": "",
	}
	kept := map[string]string{"claim-1": "x", "claim-" + strings.Repeat("x", digits): "", "notes.txt": ""}
	for _, files := range []map[string]string{dead, kept} {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(r.Folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, make := range map[string]func(string) error{
		claimName(6): func(p string) error { return os.Symlink("/etc/passwd", p) },
		claimName(7): func(p string) error { return unix.Mkfifo(p, 0o600) },
	} {
		if err := make(filepath.Join(r.Folder, name)); err != nil {
			t.Fatal(err)
		}
		dead[name] = ""
	}
	h := grant(t, r, cpus("job a", 2))
	delete(dead, "gate.lock")
	delete(dead, "paused.json")
	for name := range dead {
		if _, err := os.Lstat(filepath.Join(r.Folder, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	for name := range kept {
		if _, err := os.Stat(filepath.Join(r.Folder, name)); err != nil {
			t.Errorf("%s is not a claim, and gone: %v", name, err)
		}
	}
	h.Release()
}

func TestLockedGarbageIsNotCounted(t *testing.T) {
	r := roomOf(t, 2)
	if err := r.makeFolder(); err != nil {
		t.Fatal(err)
	}
	var fds []int
	for i, text := range []string{"locked garbage",
		`{"members":2,"part":3,"parts":[{},{}],"each":{"cpus":2}}`, `{"members":0,"part":-1}`, `{"members":2,"part":1,"parts":[{}]}`, `{"members":1,"part":-1,"parts":[{}]}`} {
		fd, err := lock(filepath.Join(r.Folder, claimName(int64(20+i))))
		if err == nil {
			err = writeAt(fd, []byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	h := grant(t, r, cpus("job a", 2))
	if diff := cmp.Diff([]string{"job a holds [0 1]"}, lookAt(t, r)); diff != "" {
		t.Errorf("the line differs (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(r.Folder, claimName(25))); err != nil {
		t.Errorf("its number is not the next: %v", err)
	}
	h.Release()
	for _, fd := range fds {
		unlock(fd)
	}
}

func TestAFolderThatIsNoUseIsAFaultWithAHint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for folder, hint := range map[string]string{file: "on this machine's own disk", filepath.Join(file, "below"): file, open: "Run chmod 700 " + open + "."} {
		r := Room{Folder: folder, Cores: []int{0}}
		_, err := r.Take(t.Context(), cpus("", 1), nil, nil)
		for doing, err := range map[string]error{"reserve 1 core: ": err, "pause queue a: ": r.Pause("a")} {
			if err == nil || fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), hint) || !strings.HasPrefix(err.Error(), doing) {
				t.Errorf("in %s: %v (%s)", folder, err, fault.Hint(err))
			}
		}
	}
	if _, err := (Room{Folder: file}).Look(); err == nil || !strings.HasPrefix(err.Error(), "list reservations of this machine: ") {
		t.Errorf("Look() = %v", err)
	}
}

func TestFaultsOfTheSystemHaveTheirHints(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind fault.Kind
		hint string
	}{
		{unix.ENOSPC, fault.Full, "Free some space"}, {unix.EDQUOT, fault.Full, "Free some space"},
		{unix.EMFILE, fault.Full, "ulimit"}, {unix.ENOLCK, fault.Denied, "network file systems"},
		{errNoLocks, fault.Denied, "XDG_STATE_HOME"}, {unix.EACCES, fault.Denied, "may write to"},
	} {
		err := Room{Folder: "/x"}.faultOfClaim(t.Context(), fmt.Errorf("lock: %w", c.err), "reserve 1 core")
		if fault.KindOf(err) != c.kind || !strings.Contains(fault.Hint(err), c.hint) || !errors.Is(err, c.err) {
			t.Errorf("%v: %v (%s)", c.err, err, fault.Hint(err))
		}
	}
}

func TestTheFolderAndItsFilesAreThePersonsOwn(t *testing.T) {
	r := roomOf(t, 1)
	if err := r.makeFolder(); err != nil {
		t.Fatal(err)
	}
	uid := os.Getuid()
	if uid == 0 {
		uid = 12345
		if err := os.Chown(r.Folder, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	h := grant(t, r, cpus("", 1))
	defer h.Release()
	for name, mode := range map[string]os.FileMode{".": 0o700, gateFile: 0o600, claimName(1): 0o600} {
		info, err := os.Stat(filepath.Join(r.Folder, name))
		if err != nil {
			t.Fatal(err)
		}
		var s unix.Stat_t
		if err := unix.Stat(filepath.Join(r.Folder, name), &s); err != nil || info.Mode().Perm() != mode || int(s.Uid) != uid {
			t.Errorf("%s is of %d, mode %v: %v", name, s.Uid, info.Mode(), err)
		}
	}
}

// A disk that fills up between waiting and holding must not lose the grant.
func TestAGrantNeedsNoMoreDisk(t *testing.T) {
	r := Room{Folder: filepath.Join(t.TempDir(), "room"), Cores: firstCores(300)}
	all := gpus(64)
	w := Wish{Group: "g", Members: 64, Each: Amount{CPUs: 4, GPUs: 1}}
	s, err := r.joinQueue(t.Context(), record{Wish: w, View: r.viewWith(all), Part: noPart})
	if err != nil {
		t.Fatal(err)
	}
	defer s.releaseSlot()
	path := filepath.Join(r.Folder, claimName(s.number))
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.tryToClaim(t.Context()); err != nil || !v.isGranted() {
		t.Fatal(v, err)
	}
	after, err := os.Stat(path)
	if err != nil || after.Size() != before.Size() {
		t.Errorf("its file had %d bytes and has %d: %v", before.Size(), after.Size(), err)
	}
}

func TestTheCoresOfThisProcess(t *testing.T) {
	all := Cores()
	if len(all) != runtime.NumCPU() {
		t.Errorf("there are %d cores: %v", runtime.NumCPU(), all)
	}
	v := Room{CPUs: 0.5}.viewWith(append(gpus(2), gpus(1)...))
	if v.CPUs != 0.5 || len(v.Cores) != len(all) || len(v.GPUs) != 2 {
		t.Errorf("the machine is seen as %+v", v)
	}
}
