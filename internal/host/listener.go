package host

import (
	"strconv"
	"strings"
)

// Listener is a socket that listens on a TCP port of this machine.
type Listener struct {
	UID    int    // the user of the process that made it, as this process's user namespace counts
	Socket uint64 // its inode, which links in /proc/PID/fd name
}

// parseListeners reads the listeners on a port out of /proc/net/tcp or tcp6:
//
//	sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...
//
// Addresses and the state are hexadecimal; 0A is the state of listening. Lines of
// another form are passed over.
func parseListeners(text string, port int) (all []Listener) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != "0A" {
			continue
		}
		_, local, _ := strings.Cut(fields[1], ":")
		if n, err := strconv.ParseUint(local, 16, 16); err != nil || int(n) != port {
			continue
		}
		uid, err := strconv.ParseUint(fields[7], 10, 32)
		inode, err2 := strconv.ParseUint(fields[9], 10, 64)
		if err == nil && err2 == nil {
			all = append(all, Listener{UID: int(uid), Socket: inode})
		}
	}
	return all
}
