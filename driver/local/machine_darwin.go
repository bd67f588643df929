package local

import "golang.org/x/sys/unix"

// machineID tells machines apart that share a folder. It stays over a restart.
func machineID() string {
	if id, err := unix.Sysctl("kern.uuid"); err == nil && id != "" {
		return id
	}
	return hostname()
}

// pidSpace is empty: there is one space of pids.
func pidSpace() string { return "" }
