package bundle

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/bundle/bundletest"
)

func TestWhatIsNotShippedIsSeen(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		".gitignore": "*.bin\n/out/\n", "train.py": "", "data/prepare.py": "", "data/train.bin": "12345", "data/val.bin": "1", "out/a": "123", "out/deep/b": "1", "z.bin": "",
		"__pycache__/x.pyc": "x", "venv/pyvenv.cfg": "", "brought/.drover.json": "{}", "brought/x.bin": "1",
	} {
		write(t, dir, name, text)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := scan(t, Source{Dir: dir})
	seen := l.Unshipped(nil)
	digest := seen.Digest
	if seen.Digest = ""; digest == "" {
		t.Error("no digest")
	}
	want := Seen{Files: 5, Bytes: 10, Names: []string{"data/train.bin", "data/val.bin", "out/"}, MoreNames: true}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	if again := l.Unshipped(nil); again.Digest != digest {
		t.Error("another digest of the same")
	}
	without := l.Unshipped(func(f Found) bool {
		return f.Name == "out/a" && f.Path == filepath.Join(l.Dir, "out/a") && f.Info.Size() == 3
	})
	if without.Files != 4 || without.Bytes != 7 || without.Digest == digest {
		t.Errorf("without a file: %+v", without)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "data/val.bin"), later, later); err != nil {
		t.Fatal(err)
	}
	if again := l.Unshipped(nil); again.Digest == digest {
		t.Error("a file was written, and the digest is the same")
	}
}

func TestWhatIsNamedComesAlongThoughGitIgnoresIt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{".gitignore": "*.bin\n", "exp/train.py": "", "data/train.bin": "x", "data/prepare.py": "", "data/__pycache__/x.pyc": ""} {
		write(t, dir, name, text)
	}
	l := scan(t, Source{Dir: dir, Script: "exp/train.py", Extra: []string{filepath.Join(dir, "data")}, At: "exp"})
	want := []string{".gitignore", "data/prepare.py", "exp/data/prepare.py", "exp/data/train.bin", "exp/train.py"}
	if diff := cmp.Diff(want, names(l)); diff != "" {
		t.Error(diff)
	}
}

// The folder that the user stands in comes along, though drover brought something there, or the ignore
// files leave it out.
func TestTheFolderThatTheUserStandsInComesAlong(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{".gitignore": "/scratch/\n", "a.py": "", "exp/.drover.json": "{}", "exp/train.py": "", "scratch/try.py": "", "scratch/other.py": ""} {
		write(t, dir, name, text)
	}
	for at, want := range map[string][]string{
		"":        {".gitignore", "a.py"},
		"exp":     {".gitignore", "a.py", "exp/.drover.json", "exp/train.py"},
		"scratch": {".gitignore", "a.py", "scratch/other.py", "scratch/try.py"},
	} {
		if diff := cmp.Diff(want, names(scan(t, Source{Dir: dir, At: at}))); diff != "" {
			t.Errorf("%q: %s", at, diff)
		}
	}
}

func TestARepositoryOfAnotherUserDoesNotDecide(t *testing.T) {
	top := t.TempDir()
	write(t, top, ".git/HEAD", "")
	write(t, top, "mine/train.py", "")
	mine := filepath.Join(top, "mine")
	if got := Repository(mine); got != top {
		t.Errorf("own: %q", got)
	}
	if os.Geteuid() != 0 {
		t.Skip("giving a folder away needs root")
	}
	if err := syscall.Chown(filepath.Join(top, ".git"), 54321, 54321); err != nil {
		t.Fatal(err)
	}
	if got := Repository(mine); got != "" {
		t.Errorf("another user's: %q", got)
	}
	if got := Repository(mine, top); got != top {
		t.Errorf("another user's, where the user stands: %q", got)
	}
	if !Common("/tmp") || !Common("/") || Common(mine) {
		t.Error("folders of all users")
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	bundletest.WriteFiles(t, dir, map[string]string{name: text})
}
