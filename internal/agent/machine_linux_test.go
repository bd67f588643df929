package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// machineVariable says to a copy of this program that it is on a machine of its own.
const machineVariable = "DROVER_TEST_MACHINE"

// onMachineOfItsOwn plays the test again in a copy of this program with a layer of its own
// over "/", so that /opt/ml and /state can be the machine's. It returns whether this is
// the copy.
func onMachineOfItsOwn(t *testing.T) bool {
	t.Helper()
	if os.Getenv(machineVariable) != "" {
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("only root can give a process a machine of its own")
	}
	layer := t.TempDir()
	c := exec.Command("/bin/sh", "-c", `set -e
mount -t tmpfs tmpfs "$1"; mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
for dir in proc sys dev tmp; do mount --rbind "/$dir" "$1/root/$dir"; done
exec chroot "$1/root" "$2" "-test.run=^$3\$" -test.v -test.timeout=5m`, "sh", layer, testProgram(t), t.Name())
	c.Env = append(os.Environ(), machineVariable+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "mount:") && !strings.Contains(string(out), "=== RUN") {
		t.Skipf("this kernel lays no layer over /: %s", out)
	}
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// testProgram is this program's path, which has to be seen on the machine of its own.
func testProgram(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// own is an agent on a machine that has /opt/ml and /state as folders like any other.
func own(c *node.Config) { c.Machine.Root = "/" }

func TestAMachineWhoseFoldersAreThePrograms(t *testing.T) {
	if !onMachineOfItsOwn(t) {
		return
	}
	p := newPlace(t)
	for _, left := range []string{"/opt/ml/input/data/old/x", "/opt/ml/model/old", "/state/old"} {
		p.check(os.MkdirAll(filepath.Dir(left), 0o755))
		p.check(os.WriteFile(left, []byte("of another agent"), 0o644))
	}
	j := p.submit(job.Spec{Verb: job.Shell, Program: `find /opt/ml /state -name 'old*'; pwd; cat shipped
echo $SM_MODEL_DIR $DROVER_STATE_DIR; echo m >/opt/ml/model/m; echo s >/state/s; ln -s /etc /opt/ml/output/data/away`}, map[string]string{"shipped": "yes\n"})
	p.start(j, own).leave(0)
	if rep := p.look(j); rep.State != job.Succeeded || rep.Run.Exits[0].Outputs["model"] == "" {
		t.Errorf("it is %s, with the exit %+v", rep.State, rep.Run.Exits[0])
	}
	if out, want := p.said(j, record.Stdout), "/opt/ml/code\nyes\n/opt/ml/model /state\n"; out != want {
		t.Errorf("it says %q, want %q", out, want)
	}
	for _, top := range node.Owned {
		if left, err := os.ReadDir(top); err != nil || len(left) != 0 {
			t.Errorf("%s has %v, %v when the agent has gone; want an empty folder", top, left, err)
		}
	}
	p.nothingLeft()
}

// A program may put a link in the place of a folder: what it leads to is neither stored nor
// emptied.
func TestAMachineOfItsOwnFollowsNoLinkInThePlaceOfAFolder(t *testing.T) {
	if !onMachineOfItsOwn(t) {
		return
	}
	p := newPlace(t)
	shared := t.TempDir()
	write(t, shared, map[string]string{"precious": "yes"})
	j := p.submit(job.Spec{Verb: job.Shell, Program: "rm -r /state && ln -s " + shared + " /state"}, nil)
	p.start(j, own).leave(0)
	if text, err := os.ReadFile(filepath.Join(shared, "precious")); err != nil || string(text) != "yes" {
		t.Errorf("what the link leads to holds %q, %v", text, err)
	}
	if s, err := states.ReadState(t.Context(), p.World, j.Path(), 0, func(protocol.Saved) (bool, error) { return true, nil }); err != nil || s != nil && s.State != "" {
		t.Errorf("the state that is stored is %+v, %v", s, err)
	}
	if info, err := os.Lstat("/state"); err != nil || !info.IsDir() {
		t.Errorf("/state is %v, %v when the agent has gone; want a folder", info, err)
	}
}

// An agent that dies leaves its files on the machine; the next one there saves them first.
func TestAMachineOfItsOwnKeepsWhatADeadAgentLeft(t *testing.T) {
	if !onMachineOfItsOwn(t) {
		return
	}
	p := newPlace(t)
	up := newGate(t)
	done := t.TempDir() + "/done"
	spec := shell(stepping, up)
	spec.Env["DONE"] = done
	j := p.submit(spec, map[string]string{"shipped": "one\n"})
	w := p.start(j, func(c *node.Config) { dies(c); own(c) })
	up.wait()
	w.die()
	write(t, filepath.Dir(done), map[string]string{"done": ""})
	p.start(j, own).leave(0)
	if rep := p.look(j); rep.State != job.Succeeded || rep.Run.Attempt() != 2 {
		t.Fatalf("it is %s, attempts %+v", rep.State, rep.Run.Attempts)
	}
	if out := p.said(j, record.Stdout); !strings.HasSuffix(out, "c1\ns1\nf1\none\nx\n") {
		t.Errorf("the second attempt found %q", out)
	}
}

// The limit of a disk counts what lies in the machine's folders, and nothing else of it.
func TestAMachineOfItsOwnCountsWhatItsProgramWrote(t *testing.T) {
	if !onMachineOfItsOwn(t) {
		return
	}
	for size, want := range map[string]job.State{"1M": job.Succeeded, "30M": job.Failed} {
		p := newPlace(t)
		spec := job.Spec{Verb: job.Shell, Program: "head -c " + size + " /dev/zero >/opt/ml/model/m", Limits: job.Limits{Disk: 20 << 20}}
		j := p.submit(spec, nil)
		p.start(j, own).leave(0)
		if rep := p.look(j); rep.State != want {
			t.Errorf("with %s it is %s, want %s: %+v", size, rep.State, want, rep.Run.Exits)
		}
	}
}
