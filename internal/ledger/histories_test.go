package ledger

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

var writeHistories = flag.Bool("histories", false, "write the digests of histories in testdata/histories.txt anew")

const (
	historiesFile = "testdata/histories.txt"
	// runHistories and mapHistories are how many worlds of each kind are compared.
	runHistories = 1000
	mapHistories = 1000
)

// TestHistories compares whole histories with those of the commit before: each request
// of each process, with its time, what it sent and how it was answered, as one digest
// for each world. The checks of the simulations ask whether a promise was broken; this
// test asks whether anything has changed at all, and so notices a change that no check
// asks about: a request that is made twice, a duty that another process fulfils later,
// an entry with another field.
//
// A change of the protocol changes histories. Then read what has changed with -seed or
// -mapseed of one of the worlds that the test names, on both commits, and write the
// digests anew with -histories. A change that only moves or renames code changes none.
func TestHistories(t *testing.T) {
	if raceOn {
		t.Skip("played without the race detector: it would take ten minutes, and processes of a world run one at a time")
	}
	got := playHistories(t)
	if *writeHistories {
		if err := os.WriteFile(historiesFile, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(historiesFile)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(want) != len(got) {
		t.Fatalf("%s has %d worlds, and %d were played: write it anew with -histories", historiesFile, len(want), len(got))
	}
	var other []string
	for i := range got {
		if got[i] != want[i] {
			other = append(other, strings.Join(strings.Fields(got[i])[:2], " "))
		}
	}
	if len(other) > 0 {
		t.Errorf("%d of %d histories have changed, the first ones are: %s\n  replay: -run TestSimulation -seed N for a run, -run TestMapSimulation -mapseed N for a map, here and on the commit before\n  if that is what the change is for: go test ./internal/ledger -run TestHistories -histories",
			len(other), len(got), strings.Join(other[:min(len(other), 5)], ", "))
	}
}

// outcome is what one world has come to.
type outcome struct {
	broken []string
	seen   coverage
}

// playOnce is what a world has come to, which is played unless it was.
func playOnce(played *sync.Map, seed uint64, play func() outcome) outcome {
	if o, ok := played.Load(seed); ok {
		return o.(outcome)
	}
	return play()
}

// playedRuns and playedMaps are the worlds that TestHistories has played, by their seeds: the
// simulations do not play them once more.
var playedRuns, playedMaps sync.Map

// playHistories returns a line for each world: its kind, its seed, the digest.
func playHistories(t *testing.T) []string {
	lines := make([]string, runHistories+mapHistories)
	playWorlds(t, 0, runHistories, func(seed uint64) coverage {
		s := newScene(seed)
		s.history = sha256.New()
		s.play()
		lines[seed-1] = fmt.Sprintf("run %d %x", seed, s.history.Sum(nil)[:12])
		playedRuns.Store(seed, outcome{s.broken, s.seen})
		return nil
	})
	playWorlds(t, 0, mapHistories, func(seed uint64) coverage {
		s := newYard(seed)
		s.history = sha256.New()
		s.play()
		lines[runHistories+seed-1] = fmt.Sprintf("map %d %x", seed, s.history.Sum(nil)[:12])
		playedMaps.Store(seed, outcome{s.broken, s.seen})
		return nil
	})
	return lines
}
