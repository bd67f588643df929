package relay

import "golang.org/x/sys/unix"

// How the settings of a terminal are read and set, and the key that is none.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
	noKey      = 0
)
