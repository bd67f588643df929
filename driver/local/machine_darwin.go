package local

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// machineID tells machines apart that share a folder. It stays over a restart.
func machineID() string {
	if id, err := unix.Sysctl("kern.uuid"); err == nil && id != "" {
		return id
	}
	return hostname()
}

// pidSpace is empty: there is one space of pids.
func pidSpace() string { return "" }

func measure() hardware {
	memory, _ := unix.SysctlUint64("hw.memsize") // 0 is "not known"
	return hardware{Cores: runtime.NumCPU(), Memory: int64(memory)}
}
