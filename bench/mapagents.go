package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// manyAgents work for one job on one machine, each a process of its own
	manyAgents = 200
	// maxAgent is what one of them may add to what the machine holds
	maxAgent = 40 << 20
)

// shares is what drover's processes hold: of pages that several hold each its part.
type shares struct {
	sum  int64   // of all
	each []int64 // of each agent
}

// mostAgents is a job of 200 agents, one slot each, in one store: what they hold, how
// fast they claim, and that nothing is lost.
func mostAgents(ctx context.Context, h *hall) (string, []string, error) {
	items := h.cut(20_000)
	agents := min(manyAgents, max(1, items/100)) // to see that it works needs few
	line := fmt.Sprintf("drover map -q --workers %d -j 1 --from 1-%d -- silent", agents, items)
	h.newStore()
	stop := h.sample(ctx)
	_, took, err := h.clock(ctx, line, items)
	held := stop()
	if err != nil {
		return "", nil, err
	}
	agrees, err := theStoreAgrees(ctx, h, items)
	if err != nil {
		return "", nil, err
	}
	objects, claims, peak, err := h.claims()
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "to run %s items with %d agents: %s\n  took %s; %s\n", grouped(items), agents, line, took.Round(time.Millisecond), agrees)
	fmt.Fprintf(&b, "  %s chunks were claimed, %d a second at most, and each has %.1f objects\n", grouped(claims), peak, float64(objects)/float64(max(1, claims)))
	const claim = "an agent adds at most 40 MiB to what the machine holds"
	if len(held.each) == 0 {
		fmt.Fprintf(&b, "  claim: %s: not judged: no agent was seen in /proc\n", claim)
		return b.String(), nil, nil
	}
	slices.Sort(held.each)
	median := held.each[len(held.each)/2]
	fmt.Fprintf(&b, "  %d agents and the command line held %.0f MiB at most, an agent %.1f (median)\n", len(held.each), mebi(held.sum), mebi(median))
	return b.String(), verdict(&b, claim, median <= maxAgent, fmt.Sprintf("%.1f MiB", mebi(median))), nil
}

func mebi(n int64) float64 { return float64(n) / (1 << 20) }

// sample looks at all processes twice a second until the function it gives is called,
// which answers with the moment in which most was held.
func (h *hall) sample(ctx context.Context) func() shares {
	ctx, cancel := context.WithCancel(ctx)
	seen := make(chan shares)
	go func() { // ends with ctx
		var most shares
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			if now := h.shares(); now.sum > most.sum {
				most = now
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				seen <- most
				return
			}
		}
	}()
	return func() shares {
		cancel()
		return <-seen
	}
}

// claims counts the objects of all chunks' logs, the logs, and how many of these began
// in one second at most.
func (h *hall) claims() (objects, claims, peak int, err error) {
	seconds := map[int64]int{}
	err = filepath.WalkDir(h.store(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "/chunks/") {
			return err
		}
		if objects++; d.Name() != "00000000" {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		claims++
		seconds[info.ModTime().Unix()]++
		peak = max(peak, seconds[info.ModTime().Unix()])
		return nil
	})
	return objects, claims, peak, err
}
