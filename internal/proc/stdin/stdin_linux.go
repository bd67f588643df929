package stdin

import "golang.org/x/sys/unix"

// fionread asks how many bytes can be read from a pipe, a socket or a terminal.
const fionread = unix.TIOCINQ
