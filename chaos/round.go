//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"
)

// round is one job: begun, hit, brought to its end, judged.
type round struct {
	lane  *lane
	work  work
	flaky bool // its processes are the flaky program's
	plan  []planned
	tends *rand.Rand // of how its owner behaves

	command  *exec.Cmd // the command line that is attached; nil: none
	ended    chan error
	alone    time.Time // no user types anything until then
	commands int
	undos    []undo
	filled   bool

	began   time.Time
	took    time.Duration
	hit     map[string]int
	again   int // items that may have run again without a record, because of the hits
	found   verified
	ran     map[int]int     // how often each item was begun, by the programs' own notes
	lost    int             // items without their right result
	double  int             // items with more than one
	stray   int             // processes that were not ended
	overS3  bool            // its facts are in the lane's bucket
	asked   int             // requests, of a drill
	befell  int             // of which something happened to
	damaged map[string]bool // what another writer has left in the store, by name
	broken  []string        // what else is wrong, and these again, in words
}

const (
	// a command that is not hit any more has ended by then: it may wait for a lease
	// (60 s), and for the scan that finds what no agent holds (180 s)
	longest = 6 * time.Minute
	// so often is the same command typed after the last hit: items that were killed
	// have failed, and run again; more than a few are a job that does not end
	mostCommands = 12
	// agents of a command that has ended end by themselves, at the latest when they see
	// in the job's log that there is nothing more to do
	goneWithin = 45 * time.Second
)

// newRound draws a round. left: until no new one begins.
func newRound(l *lane, r *rand.Rand, left time.Duration) *round {
	x := &round{lane: l, work: drawWork(r), hit: map[string]int{}}
	x.flaky = r.IntN(3) > 0 && l.flaky
	for range 2 + r.IntN(7) {
		x.plan = append(x.plan, draw(r))
	}
	// a minute and a half, in which the other lanes go on
	if long := r.IntN(8) == 0; long && left > 2*time.Minute && x.work.kind != "run" {
		p := draw(r)
		p.hit = pastLease
		x.plan = append([]planned{p}, x.plan...)
	}
	x.tends = rand.New(rand.NewPCG(r.Uint64(), 1))
	l.overS3 = l.bucket != nil && r.IntN(3) == 0
	x.overS3 = l.overS3
	return x
}

func (r *round) playRound(ctx context.Context) error {
	r.began = time.Now()
	defer r.lane.endAllProcesses() // what is left after the verdict
	if err := r.tendJob(ctx); err != nil {
		return err
	}
	for _, p := range r.plan {
		if err := r.waitAndTend(ctx, p.after, false); err != nil {
			return err
		}
		if r.command == nil && r.isFinished(ctx) {
			break // before the blows came
		}
		struck, err := p.do(r, p)
		if err != nil {
			return err
		}
		if struck {
			r.hit[p.name]++
			r.again += r.work.mostInFlight(p.again)
		}
	}
	if err := r.waitAndTend(ctx, 0, true); err != nil {
		return err
	}
	ends, err := r.bringToItsEnd(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if ends {
		err = r.judgeOutcome(ctx)
	}
	r.took = time.Since(r.began)
	if err == nil && len(r.broken) == 0 {
		err = os.RemoveAll(r.lane.storePath())
	}
	return err
}

// tendJob is what the job's owner does: while none is attached, and the job is not
// finished, the same command is typed again, or resume; sometimes after a while.
func (r *round) tendJob(ctx context.Context) error {
	if r.command != nil {
		select {
		case <-r.ended:
			r.command = nil
			if r.tends.IntN(3) == 0 {
				r.alone = time.Now().Add(time.Duration(r.tends.IntN(3000)) * time.Millisecond)
			}
		default:
			return nil
		}
	}
	if time.Now().Before(r.alone) || ctx.Err() != nil || r.commands > 0 && r.isFinished(ctx) {
		return nil
	}
	return r.startJob(ctx)
}

func (r *round) startJob(ctx context.Context) error {
	args := r.work.commandArgs(r.taskName(), r.lane.outputPath("runs"))
	if r.commands > 0 && r.tends.IntN(4) == 0 {
		args = []string{"resume", "last"}
	}
	said, err := os.OpenFile(r.lane.outputPath("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer said.Close()
	r.commands++
	fmt.Fprintf(said, "--- %s: command %d: drover %s\n", time.Now().Format("15:04:05.000"), r.commands, strings.Join(args, " "))
	c := r.lane.droverCommand(ctx, r.flaky, args...)
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		return err
	}
	r.command, r.ended = c, make(chan error, 1)
	ended := r.ended
	go func() { ended <- c.Wait() }() // read by tend and waitForCommand
	return nil
}

func (r *round) taskName() string { return fmt.Sprintf("round%d", r.lane.round) }

// bringToItsEnd goes on in calm weather until the job is finished as it must be.
func (r *round) bringToItsEnd(ctx context.Context) (bool, error) {
	r.alone = time.Time{}
	for range mostCommands {
		if r.command == nil {
			if r.isFinished(ctx) {
				return true, nil
			}
			if err := r.startJob(ctx); err != nil {
				return false, err
			}
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(longest):
			r.noteWrong("a command has not ended %s after the last hit: see %s", longest, r.lane.outputPath("log"))
			return false, nil
		case <-r.ended:
			r.command = nil
		}
	}
	if r.isFinished(ctx) {
		return true, nil
	}
	r.noteWrong("the job does not come to its end: %d times was the same command typed after the last hit: see %s", mostCommands, r.lane.outputPath("log"))
	return false, nil
}

// status is what drover status --json says, as far as it is looked at.
type status struct {
	State string
	Items struct{ Items, Succeeded, Failed, Quarantined, Cancelled int }
}

// isFinished says whether the newest job is as it must be in the end. While there is
// none, or nothing can be read, it is not.
func (r *round) isFinished(ctx context.Context) bool {
	text, err := r.runReadCommand(ctx, "status", "last", "--json")
	var s status
	if err != nil || json.Unmarshal(text, &s) != nil {
		return false
	}
	if r.work.kind == "run" {
		return s.State == "SUCCEEDED"
	}
	return s.Items.Succeeded == r.work.items-r.work.countFailing() && s.Items.Failed == r.work.countFailing() &&
		(s.State == "SUCCEEDED" || s.State == "FAILED")
}

// runReadCommand runs a command that looks: always of the program as it is released.
func (r *round) runReadCommand(ctx context.Context, args ...string) ([]byte, error) {
	out, err := r.lane.droverCommand(ctx, false, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("drover %s: %w: %s%s", strings.Join(args, " "), err, out, exit.Stderr)
	}
	return out, err
}

func (r *round) noteWrong(format string, args ...any) {
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}
