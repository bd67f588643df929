package bundle

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drover-run/drover/internal/bundle/tree"
)

// Where git does not answer, because it is not installed or refuses a repository as
// another user's, the ignore files of the folders above the code are read as git reads
// them. Such a folder can be one in which all users may make files. A stranger's file
// there must not decide what is shipped, so above the code a repository and an ignore
// file count only if they belong to this user or to root. The code's own folder and what
// is below it was named by the user, and all of it counts.

// errAnothers is the reason why a file above the code is passed over.
var errAnothers = errors.New("not used, because it belongs to another user")

// owned says whether a file belongs to this user or to root.
func owned(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(owner.Uid) == os.Geteuid() || owner.Uid == 0)
}

// ownRepository is the folder at or above dir that holds .git, or "". A .git above dir
// that belongs to another user is passed over, with a note.
func ownRepository(dir string, notes tree.Notes) string {
	for at := dir; ; at = filepath.Dir(at) {
		path := filepath.Join(at, ".git")
		info, err := os.Lstat(path)
		switch {
		case err == nil && (at == dir || owned(info)):
			return at
		case err == nil:
			notes.AddNote(errAnothers.Error(), path)
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// readIgnoreFile returns the text of an ignore file in dir. One that is not there or not readable
// holds no rules, as for git, nor does one above the code that is another user's.
func (g *ignorer) readIgnoreFile(dir, name string) []byte {
	path := filepath.Join(g.root, dir, name)
	above := g.code != "" && g.code != "." && (dir == "." || strings.HasPrefix(g.code, dir+"/"))
	text, err := readRegular(path, above)
	if errors.Is(err, errAnothers) {
		g.notes.AddNote(err.Error(), path)
	}
	return text
}

// readRegular reads a file and waits for no pipe in its place. With own, the file must
// belong to this user or to root, and a link to it is refused: else another user could
// have a file of this user's read as one.
func readRegular(path string, own bool) ([]byte, error) {
	flags := os.O_RDONLY | syscall.O_NONBLOCK
	if own {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case own && !owned(info):
		return nil, errAnothers
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	}
	return io.ReadAll(f)
}
