package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// minCrashSpeed is how fast the rest of a chunk must run after its agent was
	// killed, beside the same items of an undisturbed job.
	minCrashSpeed = 0.9
	// crashChunk is the size of the chunk of the agent that is killed, and chunksOfOne is how
	// many chunks a job of one agent has.
	crashChunk  = 4000
	chunksOfOne = 8
)

// crashAt are the parts of the last chunk that are done when its agent is killed. They
// lie further apart than an agent of eight slots begins items ahead of their results
// (512), as two kills by chance mostly do, so that no item can have caused both.
var crashAt = []float64{0.1, 0.35}

// afterACrash kills the agent of a map twice while it works on the last chunk, and
// compares the speed of the chunk's rest with that of the same items in a job that
// nothing disturbs.
func afterACrash(ctx context.Context, h *hall) (string, []string, error) {
	items := h.cutItems(chunksOfOne * crashChunk)
	line := fmt.Sprintf("drover map -q --from 1-%d -j 8 -- /bin/true {}", items)
	var b strings.Builder
	fmt.Fprintf(&b, "to finish a chunk of %s items whose agent was killed twice (kill -9): %s\n", grouped(items/chunksOfOne), line)
	if items < chunksOfOne*crashChunk {
		b.WriteString("  claim: the rest of the chunk: not judged: the chunk is shorter than what two agents may have begun\n")
		return b.String(), nil, nil
	}
	var parts speeds // of the normal speed
	for range h.options.rounds {
		h.useNewStore()
		if _, _, err := h.timeCommand(ctx, line, items); err != nil {
			return "", nil, err
		}
		whole, err := h.itemEnds(ctx, items)
		if err != nil {
			return "", nil, err
		}
		h.useNewStore()
		killed, err := h.killAtLastChunk(ctx, line, items)
		if err != nil {
			return "", nil, err
		}
		if killed.IsZero() {
			b.WriteString("  claim: the rest of the chunk: not judged: the job had ended, or no process of it was seen, before its agent could be killed\n")
			return b.String(), nil, nil
		}
		ends, err := h.itemEnds(ctx, items)
		if err != nil {
			return "", nil, err
		}
		rest := slices.DeleteFunc(itemsFrom(items-items/chunksOfOne+1, items), func(n int) bool { return ends[n-1].Before(killed) })
		after, normal := speedOf(rest, ends), speedOf(rest, whole)
		parts = append(parts, after/normal)
		fmt.Fprintf(&b, "  %7s items after the second kill  %7s/s  undisturbed %7s/s  %.2f of it\n", grouped(len(rest)), grouped(int(after)), grouped(int(normal)), after/normal)
	}
	if _, err := theStoreAgrees(ctx, h, items); err != nil {
		return "", nil, err
	}
	broken := verdict(&b, "the rest of the chunk runs at 0.9 of its normal speed or better", parts.medianSpeed() >= minCrashSpeed, fmt.Sprintf("%.2f of it", parts.medianSpeed()))
	return b.String(), broken, nil
}

func itemsFrom(first, last int) (items []int) {
	for n := first; n <= last; n++ {
		items = append(items, n)
	}
	return items
}

// speedOf is how many of these items ended in a second, from the first end to the last.
func speedOf(items []int, ends []time.Time) float64 {
	if len(items) < 2 {
		return 0
	}
	at := func(n int) time.Time { return ends[n-1] }
	byEnd := func(a, b int) int { return at(a).Compare(at(b)) }
	took := at(slices.MaxFunc(items, byEnd)).Sub(at(slices.MinFunc(items, byEnd)))
	return float64(len(items)-1) / took.Seconds()
}

// itemEnds are the times at which the items of the last job ended, by their number.
func (h *hall) itemEnds(ctx context.Context, items int) ([]time.Time, error) {
	text, _, err := h.timeCommand(ctx, "drover results last --json", items)
	if err != nil {
		return nil, err
	}
	ends := make([]time.Time, items)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var r struct {
			Item  int       `json:"item"`
			Ended time.Time `json:"ended"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r.Item < 1 || r.Item > items {
			return nil, fmt.Errorf("read the results: %.100s: %w", lines.Text(), err)
		}
		ends[r.Item-1] = r.Ended
	}
	if n := slices.IndexFunc(ends, time.Time.IsZero); n >= 0 {
		return nil, fmt.Errorf("read the results: item %d has none", n+1)
	}
	return ends, nil
}

// killAtLastChunk runs a line and kills its agent at each part of the last chunk that crashAt
// names. It gives the time of the last kill; the zero time says that not all were done.
func (h *hall) killAtLastChunk(ctx context.Context, line string, items int) (last time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+time.Duration(items)*10*time.Millisecond)
	defer cancel()
	cmd := h.shellCommand(ctx, "exec "+line)
	var complained bytes.Buffer
	cmd.Stderr = &complained
	if err := cmd.Start(); err != nil {
		return last, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	chunk, kills := items/chunksOfOne, 0
	for kills < len(crashAt) {
		select {
		case err := <-ended:
			return time.Time{}, describe(err, line, complained.String())
		case <-time.After(lookEvery):
		}
		if done := h.succeeded(ctx); done < items-chunk+int(crashAt[kills]*float64(chunk)) || done == items {
			continue
		}
		if h.killAgents() {
			kills, last = kills+1, time.Now()
		}
	}
	return last, describe(<-ended, line, complained.String())
}

// lookEvery is how often the bench asks how far a job is: a chunk lasts seconds.
const lookEvery = 20 * time.Millisecond

func describe(err error, line, complained string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("run %s: %w: %s", line, err, lastLines(complained))
}

// succeeded is how many items of the last job have succeeded; 0 while there is none.
func (h *hall) succeeded(ctx context.Context) int {
	out, err := h.shellCommand(ctx, "exec drover status last --json").Output()
	var status struct {
		Items struct {
			Succeeded int `json:"succeeded"`
		} `json:"items"`
	}
	if err != nil || json.Unmarshal(out, &status) != nil {
		return 0
	}
	return status.Items.Succeeded
}

// killAgents kills the agents that run, and says whether there was one.
func (h *hall) killAgents() (found bool) {
	for _, process := range h.program().Living() {
		number, words, _ := strings.Cut(process, " ")
		pid, err := strconv.Atoi(number)
		if err != nil || words != "(drover agent)" {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil || !errors.Is(err, syscall.ESRCH) {
			found = true
		}
	}
	return found
}
