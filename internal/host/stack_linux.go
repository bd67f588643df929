package host

import (
	"os"

	"github.com/drover-run/drover/internal/proc"
)

// stack is this start of the kernel and the network namespace in it: "... net:[4026531840]".
func stack() string {
	boot := proc.Self().Boot
	space, err := os.Readlink("/proc/self/ns/net")
	if boot == "" || err != nil {
		return ""
	}
	return boot + " " + space
}
