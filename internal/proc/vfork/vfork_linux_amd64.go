// Package vfork starts programs on Linux about as fast as the kernel can.
//
// What package syscall does beside its clone costs as much again as the clone: a
// pipe for the error of the exec, sixty signal handlers taken away one by one,
// copies of the whole environment. Here the child runs a list of system calls in
// the parent's memory and writes the first error there, and the kernel takes the
// handlers away.
//
// It refuses to know what the calls are: that is the caller's, which also sees that
// no file is open to them that should not be. spawner_linux_test.go in package proc
// proves it, with a spawner that has it and one that has not.
package vfork

import "unsafe"

// Step is one system call of the child.
type Step struct {
	Number uintptr
	Args   [6]uintptr
	Want   Want
}

// Want is what a step may give: a positive one is the only result that will do.
type Want int

// Other wants.
const (
	NoError  Want = 0
	Anything Want = -1
)

// Clone is the kernel's struct clone_args.
type Clone struct {
	Flags, PidFD, ChildTID, ParentTID, ExitSignal uint64
	Stack, StackSize, TLS, SetTID, SetTIDSize     uint64
	Cgroup                                        uint64
}

// Flags of clone that a vfork always has: the parent's memory, the parent waiting,
// default signals, and a pidfd to be written where PidFD says.
const Flags = 0x100 | 0x4000 | 0x100000000 | 0x1000

// Run makes a child that takes steps, of which the last is an exec. Where the clone
// does not work pid is minus an errno. Where a step does not, failed is that step's
// errno, or 1 for an unwanted result, and the child has exited, to be waited for.
//
// The child has this thread's signal mask and, for as long as steps take, its
// stack: so it must not return, and nothing else here may run on this thread. What
// clone, steps and failed point to must lie in the heap and be kept alive.
func Run(clone *Clone, steps *Step, failed *int) (pid int) {
	*failed = 0
	return run(clone, steps, failed)
}

//go:noescape
func run(clone *Clone, steps *Step, failed *int) (pid int)

// Limit is the kernel's struct rlimit64.
type Limit struct{ Soft, Hard uint64 }

// files is the limit on open files that this process was started with. Package
// syscall raises it before main and has its own children get the old one back; it
// does not tell what that was. A package that imports nothing is initialised before
// those that do, and this one's name sorts before syscall.
var files, filesErr = openFiles()

func openFiles() (l Limit, errno int) {
	const prlimit64, nofile = 302, 7
	r := call(prlimit64, 0, nofile, 0, uintptr(unsafe.Pointer(&l)))
	return l, -r
}

// Files is the limit on open files that this process was started with. known is
// false where the kernel did not say.
func Files() (l Limit, known bool) { return files, filesErr == 0 }

//go:noescape
func call(number, a, b, c, d uintptr) (result int)
