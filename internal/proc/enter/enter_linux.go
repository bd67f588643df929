package enter

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/process"
)

// errEnded says that the number of a process is another's by now.
var errEnded = errors.New("the program has ended")

// startInside takes c to where process id sees the machine from, and starts it there. What
// is opened of the process is used only if id lives afterwards: open, it stays that
// process's, whatever its number names by then.
//
// Root joins its namespaces, one after another, with this thread alone: a thread that
// stays locked ends with its goroutine, and no other ever sees what this one does. A
// plain user's program lives in a user namespace, which only a process with one
// thread may join, and Go has more: the user makes another namespace, and takes the
// program's root as the root. The user sees the same files then, and the machine's hostname.
func startInside(id process.Identity, c *exec.Cmd) error {
	if os.Geteuid() != 0 {
		root, err := os.OpenFile("/proc/"+strconv.Itoa(id.PID)+"/root", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer root.Close()
		if !id.Lives() {
			return errEnded
		}
		if err := resolveBelow(root, c); err != nil {
			return err
		}
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: "/proc/self/fd/" + strconv.Itoa(int(root.Fd())), Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}}
		return c.Start()
	}
	failed := make(chan error, 1)
	go func() { // waited for by the channel; its thread ends with it
		runtime.LockOSThread()
		failed <- joinAndStart(id, c)
	}()
	return <-failed
}

// joinAndStart is for a locked thread that is not needed afterwards.
func joinAndStart(id process.Identity, c *exec.Cmd) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("separate the working folder from that of other threads: %w", err)
	}
	spaces := []struct {
		name string
		flag int
	}{{"uts", unix.CLONE_NEWUTS}, {"pid", unix.CLONE_NEWPID}, {"mnt", unix.CLONE_NEWNS}}
	var open []*os.File // before the last of them hides /proc
	for _, s := range spaces {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", id.PID, s.name))
		if err != nil {
			return err
		}
		defer f.Close()
		open = append(open, f)
	}
	if !id.Lives() {
		return errEnded
	}
	for i, s := range spaces {
		if err := unix.Setns(int(open[i].Fd()), s.flag); err != nil {
			return fmt.Errorf("join the program's view (%s): %w", s.name, err)
		}
	}
	if err := resolveProgram(c); err != nil {
		return err
	}
	return c.Start()
}

// resolveBelow is find below another root; its links are not followed: a name
// without a slash is looked for in the folders of PATH.
func resolveBelow(root *os.File, c *exec.Cmd) error {
	name := c.Args[0]
	there := func(path string) bool {
		return unix.Faccessat(int(root.Fd()), "."+path, unix.X_OK, 0) == nil
	}
	for _, path := range candidatePaths(name, c.Env, c.Dir) {
		if there(path) {
			c.Path, c.Err = path, nil
			return nil
		}
	}
	return &exec.Error{Name: name, Err: exec.ErrNotFound}
}
