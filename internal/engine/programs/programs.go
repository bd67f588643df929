// Package programs finds this program for other systems on this machine, and stores it where the
// machines of a target fetch it. It refuses to know targets. Proved by its tests, and by an
// example of such a target outside of this module (package program).
package programs

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// Prefix is where programs are in a store, each under its SHA-256.
const Prefix = "_programs/"

const (
	// renewAfter is the age at which a stored program is written again, so that it stays.
	renewAfter = 30 * 24 * time.Hour
	// KeptFor is the age at which a program may be removed. What was written when a placement was
	// started is there for its agents for at least KeptFor - renewAfter.
	KeptFor = 90 * 24 * time.Hour
)

// Finder finds and stores programs. Its methods may be called from many goroutines.
type Finder struct {
	Self string // the file of this program
	// Folders are where programs for other systems may be, beside Self: drover's data folder.
	Folders []string

	mu     sync.Mutex
	stored map[string]driver.Program // by system
}

// fileName is the name of the program for a system: drover-linux-arm64.
func fileName(system string) string { return "drover-" + strings.ReplaceAll(system, "/", "-") }

// Find is the file of the program for a system, such as "linux/arm64": this program where it is
// built for it, else the file drover-linux-arm64 beside it or in one of Folders.
func (f *Finder) Find(system string) (string, error) {
	if system == runtime.GOOS+"/"+runtime.GOARCH {
		return f.Self, nil
	}
	var looked []string
	for _, dir := range append([]string{filepath.Dir(f.Self)}, f.Folders...) {
		path := filepath.Join(dir, fileName(system))
		info, err := buildinfo.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			looked = append(looked, dir)
			continue
		}
		if err != nil {
			return "", fault.Wrap(err, fault.Invalid, makeHint(dir), "find program for %s", system)
		}
		if built := systemOf(info); built != system {
			return "", fault.New(fault.Invalid, makeHint(dir), "find program for %s: %s is built for %s", system, path, built)
		}
		return path, nil
	}
	return "", fault.New(fault.Missing, makeHint(looked[len(looked)-1]), "find program for %s: there is no %s in %s", system, fileName(system), strings.Join(looked, " or "))
}

// makeHint says how the missing programs are made, and where they belong.
func makeHint(dir string) string {
	return "Make it in a clone of this version of drover, and copy it: make programs && cp bin/drover-* " + dir + "/."
}

func systemOf(info *buildinfo.BuildInfo) string {
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	return set["GOOS"] + "/" + set["GOARCH"]
}

// Stored is a driver.Programs over a store.
func (f *Finder) Stored(s *store.Store) driver.Programs {
	return func(ctx context.Context, system string) (driver.Program, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		p, known := f.stored[system]
		if !known {
			path, err := f.Find(system)
			if err != nil {
				return p, err
			}
			if p, err = put(ctx, s, path); err != nil {
				return p, fmt.Errorf("store the program for %s: %w", system, err)
			}
			p.System = system
			if f.stored == nil {
				f.stored = map[string]driver.Program{}
			}
			f.stored[system] = p
		}
		var err error
		p.Downloads, err = s.Downloads(ctx, Prefix+p.SHA256) // anew, as addresses end
		return p, err
	}
}

// put stores a program, unless it is there and young.
func put(ctx context.Context, s *store.Store, path string) (p driver.Program, err error) {
	file, err := os.Open(path)
	if err != nil {
		return p, err
	}
	defer file.Close()
	sum := sha256.New()
	if p.Size, err = io.Copy(sum, file); err != nil {
		return p, err
	}
	p.SHA256 = hex.EncodeToString(sum.Sum(nil))
	key := Prefix + p.SHA256
	for o, err := range s.List(ctx, key) {
		switch age := s.Clock().Now().Sub(o.Time); {
		case err != nil:
			return p, err
		case age < renewAfter && o.Size == p.Size:
			return p, nil
		}
		return p, s.PutFile(ctx, key, file)
	}
	return p, s.CreateFile(ctx, key, file)
}
