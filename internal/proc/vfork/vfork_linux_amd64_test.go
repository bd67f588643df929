package vfork

import (
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

// child is a list of steps and what they point to.
type child struct {
	clone  Clone
	steps  []Step
	pidfd  int32
	failed int
	path   []byte
	args   []*byte
	env    []*byte
}

func newChild(path string) *child {
	c := &child{path: append([]byte(path), 0)}
	c.clone = Clone{Flags: Flags, PidFD: uint64(uintptr(unsafe.Pointer(&c.pidfd))), ExitSignal: uint64(syscall.SIGCHLD)}
	c.args, c.env = []*byte{&c.path[0], nil}, []*byte{nil}
	return c
}

func (c *child) do(want Want, number uintptr, args ...uintptr) {
	s := Step{Number: number, Want: want}
	copy(s.Args[:], args)
	c.steps = append(c.steps, s)
}

// run takes the steps and an exec after them, and gives how that ended.
func (c *child) run(t *testing.T) (pid int, ws syscall.WaitStatus) {
	t.Helper()
	c.do(NoError, syscall.SYS_EXECVE, uintptr(unsafe.Pointer(&c.path[0])), uintptr(unsafe.Pointer(&c.args[0])), uintptr(unsafe.Pointer(&c.env[0])))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid = Run(&c.clone, &c.steps[0], &c.failed)
	if pid < 0 {
		t.Skip("this kernel has no clone3: ", syscall.Errno(-pid))
	}
	syscall.Close(int(c.pidfd))
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(c)
	return pid, ws
}

func TestAProgramRunsAfterItsSteps(t *testing.T) {
	for path, want := range map[string]int{"/bin/true": 0, "/bin/false": 1} {
		c := newChild(path)
		c.do(NoError, syscall.SYS_SETSID)
		c.do(Want(syscall.Getpid()), syscall.SYS_GETPPID)
		c.do(Anything, syscall.SYS_CLOSE, 1<<20)
		if pid, ws := c.run(t); pid == 0 || c.failed != 0 || !ws.Exited() || ws.ExitStatus() != want {
			t.Errorf("%s: process %d, failed %d, %v", path, pid, c.failed, ws)
		}
	}
}

func TestTheFirstStepThatFailsIsTold(t *testing.T) {
	for name, f := range map[string]struct {
		do   func(*child)
		want syscall.Errno
	}{
		"the exec":    {func(c *child) { c.path = append([]byte("/no/such/program"), 0) }, syscall.ENOENT},
		"an error":    {func(c *child) { c.do(NoError, syscall.SYS_CLOSE, 1<<20) }, syscall.EBADF},
		"a result":    {func(c *child) { c.do(1, syscall.SYS_GETPPID) }, 1},
		"the first":   {func(c *child) { c.do(NoError, syscall.SYS_CLOSE, 1<<20); c.do(1, syscall.SYS_GETPPID) }, syscall.EBADF},
		"not the any": {func(c *child) { c.do(Anything, syscall.SYS_CLOSE, 1<<20); c.do(1, syscall.SYS_GETPPID) }, 1},
	} {
		c := newChild("/bin/true")
		f.do(c)
		if _, ws := c.run(t); syscall.Errno(c.failed) != f.want || ws.ExitStatus() != 127 {
			t.Errorf("%s: got %v, %v", name, syscall.Errno(c.failed), ws)
		}
	}
}

// The starter of this process gave it some limit; that it is the one before
// package syscall raised it shows in package proc, with a shell's ulimit.
func TestTheLimitIsKnown(t *testing.T) {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	if l, known := Files(); !known || l.Soft == 0 || l.Soft > now.Cur || l.Hard != now.Max {
		t.Errorf("got %+v, %v, now %+v", l, known, now)
	}
}
