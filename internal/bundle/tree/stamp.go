package tree

import (
	"os"
	"syscall"
)

// stamp is what a file's contents cannot change without, once quiet has passed
// since they last did.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds since 1970
	links        uint64
}

func StampOf(fi os.FileInfo) stamp {
	s := stamp{size: fi.Size(), mtime: fi.ModTime().UnixNano()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.dev, s.ino, s.links, s.ctime = uint64(st.Dev), uint64(st.Ino), uint64(st.Nlink), changed(st)
	}
	return s
}

// SameContent compares two stamps of one open file. Removing or replacing its
// name sets its ctime too; then the other times must do.
func (s stamp) SameContent(t stamp) bool {
	if s.links != t.links {
		t.links, t.ctime = s.links, s.ctime
	}
	return s == t
}
