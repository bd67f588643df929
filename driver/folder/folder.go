// Package folder keeps placement folders, for the drivers that have one for each
// placement: making, locking and removing a folder, the notes in it about agents, the
// messages left in it for agents, and the process that supervises an agent. For drivers
// with agents on this machine it says whether the requested resources fit.
//
// It refuses to know what an agent runs in and which driver put it there. Its tests, and
// the suites of the drivers, prove it.
package folder

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/job"
)

// The names in a driver's folder that are no placements: a folder that is being made, and one
// that is being removed.
const (
	making = ".new-"
	going  = ".gone-"
)

// RequestFile holds what a placement was asked for. It exists as long as the placement's
// folder, and is locked while a command starts or removes the placement.
func RequestFile(dir string) string { return filepath.Join(dir, "request") }

// RemoveFile says that a placement is to be removed when its agents have ended.
func RemoveFile(dir string) string { return filepath.Join(dir, "remove") }

// stale is the age at which a folder that is being made belongs to a process that has died.
// Making takes milliseconds; if a very slow process still needed the folder, its Start would
// fail before it started anything.
const stale = time.Hour

// Folder is the path of h's placement in a driver's folder. ok is false for a handle that the
// target's Start never gave: a handle of another target, or with a name that no file can have.
func Folder(dir, target string, h driver.Handle) (path string, ok bool) {
	if h.Target != target || h.Detail != "" || !job.ValidID(h.Job) || h.Placement < 1 {
		return "", false
	}
	return filepath.Join(dir, h.Job+"-"+strconv.Itoa(h.Placement)), true
}

// HandleOf reads a folder's name. ok is false for a folder that is not a placement's.
func HandleOf(target, name string) (h driver.Handle, ok bool) {
	id, number, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || strconv.Itoa(n) != number || !job.ValidID(id) {
		return h, false
	}
	return driver.Handle{Target: target, Job: id, Placement: n}, true
}

// Publish makes a placement's folder, durably, with its request in it and what fill puts there.
// The last step gives the folder its name, and succeeds for one process only; fs.ErrExist says
// that another process has done it. After an error of the disk the folder may have its name all
// the same.
func Publish(base string, request any, fill func(base string) error) error {
	dir := filepath.Dir(base)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, making)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // once the folder has its name, tmp does not exist
	if err := fill(tmp); err != nil {
		return err
	}
	if err := WriteJSON(RequestFile(tmp), request); err != nil {
		return err
	}
	if err := SyncFolder(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, base); err != nil {
		if Exists(base) {
			return fs.ErrExist
		}
		return err
	}
	return SyncFolder(dir)
}

// TakeAway removes a placement's folder. It first gives the folder another name; if it is
// interrupted then, the next List removes the rest. Its caller holds the placement's lock.
func TakeAway(dir string) error {
	grave := filepath.Join(filepath.Dir(dir), going+rand.Text())
	if err := os.Rename(dir, grave); err != nil {
		return err
	}
	RemoveTree(grave)
	return nil
}

// RemoveTree removes a folder, also when a program has taken its own user's rights to it away.
func RemoveTree(dir string) {
	if !errors.Is(os.RemoveAll(dir), fs.ErrPermission) {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() && err == nil { // told of before it is read
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

// List gives the placements in a driver's folder, in order, except those that are gone according
// to gone. If gone fails, the placement is listed, and its Status says what is wrong: one bad
// placement does not hide the others. List removes folders that a dead process was making, and
// those that are being removed. A folder that does not exist has no placements.
func List(dir, target string, gone func(h driver.Handle, base string) (bool, error)) ([]driver.Handle, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var held []driver.Handle
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		h, ok := HandleOf(target, e.Name())
		switch {
		case ok:
			if taken, err := gone(h, path); err != nil || !taken {
				held = append(held, h)
			}
		case strings.HasPrefix(e.Name(), going):
			RemoveTree(path) // the next List tries again
		case strings.HasPrefix(e.Name(), making):
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > stale {
				RemoveTree(path)
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

// AnyAlive says whether an agent of a placement is alive.
func AnyAlive(members []driver.Member) bool {
	return slices.ContainsFunc(members, func(m driver.Member) bool { return m.State.Alive() })
}
