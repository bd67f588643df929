package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/bench/bucket"
)

// maxAgent is what one agent may add to what the machine holds.
const maxAgent = 40 << 20

// mostAgents are jobs of many agents, one slot each, in one store, a folder and an S3
// server: what they hold, how fast they claim, what they ask for, at work and idle, and
// that nothing is lost.
func mostAgents(ctx context.Context, h *hall) (string, []string, error) {
	items := h.cutItems(100 * h.options.agents)
	agents := min(h.options.agents, max(1, items/25)) // to see that it works needs few
	var b strings.Builder
	fmt.Fprintf(&b, "to run %s items with %d agents of one slot\n", grouped(items), agents)
	broken, err := h.manyAgents(ctx, &b, "a folder", agents, items)
	if err != nil || h.options.s3 == "" {
		b.WriteString("  over S3: not measured: say -s3 with versitygw, or make scale-real\n")
		return b.String(), broken, err
	}
	if h.far, err = bucket.OpenGateway(h.options.s3, filepath.Join(h.dir, "s3")); err != nil {
		return "", nil, err
	}
	defer func() {
		h.far.Close()
		h.far = nil
	}()
	if err := h.far.WaitUntilReady(); err != nil {
		return "", nil, err
	}
	more, err := h.manyAgents(ctx, &b, "an S3 server", agents, items)
	return b.String(), slices.Concat(broken, more), err
}

// manyAgents is that over one store.
func (h *hall) manyAgents(ctx context.Context, b *strings.Builder, over string, agents, items int) ([]string, error) {
	line := fmt.Sprintf("drover map -q --workers %d -j 1 --from 1-%d -- silent", agents, items)
	h.useNewStore()
	stop, before := h.program().WatchShares(ctx), h.requestsSoFar()
	_, took, err := h.timeCommand(ctx, line, 10*items) // a far store takes longer
	held, asked := stop(), h.requestsSoFar().Since(before)
	if err != nil {
		return nil, err
	}
	agrees, err := theStoreAgrees(ctx, h, items)
	if err != nil {
		return nil, err
	}
	objects, claims, peak, err := h.countClaims()
	if err != nil {
		return nil, err
	}
	idle, err := h.measureIdle(ctx, agents)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(b, "  over %s: %s\n    took %s; %s\n", over, line, took.Round(time.Millisecond), agrees)
	fmt.Fprintf(b, "    %s chunks were claimed, %.0f a second, %d in one at most; each has %.1f objects\n", grouped(claims), float64(claims)/took.Seconds(), peak, float64(objects)/float64(max(1, claims)))
	if h.far != nil {
		each := func(n int) float64 { return float64(n) / float64(max(1, claims)) }
		fmt.Fprintf(b, "    a chunk cost %.1f requests, with those of the agents and the command line: %.1f writes, %.1f lists, %.1f reads\n", each(asked.Total()), each(asked.Writes), each(asked.Lists), each(asked.Reads))
	}
	fmt.Fprintf(b, "    %s\n", idle)
	claim := "over " + over + " an agent adds at most 40 MiB to what the machine holds"
	if len(held.Each) == 0 {
		fmt.Fprintf(b, "    claim: %s: not judged: no agent was seen in /proc\n", claim)
		return nil, nil
	}
	slices.Sort(held.Each)
	median := held.Each[len(held.Each)/2]
	fmt.Fprintf(b, "    %d agents and the command line held %.0f MiB at most, an agent %.1f (median)\n", len(held.Each), mebi(held.Sum), mebi(median))
	return verdict(b, claim, median <= maxAgent, fmt.Sprintf("%.1f MiB", mebi(median))), nil
}

// requestsSoFar is what the S3 server was asked for so far, of a folder nothing.
func (h *hall) requestsSoFar() bucket.Requests {
	if h.far == nil {
		return bucket.Requests{}
	}
	return h.far.Counts()
}

// idleFor is how long idle agents are watched: less than the two minutes after which
// those leave that need not stay. pollEvery is enough to see that it works.
const (
	idleFor   = time.Minute
	pollEvery = 5 * time.Second
)

// measureIdle has one agent of a job work and all others wait for work, and says what that
// costs. It waits until each has said that it is idle.
func (h *hall) measureIdle(ctx context.Context, agents int) (string, error) {
	if agents < 2 {
		return "idle agents: not measured: there is one agent", nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	h.useNewStore()
	enough := filepath.Join(h.dir, "enough")
	defer os.Remove(enough)
	cmd := h.shellCommand(ctx, fmt.Sprintf("drover map -q --workers %d -j 1 --from 1-%d --shell 'test {} != 1 || while ! test -e %s; do sleep 0.2; done'", agents, agents, enough))
	var complained bytes.Buffer
	cmd.Stderr = &complained
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	watched, stop := context.WithCancel(ctx)
	go func() { // ends with the command
		ended <- cmd.Wait()
		stop()
	}()
	report, err := h.watchIdle(watched, agents-1)
	if err = errors.Join(err, os.WriteFile(enough, nil, 0o600), <-ended); err != nil {
		return "", fmt.Errorf("watch idle agents: %w: %s", err, lastLines(complained.String()))
	}
	return report, nil
}

func (h *hall) watchIdle(ctx context.Context, agents int) (string, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		hands, err := filepath.Glob(filepath.Join(h.storePath(), "*", "*", "*", "idle", "*"))
		if err != nil {
			return "", err
		}
		if len(hands) >= agents {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("%d of %d agents are idle: %w", len(hands), agents, context.Cause(ctx))
		}
	}
	watched := idleFor
	if h.options.items > 0 {
		watched = pollEvery
	}
	asked, burnt, began := h.requestsSoFar(), h.program().AgentCPUTime(), time.Now()
	select {
	case <-time.After(watched):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	took := time.Since(began).Minutes()
	asked, burnt = h.requestsSoFar().Since(asked), h.program().AgentCPUTime()-burnt
	each := func(n int) float64 { return float64(n) / float64(agents+1) / took }
	report := fmt.Sprintf("%d agents that waited for work while one worked: %.0f ms of a core a minute each", agents, each(int(burnt/time.Millisecond)))
	if h.far != nil {
		report += fmt.Sprintf(", and %.1f writes, %.1f lists, %.1f reads", each(asked.Writes), each(asked.Lists), each(asked.Reads))
	}
	return report, nil
}

func mebi(n int64) float64 { return float64(n) / (1 << 20) }

// countClaims counts the objects of all chunks' logs, the logs, and how many of these began
// in one second at most.
func (h *hall) countClaims() (objects, claims, peak int, err error) {
	seconds := map[int64]int{}
	err = filepath.WalkDir(h.storePath(), func(path string, d fs.DirEntry, err error) error {
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
