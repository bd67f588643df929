package bundle

import (
	"context"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Repository returns the folder at or above dir, an absolute path without symbolic links,
// that holds .git; "" without one. A repository that belongs to another user counts only
// if its folder is dir or one of trusted: folders that the user stands in.
func Repository(dir string, trusted ...string) string {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Lstat(filepath.Join(at, ".git"))
		if err == nil && (at == dir || owned(info) || slices.Contains(trusted, at)) {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// Common says that a folder is no project's: the user's home, /, or one such as /tmp, in
// which all users make files and folders.
func Common(dir string) bool {
	if isHome(dir) {
		return true
	}
	info, err := os.Stat(dir)
	return err == nil && info.Mode()&fs.ModeSticky != 0 && info.Mode().Perm()&0o002 != 0
}

// Commit returns what git has checked out in dir, and whether files there differ from
// it; "" where git does not answer.
func Commit(ctx context.Context, dir string) (commit string, dirty bool) {
	cmd := exec.CommandContext(ctx, "git", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch", "-z", "--ignore-submodules=all", "--", ".")
	cmd.Dir, cmd.Env = dir, gitEnv(os.Environ())
	out, err := cmd.Output()
	if err != nil {
		return "", false
	}
	for line := range strings.SplitSeq(string(out), "\x00") {
		if oid, is := strings.CutPrefix(line, "# branch.oid "); is && oid != "(initial)" {
			commit = oid
		} else if line != "" && !strings.HasPrefix(line, "# ") {
			dirty = true
		}
	}
	return commit, dirty
}

// Seen is what lies in the folder of a List and is not shipped: what git ignores, and what
// links lead to.
type Seen struct {
	Files  int
	Bytes  int64
	More   bool     // there are more: not all were counted
	Digest string   // of names, sizes and times; "" for no files
	Names  []string // of the first few, by name: a folder, with a slash, stands for all in it
	// MoreNames says that Names are not all.
	MoreNames bool
}

const (
	// mostSeen bounds the entries of folders that Unshipped reads: a virtual environment
	// of a large framework has more, and reading so many takes a tenth of a second.
	mostSeen = 20_000
	// mostNamed bounds Seen.Names.
	mostNamed = 3
)

// Unshipped looks at what is in the list's folder and is not shipped. It leaves out what
// no user means to ship, as Scan does, what Judge has left out, and what leaves says; it may
// be nil.
func (l List) Unshipped(leaves func(Found) bool) Seen {
	shipped, folders := map[string]bool{}, map[string]bool{}
	for _, e := range l.Entries {
		shipped[e.Name] = true
		for dir := filepath.Dir(e.Name); dir != "." && !folders[dir]; dir = filepath.Dir(dir) {
			folders[dir] = true
		}
	}
	for _, left := range l.Left {
		shipped[strings.TrimSuffix(left.Name, "/")] = true
	}
	w := &unshipped{list: l, leaves: leaves, shipped: shipped, folders: folders, sum: fnv.New128a(), ours: newIgnorer(l.Dir, parseIgnore([]byte(builtin)))}
	w.ours.marks = marks
	w.ours.keepFolder(l.at)
	w.countFolder(".", "")
	if w.seen.Files > 0 {
		w.seen.Digest = fmt.Sprintf("%x", w.sum.Sum(nil))
	}
	return w.seen
}

type unshipped struct {
	list             List
	leaves           func(Found) bool
	shipped, folders map[string]bool
	ours             *ignorer
	seen             Seen
	read             int
	sum              interface {
		Write([]byte) (int, error)
		Sum([]byte) []byte
	}
}

// countFolder looks at one folder. top is the name that stands for all in it; "" while files that
// are shipped lie there, too.
func (w *unshipped) countFolder(dir, top string) {
	entries, err := os.ReadDir(filepath.Join(w.list.Dir, dir))
	if err != nil {
		return // nor can the program
	}
	for _, e := range entries {
		if w.read++; w.read > mostSeen {
			w.seen.More = true
			return
		}
		name := filepath.Join(dir, e.Name())
		if w.shipped[name] || w.ours.leavesOut(name, e.IsDir()) {
			continue
		}
		as := top
		switch {
		case as != "" || e.IsDir() && w.folders[name]:
		case e.IsDir():
			as = name + "/"
		default:
			as = name
		}
		if e.IsDir() {
			w.countFolder(name, as)
			continue
		}
		w.countFile(name, as)
	}
}

func (w *unshipped) countFile(name, as string) {
	file := filepath.Join(w.list.Dir, name)
	info, err := os.Stat(file)
	if err != nil || info.Mode()&(fs.ModeSocket|fs.ModeNamedPipe|fs.ModeDevice) != 0 || w.leaves != nil && w.leaves(Found{Name: filepath.ToSlash(name), Path: file, Info: info}) {
		return
	}
	w.seen.Files++
	if info.Mode().IsRegular() {
		w.seen.Bytes += info.Size()
	}
	fmt.Fprintf(w.sum, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	switch {
	case slices.Contains(w.seen.Names, as):
	case len(w.seen.Names) < mostNamed:
		w.seen.Names = append(w.seen.Names, as)
	default:
		w.seen.MoreNames = true
	}
}
