package proc

import (
	"os"

	"github.com/drover-run/drover/internal/proc/supervisor"
	"github.com/drover-run/drover/internal/proc/wire"
)

// runSpawner is for Linux: here it is not asked for.
func runSpawner(_ *os.File, conn *wire.Conn, _ supervisor.Containment, _ wire.Order) {
	_ = conn.Send(wire.Report{Refused: "run commands: this system has no epoll"})
}
