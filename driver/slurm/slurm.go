// Package slurm is the driver for a Slurm cluster, driven from a machine that has Slurm's own
// commands, such as its login node. The cluster needs no program of drover's: the driver brings it.
//
// Agents of a map are the tasks of job arrays, each by itself. Agents that must reach each other
// are one job on several nodes. Slurm restarts tasks that have lost their machine (--requeue), so
// a job goes on without an attached command.
//
// A placement is a folder, <dir>/<job>-<placement>, on a file system that all nodes see. It appears
// whole or not at all. In it are
//
//	request    what was asked for; locked (flock) while a command submits or removes it
//	asked      written before sbatch is first called
//	job-0      what sbatch answered, for each array, one after the other
//	script-0   the script for sbatch
//	orders     how an agent's program is started, and its environment (0600)
//	secrets    the values of its secrets (0600)
//	pass       the credential for the store (0600)
//	stop       all were asked to stop: the grace they have
//	remove     the folder is to be removed when its agents have ended
//	3.notes    the notes of agent 3, and of the process that supervises it
//	3.log      its standard output and error
//	3.notice   why it has to stop, for the agent to read
//	again-4    an agent that Slurm started again is another agent: number 4 in the place of number ...
//	out-0-3    the output of Slurm itself
//
// Beside them, .bin has the programs, by their content.
//
// Slurm's jobs have names that follow from the placement, drover-<job>-<placement>-<array>. The
// notes say how an agent ended; Slurm is asked about agents without a note of their end. It forgets
// jobs after minutes (MinJobAge), and accounting may be off.
//
// Adopt is the agent's side: one process that keeps the time of a Stop and of Slurm's limit, and
// the agent below it.
//
// It refuses to know user code and process trees. drivertest proves it, over a fake
// of Slurm's commands and over a real cluster.
package slurm

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/driver/slurm/node"
	"github.com/drover-run/drover/driver/slurm/records"
)

// Name is the target in the handles of this driver.
const Name = "slurm"

// Target is a Slurm cluster as a target.
var Target = driver.Target{Name: Name, Adopt: node.Adopt, Beside: node.Beside, Script: Directives, Properties: properties,
	New: func(f driver.Config) driver.Driver { return New(f.State) }}

func properties(f driver.Config) driver.Properties {
	return driver.Properties{Shown: append(shared(), f.State), TimeLimit: true}
}

// Driver runs agents on a Slurm cluster. The zero value is not usable.
type Driver struct {
	dir      string
	patience time.Duration // bounds one call of Slurm's commands
	path     string        // tests: where Slurm's commands are, before PATH

	mu   sync.Mutex
	seen map[driver.Handle]*look // recent answers of Status
	conf *config                 // constant while this process lives
}

var _ driver.Driver = (*Driver)(nil)

// New is the driver with its placements in dir, an absolute path on a file system that all nodes
// see under that name, such as $XDG_STATE_HOME/drover/slurm below a home folder of a cluster. The
// folder is made when something is started. The cluster is the one that SLURM_CONF names; New
// sends it nothing.
func New(dir string) *Driver {
	return &Driver{dir: filepath.Clean(dir), patience: commands.Patience, seen: map[driver.Handle]*look{}}
}

// placementFolder is the path of h's placement.
func (d *Driver) placementFolder(h driver.Handle) (path string, ok bool) {
	return folder.Folder(d.dir, Name, h)
}

// List names every placement in the folder. It also removes placements that were to be removed and
// have ended, and programs that have not been used for long.
func (d *Driver) List(ctx context.Context) ([]driver.Handle, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	held, err := folder.List(d.dir, Name, func(h driver.Handle, dir string) (bool, error) { return d.sweepPlacement(ctx, h, dir) })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, d.wrapFileError("list agents", err)
	}
	if len(held) == 0 {
		d.dropPrograms()
	}
	return held, nil
}

// wrapFileError says what the file system refused, and where else the folder may lie.
func (d *Driver) wrapFileError(doing string, err error) error {
	return folder.Refused(d.dir, doing, err)
}

// nameOf is the name of the Slurm job with a placement's k-th array.
func nameOf(h driver.Handle, k int) string {
	return strings.Join([]string{"drover", h.Job, records.Itoa(h.Placement), records.Itoa(k)}, "-")
}
