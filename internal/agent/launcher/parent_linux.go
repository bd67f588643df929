package launcher

import "syscall"

// withParent has a program die when what started it does, as an MPI may kill that
// alone.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
