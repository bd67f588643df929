package dir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Where the kernel does not resolve names without links, folders are opened one by one:
// with the same answers.
func TestWalkingIsAsGoodAsTheKernel(t *testing.T) {
	if !resolves() {
		t.Skip("this kernel, or its sandbox, has no openat2: all other tests are of walking")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"a/b/file", "file"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for at, to := range map[string]string{"link": "a", "a/up": "..", "a/out": "/", "a/b/l": "file", "dead": "nothing", "self": "self"} {
		if err := os.Symlink(to, filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := unix.Open(dir, searchOnly|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	links := 0
	for _, name := range []string{"a", "a/b", "a/b/file", "file", "link", "link/b", "link/b/file", "a/up", "a/up/file", "a/out", "a/out/etc/passwd",
		"a/b/l", "dead", "dead/x", "self", "self/x", "none", "none/x", "file/x", "a/b/file/x/y"} {
		for _, flag := range []int{unix.O_RDONLY | unix.O_NONBLOCK, unix.O_RDONLY | unix.O_NOFOLLOW, searchOnly | unix.O_DIRECTORY, unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL} {
			kernel, want := sameFile(openBelow(root, name, flag|unix.O_CLOEXEC))
			if flag&unix.O_CREAT != 0 && want == nil {
				unix.Unlinkat(root, name, 0)
			}
			walked, got := sameFile(walkBelow(root, name, flag|unix.O_CLOEXEC))
			if flag&unix.O_CREAT != 0 && got == nil {
				unix.Unlinkat(root, name, 0)
				walked = kernel
			}
			if got != want || walked != kernel {
				t.Errorf("%s with %#x: the kernel gives inode %d, %v, walking %d, %v", name, flag, kernel, want, walked, got)
			}
			if want == syscall.ELOOP {
				links++
			}
		}
	}
	if links < 30 {
		t.Errorf("only %d names were refused as links", links)
	}
}

// sameFile closes a file, and returns its number.
func sameFile(fd int, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Ino, err
}
