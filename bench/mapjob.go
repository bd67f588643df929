package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/bench/process"
)

const (
	// how much more an item may cost in the longest job than in one of 10,000: nothing
	// an agent or a command line does may grow with what is behind it
	maxGrowth = 1.1
	// what any process of drover's may hold, however many items there are
	maxResident = 100 << 20
	// how much longer than undisturbed a job may take that was interrupted at half:
	// an agent's start, and the items that were in flight
	maxDetour = 1.15
	// what it may take to say how a finished job of a million items ended, and to find
	// that it need not be run again: no test reads a million results for that
	maxPoll = time.Second
)

func ranged(items int) string {
	return fmt.Sprintf("drover map -q --from 1-%d -j 8 -- silent", items)
}

// costPerItem runs ever longer jobs. The short ones are repeated around the long
// one, so that both meet the same load.
func costPerItem(ctx context.Context, h *hall) (string, []string, error) {
	var sizes []int
	for n := 10_000; n <= max(h.options.most, 10_000); n *= 10 {
		if last := len(sizes) - 1; last < 0 || h.cutItems(n) > sizes[last] {
			sizes = append(sizes, h.cutItems(n))
		}
	}
	costs := map[int]times{}
	var held process.Memory
	for round := range h.options.rounds {
		for _, n := range sizes {
			if round > 0 && n > 100_000 {
				continue // long enough to be its own median
			}
			took, peaks, err := h.watchRun(ctx, ranged(n), n)
			if err != nil {
				return "", nil, err
			}
			costs[n], held = append(costs[n], took/time.Duration(n)), held.Add(peaks)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "to run a tiny static program that writes nothing, from a range: %s\n", ranged(sizes[len(sizes)-1]))
	for _, n := range sizes {
		fmt.Fprintf(&b, "  %10s items  median %7.1f us an item, of %d\n", grouped(n), micros(costs[n].medianTime()), len(costs[n]))
	}
	broken := judgePeaks(held, &b)
	if len(sizes) == 1 {
		fmt.Fprintf(&b, "  claim: %s: not judged: it has only one length\n", costClaim)
		return b.String(), broken, nil
	}
	growth := float64(costs[sizes[len(sizes)-1]].medianTime()) / float64(costs[sizes[0]].medianTime())
	broken = append(broken, verdict(&b, costClaim, growth <= maxGrowth, fmt.Sprintf("%.2f times", growth))...)
	return b.String(), broken, nil
}

const costClaim = "an item of the longest job costs at most 1.1 times one of the shortest"

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// verdict adds a claim's line, and gives the claim if it does not hold.
func verdict(b *strings.Builder, claim string, holds bool, got string) []string {
	if holds {
		fmt.Fprintf(b, "  claim: %s: %s: holds\n", claim, got)
		return nil
	}
	fmt.Fprintf(b, "  claim: %s: %s: DOES NOT HOLD\n", claim, got)
	return []string{fmt.Sprintf("the claim %q does not hold: %s", claim, got)}
}

// watchRun runs a line in a new store and looks at drover's processes all the while.
func (h *hall) watchRun(ctx context.Context, line string, items int) (time.Duration, process.Memory, error) {
	h.useNewStore()
	stop := h.program().WatchMemory(ctx)
	_, took, err := h.timeCommand(ctx, line, items)
	return took, stop(), err
}

// memoryOfAMillion reads its items from a pipe: it is unknown how many will come.
func memoryOfAMillion(ctx context.Context, h *hall) (string, []string, error) {
	items := h.cutItems(1_000_000)
	line := fmt.Sprintf("seq %d | drover map -q --from - -j 8 -- silent", items)
	took, peaks, err := h.watchRun(ctx, line, items)
	if err != nil {
		return "", nil, err
	}
	agrees, err := theStoreAgrees(ctx, h, items)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "to run %s items from a pipe: %s\n  took %s; %s\n", grouped(items), line, took.Round(time.Millisecond), agrees)
	broken := judgePeaks(peaks, &b)
	return b.String(), broken, nil
}

// resumeAMillion runs a job undisturbed, then interrupts one at half and types the
// same command again, and looks at what is finished.
func resumeAMillion(ctx context.Context, h *hall) (string, []string, error) {
	items := h.cutItems(1_000_000)
	line := fmt.Sprintf("drover map -q -t million --from 1-%d -j 8 -- silent", items)
	h.useNewStore()
	_, whole, err := h.timeCommand(ctx, line, items)
	if err != nil {
		return "", nil, err
	}
	h.useNewStore()
	first, missed, err := h.interrupted(ctx, line, whole/2)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "to finish %s items, interrupted at half: %s\n  undisturbed %s\n", grouped(items), line, whole.Round(time.Millisecond))
	_, second, err := h.timeCommand(ctx, line, items)
	if err != nil {
		return "", nil, err
	}
	if missed {
		b.WriteString("  claim: an interruption: not judged: it came before the job had begun, or after it had ended\n")
		return b.String(), nil, nil
	}
	agrees, err := theStoreAgrees(ctx, h, items)
	if err != nil {
		return "", nil, err
	}
	detour := float64(first+second) / float64(whole)
	fmt.Fprintf(&b, "  Ctrl-C, until it has ended %s; the same command again %s; %s\n",
		first.Round(time.Millisecond), second.Round(time.Millisecond), agrees)
	broken := verdict(&b, "an interruption makes a job take at most 1.15 times as long", detour <= maxDetour, fmt.Sprintf("%.2f times", detour))
	for _, glance := range []string{"drover status last", line} {
		_, took, err := h.timeCommand(ctx, glance, items)
		if err != nil {
			return "", nil, err
		}
		broken = append(broken, verdict(&b, "a look at the finished job takes at most 1 s: "+glance, took <= maxPoll, took.Round(time.Millisecond).String())...)
	}
	return b.String(), broken, nil
}

// interrupted starts a line, sends what Ctrl-C sends after a while, and gives the
// time until it had ended. ended: there was nothing left to interrupt.
func (h *hall) interrupted(ctx context.Context, line string, after time.Duration) (took time.Duration, ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*after+2*time.Minute)
	defer cancel()
	cmd := h.shellCommand(ctx, "exec "+line)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, false, err
	}
	bell := time.AfterFunc(after, func() {
		// of a process that Wait below has not taken, or has: then there is no process to hear
		_ = cmd.Process.Signal(syscall.SIGINT)
	})
	err = cmd.Wait()
	bell.Stop()
	took = time.Since(began)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return took, true, nil
	case errors.As(err, &exit) && exit.ExitCode() == 130:
		return took, false, nil
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGINT:
		return took, true, nil
	}
	return took, false, fmt.Errorf("interrupt %s: %w", line, err)
}
