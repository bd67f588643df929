package launcher

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// board is where the desks of the nodes in a test meet: the agents' side without
// a store between.
type board struct {
	mu      sync.Mutex
	changed chan struct{}
	servers map[string]func(context.Context, string) int
	lines   []string // that were carried
}

func newBoard() *board {
	return &board{changed: make(chan struct{}), servers: map[string]func(context.Context, string) int{}}
}

// seat is the desk of one node.
type seat struct {
	*board
	host string
}

var _ Calls = seat{}

func (s seat) Call(ctx context.Context, host, line string) (int, error) {
	switch {
	case host == s.host:
		return 0, ErrHere
	case !strings.HasPrefix(host, "algo-"):
		return 0, fmt.Errorf("call %s: it is not a node", host)
	}
	for {
		s.mu.Lock()
		run, changed := s.servers[host], s.changed
		if run != nil {
			s.lines = append(s.lines, host+": "+line)
		}
		s.mu.Unlock()
		if run != nil {
			return run(ctx, line), ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (s seat) Serve(ctx context.Context, run func(context.Context, string) int) error {
	set := func(run func(context.Context, string) int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.servers[s.host] = run
		close(s.changed)
		s.changed = make(chan struct{})
	}
	set(run)
	<-ctx.Done()
	set(nil)
	return nil
}

func (s seat) Alarm(int) {}

// open opens the desk of a node and gives its path and how to close it.
func (b *board) open(t *testing.T, host string) (path string, desk io.Closer) {
	t.Helper()
	d, path, err := Listen(filepath.Join(t.TempDir(), "desk"), seat{b, host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return path, d
}

// started is a command that runs.
type started struct {
	*exec.Cmd
	out, err bytes.Buffer
	t        *testing.T
}

// start starts a command line with more environment, and sees that it ends with
// the test.
func start(t *testing.T, argv []string, environ ...string) *started {
	t.Helper()
	s := &started{Cmd: exec.Command(argv[0], argv[1:]...), t: t}
	s.Env = append(os.Environ(), environ...)
	s.Dir, s.Stdout, s.Stderr = t.TempDir(), &s.out, &s.err
	return s
}

// begin starts it; s may have been changed before.
func (s *started) begin() *started {
	s.t.Helper()
	s.WaitDelay = 90 * time.Second // not a timing assertion: a process that was left fails here
	if err := s.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = s.Process.Kill() })
	return s
}
