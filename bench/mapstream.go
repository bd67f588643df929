package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// streamSections are about `drover map --stream`, with programs that stay: no runner starts a
// process for an item.
var streamSections = []section{
	dispatch("map-stream", contest{
		to:      "square 100,000 numbers in two programs that stay; drover's answers are durable, and each has its item",
		runners: []runner{streamed(us, "$python square.py", nil), streamed("drover-go", "stream -worker drover", goPeers), squared("grpc", 1), squared("bidi", 1), squared("pipe", 1), squared("pipe", 2)},
		claims:  []ratio{{over: "grpc", least: 1}, {over: "pipe", least: 0.35}},
		after:   everySquareIsRight,
	}),
}

// streamed is drover, with a program that asks for items; its start and its end are in the
// time, and those of the programs.
func streamed(who, program string, lack func(*hall) string) runner {
	return runner{who: who, items: 100_000, keeps: true, lack: lack, line: func(n int) string {
		return fmt.Sprintf("cd ../squares && seq %d | drover map -q --from - -j 2 --stream -- %s", n, program)
	}}
}

// squared is workers in Go, and the process that tells them what to do: see bench/peers/stream. It
// fails when an answer is wrong or missing.
func squared(proto string, workers int) runner {
	who := proto
	if workers > 1 {
		who = fmt.Sprintf("%s-%d", proto, workers)
	}
	return runner{who: who, items: 100_000, lack: goPeers, line: func(n int) string {
		return fmt.Sprintf("stream -proto %s -items %d -workers %d -window 64", proto, n, workers)
	}}
}

// goPeers builds the peers in Go, once, with the caller's own module cache: what they
// stand on is none of drover's dependencies.
func goPeers(h *hall) string {
	if h.goPeers == nil {
		why := h.buildGoPeers()
		h.goPeers = &why
	}
	return *h.goPeers
}

// buildLimit is minutes on a slow machine, where gRPC has never been compiled.
const buildLimit = 5 * time.Minute

func (h *hall) buildGoPeers() (why string) {
	if _, err := os.Stat(filepath.Join(h.options.sources, "go.mod")); err != nil {
		return fmt.Sprintf("there is no Go program in %q: run it in drover's own folder", h.options.sources)
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-C", h.options.sources, "-o", filepath.Join(h.dir, "bin", "stream"), ".")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Sprintf("%s cannot be built: %v: %s", h.options.sources, err, lines[len(lines)-1])
	}
	return ""
}

// everySquareIsRight looks at the answers of the run that was just timed, all of them.
func everySquareIsRight(ctx context.Context, h *hall, items int) (string, error) {
	verdict, err := theStoreAgrees(ctx, h, items)
	if err != nil {
		return "", err
	}
	const line = "cd ../squares && drover results last --json"
	said, _, err := h.timeCommand(ctx, line, items)
	if err != nil {
		return "", err
	}
	results := json.NewDecoder(strings.NewReader(said))
	for n := 1; n <= items; n++ {
		var r struct {
			Item   int    `json:"item"`
			Stdout string `json:"stdout"`
		}
		if err := results.Decode(&r); err != nil {
			return "", fmt.Errorf("read the output of %s: item %d: %w", line, n, err)
		}
		if r.Item != n || r.Stdout != strconv.Itoa(n*n) {
			return "", fmt.Errorf("compare the answer of item %d with its square: %s: item %d has %q", n, line, r.Item, r.Stdout)
		}
	}
	return fmt.Sprintf("%s; drover results last has the squares of 1 to %s", verdict, grouped(items)), nil
}
