package proc

import (
	"os"

	"github.com/drover-run/drover/internal/proc/wire"
)

// spawn is for Linux: here it is not asked for.
func spawn(m *minder, _ *os.File, _ wire.Order) {
	_ = m.wire.SendMessage(wire.Report{Refused: "run commands: this system has no epoll"})
}
