package proc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/resource"
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
		// An agent to which its parent left signals blocked and ignored, and a
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
		// An agent in a user namespace that may have no others below it.
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			panic(err)
		}
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			panic(err)
		}
	case "masked":
		// A plain user in a container that hides a part of /proc from its processes.
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
	case "hog":
		playHog(os.Args[1])
	case "limited":
		playLimited()
	case "spawner":
		playSpawner()
	case "group":
		playGroup()
	default:
		return false
	}
	os.Setenv("PROC_TEST_ROLE", cmp.Or(os.Getenv("PROC_TEST_NEXT"), "agent"))
	panic(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// playGroup starts its arguments in a group of their own, of the same session and
// without an environment, and leaves them.
func playGroup() {
	_, err := os.StartProcess("/bin/sh", append([]string{"sh"}, os.Args[1:]...), &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Env: []string{}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		panic(err)
	}
	syscall.Exit(0)
}

// playHog holds that many MB, says so, and never gives them back.
func playHog(megabytes string) {
	n, err := strconv.Atoi(megabytes)
	if err != nil {
		panic(err)
	}
	for range n { // little by little: so several grow at once
		b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			panic(err)
		}
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
	}
	fmt.Println("held")
	for {
		_ = unix.Pause()
	}
}

// limited is what an agent with limits says.
type limited struct {
	Here, Held resource.Support
	Exit       Exit
	Refused    string
}

// playLimited runs the tree it is told to and says how it ended.
func playLimited() {
	var c Command
	if err := json.Unmarshal([]byte(os.Getenv("PROC_TEST_PART")), &c); err != nil {
		panic(err)
	}
	said := limited{Here: resource.SupportHere()}
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	p, err := Start(context.Background(), c)
	if err != nil {
		said.Refused = err.Error()
	} else {
		said.Held, said.Exit = p.Limits(), p.Wait()
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		panic(err)
	}
	syscall.Exit(0)
}
