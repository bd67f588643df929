package local

import (
	"os"
	"strings"
)

// machineID tells machines apart that share a folder. It stays over a restart. A
// container without one has its host name, which is its own.
func machineID() string {
	if text, err := os.ReadFile("/etc/machine-id"); err == nil {
		if id := strings.TrimSpace(string(text)); id != "" {
			return id
		}
	}
	return hostname()
}

// pidSpace names the PID namespace: only within it a pid means the same process.
func pidSpace() string {
	name, _ := os.Readlink("/proc/self/ns/pid") // empty without /proc: then all are taken for one
	return name
}
