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

// The names in a driver's folder that are no placements: one being made, and one
// being taken away.
const (
	making = ".new-"
	going  = ".gone-"
)

// RequestFile is what a placement was asked for. It is there as long as its folder,
// and locked while a command starts or removes.
func RequestFile(dir string) string { return filepath.Join(dir, "request") }

// RemoveFile says that a placement goes when its agents have gone.
func RemoveFile(dir string) string { return filepath.Join(dir, "remove") }

// stale is when a folder that is being made was left by a starter that has died.
// Making takes milliseconds; one that a very slow starter still wants makes its
// Start fail before anything was started.
const stale = time.Hour

// Folder is where h's placement is in a driver's folder. ok is false for a handle
// that the target's Start never gave: of another one, or with a name that is no
// file's.
func Folder(dir, target string, h driver.Handle) (path string, ok bool) {
	if h.Target != target || !job.ValidID(h.Job) || h.Placement < 1 {
		return "", false
	}
	return filepath.Join(dir, h.Job+"-"+strconv.Itoa(h.Placement)), true
}

// HandleOf reads a folder's name. ok is false for one that is no placement's.
func HandleOf(target, name string) (h driver.Handle, ok bool) {
	id, number, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || strconv.Itoa(n) != number || !job.ValidID(id) {
		return h, false
	}
	return driver.Handle{Target: target, Job: id, Placement: n}, true
}

// Publish makes a placement's folder, durably, with its request in it and what fill
// puts there. The last step, giving it its name, succeeds for one starter only;
// fs.ErrExist says that it was another. After an error it may have its name all the
// same, if the disk has failed just then.
func Publish(base string, request any, fill func(base string) error) error {
	dir := filepath.Dir(base)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, making)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // once it has its name there is none
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

// TakeAway removes a placement's folder. Its name goes first, at once; what is left of
// it the next List removes. Its caller holds it.
func TakeAway(dir string) error {
	grave := filepath.Join(filepath.Dir(dir), going+rand.Text())
	if err := os.Rename(dir, grave); err != nil {
		return err
	}
	RemoveTree(grave)
	return nil
}

// RemoveTree removes a folder, also one that a program has made inaccessible to its
// own user, the owner of the folder.
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

// List gives the placements in a driver's folder, in order, but for those that
// gone says have been taken away. One of which it cannot tell is there, and its Status
// says what is wrong: it hides no other. What a dead starter left, and what is being
// taken away, it removes. A folder that is not there has none.
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

// AnyAlive says whether one of them is not over.
func AnyAlive(members []driver.Member) bool {
	return slices.ContainsFunc(members, func(m driver.Member) bool { return m.State.Alive() })
}
