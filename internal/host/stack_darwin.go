package host

import (
	"os"

	"github.com/drover-run/drover/internal/proc/process"
)

// stack is this start of the kernel: a Mac has one network stack. The name is
// there for people that compare two of them.
func stack() string {
	boot := process.Self().Boot
	if boot == "" {
		return ""
	}
	name, _ := os.Hostname()
	return boot + " " + name
}
