// Package local is the driver for this machine: agents are processes beside the
// command line that started them, and outlive it.
//
// A placement is a folder, <dir>/<job>-<placement>, which appears whole or not at all. In it
// every agent has a few files, named by its number:
//
//	request   what was asked for, and where
//	0.agent   locked (flock) for exactly as long as agent 0 lives; the agent's notes
//	0.log     its standard output and error
//	0.stop    it was asked to stop: the grace it has
//	remove    the folder is to be removed when its agents have ended
//
// An agent lives while its lock is held. Start takes the lock before the folder has its name,
// the agent inherits it, and the kernel releases it when the agent ends. So a pid counts only
// while the lock is held, and a pid that the kernel has given to another process since does no
// harm. Adopt is the agent's side.
//
// It refuses to know user code and process trees: package proc ends what an agent started.
// drivertest proves it; local_test.go tests what only this driver can get wrong.
package local

import (
	"context"
	"path/filepath"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
)

// Name is the target in the handles of this driver.
const Name = "local"

// Target is this machine as a target.
var Target = driver.Target{Name: Name, Adopt: Adopt, New: func(f driver.Config) driver.Driver { return New(f.State) }, Properties: properties}

func properties(driver.Config) driver.Properties {
	return driver.Properties{Attached: true, InPlace: true, Stdin: true, Shown: []string{"/"}}
}

// Driver runs agents on this machine. The zero value is not usable.
type Driver struct {
	dir     string
	machine string // this machine: see machineID
}

var _ driver.Driver = (*Driver)(nil)

// New is the driver with its placements in dir, an absolute path, such as
// $XDG_STATE_HOME/drover/local. The folder is made when something is started.
// Several machines may share it; each looks after its own agents.
func New(dir string) *Driver {
	return &Driver{dir: filepath.Clean(dir), machine: machineID()}
}

// placementFolder is the path of h's placement.
func (d *Driver) placementFolder(h driver.Handle) (path string, ok bool) {
	return folder.Folder(d.dir, Name, h)
}

// List names every placement in the folder, also those that other machines made. It also removes
// placements that were to be removed and have ended, and folders that a dead process was making.
func (d *Driver) List(ctx context.Context) ([]driver.Handle, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	gone := func(_ driver.Handle, dir string) (bool, error) { return d.sweepPlacement(dir) }
	held, err := folder.List(d.dir, Name, gone)
	if err != nil {
		return nil, d.wrapFileError("list agents", err)
	}
	return held, nil
}

// wrapFileError says what the file system refused, and where else the folder may lie.
func (d *Driver) wrapFileError(doing string, err error) error {
	return folder.Refused(d.dir, doing, err)
}
