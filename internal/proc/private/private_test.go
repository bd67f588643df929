package private

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

// stranger is a user that no test runs as.
const stranger = 54321

// giveAway makes path another user's; only root can. A plain user's test goes on with
// what the mode says.
func giveAway(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a file another user's")
	}
	if err := os.Lchown(path, stranger, stranger); err != nil {
		t.Fatal(err)
	}
}

func TestAFileIsReadOnlyIfNoOtherUserCanHaveWrittenIt(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, base string){
		"":                              func(*testing.T, string) {},
		"base of another user":          func(t *testing.T, base string) { giveAway(t, base) },
		"folder of another user":        func(t *testing.T, base string) { giveAway(t, base+"/a/b") },
		"file of another user":          func(t *testing.T, base string) { giveAway(t, base+"/a/b/door") },
		"base that a group may write":   func(t *testing.T, base string) { try(t, os.Chmod(base, 0o770)) },
		"folder that all may write":     func(t *testing.T, base string) { try(t, os.Chmod(base+"/a", 0o1777)) },
		"file that a group may write":   func(t *testing.T, base string) { try(t, os.Chmod(base+"/a/b/door", 0o660)) },
		"link in the place of a folder": func(t *testing.T, base string) { replaceByLink(t, base+"/a") },
		"link in the place of the base": func(t *testing.T, base string) { replaceByLink(t, base) },
		"link in the place of the file": func(t *testing.T, base string) { replaceByLink(t, base+"/a/b/door") },
		"FIFO in the place of the file": func(t *testing.T, base string) {
			try(t, os.Remove(base+"/a/b/door"), unix.Mkfifo(base+"/a/b/door", 0o600))
		},
		"folder in the place of the file": func(t *testing.T, base string) {
			try(t, os.Remove(base+"/a/b/door"), os.Mkdir(base+"/a/b/door", 0o700))
		},
		"file of more than it may hold":     func(t *testing.T, base string) { try(t, os.WriteFile(base+"/a/b/door", make([]byte, 11), 0o600)) },
		"file in the place of the folder":   func(t *testing.T, base string) { try(t, os.RemoveAll(base+"/a"), os.WriteFile(base+"/a", nil, 0o600)) },
		"file that is open to reading only": func(t *testing.T, base string) { try(t, os.Chmod(base+"/a/b/door", 0o644), os.Chmod(base+"/a", 0o755)) },
	} {
		t.Run(name, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "base")
			try(t, os.MkdirAll(base+"/a/b", 0o700), os.WriteFile(base+"/a/b/door", []byte("words"), 0o600))
			spoil(t, base)
			got, err := ReadOwned(base, "a/b/door", 10)
			if name == "" || strings.HasSuffix(name, "reading only") {
				if string(got) != "words" || err != nil {
					t.Errorf("it is read as %q, %v", got, err)
				}
				return
			}
			if fault.KindOf(err) != fault.Denied || got != nil || !strings.Contains(fault.Hint(err), "ls -ld "+base) {
				t.Errorf("it is read as %q, %v, hint %q", got, err, fault.Hint(err))
			}
		})
	}
}

func TestAMissingFileIsNotRefused(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"door", "a/door"} {
		if _, err := ReadOwned(base, name, 10); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFolderIsMadePrivateOrRefused(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, dir string){
		"":                           func(*testing.T, string) {},
		"private":                    func(t *testing.T, dir string) { try(t, os.Mkdir(dir, 0o700)) },
		"that others may list":       func(t *testing.T, dir string) { try(t, os.Mkdir(dir, 0o755)) },
		"that a group may write":     func(t *testing.T, dir string) { try(t, os.Mkdir(dir, 0o700), os.Chmod(dir, 0o770)) },
		"of another user":            func(t *testing.T, dir string) { try(t, os.Mkdir(dir, 0o700)); giveAway(t, dir) },
		"that is a file":             func(t *testing.T, dir string) { try(t, os.WriteFile(dir, nil, 0o700)) },
		"that is a link to a folder": func(t *testing.T, dir string) { try(t, os.Mkdir(dir, 0o700)); replaceByLink(t, dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "own")
			make(t, dir)
			err := MakeFolder(dir)
			if name == "" || name == "private" {
				info, serr := os.Lstat(dir)
				if err != nil || serr != nil || info.Mode() != os.ModeDir|0o700 {
					t.Errorf("it is %v, %v, %v", info, err, serr)
				}
			} else if fault.KindOf(err) != fault.Denied {
				t.Errorf("it is taken: %v", err)
			}
		})
	}
}

func TestWhatOthersMayWriteIsNotOwned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tool")
	try(t, os.WriteFile(path, nil, 0o755))
	if err := CheckOwned(path); err != nil {
		t.Error(err)
	}
	for _, mode := range []os.FileMode{0o775, 0o757} {
		if try(t, os.Chmod(path, mode)); fault.KindOf(CheckOwned(path)) != fault.Denied {
			t.Errorf("a file of mode %v counts as owned", mode)
		}
	}
	try(t, os.Chmod(path, 0o755))
	replaceByLink(t, path)
	if err := CheckOwned(path); fault.KindOf(err) != fault.Denied {
		t.Errorf("a link counts as owned: %v", err)
	}
	giveAway(t, path+".real")
	if err := CheckOwned(path + ".real"); fault.KindOf(err) != fault.Denied {
		t.Errorf("another user's file counts as owned: %v", err)
	}
}

// replaceByLink moves path away and leaves a link to it.
func replaceByLink(t *testing.T, path string) {
	t.Helper()
	try(t, os.Rename(path, path+".real"), os.Symlink(path+".real", path))
}

func try(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
