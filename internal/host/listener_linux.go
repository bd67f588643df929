package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Listeners returns the sockets, of any user, that listen on a TCP port of this
// process's network namespace, on any address. Sockets that are bound and do not
// listen are not seen.
func Listeners(port int) (all []Listener, err error) {
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("list listeners: %w", err)
		}
		all = append(all, parseListeners(string(text), port)...)
	}
	return all, nil
}
