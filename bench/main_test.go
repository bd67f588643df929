package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets the test binary stand in for drover: a program of few words.
func TestMain(m *testing.M) {
	switch os.Getenv("BENCH_TEST_ACTS_AS") {
	case "":
		os.Exit(m.Run())
	case "drover":
		for _, name := range []string{"HOME", "XDG_DATA_HOME", "DROVER_STORE", "DROVER_ON"} {
			fmt.Println(name + "=" + os.Getenv(name))
		}
	case "maps", "maps-mixed-up":
		os.Exit(mapActor(os.Args[1:], os.Getenv("BENCH_TEST_ACTS_AS") == "maps-mixed-up"))
	case "holder":
		holdMemory()
	case "mute":
	case "crash":
		fmt.Println("hello")
		fmt.Fprintln(os.Stderr, "the store is full")
		os.Exit(7)
	}
}

func TestTheMedianIsTheMiddle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in          times
		median, min time.Duration
	}{
		{times{7}, 7, 7},
		{times{9, 1, 5}, 5, 1},
		{times{8, 2, 4, 100}, 6, 2},
	} {
		if c.in.medianTime() != c.median || c.in.shortestTime() != c.min {
			t.Errorf("%v: median %d, min %d; want %d, %d", c.in, c.in.medianTime(), c.in.shortestTime(), c.median, c.min)
		}
	}
}

func TestAClaimHoldsUpToItsFigureAndNotAbove(t *testing.T) {
	t.Parallel()
	peer := times{20 * time.Millisecond}
	for _, c := range []struct {
		section string
		ours    time.Duration
		want    bool
	}{
		{"help", 15 * time.Millisecond, true},
		{"help", 16 * time.Millisecond, false},
		{"first-line", 170 * time.Millisecond, true},
		{"first-line", 171 * time.Millisecond, false},
	} {
		chosen, err := choose("^"+c.section+"$", 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := chosen[0].holds(times{c.ours}, peer); got != c.want {
			t.Errorf("%s with ours at %v: holds is %v, want %v", c.section, c.ours, got, c.want)
		}
		text := report(&place{}, chosen[0], times{c.ours}, peer)
		if strings.Contains(text, "DOES NOT HOLD") == c.want {
			t.Errorf("%s with ours at %v is reported as\n%s", c.section, c.ours, text)
		}
	}
}

func TestACommandLineThatMeasuresNothingIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-run", "nothing-like-it"}, {"-run", "("}, {"-rounds", "0"}, {"-map-rounds", "0"}, {"more"}, {"-no-such-flag"},
		{"-drover", filepath.Join(t.TempDir(), "absent")},
		{"-drover", "main.go", "-python", filepath.Join(t.TempDir(), "absent")},
	} {
		var out, problems bytes.Buffer
		if code := run(t.Context(), args, &out, &problems); code != 2 || problems.Len() == 0 {
			t.Errorf("%q: exit status %d, said %q; want 2 and a reason", args, code, &problems)
		}
	}
}

// standIn is a place with this test's own binary as drover and python, acting a part.
func standIn(t *testing.T, part string) *place {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// a program under the race detector waits a second before it ends, unless told
	env := environ(append(os.Environ(), "BENCH_TEST_ACTS_AS="+part, "DROVER_ON=batch", "HOME=/somebody", "GORACE=atexit_sleep_ms=0"), dir)
	return &place{dir: dir, work: dir, drover: self, python: self, env: env}
}

func TestEachCommandRunsOncePerRoundAndNotForTheWarmUp(t *testing.T) {
	t.Parallel()
	p := standIn(t, "drover")
	for _, s := range sections {
		if s.prepare != nil || s.trial != nil {
			continue // its peer is a real program, with real files: TestRealEverySectionCanBeMeasured
		}
		ours, peer, err := measure(t.Context(), p, s, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(ours) != 3 || len(peer) != 3 || ours.shortestTime() <= 0 || peer.shortestTime() <= 0 {
			t.Errorf("%s: ours %v, peer %v; want three times each", s.name, ours, peer)
		}
	}
}

func TestABrokenClaimIsNamedOnItsLine(t *testing.T) {
	t.Parallel()
	never := sections[0]
	never.name, never.claim, never.holds = "never", "it is instant", func(times, times) bool { return false }
	var out bytes.Buffer
	broken, err := measureAll(t.Context(), standIn(t, "drover"), []section{sections[1], never}, 1, &out)
	if err != nil {
		t.Fatal(err)
	}
	last := broken[len(broken)-1]
	if !strings.HasPrefix(last, `never: the claim "it is instant" does not hold`) {
		t.Errorf("broken claims: %q", broken)
	}
	for _, want := range []string{"drover run python3 hello.py", "python3 hello.py", "ratio", "claim: it is instant: DOES NOT HOLD"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, &out)
		}
	}
}

func TestACommandThatDoesNotWorkIsNoMeasurement(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{"mute": "no first line", "crash": "exit status 7: the store is full"} {
		_, _, err := measure(t.Context(), standIn(t, part), sections[1], 1)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", part, err, want)
		}
	}
}

func TestThePersonsHomeAndSettingsAreNotSeen(t *testing.T) {
	t.Parallel()
	p := standIn(t, "drover")
	cmd := exec.Command(p.drover)
	cmd.Env = p.env
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("HOME=%[1]s/home\nXDG_DATA_HOME=%[1]s/home/data\nDROVER_STORE=%[1]s/store\nDROVER_ON=\n", p.dir)
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("the environment differs (-want +got):\n%s", diff)
	}
}

// The claims themselves are make bench's: here only that each section runs, with
// the real program and a real interpreter, and leaves no folder behind.
func TestRealEverySectionCanBeMeasured(t *testing.T) {
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it: it builds drover and runs it with python3")
	}
	t.Setenv("TMPDIR", t.TempDir())
	program := filepath.Join(os.Getenv("TMPDIR"), "drover")
	build := exec.Command("go", "build", "-o", program, "../cmd/drover")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	var out, problems bytes.Buffer
	// with 200 items the peers of maps are started, and the claims of their sections mean nothing
	args := []string{"-rounds", "2", "-drover", program, "-python", python, "-items", "200", "-map-rounds", "1", "-sources", "peers/stream"}
	if code := run(t.Context(), args, &out, &problems); code == 2 {
		t.Fatal(problems.String())
	}
	for _, s := range sections {
		line := "\n" + s.name + ": to "
		if _, err := exec.LookPath(s.needs); s.needs != "" && err != nil {
			line = "\n" + s.name + ": not measured: " + s.needs
		}
		if !strings.Contains(out.String(), line) {
			t.Errorf("section %s is not in the report:\n%s", s.name, &out)
		}
	}
	left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "drover-bench-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
