package private

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-run/drover/fault"
)

// reads checks what a user reads of an error: the whole text, and the whole hint.
func reads(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || err.Error() != text || fault.Hint(err) != hint || fault.KindOf(err) != kind {
		t.Errorf("kind %v: %v\n%s\nwant %v: %s\n%s", fault.KindOf(err), err, fault.Hint(err), kind, text, hint)
	}
}

func TestWhatOthersCouldHaveChangedSaysWhose(t *testing.T) {
	dir := t.TempDir()
	tool, link, folder := filepath.Join(dir, "tool"), filepath.Join(dir, "link"), filepath.Join(dir, "folder")
	if os.WriteFile(tool, []byte("words"), 0o600) != nil || os.Symlink("tool", link) != nil || os.Mkdir(folder, 0o755) != nil || os.Chmod(dir, 0o700) != nil {
		t.Fatal("no files")
	}
	reads(t, CheckOwned(link), fault.Denied, "use "+link+": it is a symbolic link", "See whose it is: ls -ld "+link+".")
	reads(t, MakeFolder(folder), fault.Denied, "use folder "+folder+": it is drwxr-xr-x, and not a folder with mode 0700", "See whose it is: ls -ld "+folder+".")
	_, err := ReadOwned(dir, "link", 10)
	reads(t, err, fault.Denied, "read "+link+": it is a symbolic link, or not a folder", "See whose it is: ls -ld "+link+".")
	_, err = ReadOwned(dir, "tool", 3)
	reads(t, err, fault.Denied, "read "+tool+": it is -rw------- of 5 bytes, and not a file of at most 3", "See whose it is: ls -ld "+tool+".")
	reads(t, notOwned(tool, 7), fault.Denied, fmt.Sprintf("use %s: it belongs to user 7, not to %d", tool, os.Geteuid()), "See whose it is: ls -ld "+tool+".")
	if err := os.Chmod(tool, 0o622); err != nil {
		t.Fatal(err)
	}
	reads(t, CheckOwned(tool), fault.Denied, "use "+tool+": other users may write to it (mode 0622)", "See whose it is: ls -ld "+tool+".")
}

func TestOnlyASocketHasAUser(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	_, err := PeerUser(ours)
	reads(t, err, fault.Bug, "ask who is at the other end: *net.pipe is not a socket", "")
}
