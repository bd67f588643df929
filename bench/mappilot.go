package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// maxOff is how many times too long or too short a pilot's forecast may be: a user that asks
// whether something takes an hour or a day is served well by less.
const maxOff = 2

// flight is a workload that a pilot is to tell the length of.
type flight struct {
	name, what string
	items      int
	line       func(items int, flags string) string
}

// pilots are of three kinds: items that cost drover more than the program, items of
// which no two are alike, and programs that are slow to load.
var pilots = []flight{
	{"tiny", "a tiny static program", 20_000, func(n int, flags string) string {
		return fmt.Sprintf("drover map -q %s --from 1-%d -j 8 -- silent {}", flags, n)
	}},
	{"uneven", "sleeps of 20 to 200 ms", 1_000, func(n int, flags string) string {
		return fmt.Sprintf("drover map -q %s --from 1-%d -j 16 --shell -- 'sleep $(awk \"BEGIN { srand({}); print 0.02 + 0.18 * rand() }\")'", flags, n)
	}},
	{"stream", "2 Python programs that load for 1 s, and answer in 20 ms", 500, func(n int, flags string) string {
		return fmt.Sprintf(`drover map -q %s --from 1-%d -j 2 --stream -- $python -c 'import time, drover; time.sleep(1); drover.map(lambda item: time.sleep(0.02))'`, flags, n)
	}},
}

// forecasts lets a pilot of 20 foretell each, and runs it whole.
func forecasts(ctx context.Context, h *hall) (string, []string, error) {
	var b strings.Builder
	var broken []string
	b.WriteString("to tell from 20 items how long all of them take\n")
	for _, f := range pilots {
		n := h.cutItems(f.items)
		if n <= 20 {
			fmt.Fprintf(&b, "  %-7s not measured: %d items need no pilot\n", f.name, n)
			continue
		}
		told, took, err := h.timeForecast(ctx, f, n)
		if err != nil {
			return "", nil, err
		}
		fmt.Fprintf(&b, "  %-7s %7s items  forecast %7s  truth %7s  %s\n", f.name, grouped(n), told.Round(time.Millisecond), took.Round(time.Millisecond), f.what)
		off := float64(told) / float64(took)
		broken = append(broken, verdict(&b, "the forecast of "+f.name+" items is within 2 times the truth", off <= maxOff && off >= 1.0/maxOff, fmt.Sprintf("%.2f times", off))...)
	}
	return b.String(), broken, nil
}

// timeForecast runs a pilot, and then all items in a store of their own, start and end of
// the command included.
func (h *hall) timeForecast(ctx context.Context, f flight, items int) (told, took time.Duration, err error) {
	h.useNewStore()
	line := f.line(items, "--pilot 20 --json")
	said, _, err := h.timeCommand(ctx, line, items)
	if err != nil {
		return 0, 0, err
	}
	var pilot struct {
		Forecast struct {
			Seconds float64 `json:"seconds"`
		} `json:"forecast"`
	}
	if err := json.Unmarshal([]byte(said), &pilot); err != nil {
		return 0, 0, fmt.Errorf("read the forecast of %s: %q: %w", line, said, err)
	}
	if pilot.Forecast.Seconds <= 0 {
		return 0, 0, fmt.Errorf("read the forecast of %s: %q: no time is foretold", line, said)
	}
	h.useNewStore()
	_, took, err = h.timeCommand(ctx, f.line(items, ""), items)
	return time.Duration(pilot.Forecast.Seconds * float64(time.Second)), took, err
}
