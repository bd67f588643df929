package host

import (
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestAnotherNetworkNamespaceIsAnotherStack(t *testing.T) {
	cmd := another(t, "look")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) {
		t.Skip("this machine lets nobody make a network namespace")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var theirs []Network
	if err := json.Unmarshal(out, &theirs); err != nil {
		t.Fatal(err)
	}
	// Nothing is up in a new namespace, not even loopback.
	if theirs[0] != theirs[1] || theirs[0].Address != "127.0.0.1" || theirs[0].Interface != "lo" {
		t.Errorf("without any network, LookNetwork() and Loopback() give %+v", theirs)
	}
	if mine := Loopback().Stack; theirs[0].Stack == mine || theirs[0].Stack == "" {
		t.Errorf("the stack of another namespace is %q, and mine is %q", theirs[0].Stack, mine)
	}
}
