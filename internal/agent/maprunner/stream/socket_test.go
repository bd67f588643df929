package stream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A socket with too long a name lies elsewhere, and is found from its folder
// when no process was left to remove it.
func TestWhatAKilledProcessLeftOfItsSocketsIsSwept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	open := func(n int) *slot {
		s, err := newSlot(&Runner{c: Config{Dir: dir}}, n)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	gone := func(s *slot) bool {
		_, err := os.Stat(filepath.Dir(s.path))
		return os.IsNotExist(err)
	}
	killed, ended := open(0), open(1)
	ended.closeSocket()
	if !gone(ended) {
		t.Errorf("%s is there after its end", ended.path)
	}
	killed.socket.SetUnlinkOnClose(false)
	killed.socket.Close()
	if gone(killed) {
		t.Fatalf("%s is gone before it was swept", killed.path)
	}
	foreign := filepath.Join(t.TempDir(), "drover-theirs")
	if err := os.MkdirAll(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "s"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(foreign, "s"), filepath.Join(dir, "2.sock")); err != nil {
		t.Fatal(err)
	}
	Sweep(dir)
	if !gone(killed) {
		t.Errorf("%s is left", killed.path)
	}
	if _, err := os.Stat(filepath.Join(foreign, "s")); err != nil {
		t.Errorf("a file that is not a socket is gone: %v", err)
	}
}
