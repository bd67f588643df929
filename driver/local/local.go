// Package local is the driver for this machine: agents are processes beside the
// command line that started them, and outlive it.
//
// A placement is a folder, <dir>/<job>-<placement>, which comes into being whole
// or not at all. In it every agent has a few files, named by its number:
//
//	request   what was asked for, and where
//	0.agent   locked (flock) for exactly as long as agent 0 lives; what it said of itself
//	0.log     its standard output and error
//	0.stop    it was asked to stop: the grace it has
//	remove    the folder goes when its agents have gone
//
// The lock is the truth about life. Start takes it before the folder has its
// name, the agent inherits it, and the kernel drops it at the agent's end, so a
// pid is believed only while the lock is held and nothing is decided by one that
// was given to another process since. Adopt is the agent's side.
//
// It refuses to know user code and process trees: what an agent started, dies by
// package proc. drivertest proves it; local_test.go has what only this one can
// get wrong.
package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// Target is the target in the handles of this driver.
const Target = "local"

// Driver runs agents on this machine. The zero value is not usable.
type Driver struct {
	dir     string
	machine string // who we are: see machineID
}

var _ driver.Driver = (*Driver)(nil)

// New is the driver whose placements are in dir, an absolute path, such as
// $XDG_STATE_HOME/drover/local. The folder is made when something is started.
// Several machines may share it; each sees to its own agents.
func New(dir string) *Driver {
	return &Driver{dir: filepath.Clean(dir), machine: machineID()}
}

// folder is where h's placement is. ok is false for a handle that Start never
// gave: of another target, or with a name that is no file's.
func (d *Driver) folder(h driver.Handle) (path string, ok bool) {
	if h.Target != Target || !job.ValidID(h.Job) || h.Placement < 1 {
		return "", false
	}
	return filepath.Join(d.dir, h.Job+"-"+strconv.Itoa(h.Placement)), true
}

// handleOf reads a folder's name. ok is false for one that is no placement's.
func handleOf(name string) (h driver.Handle, ok bool) {
	id, number, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || strconv.Itoa(n) != number || !job.ValidID(id) {
		return h, false
	}
	return driver.Handle{Target: Target, Job: id, Placement: n}, true
}

// The names in dir that are no placements: one being made, and one being taken
// away.
const (
	making = ".new-"
	going  = ".gone-"
)

// stale is when a folder that is being made was left by a starter that has died.
// Making takes milliseconds; one that a very slow starter still wants makes its
// Start fail before anything was started.
const stale = time.Hour

// List names every placement in the folder, also those that other machines made.
// On the way it takes away what was to be removed and has ended, and what a
// starter that died has left.
func (d *Driver) List(ctx context.Context) ([]driver.Handle, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, d.refused("list agents", err)
	}
	var held []driver.Handle
	for _, e := range entries {
		path := filepath.Join(d.dir, e.Name())
		h, ok := handleOf(e.Name())
		switch {
		case ok:
			if gone, err := d.sweep(path); err != nil {
				return nil, err
			} else if !gone {
				held = append(held, h)
			}
		case strings.HasPrefix(e.Name(), going):
			os.RemoveAll(path) // the next List tries again
		case strings.HasPrefix(e.Name(), making):
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > stale {
				os.RemoveAll(path)
			}
		}
	}
	slices.SortFunc(held, func(a, b driver.Handle) int {
		if a.Job != b.Job {
			return strings.Compare(a.Job, b.Job)
		}
		return a.Placement - b.Placement
	})
	return held, nil
}

// refused says what the file system would not do, and where else to go.
func (d *Driver) refused(doing string, err error) error {
	var known *fault.Fault
	hint := "Free space there, or name a folder on a local disk with XDG_STATE_HOME."
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrPermission), isAny(err, readOnly):
		return fault.Wrap(err, fault.Denied, "Get write permission there, or name another folder with XDG_STATE_HOME.", "%s", doing)
	case isAny(err, exhausted):
		return fault.Wrap(err, fault.Full, hint, "%s", doing)
	case isAny(err, noLocks):
		return fault.Wrap(err, fault.Invalid, hint, "%s: %s is on a file system without locks", doing, d.dir)
	}
	return fault.Wrap(err, fault.Lost, hint, "%s", doing)
}
