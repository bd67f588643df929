package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB in sys/proc.h

func census() ([]process, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make([]process, 0, len(list))
	for i := range list {
		if list[i].Proc.P_stat == zombie {
			continue
		}
		all = append(all, fromKernel(&list[i]))
	}
	return all, nil
}

func fromKernel(k *unix.KinfoProc) process {
	p := process{
		pid: int(k.Proc.P_pid), parent: int(k.Eproc.Ppid), group: int(k.Eproc.Pgid),
		start: uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec),
	}
	p.session, _ = unix.Getsid(p.pid) // 0: not ours to see
	return p
}

// carries reads the arguments and environment a process was started with. For
// the system's own binaries macOS withholds the environment.
func carries(pid int, token string) bool {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	return err == nil && marked(raw, token)
}
