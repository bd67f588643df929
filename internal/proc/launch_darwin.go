package proc

import (
	"os"
	"syscall"

	"github.com/drover-run/drover/internal/proc/wire"
)

func canNamespace() bool { return false }

func myself() (string, error) { return os.Executable() }

func supervisorAttr(wire.Order) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
