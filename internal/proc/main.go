package proc

import (
	"os"
	"sync/atomic"
	"syscall"

	"github.com/drover-run/drover/internal/proc/supervisor"
	"github.com/drover-run/drover/internal/proc/wire"
)

var mainCalled atomic.Bool

// Main becomes the supervisor and never returns, if this process was started as
// one; otherwise it returns at once. Call it first in main, and in TestMain.
func Main() {
	mainCalled.Store(true)
	if !supervisor.Started() {
		namespaces.Store(canNamespace())
		userNamespaces.Store(true)
		return
	}
	supervisor.Run(os.NewFile(wire.FD, "agent"), runSpawner)
	syscall.Exit(0) // nothing is buffered; os.Exit takes a second under the race detector
}
