package proc

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/spawner/frame"
	"github.com/drover-run/drover/internal/proc/vfork"
)

// fast starts programs by way of package vfork. All that its pointers point to is
// in the heap: fast itself, and what its fields hold.
type fast struct {
	clone  vfork.Clone
	steps  []vfork.Step
	args   []*byte
	env    []*byte
	files  vfork.Limit
	pidfd  int32
	failed int
}

// newFast is nil where this way cannot be had.
func newFast(subreaper bool) *fast {
	f := new(fast)
	f.clone = vfork.Clone{Flags: vfork.Flags, PidFD: uint64(uintptr(unsafe.Pointer(&f.pidfd))), ExitSignal: uint64(syscall.SIGCHLD)}
	do := func(want vfork.Want, number uintptr, args ...uintptr) {
		step := vfork.Step{Number: number, Want: want}
		copy(step.Args[:], args)
		f.steps = append(f.steps, step)
	}
	do(vfork.NoError, unix.SYS_SETSID)
	if subreaper { // what kills us with -9 leaves no program behind
		do(vfork.NoError, unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL))
		do(vfork.Want(syscall.Getpid()), unix.SYS_GETPPID)
	}
	var now syscall.Rlimit
	var known bool
	if f.files, known = vfork.Files(); !known || syscall.Getrlimit(unix.RLIMIT_NOFILE, &now) != nil {
		return nil
	}
	if f.files.Soft != now.Cur {
		do(vfork.NoError, unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&f.files)))
	}
	for fd := range uintptr(3) {
		do(vfork.NoError, unix.SYS_DUP3, 0, fd)
	}
	do(vfork.NoError, unix.SYS_EXECVE)
	return f
}

// exec runs j's program with those files, as a session of its own. works is false
// where the kernel, or what guards it, does not know this way.
func (f *fast) exec(j *frame.Job, env [][]byte, files [3]int) (pid, pidfd int, err error, works bool) {
	f.args, f.env = pointers(f.args, j.Args), pointers(f.env, env)
	last := len(f.steps) - 1
	for i, fd := range files {
		f.steps[last-3+i].Args[0] = uintptr(fd)
	}
	f.steps[last].Args[0] = uintptr(unsafe.Pointer(&j.Path[0]))
	f.steps[last].Args[1] = uintptr(unsafe.Pointer(&f.args[0]))
	f.steps[last].Args[2] = uintptr(unsafe.Pointer(&f.env[0]))
	pid = vfork.Run(&f.clone, &f.steps[0], &f.failed)
	runtime.KeepAlive(j)
	runtime.KeepAlive(env)
	switch {
	case pid == -int(syscall.EAGAIN), pid == -int(syscall.ENOMEM):
		return 0, 0, syscall.Errno(-pid), true
	case pid < 0:
		return 0, 0, nil, false
	}
	if f.failed == 0 {
		return pid, int(f.pidfd), nil, true
	}
	unix.Close(int(f.pidfd))
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return 0, 0, syscall.Errno(f.failed), true
		}
	}
}

// pointers lays out texts that end in a zero byte as the kernel wants a list.
func pointers(into []*byte, texts [][]byte) []*byte {
	into = into[:0]
	for _, text := range texts {
		into = append(into, &text[0])
	}
	return append(into, nil)
}
