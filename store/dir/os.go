package dir

import (
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// FS is the file system under a Bucket: the seam for power cuts, full disks and
// the manners of NFS. Names are absolute. Errors are those of package os.
type FS interface {
	// Open opens a file or a folder. flag is os.O_RDONLY, or os.O_WRONLY with
	// os.O_CREATE and os.O_EXCL: then the file is new, for its owner only.
	Open(name string, flag int) (File, error)
	Mkdir(name string) error // for its owner only
	Link(old, new string) error
	Rename(old, new string) error
	// Remove removes a file, or, asked for a folder, an empty folder. It never
	// takes one for the other: a path that named a folder may name an object now.
	Remove(name string, folder bool) error
	// Network says whether name lies on a file system where "absent" may be an
	// old answer: NFS and its like (PROTOCOL L6).
	Network(name string) (bool, error)
}

// File is an open file or folder.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// Sync makes the content durable: of a folder, the names in it.
	Sync() error
	Stat() (Info, error)
	// ReadDir gives the next up to n entries in no order, and io.EOF at the end.
	ReadDir(n int) ([]fs.DirEntry, error)
}

// Info is what a Bucket asks of an open file.
type Info struct {
	Inode uint64 // never another open file's
	Links uint64 // names of this file
	Time  time.Time
	Dir   bool
}

// OS is the machine's own file system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) Open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Mkdir(name string) error           { return os.Mkdir(name, 0o700) }
func (osFS) Link(old, new string) error        { return os.Link(old, new) }
func (osFS) Rename(old, new string) error      { return os.Rename(old, new) }
func (osFS) Network(name string) (bool, error) { return network(name) }

func (osFS) Remove(name string, folder bool) error {
	call, remove := "unlink", syscall.Unlink
	if folder {
		call, remove = "rmdir", syscall.Rmdir
	}
	for {
		err := remove(name)
		if err == nil {
			return nil
		}
		if err != syscall.EINTR {
			return &os.PathError{Op: call, Path: name, Err: err}
		}
	}
}

type osFile struct{ *os.File }

func (f osFile) Stat() (Info, error) {
	fi, err := f.File.Stat()
	if err != nil {
		return Info{}, err
	}
	info := Info{Time: fi.ModTime(), Dir: fi.IsDir()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		info.Inode, info.Links = st.Ino, uint64(st.Nlink)
	}
	return info, nil
}
