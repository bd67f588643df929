package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// Stop writes the grace for each live agent into its stop file, and sends SIGTERM to its container,
// or SIGKILL when there is no grace. Process 1 of the container keeps the time, so Stop does not
// wait and its caller may exit.
//
// With remove, the next Status, List or Stop after the last agent has ended removes everything.
func (d *Driver) Stop(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
	const doing = "stop agents"
	dir, ok := d.placementFolder(h)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !ok {
		return nil
	}
	facts, err := readRequest(dir)
	if err == nil && remove {
		err = folder.Touch(folder.RemoveFile(dir))
	}
	for i := 0; err == nil && i < facts.Agents; i++ {
		err = d.stopAgent(ctx, h, dir, i, grace)
	}
	if err == nil {
		_, err = d.sweepPlacement(ctx, h, dir)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) && !folder.Exists(dir) {
		return nil // it was never there, or another process has removed it
	}
	var file *fs.PathError
	if errors.As(err, &file) {
		return d.wrapFileError(doing, err)
	}
	return said(doing, err, fault.Lost)
}

// stopAgent writes the stop file before it sends a signal; process 1 listens before it reads the
// stop file. So an agent that is just coming up gets the order on one of the two ways.
func (d *Driver) stopAgent(ctx context.Context, h driver.Handle, dir string, i int, grace time.Duration) error {
	m, err := d.agentMember(ctx, h, dir, i)
	if err != nil || !m.State.Alive() {
		return err
	}
	if err := folder.LeaveWord(stopFile(agentDir(dir, i)), grace); err != nil {
		return err
	}
	signal := "SIGTERM"
	if grace <= 0 {
		signal = "SIGKILL"
	}
	return d.daemon.signalContainer(ctx, containerName(h, i), signal)
}

// sweepPlacement removes a placement that is to be removed, once all its agents have ended. It
// checks before it locks the folder: agents of a locked folder look as if they were about to
// start.
func (d *Driver) sweepPlacement(ctx context.Context, h driver.Handle, dir string) (gone bool, err error) {
	var facts request
	return folder.Sweep(dir, folder.Hold, func() (bool, error) {
		var err error
		if facts, err = readRequest(dir); err != nil {
			return false, err
		}
		for i := range facts.Agents {
			if m, err := d.agentMember(ctx, h, dir, i); err != nil || m.State.Alive() {
				return true, err
			}
		}
		return false, nil
	}, func() error { return d.removePlacement(ctx, h, dir, facts) })
}

// removePlacement removes containers, the placement folder and, for the last placement of a job, its
// network. Its caller holds the folder. The folder is removed after the containers, so that what a
// dead process leaves is found again.
func (d *Driver) removePlacement(ctx context.Context, h driver.Handle, dir string, facts request) error {
	for i := range facts.Agents {
		err := d.daemon.removeContainer(ctx, containerName(h, i))
		if client.IsErrConnectionFailed(err) && !folder.Exists(begunFile(dir)) {
			break // no container has run, and List finds those that were made
		}
		if err != nil {
			return err
		}
	}
	for i := range facts.Agents {
		if err := d.keepLost(h, dir, i); err != nil {
			return err
		}
	}
	if err := folder.TakeAway(dir); err != nil {
		return err
	}
	if d.work != "" {
		_ = os.Remove(filepath.Join(d.work, h.Job)) // fails while a folder of an agent is in it
	}
	if facts.Network == "" {
		return nil
	}
	jobs, err := d.daemon.networksOfOurs(ctx)
	if err != nil {
		return nil // the next List removes the rest
	}
	for id, job := range jobs {
		if job == h.Job {
			_ = d.removeNetwork(ctx, id) // likewise
		}
	}
	return nil
}

// jobHasPlacement says whether a job still has a placement.
func (d *Driver) jobHasPlacement(job string) bool {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return true
	}
	for _, e := range entries {
		if h, ok := folder.HandleOf(Name, e.Name()); ok && h.Job == job && strings.HasPrefix(e.Name(), job) {
			return true
		}
	}
	return false
}

// lockNetworks locks networks, for a caller that makes or removes one: from before it looks until
// containers use the network. folder.ErrHeld says that another caller has the lock.
func (d *Driver) lockNetworks() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, ".networks"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := folder.Flock(f, unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// removeNetwork removes a network by its id, if its job has no placement left.
func (d *Driver) removeNetwork(ctx context.Context, id string) error {
	lock, err := d.lockNetworks()
	if err != nil {
		return err
	}
	defer lock.Close()
	jobs, err := d.daemon.networksOfOurs(ctx) // under the lock: what was read before may be wrong by now
	if err != nil {
		return err
	}
	if job, ok := jobs[id]; !ok || d.jobHasPlacement(job) {
		return nil
	}
	return d.daemon.deleteNetwork(ctx, id)
}
