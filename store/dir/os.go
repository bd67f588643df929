package dir

import (
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// FS is the file system under a Bucket. Tests replace it to play power cuts, full disks and
// NFS. Names are absolute. Errors are those of package os.
type FS interface {
	// Open opens a file or a folder. flag is os.O_RDONLY, or os.O_WRONLY with os.O_CREATE and
	// os.O_EXCL: then the file is new, for its owner only. With syscall.O_NOFOLLOW a symbolic
	// link is refused as syscall.ELOOP, and with syscall.O_NONBLOCK Open does not wait for
	// the writer of a pipe.
	Open(name string, flag int) (File, error)
	Mkdir(name string) error // for its owner only
	Link(old, new string) error
	Rename(old, new string) error
	// Remove removes a file, or, with folder, an empty folder. It never removes one for the
	// other: a path that named a folder may name an object now.
	Remove(name string, folder bool) error
	// Network says whether name lies on a file system that may answer "absent" from an old
	// cache: NFS and similar ones (rule L6 of docs/protocol.md).
	Network(name string) (bool, error)
}

// File is an open file or folder.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// Sync makes the content durable; for a folder, the names in it.
	Sync() error
	Stat() (Info, error)
	// ReadDir gives the next up to n entries in no order, and io.EOF at the end.
	ReadDir(n int) ([]fs.DirEntry, error)
}

// Info is what a Bucket needs to know of an open file.
type Info struct {
	Inode uint64 // no other open file has it
	Links uint64 // how many names the file has
	Time  time.Time
	Dir   bool
	File  bool // a regular file: no pipe, socket or device
}

// OS is the machine's own file system. A Bucket on it follows no symbolic link below its root,
// in any part of a name: see below.go.
var OS FS = osFS{}

// osFS is the file system; names below root follow no link. Root "": all names follow links.
type osFS struct{ root string }

func (s osFS) Open(name string, flag int) (File, error) {
	rel, below := s.relativeName(name)
	if !below {
		f, err := os.OpenFile(name, flag, 0o600)
		if err != nil {
			return nil, err
		}
		return osFile{f}, nil
	}
	fd := -1
	err := s.withRootFD(func(root int) (err error) {
		fd, err = openBelow(root, rel, flag|unix.O_CLOEXEC|largeFile)
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return osFile{os.NewFile(uintptr(fd), name)}, nil
}

func (s osFS) Mkdir(name string) error {
	return s.changeName("mkdir", name, func(folder int, base string) error { return unix.Mkdirat(folder, base, 0o700) })
}

func (s osFS) Remove(name string, folder bool) error {
	call, flag := "unlink", 0
	if folder {
		call, flag = "rmdir", unix.AT_REMOVEDIR
	}
	return s.changeName(call, name, func(folder int, base string) error { return unix.Unlinkat(folder, base, flag) })
}

func (s osFS) Link(old, new string) error {
	return s.changeTwo("link", old, new, func(from int, a string, to int, b string) error { return unix.Linkat(from, a, to, b, 0) })
}

func (s osFS) Rename(old, new string) error { return s.changeTwo("rename", old, new, unix.Renameat) }

func (osFS) Network(name string) (bool, error) { return network(name) }

type osFile struct{ *os.File }

func (f osFile) Stat() (Info, error) {
	fi, err := f.File.Stat()
	if err != nil {
		return Info{}, err
	}
	info := Info{Time: fi.ModTime(), Dir: fi.IsDir(), File: fi.Mode().IsRegular()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		info.Inode, info.Links = st.Ino, uint64(st.Nlink)
	}
	return info, nil
}
