package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
)

// keepLost moves the root of an agent that has come up and ended without its End to where the next
// agent of its task finds it. The agent's container does not run any more. Without a folder for
// lost roots, or with one on another file system, the root is removed with the placement.
func (d *Driver) keepLost(h driver.Handle, dir string, i int) error {
	root := filepath.Join(agentDir(dir, i), rootDir)
	said := heard(agentDir(dir, i))
	if d.work == "" || !said.Up || said.End != nil || !folder.Exists(root) {
		return nil
	}
	if err := folder.Touch(filepath.Join(root, driver.LostFile)); err != nil {
		return err
	}
	kept := filepath.Join(d.work, h.Job, fmt.Sprintf("%s-%d-%d", Name, h.Placement, i))
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return err
	}
	err := os.Rename(root, kept)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EXDEV) {
		return nil // another process has moved it; or it cannot be kept
	}
	return err
}

// keepLostOf keeps the roots of lost agents of earlier placements of the job, and returns the
// folder in which they are; "": there are none.
func (d *Driver) keepLostOf(ctx context.Context, h driver.Handle) (path string, err error) {
	if d.work == "" {
		return "", nil
	}
	for n := 1; n < h.Placement; n++ {
		earlier := driver.Handle{Target: Name, Job: h.Job, Placement: n}
		dir, ok := d.placementFolder(earlier)
		if !ok || !folder.Exists(dir) {
			continue
		}
		facts, err := readRequest(dir)
		for i := 0; err == nil && i < facts.Agents; i++ {
			var m driver.Member
			if m, err = d.agentMember(ctx, earlier, dir, i); err == nil && !m.State.Alive() {
				err = d.keepLost(earlier, dir, i)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it may just have been removed
			return "", err
		}
	}
	if path = filepath.Join(d.work, h.Job); !folder.Exists(path) {
		return "", nil
	}
	return path, nil
}
