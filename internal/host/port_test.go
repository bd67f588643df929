package host

import (
	"bufio"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

func TestPortsReservedAtOnceAreDistinctAndClosedToOthers(t *testing.T) {
	const n = 200
	var (
		all      sync.WaitGroup
		mu       sync.Mutex
		releases = map[int]func(){}
	)
	for range n {
		all.Go(func() {
			port, release, err := Port()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if releases[port] != nil {
				t.Errorf("port %d was given twice", port)
			}
			releases[port] = release
		})
	}
	all.Wait()
	text, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	first, last := portSpan(string(text))
	for port := range releases {
		if port < first || port > last {
			t.Errorf("port %d is not between %d and %d", port, first, last)
		}
		if c, err := net.Dial("tcp", at("127.0.0.1", port)); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("dialling port %d gives %v, %v", port, c, err)
		}
		for _, address := range []string{"", "127.0.0.1", "0.0.0.0"} {
			if l, err := net.Listen("tcp", at(address, port)); err == nil {
				l.Close()
				t.Errorf("somebody else can listen on %q, port %d", address, port)
			}
		}
	}
	for port, release := range releases {
		release()
		l, err := net.Listen("tcp", at("", port))
		if err != nil {
			t.Errorf("listen after release: %v", err)
			continue
		}
		l.Close()
	}
}

func at(address string, port int) string { return net.JoinHostPort(address, strconv.Itoa(port)) }

func TestAPortIsFreeAtOnceWhileACopyOfItsSocketLives(t *testing.T) {
	port, release, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	release()
	fd, err := bind(port)
	if err != nil {
		t.Fatal(err)
	}
	child, err := unix.Dup(fd) // as one has that is being started
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	letGo(fd)
	l, err := net.Listen("tcp", at("", port))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestAChildDoesNotKeepThePort(t *testing.T) {
	port, release, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	child := another(t, "idle")
	hold, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "idle\n" {
		t.Errorf("the child says %q: %v", line, err)
	}
	release()
	if fd, err := bind(port); err != nil {
		t.Errorf("while a child lives: %v", err)
	} else {
		letGo(fd)
	}
	hold.Close()
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}

func TestReleasingAPortTwiceClosesNothingElse(t *testing.T) {
	port, release, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	release()
	// These get the lowest descriptors that are free, and so the port's own.
	var files []*os.File
	for range 8 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	release()
	for _, f := range files {
		if _, err := f.Stat(); err != nil {
			t.Errorf("a file that was opened after port %d was released: %v", port, err)
		}
	}
}

func TestWithoutAFreePortThereIsAFault(t *testing.T) {
	port, release, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	_, _, err = reserve(port, port)
	if fault.KindOf(err) != fault.Full || fault.Hint(err) == "" {
		t.Errorf("reserve(%d, %d) gives %v", port, port, err)
	}
}

func TestPortsStayClearOfOutgoingConnections(t *testing.T) {
	for _, c := range []struct {
		outgoing    string
		first, last int
	}{
		{"32768\t60999\n", 10001, 32767},
		{"", 10001, 32767},
		{"nonsense", 10001, 32767},
		{"60999 32768", 10001, 32767},
		{"1 99999", 10001, 32767},
		{"12000 60999", 10001, 11999},
		{"1024 60999", 61000, 65535},
		{"10000\t61000", 61001, 65535},
		{"1024 4999", 10001, 65535},
		{"1024 65535", 10001, 65535},
		{"11000 65000", 10001, 65535},
	} {
		if first, last := portSpan(c.outgoing); first != c.first || last != c.last {
			t.Errorf("portSpan(%q) = %d, %d; want %d, %d", c.outgoing, first, last, c.first, c.last)
		}
	}
}
