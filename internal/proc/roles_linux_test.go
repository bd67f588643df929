package proc

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// playMore holds the parts that need Linux.
func playMore(role string) bool {
	switch role {
	case "refused":
		// An agent as in a container: root in name, without the right to make
		// namespaces.
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_ADMIN, 0, 0, 0); err != nil {
			panic(err)
		}
	case "rude":
		// An agent whose own parent left it signals blocked and ignored, and a
		// file open.
		runtime.LockOSThread()
		if _, err := syscall.Dup(1); err != nil {
			panic(err)
		}
		signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE, syscall.SIGTERM, syscall.SIGUSR2,
			syscall.SIGTSTP, syscall.SIGTTOU, syscall.SIGCHLD, syscall.SIGWINCH, syscall.SIGXFSZ, syscall.Signal(40))
		all := unix.Sigset_t{Val: [16]uint64{1<<(unix.SIGUSR1-1) | 1<<(unix.SIGCHLD-1) | 1<<(unix.SIGTERM-1)}}
		if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
			panic(err)
		}
	case "unspaced":
		// An agent whose user namespace may have no others below it.
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			panic(err)
		}
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			panic(err)
		}
	case "masked":
		// A plain user in a container that hides a part of /proc from him.
		if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			panic(err)
		}
		if err := unix.Mount("none", "/proc/sys/kernel", "tmpfs", 0, ""); err != nil {
			panic(err)
		}
		if err := syscall.Setgroups(nil); err != nil {
			panic(err)
		}
		if err := syscall.Setresgid(plainUser, plainUser, plainUser); err != nil {
			panic(err)
		}
		if err := syscall.Setresuid(plainUser, plainUser, plainUser); err != nil {
			panic(err)
		}
	case "sweep":
		killed, err := Sweep(os.Getenv("PROC_TEST_PART"))
		fmt.Println(killed, err)
		syscall.Exit(0)
	default:
		return false
	}
	os.Setenv("PROC_TEST_ROLE", "agent")
	panic(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}
