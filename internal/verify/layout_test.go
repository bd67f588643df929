package verify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// TestOutputsLieWhereTheLedgerPutsThem compares two writings of one rule.
func TestOutputsLieWhereTheLedgerPutsThem(t *testing.T) {
	t.Parallel()
	names := []string{"a", "a/b.txt", ".hidden/x", "a b", "_20", "_2", "_zz", "a_b", "ä", strings.Repeat("é", 200), strings.Repeat("long/", 300) + "x", "-", "a\nb", "x/.y/..z"}
	r := rand.New(rand.NewPCG(6, 6))
	for range 500 {
		var b []byte
		for range 1 + r.IntN(40) {
			b = append(b, "ab0f._-/ é\x00\\"[r.IntN(12)])
		}
		names = append(names, strings.ReplaceAll(strings.Trim(string(b), "/"), "//", "/"))
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		got, want := outputKey(jobDir, 7, "000000-1-1", name), protocol.OutKey(mapPath, 7, "000000-1-1", name)
		if got != want {
			t.Errorf("%q lies at %s, and the ledger puts it at %s", name, got, want)
		}
		if !strings.Contains(name, "//") {
			if err := store.CheckKey(got); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

func TestAGroundFindsItsItems(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var items []int
		for item := 1; item <= 60; item++ {
			if r.IntN(3) > 0 {
				items = append(items, item)
			}
		}
		var spans protocol.Spans
		for _, item := range items {
			if n := len(spans); n > 0 && spans[n-1][1] == item-1 {
				spans[n-1][1] = item
			} else {
				spans = append(spans, [2]int{item, item})
			}
		}
		g, ok := groundOf(spans)
		if !ok || g.n != len(items) {
			t.Fatalf("%v: %d items, %v", spans, g.n, ok)
		}
		for item := -1; item <= 62; item++ {
			place, ok := g.placeOfItem(item)
			if want := slices.Index(items, item); ok != (want >= 0) || ok && place != want {
				t.Fatalf("%v: item %d is at %d, %v; want %d", spans, item, place, ok, want)
			}
		}
		var all []int
		g.eachItem(func(item, place int) {
			if place != len(all) {
				t.Fatalf("%v: item %d is given at %d", spans, item, place)
			}
			all = append(all, item)
		})
		if diff := cmp.Diff(items, all); diff != "" {
			t.Fatal(diff)
		}
	}
	for _, bad := range []protocol.Spans{{{0, 1}}, {{3, 2}}, {{1, 2}, {2, 4}}, {{5, 6}, {1, 2}}, {{1, 1 << 40}}} {
		if _, ok := groundOf(bad); ok {
			t.Errorf("%v is taken", bad)
		}
	}
	five, _ := groundOf(protocol.Spans{{1, 3}, {7, 8}})
	for spans, want := range map[[2]int]bool{{1, 3}: true, {2, 2}: true, {7, 8}: true, {3, 7}: false, {1, 4}: false, {6, 7}: false, {8, 9}: false} {
		g, _ := groundOf(protocol.Spans{spans})
		if five.containsAll(g) != want {
			t.Errorf("%v in 1-3, 7-8: %v, want %v", spans, !want, want)
		}
	}
}

// TestAnItemIsInOneChunk: the walk finds an item in two chunks or in none by
// what it met, whatever the folds have said.
func TestAnItemIsInOneChunk(t *testing.T) {
	t.Parallel()
	v := &verifier{told: func(report.VerifyProgress) {}}
	w := &walk{v: v, rounds: newRounds(v), items: 5, placed: newBits(5), run: newBits(5), ended: newBits(5)}
	for i, spans := range []protocol.Spans{{{1, 2}}, {{2, 3}}, {{5, 5}}} {
		g, _ := groundOf(spans)
		w.addTotals(newChunk(w, fmt.Sprintf("%06d", i), protocol.Seed{Items: spans}, g))
	}
	w.checkPlaced()
	if diff := cmp.Diff([]string{"items 000001 item 2", "items job item 4"}, brief(v.r.Findings)); diff != "" {
		t.Errorf("doubts (-want +got):\n%s", diff)
	}
}
