package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/tools"
)

// Ready is a Python that can run now.
type Ready struct {
	Interpreter string   // absolute path; "" when none is needed
	Environ     []string // "NAME=value", to set over the caller's environment
}

// Build makes a plan's environment, or returns at once when it is there. Log,
// which may be nil, gets what a person may want to follow: one line at a time,
// tool output included, never from two goroutines. It may be called by many
// processes at once: one builds, the others wait and name it. When ctx
// ends, so does the build, and nothing of it is used later.
// Faults name the line of the requirements that is to blame, where one is.
func Build(ctx context.Context, p Plan, log func(line string)) (Ready, error) {
	say := func(line string) {
		if log != nil {
			log(tools.Mask(line))
		}
	}
	if dir := p.usedEnvironment(); p.asked == nil {
		p.noteUsed(dir) // the active interpreter may be of this cache
		return p.readyNames(p.self.Prefix, p.self.Kind == "venv"), nil
	}
	dir := p.environFolder()
	if !complete(dir) {
		if err := p.buildUnlessBuilt(ctx, dir, say); err != nil {
			return Ready{}, err
		}
	}
	p.noteUsed(dir)
	return p.readyNames(dir, true), nil
}

// noteUsed notes when an environment was last asked for. A cache that cannot be
// written is for its owner to clean.
func (p *Plan) noteUsed(dir string) {
	if dir != "" {
		now := time.Now()
		os.Chtimes(filepath.Join(dir, marker), now, now)
	}
}

// readyNames is what the script's environment needs: the same names a shell gets
// from "activate".
func (p *Plan) readyNames(prefix string, virtual bool) Ready {
	r := Ready{Interpreter: p.Interpreter}
	switch {
	case !virtual:
		return r
	case p.asked != nil && p.asked.Conda != nil:
		r.Environ = p.condaEnviron(prefix)
		return r
	}
	r.Environ = []string{
		"VIRTUAL_ENV=" + prefix,
		"PATH=" + filepath.Join(prefix, "bin") + string(filepath.ListSeparator) + tools.Variable(p.caller.Environ, "PATH"),
	}
	if tools.Variable(p.caller.Environ, "PYTHONHOME") != "" {
		r.Environ = append(r.Environ, "PYTHONHOME=") // would send the environment to another library
	}
	return r
}

func (p *Plan) buildUnlessBuilt(ctx context.Context, dir string, log func(string)) error {
	if err := privateFolder(envs(p.caller.Cache)); err != nil {
		return onDisk(err, "build environment")
	}
	l, err := lock(ctx, dir+lockEnd, p.asked.ShownName()+" of "+p.caller.Dir, func(holder string) {
		log("waiting for " + holder + ", which builds the same environment")
	})
	if err != nil {
		return err
	}
	defer l.Close()
	if complete(dir) {
		return nil
	}
	if err := wipe(dir); err != nil {
		return onDisk(err, "build environment")
	}
	b := builder{plan: p, dir: dir, lock: l, log: log}
	began := time.Now()
	log("building environment " + dir + " from " + p.asked.ShownName())
	if err := b.buildEnvironment(ctx); err != nil {
		// Half of it is of no use; what cannot be removed now is
		// removed by the next builder.
		wipe(dir)
		return err
	}
	return b.writeMarker(began)
}

// marker is the file that makes an environment usable; written last.
const marker = "complete"

// mark is the content of the marker.
type mark struct {
	Digest string    `json:"digest"`
	From   string    `json:"from"`   // the file it was built from
	Python string    `json:"python"` // the interpreter it stands on
	Tool   string    `json:"tool"`   // what built it: "uv 0.13.8"
	Size   int64     `json:"size"`   // bytes
	Made   time.Time `json:"made"`
}

// complete tells whether an environment may be used: it was finished, the
// interpreter it stands on is still there, and no other user can have changed it.
func complete(dir string) bool {
	_, err := readMark(dir)
	return err == nil && tools.Runnable(filepath.Join(dir, "bin", "python")) && sealedEnvironment(dir)
}

func readMark(dir string) (mark, error) {
	var m mark
	data, err := os.ReadFile(filepath.Join(dir, marker))
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	return m, err
}

// wipe removes an environment, the marker first: killed halfway, it is a
// half-built one and not a complete one with holes.
func wipe(dir string) error {
	err := os.Remove(filepath.Join(dir, marker))
	if err == nil {
		err = syncFolder(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if os.RemoveAll(dir) == nil {
		return nil
	}
	return setAside(dir)
}

// writeMarker writes the marker, once all it vouches for is on disk: after a power
// cut, too, an environment is whole or not there.
func (b *builder) writeMarker(began time.Time) error {
	m := mark{
		Digest: b.plan.Digest, From: b.plan.asked.Path, Python: b.neededInterpreter(),
		Tool: b.tool, Size: sizeOf(b.dir), Made: time.Now().UTC().Truncate(time.Second),
	}
	b.log(fmt.Sprintf("built %d MB with %s in %.1f s", (m.Size+500_000)/1_000_000, m.Tool, time.Since(began).Seconds()))
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return onDisk(writeMark(b.dir, data), "build environment")
}

// neededInterpreter is the interpreter that an environment needs to be there: conda's
// brings its own.
func (b *builder) neededInterpreter() string {
	if b.plan.asked.Conda != nil {
		return b.plan.Interpreter
	}
	return b.plan.self.Base
}

func writeMark(dir string, data []byte) error {
	if err := syncAll(dir); err != nil {
		return err
	}
	temp := filepath.Join(dir, marker+".new")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644) // no others write
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, marker)); err != nil {
		return err
	}
	return syncFolder(dir)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// onDisk gives the errors of the cache's own file system their remedy; nil stays nil.
func onDisk(err error, doing string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.Wrap(err, fault.Full, diskHint, "%s", doing)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return fault.Wrap(err, fault.Denied, "Try XDG_CACHE_HOME=/some/folder you may write to.", "%s", doing)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

const diskHint = "Free some space, or set XDG_CACHE_HOME to a folder on a larger disk."

// lockEnd names the lock of an environment. Lock files stay when the
// environment goes: removing one that another process has just opened would
// give two builders a lock each.
const lockEnd = ".lock"

// lock takes path exclusively, or waits for it; waiting is called once, with
// what the holder wrote about itself. Closing the file gives the lock back, and
// so does the end of the process, together with all that inherited the file.
func lock(ctx context.Context, path, what string, waiting func(holder string)) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, onDisk(err, "lock environment")
	}
	said := false
	err = tools.Lock(ctx, f, unix.LOCK_EX, func() bool {
		if !said {
			waiting(tools.Holder(path))
		}
		said = true
		return true
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	text := fmt.Sprintf("process %d (%s)", os.Getpid(), what)
	if err := errors.Join(f.Truncate(0), writeAt(f, text)); err != nil {
		f.Close()
		return nil, onDisk(err, "lock environment")
	}
	return f, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}
