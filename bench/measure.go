package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// commandLimit is far above what any section's command takes; one that reaches it hangs.
const commandLimit = 60 * time.Second

// times are the rounds of one command.
type times []time.Duration

// medianTime is the middle one; of an even number, the mean of the middle two.
func (t times) medianTime() time.Duration {
	sorted := slices.Sorted(slices.Values(t))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (t times) shortestTime() time.Duration { return slices.Min(t) }

// measure runs both commands of a section in turn, once for nothing and then
// rounds times, and gives their times.
func measure(ctx context.Context, p *place, s section, rounds int) (ours, peer times, err error) {
	if s.prepare != nil {
		if err := s.prepare(p); err != nil {
			return nil, nil, err
		}
	}
	for i := range rounds + 1 {
		a, err := clock(ctx, p, s.ours(p), s.until)
		if err != nil {
			return nil, nil, err
		}
		b, err := clock(ctx, p, s.peer(p), s.until)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 {
			ours, peer = append(ours, a), append(peer, b)
		}
	}
	return ours, peer, nil
}

// clock runs a command to its end and gives the time from before its start to the
// moment asked for. The command must succeed, or its time means nothing.
func clock(ctx context.Context, p *place, c command, until moment) (time.Duration, error) {
	return clockWithin(ctx, p, c, until, commandLimit)
}

func clockWithin(ctx context.Context, p *place, c command, until moment, limit time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env = p.work, p.env
	// asked first, so that drover can end what it started
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewReader(out)
	_, readErr := lines.ReadString('\n')
	first := time.Since(began)
	_, drainErr := io.Copy(io.Discard, lines)
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("run %s: %w: %s", c.show, err, strings.TrimSpace(said.String()))
	}
	whole := time.Since(began)
	switch {
	case readErr != nil:
		return 0, fmt.Errorf("read the output of %s: no first line: %w", c.show, readErr)
	case drainErr != nil:
		return 0, fmt.Errorf("read the output of %s: %w", c.show, drainErr)
	case until == untilFirst:
		return first, nil
	}
	return whole, nil
}

// interpreterOf asks a Python for the path of its real program.
func interpreterOf(ctx context.Context, python string) (string, error) {
	out, err := exec.CommandContext(ctx, python, "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return "", fmt.Errorf("find the interpreter to measure beside: %s: %w", python, err)
	}
	return strings.TrimSpace(string(out)), nil
}
