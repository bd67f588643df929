//go:build linux

// Command chaos runs real jobs with a real drover, injects faults at random into
// everything that takes part in them, brings each job to its end, and compares what
// drover says with what the programs must have given.
//
// It refuses to know how drover works inside, but for two things by which it cleans
// up: which processes are drover's, and where drover keeps its folders.
// docs/chaos.md says which faults are injected and what is checked. chaos_test.go proves
// that each check finds what it looks for; make test-real runs it for half a minute.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	drover, flaky, python string // programs; flaky is drover built with -tags chaos, or empty
	s3                    string // versitygw; empty: no round is over S3
	drills                bool
	length                time.Duration
	seed                  uint64
	lanes                 int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE) // the reader of the log may go: the disks must be taken away all the same
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program: 0 nothing was found, 1 something was, 2 it could not be
// looked for.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == "-intruder" { // no flag: it is for startIntruder alone
		if err := intrude(ctx, os.Stdin, stdout); err != nil {
			fmt.Fprintln(stderr, "chaos:", err)
			return 2
		}
		return 0
	}
	o, code := parse(args, stderr)
	if code >= 0 {
		return code
	}
	out := &logger{w: stdout, began: time.Now()}
	play := rounds
	if o.drills {
		play = drills
	}
	bad, err := chaos(ctx, o, out, play)
	if err != nil {
		fmt.Fprintln(stderr, "chaos:", err)
		return 2
	}
	if bad {
		fmt.Fprintf(stderr, "chaos: promises were broken; the same choices again: make chaos CHAOSFLAGS='-seed %d -lanes %d'\n", o.seed, o.lanes)
		return 1
	}
	return 0
}

// parse reads the command line; code is not negative if there is nothing to run.
func parse(args []string, stderr io.Writer) (o options, code int) {
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.drover, "drover", "bin/drover", "the program to hit, and the one that verifies")
	f.StringVar(&o.flaky, "flaky", "", "the same, built with -tags chaos: for brown-outs of the store (without it there are none)")
	f.StringVar(&o.python, "python", "python3", "the interpreter of the programs that stay")
	f.StringVar(&o.s3, "s3", "", "versitygw, a real S3 server: for rounds and drills over one (without it there are none)")
	f.BoolVar(&o.drills, "drills", false, "no rounds: maps over S3 without a net for two minutes, and with a failing one")
	f.DurationVar(&o.length, "for", 10*time.Minute, "begin rounds for so long")
	f.Uint64Var(&o.seed, "seed", 0, "repeat the choices of another time (0: new ones)")
	f.IntVar(&o.lanes, "lanes", 3, "rounds at once, each lane with a home and a store of its own")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, 0
		}
		return o, 2
	}
	switch {
	case f.NArg() > 0:
		fmt.Fprintf(stderr, "chaos: read the command line: %q: chaos takes flags only\n", f.Arg(0))
		return o, 2
	case o.drills && o.s3 == "":
		fmt.Fprintln(stderr, "chaos: read the command line: -drills are over S3: say -s3 with versitygw")
		return o, 2
	case o.lanes < 1 || o.length <= 0:
		fmt.Fprintf(stderr, "chaos: read the command line: -lanes %d -for %s: at least one, and some time\n", o.lanes, o.length)
		return o, 2
	}
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(1_000_000) // short enough to be typed again
	}
	return o, -1
}

// chaos plays in a folder that is kept if anything is found.
func chaos(ctx context.Context, o options, out *logger, play func(context.Context, options, string, *logger) (bad bool, err error)) (bad bool, err error) {
	for _, program := range []*string{&o.drover, &o.flaky, &o.python, &o.s3} {
		if *program == "" {
			continue
		}
		found, err := exec.LookPath(*program)
		if err == nil {
			*program, err = filepath.Abs(found)
		}
		if err != nil {
			return false, fmt.Errorf("find the programs: %w: run make chaos", err)
		}
	}
	dir, err := os.MkdirTemp("", "drover-chaos-")
	if err != nil {
		return false, err
	}
	switch bad, err = play(ctx, o, dir, out); {
	case err != nil:
		return bad, fmt.Errorf("%w; what is left is in %s", err, dir)
	case bad:
		out.printLine("what was found is kept in %s", dir)
		return bad, nil
	}
	return bad, os.RemoveAll(dir)
}

// rounds are the lanes beside each other, until the time is over.
func rounds(ctx context.Context, o options, dir string, out *logger) (bad bool, err error) {
	out.printLine("seed %d, %d lanes, %s, in %s", o.seed, o.lanes, o.length, dir)
	total := newTally()
	until := time.Now().Add(o.length)
	other, err := startIntruder(ctx, dir, o.lanes)
	if err != nil {
		return false, err
	}
	if other == nil {
		out.printLine("another user: left out: only root may become one")
	}
	failed := make([]error, o.lanes)
	var lanes sync.WaitGroup
	for n := range o.lanes {
		lanes.Go(func() { failed[n] = laneOf(ctx, o, dir, n, until, out, total) })
	}
	lanes.Wait()
	if other != nil {
		err = total.addIntruder(other.stopIntruder())
	}
	if err := errors.Join(append(failed, err)...); err != nil {
		return false, err
	}
	out.printLine("%s", total.tallyText(time.Since(out.began)))
	return total.foundWrong(), nil
}

// laneOf makes a lane and plays rounds in it.
func laneOf(ctx context.Context, o options, dir string, n int, until time.Time, out *logger, total *tally) (err error) {
	l, err := newLane(o, filepath.Join(dir, fmt.Sprintf("lane%d", n)), n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.removeDisk()) }()
	if l.full == nil && n == 0 {
		out.printLine("disk full: left out: only root may mount a small file system to fill")
	}
	if o.s3 == "" && n == 0 {
		out.printLine("rounds over S3: left out: say -s3 with versitygw")
	}
	if o.flaky == "" && n == 0 {
		out.printLine("brown-outs: left out: say -flaky with a drover built with -tags chaos")
	}
	for l.round = 1; ctx.Err() == nil && time.Now().Before(until); l.round++ {
		// Each round's choices follow from the seed, its lane and its number alone,
		// however long the ones before it took.
		r := newRound(l, rand.New(rand.NewPCG(o.seed, uint64(n)<<32|uint64(l.round))), time.Until(until))
		err := r.playRound(ctx)
		if ctx.Err() != nil {
			return nil // half a round says nothing
		}
		if err != nil {
			return fmt.Errorf("lane %d round %d: %w", n, l.round, err)
		}
		total.addRound(r)
		out.printLine("lane %d round %d: %s", n, l.round, r.roundText())
		if len(r.broken) > 0 {
			l.keep = true // what it left is the evidence
			return nil
		}
	}
	return nil
}

// logger writes lines with the time since the beginning.
type logger struct {
	mu    sync.Mutex
	w     io.Writer
	began time.Time
}

func (l *logger) printLine(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%7.1fs %s\n", time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
}
