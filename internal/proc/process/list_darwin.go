package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB in sys/proc.h

func List() ([]Entry, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make([]Entry, 0, len(list))
	for i := range list {
		if list[i].Proc.P_stat == zombie {
			continue
		}
		all = append(all, fromKernel(&list[i]))
	}
	return all, nil
}

func fromKernel(k *unix.KinfoProc) Entry {
	p := Entry{
		PID: int(k.Proc.P_pid), Parent: int(k.Eproc.Ppid), Group: int(k.Eproc.Pgid),
		Start: uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec),
	}
	p.Session, _ = unix.Getsid(p.PID) // 0: not ours to see
	return p
}

// Carries reads the arguments and environment a process was started with. For
// the system's own binaries macOS withholds the environment.
func Carries(pid int, token string) bool {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	return err == nil && Marked(raw, token)
}
