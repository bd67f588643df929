package host

import (
	"os"

	"github.com/drover-run/drover/internal/proc/process"
)

// stack is this start of the kernel and the network namespace in it: "... net:[4026531840]".
func stack() string {
	boot := process.Self().Boot
	space, err := os.Readlink("/proc/self/ns/net")
	if boot == "" || err != nil {
		return ""
	}
	return boot + " " + space
}
