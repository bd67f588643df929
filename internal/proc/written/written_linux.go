package written

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func fileOf(f *os.File, info fs.FileInfo) File {
	link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())) // without /proc its path is unknown
	return identify(pathOf(link), info, int(f.Fd()), "")
}

// identify asks when a file was made: by its descriptor, or by a name of it.
func identify(path string, info fs.FileInfo, fd int, name string) File {
	id, _ := IDOf(info)
	out := File{Path: path, Dev: id.Dev, Ino: id.Ino}
	flags := 0
	if name == "" {
		flags = unix.AT_EMPTY_PATH
	}
	var st unix.Statx_t
	if unix.Statx(fd, name, flags, unix.STATX_BTIME, &st) == nil && st.Mask&unix.STATX_BTIME != 0 {
		out.Born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return out
}

// bornOf is when the file of that name was made; 0: unknown.
func bornOf(path string, info fs.FileInfo) int64 {
	return identify(path, info, unix.AT_FDCWD, path).Born
}

// Unwritten tells whether it is certain that no process holds a file open for writing:
// then the kernel grants a read lease, which is given back at once. It is not certain
// of a file of another user, nor on a file system without leases.
func Unwritten(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return false
	}
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK) // closing the file gives it back, too
	return true
}

// Writers are other processes of this user that hold regular files open for writing.
func Writers() map[ID]Process {
	all := map[ID]Process{}
	for _, pid := range processes() {
		for _, d := range descriptors(pid) {
			if info, err := os.Stat(d.name); d.writes && err == nil && info.Mode().IsRegular() {
				if id, ok := IDOf(info); ok {
					all[id] = Process{pid, nameOf(pid)}
				}
			}
		}
	}
	return all
}

// processes are those of this user, without this one.
func processes() (pids []int) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, d := range names {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		info, err := os.Lstat(filepath.Join("/proc", d.Name()))
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Geteuid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// descriptor is an open file of a process.
type descriptor struct {
	name          string // below /proc, which leads to the file itself
	link          string // its path, or what it is
	reads, writes bool
}

func descriptors(pid int) (all []descriptor) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil // it has ended, or is not ours to look at
	}
	for _, d := range names {
		name := filepath.Join(dir, d.Name())
		info, err := os.Lstat(name)
		if err != nil {
			continue
		}
		link, err := os.Readlink(name)
		if err != nil {
			continue
		}
		// The link's mode says how the file was opened.
		all = append(all, descriptor{name, link, info.Mode()&0o400 != 0, info.Mode()&0o200 != 0})
	}
	return all
}

func nameOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // "" of one that has ended
	return strings.TrimSpace(string(b))
}

// longestPipe is how many pipes are followed, one behind the other: a pipeline of more
// programs is rare, and two that write to each other would never end.
const longestPipe = 5

// behindPipe finds the files behind a pipe that this process prints into.
func behindPipe(f *os.File) (files []File) {
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return nil
	}
	open := map[int][]descriptor{}
	for _, pid := range relatives() {
		open[pid] = descriptors(pid)
	}
	pipes := []string{link}
	for range longestPipe {
		var next []string
		for _, all := range open {
			if !slices.ContainsFunc(all, func(d descriptor) bool { return d.reads && !d.writes && slices.Contains(pipes, d.link) }) {
				continue
			}
			for _, d := range all {
				info, err := os.Stat(d.name)
				switch {
				case !d.writes || err != nil:
				case info.Mode().IsRegular():
					files = append(files, identify(pathOf(d.link), info, unix.AT_FDCWD, d.name))
				// What a program passes on goes to its standard output; its other pipes
				// lead to anything.
				case info.Mode()&fs.ModeNamedPipe != 0 && filepath.Base(d.name) == "1" && d.link != link:
					next = append(next, d.link)
				}
			}
		}
		if pipes = next; len(pipes) == 0 {
			break
		}
	}
	return files
}

// relatives are processes that may read what this one prints: those of the same
// session, and those that have started it.
func relatives() (pids []int) {
	above := ancestors()
	session, err := unix.Getsid(0)
	for _, pid := range processes() {
		other, otherErr := unix.Getsid(pid)
		if err == nil && otherErr == nil && session == other || slices.Contains(above, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ancestors are the process that started this one, the one that started that, and so on.
func ancestors() (pids []int) {
	for pid := os.Getppid(); pid > 1 && !slices.Contains(pids, pid); {
		pids = append(pids, pid)
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			break
		}
		// The second field, a name in parentheses, may hold anything.
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(fields) < 2 {
			break
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			break
		}
	}
	return pids
}
