package host

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListenersAreOfTheUserWhoListens(t *testing.T) {
	port, release, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	if all, err := Listeners(port); len(all) > 0 || err != nil {
		t.Errorf("a port that is only reserved has listeners %+v, %v", all, err)
	}
	release()
	for _, address := range []string{"127.0.0.1", "[::]"} {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, port))
		if err != nil && address == "[::]" {
			continue // no IPv6 here
		}
		if err != nil {
			t.Fatal(err)
		}
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		info, err := file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		want := []Listener{{UID: os.Geteuid(), Socket: info.Sys().(*syscall.Stat_t).Ino}}
		if all, err := Listeners(port); err != nil || cmp.Diff(want, all) != "" {
			t.Errorf("on %s: %+v, %v; want %+v", address, all, err, want)
		}
		file.Close()
		l.Close()
	}
}
