package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// mapOptions is what the command line says about the map sections.
type mapOptions struct {
	rounds int    // how often each dispatcher runs, in turn
	most   int    // the longest job of map-cost
	items  int    // no command runs more than these; 0: as many as its section wants
	peers  string // a Python environment with the peers that come from a package index
	// sources is the folder of the peers in Go
	sources string
	agents  int    // of map-agents
	s3      string // versitygw, for map-agents; "": it measures folders alone
}

// us is the runner that the claims are about.
const us = "drover"

// contest is one comparison of dispatchers: the first runner is drover, and its
// claims are ratios of its speed to the others'.
type contest struct {
	to      string
	runners []runner
	claims  []ratio
	// after looks at what drover's last run left, in the store that the run wrote: a
	// line for the report.
	after func(ctx context.Context, h *hall, items int) (string, error)
}

// runner is a dispatcher of processes: how it is told to run items.
type runner struct {
	who   string
	items int // as many as make its own start small in the whole
	// line is what a shell is given; it stands in the report as it is.
	line func(items int) string
	// lack says why it cannot run on this machine; "": it can. nil: always.
	lack func(*hall) string
	// undo ends what the line has begun, when the clock has stopped
	undo string
	// says: the last word it prints is its own count of seconds, without its start
	says bool
	// keeps: it is drover, and has a new store for each run
	keeps bool
	// leaves is what the items wrote, together, into the file "written" of the hall,
	// for a runner with an exit status that does not say that all have run. 0: not looked at.
	leaves int
}

// ratio is a claim: at least so many times the speed of another.
type ratio struct {
	over        string
	least, goal float64 // goal: 0, or what we would like
	// limit is a runner that no other can be faster than: to reach it is enough, where
	// the machine leaves no such ratio.
	limit string
}

// mapSections are about `drover map`, each beside programs that start a process
// for each item, as it does.
var mapSections = []section{
	dispatch("map-tiny", contest{
		to:      "run a tiny static program that writes 64 bytes; drover's are captured, attributed and durable",
		runners: []runner{drover(20_000, "tiny {}"), xargs("tiny", 64), vfork("../bin/tiny", 64)},
		claims:  []ratio{{over: "xargs", least: 1.5, goal: 2}},
		after:   everyByteIsWhereItBelongs,
	}),
	dispatch("map-true", contest{
		to:      "run /bin/true",
		runners: []runner{drover(20_000, "/bin/true {}"), xargs("/bin/true", 0), vfork("/bin/true", 0)},
		claims:  []ratio{{over: "xargs", least: 1.4, limit: "vfork"}, {over: "vfork", least: 0.75}},
		after:   theStoreAgrees,
	}),
	dispatch("map-parallel", overTrue(parallel, 8)),
	dispatch("map-hyperqueue", overTrue(hyperqueue, 5)),
	dispatch("map-ray", overTrue(ray, 3)),
	dispatch("map-dask", overTrue(dask, 4)),
	dispatch("map-enqueue", contest{
		to:      "accept 1,000,000 lines as items, durably",
		runners: []runner{accept, sqlite},
		claims:  []ratio{{over: "sqlite", least: 0.5}},
	}),
	{name: "map-cost", needs: "cc", trial: costPerItem},
	{name: "map-agents", needs: "cc", trial: mostAgents},
	{name: "map-memory", needs: "cc", trial: memoryOfAMillion},
	{name: "map-resume", needs: "cc", trial: resumeAMillion},
	{name: "map-crash", needs: "cc", trial: afterACrash},
	{name: "map-pilot", needs: "cc", trial: forecasts},
	{name: "map-retry", needs: "cc", trial: retryOfAMillion},
}

func dispatch(name string, c contest) section {
	return section{name: name, needs: "cc", trial: func(ctx context.Context, h *hall) (string, []string, error) {
		return c.runContest(ctx, h)
	}}
}

// overTrue is drover beside one peer on /bin/true, a process per item for both.
func overTrue(peer runner, least float64) contest {
	return contest{
		to:      "run /bin/true",
		runners: []runner{drover(20_000, "/bin/true {}"), peer, vfork("/bin/true", 0)},
		claims:  []ratio{{over: peer.who, least: least, limit: "vfork"}},
	}
}

// speeds are the rounds of one runner, in items a second.
type speeds []float64

func (s speeds) medianSpeed() float64 {
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// runContest runs all that can, in turn, and gives the report and the claims that do not hold.
func (c contest) runContest(ctx context.Context, h *hall) (report string, broken []string, err error) {
	lacks := map[string]string{}
	var present []runner
	for _, r := range c.runners {
		if r.lack != nil {
			if why := r.lack(h); why != "" {
				lacks[r.who] = why
				continue
			}
		}
		present = append(present, r)
	}
	for _, r := range present {
		if _, err := h.raceRunner(ctx, r, h.cutItems(r.items)/10+1); err != nil { // for nothing: the disk's cache, the first start
			return "", nil, err
		}
	}
	took := map[string]speeds{}
	for round := range h.options.rounds {
		// no runner always comes after the same other
		for i := range present {
			r := present[(round+i)%len(present)]
			speed, err := h.raceRunner(ctx, r, h.cutItems(r.items))
			if err != nil {
				return "", nil, err
			}
			took[r.who] = append(took[r.who], speed)
		}
	}
	var b strings.Builder
	c.writeTable(&b, h, lacks, took)
	broken = c.judgeClaims(&b, lacks, took)
	if c.after != nil {
		line, err := c.after(ctx, h, h.cutItems(c.runners[0].items))
		if err != nil {
			return "", nil, err
		}
		fmt.Fprintf(&b, "  %s\n", line)
	}
	return b.String(), broken, nil
}

func (c contest) writeTable(b *strings.Builder, h *hall, lacks map[string]string, took map[string]speeds) {
	fmt.Fprintf(b, "to %s\n", c.to)
	for _, r := range c.runners {
		if why := lacks[r.who]; why != "" {
			fmt.Fprintf(b, "  %-10s not measured: %s\n", r.who, why)
			continue
		}
		n, s := h.cutItems(r.items), took[r.who]
		fmt.Fprintf(b, "  %-10s %9s items  median %9s/s  best %9s/s  %s\n",
			r.who, grouped(n), grouped(int(s.medianSpeed())), grouped(int(slices.Max(s))), r.line(n))
	}
}

// judgeClaims adds a line for every claim, and gives those that do not hold. A peer that
// is not here proves nothing and breaks nothing.
func (c contest) judgeClaims(b *strings.Builder, lacks map[string]string, took map[string]speeds) (broken []string) {
	ours := took[c.runners[0].who]
	for _, r := range c.runners[1:] {
		claimed := slices.IndexFunc(c.claims, func(x ratio) bool { return x.over == r.who })
		if lacks[r.who] != "" {
			if claimed >= 0 {
				fmt.Fprintf(b, "  claim: %s: not judged\n", c.claims[claimed])
			}
			continue
		}
		times := ours.medianSpeed() / took[r.who].medianSpeed()
		if claimed < 0 {
			fmt.Fprintf(b, "  %.2f times %s\n", times, r.who)
			continue
		}
		claim, verdict := c.claims[claimed], "holds"
		if reached := claim.limit != "" && lacks[claim.limit] == "" && ours.medianSpeed() >= took[claim.limit].medianSpeed(); times < claim.least && !reached {
			verdict = "DOES NOT HOLD"
			broken = append(broken, fmt.Sprintf("the claim %q does not hold: %.2f times (medians)", claim, times))
		}
		fmt.Fprintf(b, "  claim: %s: %.2f: %s\n", claim, times, verdict)
	}
	return broken
}

func (r ratio) String() string {
	text := fmt.Sprintf("at least %g times the speed of %s", r.least, r.over)
	if r.goal > 0 {
		text += fmt.Sprintf(" (goal %g)", r.goal)
	}
	if r.limit != "" {
		text += ", or " + r.limit + "'s own"
	}
	return text
}

// raceRunner runs a runner once, drover in a new store, and gives its items a second.
func (h *hall) raceRunner(ctx context.Context, r runner, items int) (float64, error) {
	if err := h.writeItems(items); err != nil {
		return 0, err
	}
	if r.who == us || r.keeps {
		h.useNewStore() // a peer's run leaves drover's last one to be looked at
	}
	said, took, err := h.timeCommand(ctx, r.line(items), items)
	if err != nil {
		return 0, err
	}
	if r.says {
		if took, err = lastWord(said); err != nil {
			return 0, fmt.Errorf("read the output of %s: %w", r.line(items), err)
		}
	}
	if r.undo != "" {
		if _, _, err := h.timeCommand(ctx, r.undo, items); err != nil {
			return 0, err
		}
	}
	if err := h.checkItemsFile(r.leaves * items); err != nil {
		return 0, fmt.Errorf("run %s: %w", r.line(items), err)
	}
	return float64(items) / took.Seconds(), nil
}

// lastWord is the number of seconds at the end of what was said.
func lastWord(said string) (time.Duration, error) {
	words := strings.Fields(said)
	if len(words) == 0 {
		return 0, fmt.Errorf("no number of seconds")
	}
	took, err := time.ParseDuration(words[len(words)-1] + "s")
	if err == nil && took <= 0 {
		err = fmt.Errorf("%q is no time to run in", words[len(words)-1])
	}
	return took, err
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
