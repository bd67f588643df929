package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/beside"
	"github.com/drover-run/drover/fault"
)

// Stop leaves each live agent the word that it has to stop, with its grace, and
// sends SIGTERM to its container, or SIGKILL when there is no grace. Process 1 of
// the container keeps the time, so Stop does not wait and its caller may go.
//
// With remove, whoever next calls Status, List or Stop after the last agent has
// gone takes everything away.
func (d *Driver) Stop(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
	const doing = "stop agents"
	folder, ok := d.folder(h)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !ok {
		return nil
	}
	facts, err := readRequest(folder)
	if err == nil && remove {
		err = beside.Touch(removeFile(folder))
	}
	for i := 0; err == nil && i < facts.Agents; i++ {
		err = d.stopAgent(ctx, h, folder, i, grace)
	}
	if err == nil {
		_, err = d.sweep(ctx, h, folder)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil // it was never there, or somebody else has removed it
	}
	var file *fs.PathError
	if errors.As(err, &file) {
		return d.refused(doing, err)
	}
	return said(doing, err, fault.Lost)
}

// stopAgent leaves the word before it sends a signal; process 1 listens before it
// looks for a word. So one that is just coming up hears of it on one of two ways.
func (d *Driver) stopAgent(ctx context.Context, h driver.Handle, folder string, i int, grace time.Duration) error {
	m, err := d.member(ctx, h, folder, i)
	if err != nil || !m.State.Alive() {
		return err
	}
	if err := beside.LeaveWord(stopFile(agentDir(folder, i)), grace); err != nil {
		return err
	}
	signal := "SIGTERM"
	if grace <= 0 {
		signal = "SIGKILL"
	}
	return d.kill(ctx, containerName(h, i), signal)
}

// sweep takes a placement away that is to be removed and whose agents have all
// gone.
func (d *Driver) sweep(ctx context.Context, h driver.Handle, folder string) (gone bool, err error) {
	if !exists(removeFile(folder)) {
		return false, nil
	}
	facts, err := readRequest(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // somebody else was quicker
	}
	if err != nil {
		return false, err
	}
	// Looked at before the lock is taken: who holds it makes agents look as if
	// they were about to start.
	for i := range facts.Agents {
		m, err := d.member(ctx, h, folder, i)
		if err != nil {
			return false, err
		}
		if m.State.Alive() {
			return false, nil
		}
	}
	lock, err := hold(folder)
	switch {
	case errors.Is(err, errHeld):
		return false, nil // a starter, or somebody who sweeps
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	}
	defer lock.Close()
	if err := d.takeAway(ctx, h, folder, facts); err != nil {
		return false, err
	}
	return true, nil
}

// takeAway removes containers, desk and, for the last of a job, its network. Its
// caller holds the desk. The desk goes after the containers, so that what a dead
// remover leaves is found again.
func (d *Driver) takeAway(ctx context.Context, h driver.Handle, folder string, facts request) error {
	for i := range facts.Agents {
		err := d.removeContainer(ctx, containerName(h, i))
		if client.IsErrConnectionFailed(err) && !exists(begunFile(folder)) {
			break // none has run, and List finds what was made of them
		}
		if err != nil {
			return err
		}
	}
	grave := filepath.Join(d.dir, beside.Going+rand.Text())
	if err := os.Rename(folder, grave); err != nil {
		return err
	}
	removeTree(grave) // what is left, the next List takes
	if facts.Network == "" {
		return nil
	}
	jobs, err := d.networksOfOurs(ctx)
	if err != nil {
		return nil // as above
	}
	for id, job := range jobs {
		if job == h.Job {
			_ = d.removeNetwork(ctx, id) // as above
		}
	}
	return nil
}

// hasDesk says whether a job has a placement left.
func (d *Driver) hasDesk(job string) bool {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return true
	}
	for _, e := range entries {
		if h, ok := beside.HandleOf(Target, e.Name()); ok && h.Job == job && strings.HasPrefix(e.Name(), job) {
			return true
		}
	}
	return false
}

// lockNetworks is for who makes or removes networks, from before he looks until
// containers hold what he has made. errHeld says that another one is at it.
func (d *Driver) lockNetworks() (*os.File, error) {
	return locked(filepath.Join(d.dir, ".networks"), os.O_RDWR|os.O_CREATE)
}

func (d *Driver) lockNetworksPatiently(ctx context.Context) (*os.File, error) {
	for {
		lock, err := d.lockNetworks()
		if !errors.Is(err, errHeld) {
			return lock, err
		}
		pause := time.NewTimer(holdPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, context.Cause(ctx)
		case <-pause.C:
		}
	}
}
