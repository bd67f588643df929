package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// sampleEvery is rare enough to cost nothing and often enough: the kernel keeps
// each process's peak until it ends, and those that grow live as long as the job.
const sampleEvery = 200 * time.Millisecond

// memory is the highest resident size of drover's processes, by what they are.
type memory map[string]int64

func (m memory) addMemory(other memory) memory {
	all := memory{}
	for _, one := range []memory{m, other} {
		for who, peak := range one {
			all[who] = max(all[who], peak)
		}
	}
	return all
}

// judgePeaks adds a line with every peak, and the claim's; a system that does not tell
// has none, and breaks nothing.
func (m memory) judgePeaks(b *strings.Builder) []string {
	const claim = "no process of drover's holds more than 100 MiB"
	if len(m) == 0 {
		fmt.Fprintf(b, "  claim: %s: not judged: no process was seen in /proc\n", claim)
		return nil
	}
	var words []string
	for _, who := range slices.Sorted(maps.Keys(m)) {
		words = append(words, fmt.Sprintf("%s %.1f MiB", who, float64(m[who])/(1<<20)))
	}
	highest := slices.Max(slices.Collect(maps.Values(m)))
	fmt.Fprintf(b, "  peak resident size: %s\n", strings.Join(words, ", "))
	return verdict(b, claim, highest <= maxResident, fmt.Sprintf("%.1f MiB", float64(highest)/(1<<20)))
}

// watchMemory samples until the function it gives is called, which answers with the peaks.
func (h *hall) watchMemory(ctx context.Context) func() memory {
	ctx, cancel := context.WithCancel(ctx)
	seen := make(chan memory)
	go func() {
		peaks := memory{}
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			peaks = peaks.addMemory(h.residentPeaks())
			select {
			case <-tick.C:
			case <-ctx.Done():
				seen <- peaks
				return
			}
		}
	}()
	return func() memory {
		cancel()
		return <-seen
	}
}
