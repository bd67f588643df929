package proc

import (
	"os"

	"github.com/drover-run/drover/internal/proc/wire"
)

// spawn is for Linux: here it is not asked for.
func spawn(m *supervisor, _ *os.File, _ wire.Order) {
	_ = m.wire.Send(wire.Report{Refused: "run commands: this system has no epoll"})
}
