package relay

import "golang.org/x/sys/unix"

// How the settings of a terminal are read and set, and the key that is none.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
	noKey      = 0xff
)
