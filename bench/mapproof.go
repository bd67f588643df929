package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
)

// looks is how many items' logs are read back, byte by byte, after a timed run.
const looks = 100

// everyByteIsWhereItBelongs looks at the run that was just timed: speed that loses
// or mixes up output is none.
func everyByteIsWhereItBelongs(ctx context.Context, h *hall, items int) (string, error) {
	verdict, err := theStoreAgrees(ctx, h, items)
	if err != nil {
		return "", err
	}
	for range looks {
		n := 1 + rand.IntN(items)
		line := fmt.Sprintf("drover logs last --item %d", n)
		said, _, err := h.timeCommand(ctx, line, 1)
		if err != nil {
			return "", err
		}
		if want := tinySays(itemText(n)); said != want {
			return "", fmt.Errorf("compare the log of item %d with what it wrote: %s: it printed %q, and not %q", n, line, said, want)
		}
	}
	return fmt.Sprintf("%s; drover logs last --item K gave exactly item K's bytes for %d random K", verdict, looks), nil
}

// theStoreAgrees has drover verify the run that was just timed.
func theStoreAgrees(ctx context.Context, h *hall, items int) (string, error) {
	if _, _, err := h.timeCommand(ctx, "drover verify last", items); err != nil {
		return "", err
	}
	return "drover verify last agrees", nil
}

// tinySays is what tiny.c writes for an argument.
func tinySays(word string) string {
	const line = 64
	if len(word) > line-1 {
		word = word[:line-1]
	}
	return word + strings.Repeat(".", line-1-len(word)) + "\n"
}
