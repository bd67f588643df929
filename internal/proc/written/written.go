// Package written finds which files processes on this machine hold open for writing:
// those that this process prints into, also through pipes to programs such as tee,
// and those of other processes of the same user. It remembers, in a file, what
// earlier commands printed into.
//
// Linux shows open files in /proc; on other systems only files that this process
// itself prints into are found. It refuses to know what the files mean. Proved by its
// tests, with real processes and pipes.
package written

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// ID names a file on this machine as long as it exists. A later file may get it.
type ID struct{ Dev, Ino uint64 }

// IDOf is a file's ID; ok is false where the system has none.
func IDOf(info fs.FileInfo) (id ID, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ID{}, false
	}
	return ID{uint64(st.Dev), uint64(st.Ino)}, true
}

// File is a regular file and what tells it from another one.
type File struct {
	Path string `json:"path,omitempty"` // absolute, as the system knows it; "": unknown
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	Born int64  `json:"born,omitempty"` // when it was made, ns since 1970; 0: unknown
	// Foreign says that another process wrote it while a command looked at it.
	Foreign bool `json:"foreign,omitempty"`
}

// FileAt is the regular file of that name; ok is false when there is none.
func FileAt(path string) (f File, ok bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return File{}, false
	}
	id, ok := IDOf(info)
	return File{Path: path, Dev: id.Dev, Ino: id.Ino, Born: bornOf(path, info)}, ok
}

// ID is the file's.
func (f File) ID() ID { return ID{f.Dev, f.Ino} }

// Streams are what a process prints into.
type Streams struct {
	Direct []File // regular files that the streams themselves are
	// Piped are regular files that the process at the other end of a pipe holds open
	// for writing, or one at the end of its pipe: of drover ... | tee map.log, map.log.
	Piped []File
}

// Outputs finds what streams, such as os.Stdout and os.Stderr, lead to. What cannot be
// seen is left out.
func Outputs(streams ...*os.File) (s Streams) {
	for _, stream := range streams {
		info, err := stream.Stat()
		switch {
		case err != nil:
		case info.Mode().IsRegular():
			s.Direct = append(s.Direct, fileOf(stream, info))
		case info.Mode()&fs.ModeNamedPipe != 0:
			s.Piped = append(s.Piped, behindPipe(stream)...)
		}
	}
	return s
}

// Process is one that holds a file open for writing.
type Process struct {
	PID  int
	Name string // as ps shows it; what the process says of itself
}

// deleted is what Linux puts behind the path of an open file without a name.
const deleted = " (deleted)"

// pathOf is where an open file lies; "" when it has no name any more.
func pathOf(link string) string {
	if !strings.HasPrefix(link, "/") || strings.HasSuffix(link, deleted) {
		return ""
	}
	return link
}
