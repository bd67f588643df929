package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/contract"
)

// one is the command line that mpiexec gets for the program: it is started in its
// own node's code folder, wherever mpiexec believes that to be. Each word has a
// "=" before it, since a lone ":" would part mpiexec's own command line.
func one(self string, argv []string) []string {
	line := []string{self, "launch", "rank", "--"}
	for _, word := range argv {
		line = append(line, "="+word)
	}
	return line
}

// rank starts one process of an MPI program and stays beside it. When that ends
// badly without a word to the others, some MPIs let these wait for it for ever:
// hydra is told, and so is the agent, which ends what does not end by itself.
func rank(_ context.Context, args []string) (int, error) {
	_, argv, err := options(args)
	if err != nil || len(argv) == 0 {
		return 0, fault.New(fault.Bug, "", "launch rank: no program")
	}
	for i := range argv {
		argv[i] = strings.TrimPrefix(argv[i], "=")
	}
	home()
	if folder := os.Getenv(contract.CodeVariable); folder != "" {
		if err := os.Chdir(folder); err != nil {
			return 0, fmt.Errorf("enter the code folder: %w", err)
		}
	}
	told := make(chan os.Signal, 8)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	c := exec.Command(argv[0], argv[1:]...) // it inherits the connection with its MPI, which left that open for it
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	runtime.LockOSThread() // until the end: the program dies with this thread
	c.SysProcAttr = withParent()
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("start the program: %w", err)
	}
	go func() { // for as long as this process lives: no goroutine waits for it
		for s := range told {
			_ = c.Process.Signal(s) // it may have ended, and then that is known
		}
	}()
	go listen(c) // the same
	status := statusOf(c.Wait())
	if status != 0 {
		alarm(status)
	}
	return status, nil
}

// listen waits for the signals that the agent has for the program, and hands them on: what
// it sends to all of the tree would end the MPI at once, and its processes with it.
func listen(c *exec.Cmd) {
	conn, err := dial()
	if err != nil {
		return // no rank will send anything
	}
	if json.NewEncoder(conn).Encode(hello{Rank: true}) != nil {
		return
	}
	in := json.NewDecoder(conn)
	for { // until the agent is gone; it knows by our end that we have ended
		var s ending
		if in.Decode(&s) != nil {
			return
		}
		_ = c.Process.Signal(syscall.Signal(s.Signal)) // it may have ended, and then that is known
	}
}

// alarm tells of a bad end the rank that may act on it. One that is not there is gone, and
// then all end.
func alarm(status int) {
	if pmi, err := strconv.Atoi(os.Getenv("PMI_FD")); err == nil {
		_, _ = syscall.Write(pmi, fmt.Appendf(nil, "cmd=abort exitcode=%d\n", status)) // PMI 1
	}
	if conn, err := dial(); err == nil {
		_ = json.NewEncoder(conn).Encode(hello{Alarm: status})
		conn.Close()
	}
}
