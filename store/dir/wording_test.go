package dir_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store/dir"
)

func TestRefusalsOfTheDiskSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		op    string
		errno syscall.Errno
		text  string
		hint  string
	}{
		{"write", syscall.ENOSPC, "no space left on device", "Free space under /store, or name a folder on another disk with --store."},
		{"create", syscall.EROFS, "read-only file system", "Run ls -ld /store and get write permission, or name another folder with --store."},
		{"write", syscall.EIO, "input/output error", "Look at the disk under /store with dmesg, or name a folder on another one with --store."},
		{"link", syscall.EPERM, "its file system cannot link files: operation not permitted", "Name a folder on a file system with hard links with --store."},
		{"write", syscall.ELOOP, "a link, pipe, socket or device: no object that drover wrote", "Find out how it came there, and remove it: ls -l /store"},
	} {
		d := newDisk()
		b := open(t, "/store", d)
		d.fail = once(c.op, c.errno)
		err := b.Create(t.Context(), "log/00000000", strings.NewReader("x"))
		if err == nil || err.Error() != "create log/00000000 in /store: "+c.text || fault.Hint(err) != c.hint {
			t.Errorf("%s %v: %v\n%s", c.op, c.errno, err, fault.Hint(err))
		}
	}
}

func TestAFolderWhoseNameAnObjectHasIsRefused(t *testing.T) {
	b := open(t, "/store", newDisk())
	create(t, b, "log")
	err := b.Create(t.Context(), "log/00000000", strings.NewReader("x"))
	if err == nil || err.Error() != "create log/00000000 in /store: another object has the name of its folder" || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}

func TestAStoreWhoseFolderIsGoneSaysToNameAnother(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	b := open(t, root, dir.OS)
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	err := b.Create(t.Context(), "a", strings.NewReader("x"))
	if err == nil || err.Error() != "create a in "+root+": the store's folder is gone" || fault.Hint(err) != "Name the right folder with --store." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}
