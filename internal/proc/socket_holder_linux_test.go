package proc

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestATreeHoldsTheSocketsOfAllItsProcesses(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var inodes [2]uint64
	var files [2]*os.File
	for i, fd := range pair {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		inodes[i], files[i] = st.Ino, os.NewFile(uintptr(fd), "socket")
		defer files[i].Close()
	}
	// The socket is open in a child of the program, and in no other process.
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p, err := Start(t.Context(), Command{Path: "/bin/sh", Args: []string{"sh", "-c", "exec 3<&0 0</dev/null; { echo up; sleep 1000; } & exec 3<&-; wait"}, Dir: "/", Env: os.Environ(),
		Token: "holder-test", Stdin: files[0], Stdout: in})
	in.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		p.Kill()
		p.Wait()
	}()
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if p.HoldsSocket(inodes[1]) {
		t.Error("it holds the other end")
	}
	if !p.HoldsSocket(inodes[0]) {
		t.Error("it does not hold its child's socket")
	}
}
