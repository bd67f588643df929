package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/bench/process"
)

// judgePeaks adds a line with every peak, and the claim's; a system that does not tell
// has none, and breaks nothing.
func judgePeaks(m process.Memory, b *strings.Builder) []string {
	const claim = "no process of drover's holds more than 100 MiB"
	if len(m) == 0 {
		fmt.Fprintf(b, "  claim: %s: not judged: no process was seen in /proc\n", claim)
		return nil
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		words = append(words, fmt.Sprintf("%s %.1f MiB", name, float64(m[name])/(1<<20)))
	}
	highest := slices.Max(slices.Collect(maps.Values(m)))
	fmt.Fprintf(b, "  peak resident size: %s\n", strings.Join(words, ", "))
	return verdict(b, claim, highest <= maxResident, fmt.Sprintf("%.1f MiB", float64(highest)/(1<<20)))
}
