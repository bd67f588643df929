package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

// Claims are this machine's GPUs as locked files in a folder, so that two nodes
// or jobs never get the same one, whatever the store. A lock lives as long as
// the process that took it: nothing is left to clean up after a kill -9. The
// files stay, because who removes one that another process has just opened gives
// two of them the GPU. Who uses another folder is not seen; it must lie on a
// disk of this machine, where nobody tidies up.
type Claims struct {
	Folder string
	// wait pauses between two looks; a seam for tests, nil is a timer.
	wait func(context.Context, time.Duration) error
}

const (
	// claimPause is how often a waiter looks: a person does not notice it, and a
	// hundred waiters cost nothing.
	claimPause = 200 * time.Millisecond
	// gatePause is how long a waiter stands back when another one is choosing,
	// which takes well below a millisecond.
	gatePause = 5 * time.Millisecond
)

// Take waits until n of gpus are free, takes them and gives them in the order of
// their indices: of all that are free those that stand closest together, and of
// these the lowest. It takes all or none, and holds nothing while it waits. told,
// which may be nil, is called once, before it waits, with a sentence saying who
// holds what. label says who it is for, "job 7fk2 node 1". The end of ctx ends
// the wait. It is a fault of kind Full when there are not that many.
//
// release gives them back, and may be called twice; without it they are held
// until the process ends. A child process does not inherit them.
//
// Who waits longest is not served first, and who wants many may wait long beside
// many who want few. A queue was refused: with two nodes of a job on a machine of
// two GPUs, and somebody in between who wants both, the first node would wait for
// the second, that one for its turn, and that for the first node's GPU.
func (c Claims) Take(ctx context.Context, gpus []GPU, n int, label string, told func(string)) (held []GPU, release func(), err error) {
	if n <= 0 {
		return nil, func() {}, nil
	}
	doing := "claim " + countGPUs(n)
	gpus = inOrder(gpus)
	switch hint := "Ask for fewer with --gpus, or run it where there are more."; {
	case len(gpus) == 0:
		return nil, nil, fault.New(fault.Full, hint, "%s: this machine has none", doing)
	case len(gpus) < n:
		return nil, nil, fault.New(fault.Full, hint, "%s: this machine has %d", doing, len(gpus))
	}
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return nil, nil, c.fault(err, doing)
	}
	wait := c.wait
	if wait == nil {
		wait = pause
	}
	for said := false; ; {
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("%s: %w", doing, context.Cause(ctx))
		}
		taken, others, err := c.try(gpus, n, label)
		stand := claimPause
		switch {
		case errors.Is(err, errGate):
			stand = gatePause
		case err != nil:
			return nil, nil, c.fault(err, doing)
		case taken != nil:
			held, release = taken.give()
			return held, release, nil
		case !said && told != nil:
			told(sentence(n, others))
			said = true
		}
		if err := wait(ctx, stand); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// inOrder sorts a copy by index. A GPU that stands there twice counts once.
func inOrder(gpus []GPU) []GPU {
	gpus = slices.Clone(gpus)
	slices.SortStableFunc(gpus, func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
	seen := map[string]bool{}
	return slices.DeleteFunc(gpus, func(g GPU) bool {
		again := seen[lockName(g)]
		seen[lockName(g)] = true
		return again
	})
}

// lockName is the name of a GPU's lock file. MIG devices of old drivers have
// slashes in their names, which become a digest.
func lockName(g GPU) string {
	switch {
	case g.UUID == "":
		return fmt.Sprintf("gpu_%d.lock", g.Index) // no UUID has a low line
	case strings.Trim(g.UUID, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") == "" && len(g.UUID) < 100:
		return g.UUID + ".lock"
	}
	return fmt.Sprintf("%x.lock", sha256.Sum256([]byte(g.UUID)))
}

// claim is a GPU and the descriptor that locks its file. It is a number and no
// os.File: the collector would close that, and so give the GPU to somebody else,
// when nobody keeps release.
type claim struct {
	GPU
	fd int
}

type claims []claim

// give says which GPUs these are, and how to give them back.
func (all claims) give() (held []GPU, release func()) {
	for _, one := range all {
		held = append(held, one.GPU)
	}
	return held, sync.OnceFunc(all.drop)
}

func (all claims) drop() {
	for _, one := range all {
		unlock(one.fd)
	}
}

// errGate says that somebody else is choosing at this moment.
var errGate = errors.New("another process is choosing")

// try takes n of gpus, or none; then others are who hold the rest. A gate lets
// one process choose at a time: without it two who want all GPUs could each find
// one that the other is only trying, over and over.
func (c Claims) try(gpus []GPU, n int, label string) (taken claims, others []holder, err error) {
	gate, err := lock(filepath.Join(c.Folder, "gate.lock"))
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil, errGate
	}
	if err != nil {
		return nil, nil, err
	}
	defer unlock(gate)
	var free claims
	for _, g := range gpus {
		path := filepath.Join(c.Folder, lockName(g))
		switch fd, err := lock(path); {
		case errors.Is(err, unix.EWOULDBLOCK):
			others = append(others, holder{g, readNote(path)})
		case err != nil:
			free.drop()
			return nil, nil, err
		default:
			free = append(free, claim{g, fd})
		}
	}
	if len(free) < n {
		free.drop()
		return nil, others, nil
	}
	first := together(free, n)
	taken = slices.Clone(free[first : first+n])
	free[:first].drop()
	free[first+n:].drop()
	mine := note{PID: os.Getpid(), Label: label, Since: time.Now().UTC().Truncate(time.Second)}
	for _, one := range taken {
		mine.write(one.fd)
	}
	return taken, nil, nil
}

// together finds where the n that stand closest together begin; the lowest of several.
func together(free claims, n int) (first int) {
	span := func(i int) int { return free[i+n-1].Index - free[i].Index }
	for i := range len(free) - n + 1 {
		if span(i) < span(first) {
			first = i
		}
	}
	return first
}

// lock opens a file, made when it is not there, and locks it or fails with
// EWOULDBLOCK. No child process inherits it.
func lock(path string) (fd int, err error) {
	err = again(func() error {
		fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
		return err
	})
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err := again(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		unix.Close(fd)
		return -1, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return fd, nil
}

// unlock says so before it closes: a child that is being started this moment has
// a copy of the descriptor until it is another program.
func unlock(fd int) {
	again(func() error { return unix.Flock(fd, unix.LOCK_UN) })
	unix.Close(fd)
}

// again repeats what a signal has interrupted.
func again(do func() error) error {
	for {
		if err := do(); err != syscall.EINTR {
			return err
		}
	}
}

func (c Claims) fault(err error, doing string) error {
	kind, hint := fault.Denied, "GPUs are set apart by locks in "+c.Folder+": it must be a folder on this machine's own disk that you may write to."
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		kind, hint = fault.Full, "Close some programs, or raise ulimit -n."
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		kind, hint = fault.Full, "Free some space and run it again."
	}
	return fault.Wrap(err, kind, hint, "%s", doing)
}

func countGPUs(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}
