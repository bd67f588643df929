package tree

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/internal/bundle/bundletest"
)

// removing is set in a process of TestDeepFoldersAreRemovedWithFewDescriptors: the
// folder that it is to remove.
const removing = "DROVER_TEST_REMOVING"

func TestDeepFoldersAreRemovedWithFewDescriptors(t *testing.T) {
	if dir := os.Getenv(removing); dir != "" {
		if err := errors.Join(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 100, Max: 100}), RemoveAll(dir)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "left")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	putDeep(t, dir, strings.Repeat("d/", 300)+"leaf")
	putDeep(t, dir, strings.Repeat("e/", 200)+"leaf")
	bundletest.WriteFiles(t, dir, map[string]string{".drover-removed-0/x": "taken", ".drover-removed-1": "taken", "a/b": "x"})
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), removing+"="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestLockedFoldersAreRemoved(t *testing.T) {
	t.Parallel()
	for _, top := range []os.FileMode{0o755, 0} {
		dir := filepath.Join(t.TempDir(), "left")
		bundletest.WriteFiles(t, dir, map[string]string{"a/b/c": "x", "d": "x"})
		for name, mode := range map[string]os.FileMode{"a/b": 0, "a": 0o500, ".": top} {
			if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := RemoveAll(dir); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is still there: %v", err)
		}
	}
	if err := RemoveAll(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("what is not there: %v", err)
	}
}
