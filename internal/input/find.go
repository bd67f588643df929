package input

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/glob"
	"github.com/drover-run/drover/job"
)

// Source is a local input that was found.
type Source struct {
	// Root is the absolute folder, without links, that names are relative to.
	Root string
	// Skip says of a slash-separated name below Root whether it is left out, of
	// a folder with all in it; nil: nothing is.
	Skip func(name string) bool
	// File is the one file's name in Root; "": a folder, or several.
	File string
	// Key is 64 hex digits that stand for Root and what was chosen of it: the
	// name of what is remembered about it.
	Key string
}

// Find finds an input of kind Local: a folder, of which in.Subdir alone may
// count, one file, or a glob. Relative paths are below folder, and contents are
// named relative to what was found: a folder's to itself, a glob's matches to the
// folders before its first star. What is not there is fault.Invalid. Links on the
// way are followed; what links inside mean, the reader of the files decides.
//
// A glob is a shell's: * and ? and [] match within one name and no dot in front,
// ** any folders, none too. A folder that it matches comes with all that is in
// it. A file or folder of that very name comes first, and file:// is no glob.
func Find(in job.Input, folder string) (Source, error) {
	name, asURI := in.Path, schemeOf(in.Path) == "file"
	if asURI {
		var err error
		if name, err = fromFileURI(in.Path); err != nil {
			return Source{}, err
		}
	}
	real, err := filepath.EvalSymlinks(below(folder, name))
	switch {
	case absent(err) && !asURI && glob.IsPattern(in.Path):
		return findMatches(in, folder)
	case absent(err):
		return Source{}, notThere(in)
	case err != nil:
		return Source{}, fault.Wrap(err, fault.Invalid, "Check the path and its permissions.", "read input %s: %q", in.Name, in.Path)
	}
	if in.Subdir != "" {
		if real, err = inside(in, real); err != nil {
			return Source{}, err
		}
	}
	return found(in, real)
}

// below is name as seen from folder. It is not joined as text: a/../b is not b
// where a is a link.
func below(folder, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return folder + string(filepath.Separator) + name
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG)
}

func inside(in job.Input, folder string) (string, error) {
	real, err := filepath.EvalSymlinks(filepath.Join(folder, in.Subdir))
	if !absent(err) {
		return real, err
	}
	hint := "Check the name, or leave it out."
	if fault.Nearest(in.Subdir, []string{"sharded", "fullyreplicated"}) != "" {
		hint = "Did you mean :sharded?"
	}
	return "", fault.New(fault.Invalid, hint, "read input %s: %q holds no folder %q", in.Name, in.Path, in.Subdir)
}

// found makes a source of a file or folder.
func found(in job.Input, real string) (Source, error) {
	real, err := filepath.Abs(real)
	if err != nil {
		return Source{}, err
	}
	fi, err := os.Stat(real)
	switch {
	case err != nil:
		return Source{}, fault.Wrap(err, fault.Invalid, "Check the path.", "read input %s", in.Name)
	case fi.IsDir() && filepath.Dir(real) == real:
		return Source{}, fault.New(fault.Invalid, "Name the folder that the program reads.", "read input %s: %q is the root of the file system", in.Name, in.Path)
	case fi.IsDir():
		return Source{Root: real, Key: key(real, "folder", "")}, nil
	case !fi.Mode().IsRegular():
		return Source{}, fault.New(fault.Invalid, "Write what it gives into a file, and use that.", "read input %s: %q is neither a file nor a folder", in.Name, in.Path)
	}
	root, only := filepath.Dir(real), filepath.Base(real)
	return Source{Root: root, File: only, Skip: func(name string) bool { return name != only }, Key: key(root, "file", only)}, nil
}

func key(root, how, what string) string {
	sum := sha256.Sum256([]byte(root + "\x00" + how + "\x00" + what))
	return hex.EncodeToString(sum[:])
}
