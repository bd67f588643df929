//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A drill is a map over a real S3 server that one thing befalls, the same each time,
// to see how long it takes. No user types anything again: it must end by itself.
type drill struct {
	name   string
	befall func(ctx context.Context, r *round) error // while the map runs; it is begun then
}

// away is the longest that a net must be borne to be.
const away = 2 * time.Minute

// slower is by how much, at most, one refusal in twenty may slow a map down.
const slower = 1.10

// drilled is half a minute of work for four workers: what the net does shows beside
// it, and what the machine does beside us hardly.
var drilled = work{kind: "items", items: 800, workers: 4, slots: 2, pause: 0.2}

var (
	calmly  = drill{"calm", func(context.Context, *round) error { return nil }}
	busy    = drill{"5 % of requests refused (503)", ail(ills{busy: 0.05})}
	garbled = drill{"5 % refused, 5 % done without an answer, 2 % lost", ail(ills{busy: 0.05, late: 0.05, lost: 0.02})}
	refused = drill{"two minutes without net: connections are reset", without(false)}
	silent  = drill{"two minutes without net: nothing is answered", without(true)}
)

func ail(i ills) func(context.Context, *round) error {
	return func(_ context.Context, r *round) error {
		r.lane.bucket.setFaults(i)
		return nil
	}
}

// without takes the net away once the map is at work, and looks that nothing dies.
func without(mute bool) func(context.Context, *round) error {
	return func(ctx context.Context, r *round) error {
		if err := r.waitForItems(ctx, drilled.items/5); err != nil {
			return err
		}
		before := len(of(r.lane.processes(), "agent"))
		r.lane.bucket.cutNetwork(away, mute)
		rest(ctx, away-time.Second)
		if now := len(of(r.lane.processes(), "agent")); now != before {
			r.noteWrong("%d agents waited for the net, and %d are left", before, now)
		}
		return nil
	}
}

// waitForItems waits until so many items have been begun.
func (r *round) waitForItems(ctx context.Context, items int) error {
	for end := time.Now().Add(time.Minute); r.countBegun() < items; rest(ctx, 50*time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("wait for the map to work: %d items were begun of %d: see %s", r.countBegun(), items, r.lane.outputPath("log"))
		}
	}
	return nil
}

// playDrill begins the map, has it befallen, and judges what came of it.
func (d drill) playDrill(ctx context.Context, l *lane) (*round, error) {
	l.round++
	l.overS3 = true
	r := &round{lane: l, work: drilled, hit: map[string]int{}, tends: rand.New(rand.NewPCG(1, 1)), overS3: true}
	defer l.endAllProcesses()
	defer l.bucket.setFaults(ills{})
	l.bucket.resetCounts()
	r.began = time.Now()
	err := r.startJob(ctx)
	if err == nil {
		err = d.befall(ctx, r)
	}
	if err != nil {
		return r, err
	}
	ends, err := r.bringToItsEnd(ctx)
	r.took = time.Since(r.began)
	l.bucket.setFaults(ills{})
	r.asked, r.befell = l.bucket.resetCounts()
	if r.commands != 1 {
		r.noteWrong("the same command was typed %d times", r.commands)
	}
	if err == nil && ends {
		err = r.judgeOutcome(ctx)
	}
	return r, err
}

// drills plays them all, one after the other, in a lane of its own.
func drills(ctx context.Context, o options, dir string, out *logger) (broken bool, err error) {
	l, err := newLane(o, filepath.Join(dir, "drills"), 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.removeDisk()) }()
	var calm, storm []time.Duration
	for n, d := range []drill{calmly, busy, calmly, busy, calmly, busy, garbled, refused, silent} {
		r, err := d.playDrill(ctx, l)
		if err != nil {
			return broken, fmt.Errorf("drill %d, %s: %w", n+1, d.name, err)
		}
		switch d.name {
		case calmly.name:
			calm = append(calm, r.took)
		case busy.name:
			storm = append(storm, r.took)
		}
		verdict := "sound"
		if len(r.broken) > 0 {
			l.keep, broken, verdict = true, true, "BROKEN\n          "+strings.Join(r.broken, "\n          ")
		}
		out.printLine("drill: %s: %s in %.1f s, %d requests, %d of them ill, %d commands, %d extra runs of %d allowed, %d failed: %s",
			d.name, r.work, r.took.Seconds(), r.asked, r.befell, r.commands, r.extraRuns(), r.allowedExtra(), r.found.Tally.Failed, verdict)
	}
	ratio := middle(storm).Seconds() / middle(calm).Seconds()
	out.printLine("drill: 5 %% of requests refused: %.1f s, %.1f s calm: %.1f %% slower (at most %.0f %%)",
		middle(storm).Seconds(), middle(calm).Seconds(), 100*(ratio-1), 100*(slower-1))
	return broken || ratio > slower, nil
}

// middle is the median.
func middle(all []time.Duration) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
