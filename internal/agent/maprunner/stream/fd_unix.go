package stream

import "golang.org/x/sys/unix"

var errAgain = unix.EAGAIN

// readFD reads once, and does not wait.
func readFD(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if err != unix.EINTR {
			return n, err
		}
	}
}
