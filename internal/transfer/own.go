package transfer

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/drover-run/drover/fault"
)

// own is a run's folder in the target: what is in it becomes a file of the target by
// being renamed. Objects that come in one stream are numbered files, large ones are
// numbered folders (part.go). A lock in it is held as long as the run lives.
//
// What runs that are no more have left is swept but for parts of large objects. Those
// are kept for this run to go on with, below the locks of their folders; what it has
// not gone on with is swept at its end, if that is a good one.
type own struct {
	root *os.Root // the target
	name string   // of the folder
	in   *os.Root
	lock *os.File

	mu     sync.Mutex
	serial int
	left   map[identity]string // parts that no goroutine works on: their folders, from root
	dead   map[string]*os.File // folders of ended runs that hold some, and their locks
}

// openOwn makes target and the run's folder in it.
func openOwn(target string) (o *own, err error) {
	const hint = "Name a folder that can be written."
	if err := os.MkdirAll(target, 0o777); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, hint, "make the folder")
	}
	o = &own{left: map[identity]string{}, dead: map[string]*os.File{}}
	if o.root, err = os.OpenRoot(target); err != nil {
		return nil, err
	}
	o.sweepOtherRuns()
	dir, err := os.MkdirTemp(target, ours+"*")
	if err != nil {
		o.closeFolder(false)
		return nil, fault.Wrap(bare(err), fault.Invalid, hint, "write to %s", target)
	}
	o.name = filepath.Base(dir)
	if o.in, err = o.root.OpenRoot(o.name); err == nil {
		err = o.createLock()
	}
	if err != nil {
		o.closeFolder(false)
		return nil, err
	}
	return o, nil
}

// createLock makes the lock. It has its name from when it is held: one that is free is of a
// run that ended.
func (o *own) createLock() (err error) {
	if o.lock, err = o.in.Create("lock.new"); err != nil {
		return err
	}
	if err = syscall.Flock(int(o.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	return o.in.Rename("lock.new", "lock")
}

// nextName is a name in the folder that nothing has.
func (o *own) nextName() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.serial++
	return strconv.Itoa(o.serial)
}

// keepPart leaves a part for the run that resumes it: this one, or a later one.
func (o *own) keepPart(id identity, dir string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left[id] = dir
}

// adoptPart moves what is left of an object into this run's folder, if something is.
func (o *own) adoptPart(id identity) (name string, ok bool) {
	name = o.nextName()
	o.mu.Lock()
	defer o.mu.Unlock()
	dir, ok := o.left[id]
	if !ok {
		return "", false
	}
	delete(o.left, id)
	return name, o.root.Rename(dir, o.name+"/"+name) == nil
}

// closeFolder takes the folder away. Without a good end it stays while it holds parts, and
// so do those of other runs.
func (o *own) closeFolder(good bool) {
	kept := map[string]bool{}
	if !good {
		for _, dir := range o.left {
			folder, _, _ := strings.Cut(dir, "/")
			kept[folder] = true
		}
	}
	if o.in != nil {
		o.in.Close()
	}
	if o.name != "" && !kept[o.name] {
		_ = o.root.RemoveAll(o.name) // what is left the next run sweeps
	}
	if o.lock != nil {
		o.lock.Close()
	}
	for name, lock := range o.dead {
		if !kept[name] {
			_ = o.root.RemoveAll(name)
		}
		lock.Close()
	}
	o.root.Close()
}

// sweepOtherRuns goes through the folders of other runs. One without a lock was made a moment
// ago, or by a run that died in that moment: then it is empty.
func (o *own) sweepOtherRuns() {
	dir, err := o.root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	for err == nil {
		var entries []os.DirEntry
		entries, err = dir.ReadDir(1000)
		for _, e := range entries {
			if e.IsDir() && strings.HasPrefix(e.Name(), ours) {
				o.inheritFolder(e.Name())
			}
		}
	}
}

// inheritFolder takes over the folder of a run that ended without doing so.
func (o *own) inheritFolder(name string) {
	lock, err := o.root.Open(name + "/lock")
	if err != nil {
		return
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil || !o.hasSameName(lock, name+"/lock") {
		lock.Close()
		return
	}
	parts := o.findParts(name)
	if len(parts) == 0 {
		_ = o.root.RemoveAll(name)
		lock.Close()
		return
	}
	o.dead[name] = lock
	for id, dir := range parts {
		o.left[id] = dir
	}
}

// hasSameName says whether a file has its name still: another run may have swept it.
func (o *own) hasSameName(f *os.File, name string) bool {
	was, err := f.Stat()
	now, err2 := o.root.Stat(name)
	return errors.Join(err, err2) == nil && os.SameFile(was, now)
}

// findParts finds those in a folder, and takes everything else in it away.
func (o *own) findParts(folder string) map[identity]string {
	found := map[identity]string{}
	dir, err := o.root.Open(folder)
	if err != nil {
		return nil
	}
	defer dir.Close()
	for err == nil {
		var entries []os.DirEntry
		entries, err = dir.ReadDir(1000)
		for _, e := range entries {
			path := folder + "/" + e.Name()
			if e.IsDir() {
				if id, ok := identify(o.root, path); ok && found[id] == "" {
					found[id] = path
					continue
				}
			}
			if e.Name() != "lock" {
				_ = o.root.RemoveAll(path)
			}
		}
	}
	return found
}
