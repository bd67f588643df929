package folder

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Measure is what this machine has.
func Measure() Hardware {
	memory, _ := unix.SysctlUint64("hw.memsize") // 0 is "not known"
	return Hardware{Place: "this machine", Cores: runtime.NumCPU(), Memory: int64(memory)}
}
