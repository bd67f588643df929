package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxAgain is what part of a large job's time it may take to run its items again that
// failed: one in a hundred, which are found first, for they lie apart.
const maxAgain = 0.1

// pickedEach is how many items of picky come to one that fails.
const pickedEach = 100

// retryOfAMillion runs a job of which one item in a hundred fails, mends its program
// and has these run again; beside it as many items in a new job.
func retryOfAMillion(ctx context.Context, h *hall) (string, []string, error) {
	items := max(h.cutItems(1_000_000), pickedEach)
	bad := items / pickedEach
	line := fmt.Sprintf("drover map -q --from 1-%d -j 8 -- picky {}", items)
	retry, fresh := "drover retry -q last", fmt.Sprintf("drover map -q --from 1-%d -j 8 -- silent {}", bad)
	var whole time.Duration
	var again, anew times
	for round := range h.options.rounds {
		if round > 0 && items > 100_000 {
			break // long enough to be its own median
		}
		if err := h.makeFailingProgram(ctx); err != nil {
			return "", nil, err
		}
		h.useNewStore()
		_, took, err := h.timeCommand(ctx, line+"; test $? = 1", items)
		if err != nil {
			return "", nil, err
		}
		if err := h.mendProgram(); err != nil {
			return "", nil, err
		}
		_, second, err := h.timeCommand(ctx, retry, items)
		if err != nil {
			return "", nil, err
		}
		if _, err := theStoreAgrees(ctx, h, items); err != nil {
			return "", nil, err
		}
		h.useNewStore()
		_, third, err := h.timeCommand(ctx, fresh, items)
		if err != nil {
			return "", nil, err
		}
		whole, again, anew = took, append(again, second), append(anew, third)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "to run %s of %s items again, which failed: %s\n", grouped(bad), grouped(items), retry)
	for _, row := range []struct {
		what string
		took time.Duration
	}{{line, whole}, {retry, again.medianTime()}, {fresh, anew.medianTime()}} {
		fmt.Fprintf(&b, "  %10s  %s\n", row.took.Round(time.Millisecond), row.what)
	}
	fmt.Fprintf(&b, "  %.2f times what they take as a new job\n", float64(again.medianTime())/float64(anew.medianTime()))
	part := float64(again.medianTime()) / float64(whole)
	broken := verdict(&b, "one percent of a job runs again in at most a tenth of its time", part <= maxAgain, fmt.Sprintf("%.3f of it", part))
	return b.String(), broken, nil
}

// makeFailingProgram makes the program that fails for every hundredth item.
func (h *hall) makeFailingProgram(ctx context.Context) error {
	return h.compileProgram(ctx, "picky", "tiny.c", append([]string{"-DSILENT", "-DPICKY"}, how()...)...)
}

// mendProgram puts one that never fails in its place. It is no code of the job's: it is
// found on PATH.
func (h *hall) mendProgram() error {
	bin := filepath.Join(h.dir, "bin")
	return errors.Join(copyFile(filepath.Join(bin, "mended"), filepath.Join(bin, "silent")),
		os.Rename(filepath.Join(bin, "mended"), filepath.Join(bin, "picky")))
}
