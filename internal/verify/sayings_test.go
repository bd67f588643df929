package verify

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sayings are the sentences that a user reads of histories, by what the history is.
type sayings map[string][]string

func (s sayings) add(history string, doubts []Doubt) {
	for _, d := range doubts {
		s[history] = append(s[history], d.String())
	}
}

// notes are doubts without a rule: what does not count.
func notes(all []Note) (doubts []Doubt) {
	for _, n := range all {
		doubts = append(doubts, Doubt{Note: n})
	}
	return doubts
}

// compare compares them with a golden file, word for word.
func (s sayings) compare(t *testing.T, name string) {
	t.Helper()
	var all strings.Builder
	for _, history := range slices.Sorted(maps.Keys(s)) {
		slices.Sort(s[history])
		fmt.Fprintf(&all, "%s:\n    %s\n", history, strings.Join(s[history], "\n    "))
	}
	file := filepath.Join("testdata", "sayings", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(all.String(), "\n")); diff != "" {
		t.Errorf("what is said (-want +got); with -update it is written anew:\n%s", diff)
	}
}
