package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/bench/process"
)

// mapActor is what the sections about maps need of drover, without a process for
// any item. Mixed up, it gives one item's output for another's.
func mapActor(args []string, mixedUp bool) int {
	list := filepath.Join(os.Getenv("DROVER_STORE"), "items")
	switch args[0] {
	case "map":
		if slices.Contains(args, "--pilot") {
			fmt.Println(`{"forecast":{"seconds":1000}}`)
			return 0
		}
		from := os.Stdin
		switch name := args[slices.Index(args, "--from")+1]; name {
		case "-":
		case "1-40":
			return 0 // a range
		default:
			file, err := os.Open(name)
			if err != nil {
				return 1
			}
			from = file
		}
		items, err := io.ReadAll(from)
		if err != nil || os.MkdirAll(filepath.Dir(list), 0o700) != nil || os.WriteFile(list, items, 0o600) != nil {
			return 1
		}
	case "logs":
		items, err := os.ReadFile(list)
		n, numberErr := strconv.Atoi(args[slices.Index(args, "--item")+1])
		if err != nil || numberErr != nil {
			return 1
		}
		if mixedUp {
			n = n%bytes.Count(items, []byte("\n")) + 1
		}
		fmt.Print(tinySays(strings.Split(string(items), "\n")[n-1]))
	case "results":
		items, err := os.ReadFile(list)
		if err != nil {
			return 1
		}
		for i, text := range strings.Fields(string(items)) {
			v, _ := strconv.Atoi(text)
			if mixedUp && i == 7 {
				v++
			}
			fmt.Printf("{\"v\":1,\"item\":%d,\"stdout\":\"%d\"}\n", i+1, v*v)
		}
	case "verify", "cancel":
		if _, err := os.Stat(list); err != nil {
			return 1
		}
	default:
		return 2
	}
	return 0
}

// standInHall is a hall with this test's own binary as drover.
func standInHall(t *testing.T, part string) *hall {
	t.Helper()
	p := standIn(t, part)
	p.maps = mapOptions{rounds: 3, items: 40, most: 100_000, peers: filepath.Join(p.dir, "absent")}
	h, err := newHall(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestADispatcherIsMeasuredBesideRealPeers(t *testing.T) {
	t.Parallel()
	h := standInHall(t, "maps")
	for _, want := range []struct {
		section string
		lines   []string
	}{
		{"map-tiny", []string{
			"drover map -q --from ../items-40 -j 8 -- tiny {}\n", "xargs -a ../items-40 -P8 -n1 tiny >../written\n", "vfork 40 8 ../bin/tiny >../written\n",
			"claim: at least 1.5 times the speed of xargs (goal 2): ", " times vfork\n", "exactly item K's bytes for 100 random K\n",
		}},
		{"map-true", []string{"claim: at least 0.75 times the speed of vfork: ", "drover verify last agrees\n"}},
		{"map-ray", []string{"ray        not measured: there is no ", "make bench-peers\n", "claim: at least 3 times the speed of ray, or vfork's own: not judged\n"}},
		{"map-stream", []string{
			"cd ../squares && seq 40 | drover map -q --from - -j 2 --stream -- $python square.py\n", `pipe       not measured: there is no Go program in "": `,
			"claim: at least 0.35 times the speed of pipe: not judged\n", "drover results last has the squares of 1 to 40\n",
		}},
		{"map-enqueue", []string{"drover map -q --detach ", "sqlite     not measured: ", " has no sqlite3\n"}},
	} {
		report, _, err := trialOf(t, want.section)(t.Context(), h)
		if err != nil {
			t.Fatalf("%s: %v", want.section, err)
		}
		for _, line := range want.lines {
			if !strings.Contains(report, line) {
				t.Errorf("%s: the report has no %q:\n%s", want.section, line, report)
			}
		}
		if err := h.removeLeftovers(t.Context()); err != nil {
			t.Errorf("%s: %v", want.section, err)
		}
	}
}

func trialOf(t *testing.T, name string) func(context.Context, *hall) (string, []string, error) {
	t.Helper()
	chosen, err := choose("^"+name+"$", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return chosen[0].trial
}

func TestOutputThatBelongsToAnotherItemIsNoMeasurement(t *testing.T) {
	t.Parallel()
	_, _, err := trialOf(t, "map-tiny")(t.Context(), standInHall(t, "maps-mixed-up"))
	if err == nil || !strings.Contains(err.Error(), "compare the log of item ") {
		t.Errorf("the answer is %v; want one that names the item", err)
	}
}

func TestAnAnswerThatIsWrongIsNoMeasurement(t *testing.T) {
	t.Parallel()
	_, _, err := trialOf(t, "map-stream")(t.Context(), standInHall(t, "maps-mixed-up"))
	if err == nil || !strings.Contains(err.Error(), "compare the answer of item 8 with its square") {
		t.Errorf("the answer is %v; want one that names the item", err)
	}
}

func TestItemsThatAPeerDidNotRunAreNoMeasurement(t *testing.T) {
	t.Parallel()
	h := standInHall(t, "maps")
	lazy := runner{who: "lazy", items: 40, leaves: 64, line: func(int) string { return "vfork 39 8 ../bin/tiny >../written" }}
	if _, err := h.raceRunner(t.Context(), lazy, 40); err == nil || !strings.Contains(err.Error(), "wrote 2496 bytes, and not 2560") {
		t.Errorf("39 items of 40: %v", err)
	}
	broken := runner{who: "broken", items: 40, line: func(int) string { return "vfork 40 8 ../bin/absent" }}
	if _, err := h.raceRunner(t.Context(), broken, 40); err == nil || !strings.Contains(err.Error(), "40 of 40 processes did not succeed") {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestARatioHoldsUpToItsFigureAndAnAbsentPeerBreaksNothing(t *testing.T) {
	t.Parallel()
	c := contest{runners: []runner{{who: "drover"}, {who: "slow"}, {who: "absent"}}, claims: []ratio{{over: "slow", least: 1.5}, {over: "absent", least: 9}}}
	for speed, want := range map[float64]int{1500: 0, 1499: 1} {
		var b strings.Builder
		broken := c.judgeClaims(&b, map[string]string{"absent": "not installed"}, map[string]speeds{"drover": {speed, 9, 1e9}, "slow": {1000}})
		if len(broken) != want {
			t.Errorf("%v a second beside 1000: %q\n%s", speed, broken, &b)
		}
		if !strings.Contains(b.String(), "the speed of absent: not judged\n") {
			t.Errorf("the claim about a peer that is not here is not named:\n%s", &b)
		}
	}
}

func TestAPeersOwnSecondsAreTheLastItSaid(t *testing.T) {
	t.Parallel()
	if took, err := lastWord("8 tasks 99\n2.25\n"); err != nil || took != 2250*time.Millisecond {
		t.Errorf("%v, %v", took, err)
	}
	for _, said := range []string{"", "done", "0.0", "-1"} {
		if took, err := lastWord(said); err == nil {
			t.Errorf("%q is taken for %v", said, took)
		}
	}
}

func TestTinySaysItsArgumentInSixtyFourBytes(t *testing.T) {
	t.Parallel()
	h := standInHall(t, "maps")
	for _, word := range []string{"", "1-2a", strings.Repeat("x", 63), strings.Repeat("y", 200)} {
		said, _, err := h.timeCommand(t.Context(), "tiny '"+word+"'; silent '"+word+"'", 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tinySays(word), said); diff != "" || len(said) != 64 {
			t.Errorf("%q (-want +got):\n%s", word, diff)
		}
	}
	if said, _, err := h.timeCommand(t.Context(), "tiny", 1); err != nil || said != tinySays("") {
		t.Errorf("without an argument: %q, %v", said, err)
	}
}

func TestAnInterruptionIsToldFromAnEnd(t *testing.T) {
	t.Parallel()
	h := standInHall(t, "maps")
	for line, want := range map[string]string{
		"true":              "missed",
		"kill -INT $$":      "missed",
		"sh -c 'exit 130'":  "interrupted",
		"sh -c 'exit 7'":    "exit status 7",
		"sh -c 'kill -9 0'": "signal: killed",
	} {
		_, missed, err := h.interrupted(t.Context(), line, time.Hour)
		got := map[bool]string{true: "missed", false: "interrupted"}[missed]
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s; want %s", line, got, want)
		}
	}
}

// holdMemory touches 64 MiB, says so, and waits.
func holdMemory() {
	block := make([]byte, 64<<20)
	for i := range block {
		block[i] = 1
	}
	fmt.Println("holding", len(block))
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println(block[len(block)-1])
}

func TestAProcessOfDroversIsSeenWithItsPeak(t *testing.T) {
	t.Parallel()
	h := standInHall(t, "holder")
	if process.FileSystem("/proc/self") == "an unknown file system" {
		t.Skip("there is no /proc on this system")
	}
	cmd := h.shellCommand(t.Context(), "exec drover agent")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	peaks := h.program().WatchMemory(t.Context())()
	live := h.program().Living()
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got := peaks["drover agent"]; got < 64<<20 || len(peaks) != 1 {
		t.Errorf("peaks: %v; want one, of at least 64 MiB", peaks)
	}
	if len(live) != 1 || len(h.program().Living()) != 0 {
		t.Errorf("alive: %q, and %q after its end", live, h.program().Living())
	}
}

func TestMemoryIsJudgedByTheHighest(t *testing.T) {
	t.Parallel()
	for peak, want := range map[int64]int{100 << 20: 0, 100<<20 + 1: 1} {
		var b strings.Builder
		if broken := judgePeaks((process.Memory{"drover map": 1 << 20}).Add(process.Memory{"drover agent": peak, "drover map": 5}), &b); len(broken) != want {
			t.Errorf("a peak of %d: %q\n%s", peak, broken, &b)
		}
	}
	var b strings.Builder
	if broken := judgePeaks(process.Memory{}, &b); len(broken) != 0 || !strings.Contains(b.String(), "not judged") {
		t.Errorf("nothing seen: %q\n%s", broken, &b)
	}
}

func TestNumbersAreGroupedByThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestABusyMachineIsTold(t *testing.T) {
	t.Parallel()
	for load, want := range map[string]bool{"load 1.00": false, "load 1.01": true, "load 18.5": true, "load not known": false} {
		if got := busy(load, 2); got != want {
			t.Errorf("%s on 2 cores: busy is %v", load, got)
		}
	}
}

func TestASpeedCountsFromTheFirstEndToTheLast(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	ends := []time.Time{at(900), at(1000), at(1500), at(1200), at(2000)}
	if got := speedOf([]int{2, 3, 4}, ends); got != 4 {
		t.Errorf("three items that ended within half a second ran at %g a second, not 4", got)
	}
	if got := speedOf([]int{5}, ends); got != 0 {
		t.Errorf("one item has a speed of %g", got)
	}
}
