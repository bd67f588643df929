package resource

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/reason"
)

// The program is born inside its limits and the supervisor stays outside, so that it
// is never what the kernel ends for want of memory, and is not slowed when the
// tree has used up its time. A v2 group is one of clone's arguments. For v1 the
// thread that forks goes in, which the kernel does at once for a thread that
// moves itself, and comes out again. To move the child instead would let its
// first instructions run outside.

// OpenGroups opens the files of the groups, before a view can hide them.
func (f *Bounds) OpenGroups() {
	if f == nil {
		return
	}
	for i := range f.Groups {
		d := &f.Groups[i]
		if err := d.openFiles(); err != nil {
			f.noteMissed(d, err)
		}
	}
}

func (d *groupHandle) openFiles() (err error) {
	folder := string(d.Folder)
	if d.Version == 2 {
		d.into, err = os.Open(folder)
		return err
	}
	if d.back, err = os.OpenFile(filepath.Join(filepath.Dir(folder), "tasks"), os.O_WRONLY, 0); err != nil {
		return err
	}
	if d.Processes > 0 {
		if d.limit, err = os.OpenFile(filepath.Join(folder, "pids.max"), os.O_WRONLY, 0); err != nil {
			return err
		}
	}
	d.into, err = os.OpenFile(filepath.Join(folder, "tasks"), os.O_WRONLY, 0)
	return err
}

// noteMissed notes that the limits of a group do not hold.
func (f *Bounds) noteMissed(d *groupHandle, err error) {
	if f.refusals == nil {
		f.refusals = map[string]string{}
	}
	for _, k := range d.Controllers {
		f.refusals[k] = fmt.Sprintf("enter %s: %s", d.Folder, reason.Of(err))
	}
	d.closeFiles()
}

func (d *groupHandle) closeFiles() {
	for _, f := range []*os.File{d.into, d.back, d.limit} {
		if f != nil {
			f.Close()
		}
	}
	d.into, d.back, d.limit = nil, nil, nil
}

// MissedLimits is what did not hold, for the report.
func (f *Bounds) MissedLimits() map[string]string {
	if f == nil {
		return nil
	}
	return f.refusals
}

// StartLimited calls fork where the limits hold. This thread is the caller's alone.
func (f *Bounds) StartLimited(attr *syscall.SysProcAttr, fork func(*syscall.SysProcAttr) (pid int, err error)) (pid int, err error) {
	if f == nil {
		return fork(attr)
	}
	var clone *groupHandle
	for i := range f.Groups {
		d := &f.Groups[i]
		switch {
		case d.into == nil:
		case d.Version == 2:
			clone = d
		default:
			if err := d.enterGroup(); err != nil {
				f.noteMissed(d, err)
				continue
			}
			defer d.leaveGroup()
		}
	}
	defer f.pinThread()()
	if clone == nil {
		return fork(attr)
	}
	defer clone.closeFiles()
	inside := *attr
	inside.UseCgroupFD, inside.CgroupFD = true, int(clone.into.Fd())
	if pid, err = fork(&inside); err == nil {
		return pid, nil
	}
	// Either the program cannot run, and does not outside either, or this kernel
	// does not take the argument.
	refusal := err
	undo := func() {}
	if f.FewCores != nil {
		undo = setCores(f.FewCores)
	}
	defer undo()
	if pid, err = fork(attr); err == nil {
		f.noteMissed(clone, refusal)
	}
	return pid, err
}

// RemoveGroups removes the groups. It is the supervisor's to do only when no agent is left
// to read what they have counted.
func (f *Bounds) RemoveGroups() {
	if f == nil {
		return
	}
	for _, d := range f.Groups {
		kernelGroups.removeFolder(string(d.Folder), removeLimit)
	}
}

// enterGroup takes this thread into a group of v1; 0 is the writing process.
func (d *groupHandle) enterGroup() error {
	_, err := d.into.WriteString("0")
	return err
}

// leaveGroup takes this thread out again, once it has forked. The number of processes
// is set before, while this thread still counts as one: so at no time can the
// program have more than it may.
func (d *groupHandle) leaveGroup() {
	if d.limit != nil {
		_, _ = d.limit.WriteString(strconv.Itoa(d.Processes)) // else it has one too many
	}
	_, _ = d.back.WriteString("0") // else this thread alone stays, until the supervisor ends
	d.closeFiles()
}

// pinThread keeps this thread to the program's cores until undone.
func (f *Bounds) pinThread() (undo func()) {
	cores := f.Cores
	if f.refusals[forCPUs] != "" && f.FewCores != nil {
		cores = f.FewCores
	}
	return setCores(cores)
}

func setCores(cores []int) (undo func()) {
	var was, now unix.CPUSet
	for _, core := range cores {
		now.Set(core)
	}
	if len(cores) == 0 || unix.SchedGetaffinity(0, &was) != nil || unix.SchedSetaffinity(0, &now) != nil {
		return func() {}
	}
	return func() { _ = unix.SchedSetaffinity(0, &was) }
}

// OwnCores are those that this process may use; nil: the kernel does not say.
func OwnCores() (cores []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(os.Getpid(), &set) != nil {
		return nil
	}
	for core := range len(set) * 64 {
		if set.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores
}
