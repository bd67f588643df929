package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

const (
	lowestPort  = 10001 // many services have a fixed port below
	highestPort = 65535
	// outgoingPort is where the kernel's ports for outgoing connections begin
	// when it does not say: Linux's default, and macOS begins higher.
	outgoingPort = 32768
	// fewestPorts is how many there must be to choose from: two that choose at
	// random rarely choose the same.
	fewestPorts = 1000
	// portTries is how many ports are tried: if one in a hundred is free, one is found.
	portTries = 2000
)

// Port reserves a free TCP port, on all of the machine's addresses, until
// release is called. It is bound and not listened on: no other process gets it, and
// a client that dials it is refused. It is chosen at random where the kernel takes none
// for outgoing connections, so that none takes it between release and use.
// release may be called twice.
func Port() (port int, release func(), err error) {
	// Not there on macOS, or hidden: the default then.
	text, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	return reserve(portSpan(string(text)))
}

// portSpan is the first and last port to choose from, by what the kernel says
// of its own: "32768\t60999". Where that leaves too few below, they come from
// above; where it leaves too few at all, the kernel's own are used too.
func portSpan(outgoing string) (first, last int) {
	from, to := outgoingPort, highestPort
	if n, _ := fmt.Sscan(outgoing, &from, &to); n != 2 || from < 1 || to < from || to > highestPort {
		from, to = outgoingPort, highestPort
	}
	switch {
	case from-lowestPort >= fewestPorts:
		return lowestPort, from - 1
	case to >= lowestPort-1 && highestPort-to >= fewestPorts:
		return to + 1, highestPort
	}
	return lowestPort, highestPort
}

func reserve(first, last int) (port int, release func(), err error) {
	for range portTries {
		port = first + rand.IntN(last-first+1)
		fd, err := bind(port)
		switch {
		case err == nil:
			return port, sync.OnceFunc(func() { letGo(fd) }), nil
		case !taken(err):
			return 0, nil, fault.Wrap(err, fault.Full, "Close some programs, or raise `ulimit -n`.", "reserve port")
		}
	}
	return 0, nil, fault.New(fault.Full, "See what listens with `ss -tln`, and end what is not needed.",
		"reserve port: none of %d tried between %d and %d is free", portTries, first, last)
}

// taken says that another port may do.
func taken(err error) bool {
	return errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EACCES)
}

// bind takes a port in both families at once, or in IPv4 alone where there is no other.
// SO_REUSEADDR is not set: two that set it could both have the port.
func bind(port int) (fd int, err error) {
	fd, err = bindIn(unix.AF_INET6, &unix.SockaddrInet6{Port: port})
	if err != nil && !taken(err) {
		fd, err = bindIn(unix.AF_INET, &unix.SockaddrInet4{Port: port})
	}
	return fd, err
}

// letGo frees the port at once. A child that is being started this moment has a
// copy of the socket until it is another program; with SO_REUSEADDR set the copy
// keeps out no process that sets it too, and servers do.
func letGo(fd int) {
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) // cannot fail: the socket is ours
	unix.Close(fd)
}

func bindIn(family int, at unix.Sockaddr) (fd int, err error) {
	syscall.ForkLock.RLock()
	fd, err = unix.Socket(family, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return -1, fmt.Errorf("make socket: %w", err)
	}
	if family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(fd, at)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind socket: %w", err)
	}
	return fd, nil
}
