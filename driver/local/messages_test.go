package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// refusedWith fails the test unless err has this kind, this text and this hint.
func refusedWith(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || err.Error() != text || fault.Hint(err) != hint {
		t.Errorf("got %v, %s, %q; want %s, %s, %q", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}

func TestAProcessThatThisDriverDidNotStartIsNoAgent(t *testing.T) {
	for _, name := range []string{"0", "first"} {
		base := filepath.Join(t.TempDir(), name)
		t.Setenv(inherited, base)
		_, err := Adopt(driver.AgentProcess{})
		refusedWith(t, err, fault.Invalid, fmt.Sprintf("adopt agent: DROVER_LOCAL_AGENT=%q is not this process", base), "Unset DROVER_LOCAL_AGENT.")
	}
}

// An agent that cannot say that it is up would be taken for one that has died.
func TestAnAgentThatCannotSayThatItIsUpEnds(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(agentFile(dir, 0), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(agentFile(dir, 0)) // to read alone: nothing can be written into it
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	agent := exec.Command(os.Args[0])
	agent.Env = append(os.Environ(), role+"=parent", inherited+"="+filepath.Join(dir, "0"))
	agent.ExtraFiles = []*os.File{f}
	said, err := agent.CombinedOutput()
	if text := strings.TrimSpace(string(said)); err == nil || text != "adopt agent: "+dir+": bad file descriptor" {
		t.Errorf("it says %q, %v", text, err)
	}
}

func TestAgentsOfAnotherMachineAreNotStopped(t *testing.T) {
	d := New(t.TempDir())
	dir, _ := d.placementFolder(handle1)
	if err := folder.Publish(dir, request{Agents: 1, Machine: "another", Host: "node7"}, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, d.Stop(context.Background(), handle1, time.Second, true), fault.Denied,
		fmt.Sprintf("stop agents: %s: they were started on node7", handle1), "Run the same command on node7.")
	if folder.Exists(folder.RemoveFile(dir)) {
		t.Error("its folder is to be removed")
	}
}

// A pid means another process in another container.
func TestAnAgentOfAnotherContainerIsNotStopped(t *testing.T) {
	dir := t.TempDir()
	f, err := os.OpenFile(agentFile(dir, 0), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := folder.Flock(f, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := folder.Say(f, note{Up: &up{PID: 1, Space: "another"}}); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, stopAgent(dir, 0, 0), fault.Denied, "stop agents: agent 0 runs in another container of this machine", "Run the same command there.")
}
