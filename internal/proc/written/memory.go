package written

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is a file that lists what commands have printed into, the newest last.
type Memory struct{ Path string }

// MemoryName is what the file is called in drover's state folder.
const MemoryName = "outputs.json"

// mostRemembered bounds the list: of more files the oldest are forgotten. It is what a
// person may redirect in a year, and is read in a millisecond.
const mostRemembered = 1000

type memory struct {
	V     int    `json:"v"`
	Files []File `json:"files"`
}

// Add remembers files. It may be called by many processes at once; files that are not
// there any more are forgotten.
func (m Memory) Add(files ...File) error {
	known := m.Known()
	files = slices.DeleteFunc(slices.Clone(files), func(f File) bool { return f.Path == "" || slices.Contains(known.files, f) })
	if len(files) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(m.Path), 0o700); err != nil {
		return fmt.Errorf("remember output files: %w", err)
	}
	lock, err := os.OpenFile(m.Path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("remember output files: %w", err)
	}
	defer lock.Close() // which unlocks it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("remember output files: %w", err)
	}
	var all []File
	for _, f := range append(m.Known().files, files...) {
		if _, err := os.Lstat(f.Path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		all = append(slices.DeleteFunc(all, func(o File) bool { return o.Path == f.Path }), f)
	}
	text, err := json.Marshal(memory{V: 1, Files: all[max(0, len(all)-mostRemembered):]})
	if err != nil {
		return fmt.Errorf("remember output files: %w", err)
	}
	if err := os.WriteFile(m.Path+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("remember output files: %w", err)
	}
	return os.Rename(m.Path+".new", m.Path)
}

// Known is what a Memory held when it was read.
type Known struct{ files []File }

// Known reads the list. One that is missing or damaged is empty.
func (m Memory) Known() (k Known) {
	text, err := os.ReadFile(m.Path)
	var found memory
	if err == nil && json.Unmarshal(text, &found) == nil {
		k.files = found.Files
	}
	return k
}

// Find finds a file that a command has printed into, or seen another process write: by its path and inode, or,
// where it was renamed, by its inode and the time it was made. The path alone is not
// enough, for another program may have put a file there; nor is the inode, which a
// file system gives to a new file when the old one is gone.
func (k Known) Find(path string, info fs.FileInfo) (f File, found bool) {
	id, ok := IDOf(info)
	if !ok {
		return File{}, false
	}
	i := slices.IndexFunc(k.files, func(f File) bool {
		switch {
		case f.Ino != id.Ino:
			return false
		case f.Path == path:
			return true
		}
		return f.Dev == id.Dev && f.Born != 0 && f.Born == bornOf(path, info)
	})
	if i < 0 {
		return File{}, false
	}
	return k.files[i], true
}

// AddStreams remembers what a command prints into: of the files behind pipes those
// below one of the folders, since the process at the other end, such as one that runs
// many commands, may write to files that have nothing to do with the command.
func (m Memory) AddStreams(s Streams, folders ...string) error {
	files := slices.Clone(s.Direct)
	for _, f := range s.Piped {
		if slices.ContainsFunc(folders, func(dir string) bool { return strings.HasPrefix(f.Path, strings.TrimSuffix(dir, "/")+"/") }) {
			files = append(files, f)
		}
	}
	return m.Add(files...)
}
