//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// hit is one thing that may happen to a round. do says whether there was any process to
// hit.
type hit struct {
	name   string
	weight int
	again  reach
	do     func(r *round, p planned) (bool, error)
}

// reach says for which agents' items in flight a hit allows another run without a record.
// What a dead agent leaves, and what an agent ends that is asked to leave, is in verify's
// bound already.
type reach int

const (
	nobody reach = iota
	oneProgram
	oneBacklog // what a minder was sent and has not reported
)

// planned is a hit with all that chance says of it: so that a seed says it again,
// any process that is there when its time comes.
type planned struct {
	hit
	after time.Duration // since the one before
	which uint64        // of those that may be hit
	share float64       // of the longest that it may last
}

// hits in a fixed order: which is drawn follows from the seed.
var hits = []hit{
	{"killed an agent", 4, nobody, send("agent", unix.SIGKILL)},
	{"ended an agent", 2, nobody, send("agent", unix.SIGTERM)},
	{"interrupted an agent", 1, nobody, send("agent", unix.SIGINT)},
	{"killed an item or program", 4, oneProgram, send("item", unix.SIGKILL)},
	{"ended an item or program", 1, oneProgram, send("item", unix.SIGTERM)},
	{"killed a minder", 2, oneBacklog, send("minder", unix.SIGKILL)},
	{"killed the command", 2, nobody, send("command", unix.SIGKILL)},
	{"interrupted the command", 2, nobody, send("command", unix.SIGINT)},
	{"ended the command", 1, nobody, send("command", unix.SIGTERM)},
	{"killed everything", 1, nobody, func(r *round, _ planned) (bool, error) { r.lane.endAllProcesses(); return true, nil }},
	{"stopped an agent for a moment", 2, nobody, pause(0, 3*time.Second)},
	{"filled the disk", 2, nobody, fillDisk},
	{"browned the store out", 6, nobody, brownOut},
	{"took the net away", 3, nobody, takeNetAway},
	{"had the net fail", 3, nobody, haveNetFail},
	{"damaged the store beside the job", 5, nobody, damageStore},
	{"attached beside a program", 2, nobody, attach},
}

// A stopped agent is dead to the others after a lease of 60 s. Then it wakes up.
var pastLease = hit{"stopped an agent past its lease", 0, nobody, pause(62*time.Second, 85*time.Second)}

// draw plans one hit.
func draw(r *rand.Rand) planned {
	sum := 0
	for _, h := range hits {
		sum += h.weight
	}
	p := planned{hit: hits[0], after: time.Duration(100+r.IntN(1900)) * time.Millisecond, which: r.Uint64(), share: r.Float64()}
	n := r.IntN(sum)
	for _, h := range hits {
		if n -= h.weight; n < 0 {
			p.hit = h
			break
		}
	}
	return p
}

// durationBetween is between least and most.
func (p planned) durationBetween(least, most time.Duration) time.Duration {
	return least + time.Duration(p.share*float64(most-least))
}

// send hits one process of a kind.
func send(kind string, sig unix.Signal) func(*round, planned) (bool, error) {
	return func(r *round, p planned) (bool, error) {
		pid := r.drawVictim(kind, p)
		// one that has just ended is none
		return pid != 0 && unix.Kill(pid, sig) == nil, nil
	}
}

func (r *round) drawVictim(kind string, p planned) int {
	some := of(r.lane.processes(), kind)
	if len(some) == 0 {
		return 0
	}
	return some[p.which%uint64(len(some))].pid
}

// pause stops an agent, and wakes it up later: its items go on meanwhile.
func pause(least, most time.Duration) func(*round, planned) (bool, error) {
	return func(r *round, p planned) (bool, error) {
		pid := r.drawVictim("agent", p)
		if pid == 0 || unix.Kill(pid, unix.SIGSTOP) != nil {
			return false, nil
		}
		r.doLater(p.durationBetween(least, most), func() { _ = unix.Kill(pid, unix.SIGCONT) }) // killed in between is as good
		return true, nil
	}
}

func fillDisk(r *round, p planned) (bool, error) {
	if r.lane.full == nil || r.filled {
		return false, nil
	}
	free, err := r.lane.full()
	if err != nil {
		return false, fmt.Errorf("fill the disk: %w", err)
	}
	r.filled = true
	r.doLater(p.durationBetween(200*time.Millisecond, 3*time.Second), func() { r.filled = false; free() })
	return true, nil
}

func brownOut(r *round, p planned) (bool, error) {
	if !r.flaky {
		return false, nil
	}
	length := p.durationBetween(500*time.Millisecond, 6*time.Second)
	if err := r.lane.startFaults(rand.New(rand.NewPCG(p.which, 0)), length); err != nil {
		return false, fmt.Errorf("brown out the store: %w", err)
	}
	r.doLater(length+100*time.Millisecond, func() {}) // it ends by itself
	return true, nil
}

// takeNetAway leaves all processes without the server of a round over S3.
func takeNetAway(r *round, p planned) (bool, error) {
	if !r.overS3 {
		return false, nil
	}
	length := p.durationBetween(500*time.Millisecond, 20*time.Second)
	r.lane.bucket.cutNetwork(length, p.which%2 == 0)
	r.doLater(length, func() {}) // it ends by itself
	return true, nil
}

// haveNetFail has requests of a round over S3 refused and lost.
func haveNetFail(r *round, p planned) (bool, error) {
	if !r.overS3 {
		return false, nil
	}
	r.lane.bucket.setFaults(ills{busy: 0.2 * p.share, late: 0.1, lost: 0.1})
	r.doLater(p.durationBetween(time.Second, 10*time.Second), func() { r.lane.bucket.setFaults(ills{}) })
	return true, nil
}

// undo is the end of a hit that lasts.
type undo struct {
	at time.Time
	do func()
}

func (r *round) doLater(length time.Duration, do func()) {
	r.undos = append(r.undos, undo{time.Now().Add(length), do})
}

// waitAndTend lets time pass, undoes what is due, and sees to it that an agent works on
// the job. all: until everything is undone.
func (r *round) waitAndTend(ctx context.Context, length time.Duration, all bool) error {
	for end := time.Now().Add(length); ctx.Err() == nil; {
		now := time.Now()
		left := r.undos[:0]
		for _, u := range r.undos {
			if now.Before(u.at) {
				left = append(left, u)
			} else {
				u.do()
			}
		}
		r.undos = left
		if all && len(left) == 0 || !all && now.After(end) {
			return nil
		}
		if err := r.tendJob(ctx); err != nil {
			return err
		}
		rest(ctx, 20*time.Millisecond)
	}
	for _, u := range r.undos {
		u.do()
	}
	r.undos = nil
	return nil
}
