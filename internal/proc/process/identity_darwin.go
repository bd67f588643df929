package process

import (
	"os"

	"golang.org/x/sys/unix"
)

func Boot() string {
	s, _ := unix.Sysctl("kern.bootsessionuuid") // "": unknown
	return s
}

// namespace: there is one for the whole machine.
func namespace() string { return "darwin" }

func Find(pid int) (p Entry, alive bool, err error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return Entry{}, false, err
	}
	if int(k.Proc.P_pid) != pid {
		return Entry{}, false, os.ErrNotExist
	}
	return fromKernel(k), k.Proc.P_stat != zombie, nil
}
