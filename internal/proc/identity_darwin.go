package proc

import (
	"os"

	"golang.org/x/sys/unix"
)

func boot() string {
	s, _ := unix.Sysctl("kern.bootsessionuuid") // "": unknown
	return s
}

// namespace: there is one for the whole machine.
func namespace() string { return "darwin" }

func find1(pid int) (p process, alive bool, err error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return process{}, false, err
	}
	if int(k.Proc.P_pid) != pid {
		return process{}, false, os.ErrNotExist
	}
	return fromKernel(k), k.Proc.P_stat != zombie, nil
}
