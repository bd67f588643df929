package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSearch is how much longer than grep a search may take: it reads as many bytes,
// and finds for each line the item that printed it.
const maxSearch = 1.5

const searchClaim = "a search takes at most 1.5 times zstdcat | grep -E on the same bytes"

const (
	writeLogs  = `drover map -q --from 1-%d --stream -j 2 -- "$python" "$PWD/../scripts/prints.py"`
	copyLogs   = `drover logs last --source stdout | zstd -q -o ../logs.zst -f`
	searchLogs = `drover logs last --search 'loss=0\.0' >../found`
	grepLogs   = `zstdcat ../logs.zst | grep -E 'loss=0\.0' >../grepped`
)

var searchSections = []section{{name: "map-search", needs: "cc", trial: searchOfAMillion}}

// searchOfAMillion has a job print, once, and looks through what it printed with drover
// and with grep in turn.
func searchOfAMillion(ctx context.Context, h *hall) (string, []string, error) {
	items := h.cutItems(1_000_000)
	var b strings.Builder
	fmt.Fprintf(&b, "to look through the logs of %s items, seven lines each: "+writeLogs+"\n", grouped(items), items)
	if why := onPath("zstd")(h); why != "" {
		fmt.Fprintf(&b, "  grep       not measured: %s\n  claim: %s: not judged\n", why, searchClaim)
		return b.String(), nil, nil
	}
	h.useNewStore()
	for _, line := range []string{fmt.Sprintf(writeLogs, items), copyLogs} {
		if _, _, err := h.timeCommand(ctx, line, items); err != nil {
			return "", nil, err
		}
	}
	var ours, peer times
	for round := range max(h.options.rounds, 5) + 1 {
		_, a, err := h.timeCommand(ctx, searchLogs, items)
		if err != nil {
			return "", nil, err
		}
		_, p, err := h.timeCommand(ctx, grepLogs, items)
		if err != nil {
			return "", nil, err
		}
		if round > 0 { // the first is for nothing: the disk's cache
			ours, peer = append(ours, a), append(peer, p)
		}
	}
	lines, err := h.sameLines()
	if err != nil {
		return "", nil, err
	}
	for _, row := range []struct {
		who, line string
		t         times
	}{{us, searchLogs, ours}, {"grep", grepLogs, peer}} {
		fmt.Fprintf(&b, "  %-10s median %9s  best %9s  %s\n", row.who, row.t.medianTime().Round(time.Millisecond), row.t.shortestTime().Round(time.Millisecond), row.line)
	}
	fmt.Fprintf(&b, "  both found the same %s lines, and drover whose each is\n", grouped(lines))
	times := float64(ours.medianTime()) / float64(peer.medianTime())
	broken := verdict(&b, searchClaim, times <= maxSearch, fmt.Sprintf("%.2f times", times))
	return b.String(), broken, nil
}

// sameLines says how many lines were found, if both found the same ones and each of
// drover's is one that its item printed.
func (h *hall) sameLines() (int, error) {
	found, err := os.ReadFile(filepath.Join(h.dir, "found"))
	if err != nil {
		return 0, err
	}
	grepped, err := os.ReadFile(filepath.Join(h.dir, "grepped"))
	if err != nil {
		return 0, err
	}
	var ours, peers []string
	for lines := bufio.NewScanner(bytes.NewReader(found)); lines.Scan(); {
		head, line, _ := strings.Cut(lines.Text(), "] ")
		item, err := strconv.Atoi(strings.TrimPrefix(head, "["))
		if err != nil || !printedBy(item, line) {
			return 0, fmt.Errorf("look at what drover found: %q is not what that item printed", lines.Text())
		}
		ours = append(ours, line)
	}
	for lines := bufio.NewScanner(bytes.NewReader(grepped)); lines.Scan(); {
		peers = append(peers, lines.Text())
	}
	slices.Sort(ours)
	slices.Sort(peers)
	if len(ours) == 0 || !slices.Equal(ours, peers) {
		return 0, fmt.Errorf("compare what was found: drover has %d lines, grep %d, and they are not the same", len(ours), len(peers))
	}
	return len(ours), nil
}

// printedBy says whether prints.py prints that line for that item.
func printedBy(item int, line string) bool {
	for i, root := range []int{1000, 1414, 1732, 2000, 2236, 2449, 2646} {
		mixed := (item*2654435761 + (i+1)*974711) & 0xffffffff
		loss := (1500 + (mixed>>16)*10000/65536) * 1000 / root
		if line == fmt.Sprintf("epoch=%d loss=%d.%04d accuracy=0.%04d", i+1, loss/10000, loss%10000, mixed&0x3ff) {
			return true
		}
	}
	return false
}
