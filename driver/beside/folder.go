// Package beside is what the drivers share whose agents live on this machine:
// a folder for each placement, words left in it for the agents, and whether what
// is asked for fits into the machine.
//
// It refuses to know what an agent runs in and how one is started. The suites of
// driver/local and driver/docker prove it.
package beside

import (
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
	Making = ".new-"
	Going  = ".gone-"
)

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

// List gives the placements in a driver's folder, in order, but for those that
// gone says have been taken away. What a dead starter left, and what is being
// taken away, it hands to remove. A folder that is not there has none.
func List(dir, target string, gone func(h driver.Handle, folder string) (bool, error), remove func(folder string)) ([]driver.Handle, error) {
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
			if taken, err := gone(h, path); err != nil {
				return nil, err
			} else if !taken {
				held = append(held, h)
			}
		case strings.HasPrefix(e.Name(), Going):
			remove(path) // the next List tries again
		case strings.HasPrefix(e.Name(), Making):
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > stale {
				remove(path)
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
