package agent

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/host"
	"github.com/drover-run/drover/job"
)

// squat listens on a port as another user. To the kernel the owner of a socket is the
// user of the thread that makes it.
func squat(port int) error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		failed <- func() error {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETFSUID, 54321, 0, 0); errno != 0 {
				return errno
			}
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			// Servers set it, and it is needed: a child that the test's process starts this
			// moment holds a copy of the agent's socket, until it is another program.
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
				return err
			}
			if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port}); err != nil {
				return err
			}
			return unix.Listen(fd, 5) // open until the test's process ends: the attempt that had it is over
		}()
	}()
	return <-failed
}

// The whole, with a real socket of another user: the port is taken the moment that it is
// free, and the program would wait at it for ever.
func TestASquatterOfThePortIsFoundOut(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can listen as another user")
	}
	t.Parallel()
	p := newPlace(t)
	j := p.submit(job.Spec{Verb: job.Shell, Nodes: 2, Program: `test $DROVER_ATTEMPT = 2 || exec sleep 1000`}, nil)
	var once sync.Once // the port that is freed first: both nodes are told of each
	start := func(c *node.Config) {
		c.Machine.Stack, c.Machine.Loopback = "one", "lo"
		c.Machine.Port = func() (int, func(), error) {
			port, release, err := host.Port()
			if err != nil {
				return 0, nil, fmt.Errorf("port: %w", err)
			}
			return port, func() {
				release()
				once.Do(func() {
					if err := squat(port); err != nil {
						t.Error(err)
					}
				})
			}, nil
		}
		c.Machine.Listeners = func(port int) (all []node.Listener, err error) {
			found, err := host.Listeners(port)
			for _, l := range found {
				all = append(all, node.Listener(l))
			}
			return all, err
		}
	}
	one, two := p.start(j, start), p.start(j, start)
	one.leave(0)
	two.leave(0)
	p.wasInterrupted(j)
}
