package launcher

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/contract"
)

// Ranks is the command line that starts procs processes of argv on one node, each
// with its RANK and LOCAL_RANK. It ends when all have, with 0, or with the status
// of the first that ended badly: the others are stopped then. self is drover.
func Ranks(self string, nodeRank, procs int, argv []string) []string {
	return append([]string{self, "launch", "ranks", "--node", strconv.Itoa(nodeRank), "--procs", strconv.Itoa(procs), "--"}, argv...)
}

// ranksGrace is what the others have to end when one has failed.
const ranksGrace = 10 * time.Second

func ranks(_ context.Context, args []string) (int, error) {
	pairs, argv, err := options(args)
	if err != nil {
		return 0, err
	}
	node, err := number(pairs, "node")
	if err != nil {
		return 0, err
	}
	procs, err := number(pairs, "procs")
	if err != nil {
		return 0, err
	}
	if len(argv) == 0 {
		return 0, fault.New(fault.Bug, "", "launch ranks: no program")
	}
	// A stop of the tree signals every process in it, and a signal to the group
	// reaches ours: there is nothing to pass on, only to live on and see them end.
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	var running []*exec.Cmd
	ended := make(chan int, procs) // statuses, as they come
	for local := range procs {
		c := exec.Command(argv[0], argv[1:]...)
		c.Env = append(os.Environ(), contract.RankEnviron(node, procs, local)...)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			stop(running, syscall.SIGKILL)
			return 0, fmt.Errorf("start process %d: %w", local, err)
		}
		running = append(running, c)
		go func() { ended <- statusOf(c.Wait()) }() // the loop below waits for all
	}
	return first(running, ended, told, ranksGrace), nil
}

// first waits for all processes and gives the status of the first that ended
// badly. From then on the others have grace to end; but once all were told to end, some
// save for longer than others, and the agent keeps the time.
func first(running []*exec.Cmd, ended <-chan int, told <-chan os.Signal, grace time.Duration) (status int) {
	var late <-chan time.Time
	stopping := false
	for left := len(running); left > 0; {
		select {
		case s := <-ended:
			left--
			select {
			case <-told:
				stopping = true
			default:
			}
			if s != 0 && status == 0 {
				if status = s; stopping {
					continue
				}
				stop(running, syscall.SIGTERM)
				late = time.After(grace)
			}
		case <-late:
			stop(running, syscall.SIGKILL)
		}
	}
	return status
}

// stop signals processes; those that have ended are not there to hear it.
func stop(running []*exec.Cmd, sig syscall.Signal) {
	for _, c := range running {
		_ = c.Process.Signal(sig) // it is known when it has been waited for
	}
}
