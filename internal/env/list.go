package env

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Built is one environment in the cache.
type Built struct {
	Digest string    // its folder's name: the first 12 digits of a Plan's Digest
	Path   string    // absolute
	Size   int64     // bytes, counted once for files that it shares with uv's cache
	Made   time.Time // when it was finished; for a half-built one, begun
	Used   time.Time // when it was last asked for
	From   string    // the file it was built from; "" for a half-built one
	Python string    // the interpreter it stands on; "" for a half-built one
	InUse  bool      // a process holds it: Remove would refuse
}

// List names the finished environments of a cache; none when there is no cache.
func List(cache string) ([]Built, error) {
	return walk(cache, func(dir string) (Built, bool) {
		m, err := readMark(dir)
		if err != nil {
			return Built{}, false
		}
		b := Built{Size: m.Size, Made: m.Made, From: m.From, Python: m.Python, InUse: busy(dir+useEnd, unix.LOCK_EX)}
		if s, err := os.Stat(filepath.Join(dir, marker)); err == nil {
			b.Used = s.ModTime()
		}
		return b, true
	})
}

// Broken names the environments that are not finished and not being built now.
// They are never used, and the next build of the same one replaces them.
func Broken(cache string) ([]Built, error) {
	return walk(cache, func(dir string) (Built, bool) {
		if _, err := readMark(dir); err == nil || busy(dir+lockEnd, unix.LOCK_SH) {
			return Built{}, false
		}
		b := Built{Size: sizeOf(dir)}
		if s, err := os.Stat(dir); err == nil {
			b.Made, b.Used = s.ModTime(), s.ModTime()
		}
		return b, true
	})
}

// Remove takes one environment away, finished or not, by its Digest in List or
// Broken; waits for its builder. One that a process holds stays: fault.Full.
func Remove(ctx context.Context, cache, digest string) error {
	dir := filepath.Join(envs(cache), filepath.Base(digest))
	l, err := lock(ctx, dir+lockEnd, "removing it", func(string) {})
	if err != nil {
		return err
	}
	defer l.Close()
	use, err := unused(ctx, dir)
	if err != nil {
		return err
	}
	defer use.Close()
	return onDisk(wipe(dir), "remove environment")
}

func walk(cache string, look func(dir string) (Built, bool)) ([]Built, error) {
	entries, err := os.ReadDir(envs(cache))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, onDisk(err, "list environments")
	}
	var out []Built
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		dir := filepath.Join(envs(cache), e.Name())
		if b, ok := look(dir); ok {
			b.Digest, b.Path = e.Name(), dir
			out = append(out, b)
		}
	}
	return out, nil
}

// busy tells whether a process holds a lock that bars one of that kind.
func busy(path string, kind int) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), kind|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// sizeOf adds up the regular files below dir, in bytes.
func sizeOf(dir string) int64 {
	var sum int64
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it may be going away while we look
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
