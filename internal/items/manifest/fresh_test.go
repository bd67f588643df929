package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/items/itemstest"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/items/template"
	"github.com/drover-run/drover/store/mem"
)

// naive is New in memory: by text and occurrence.
func naive(now []string, old ...[]string) (fresh []string, gone int) {
	left := map[string]int{}
	for _, list := range old {
		for _, text := range list {
			left[text]++
		}
	}
	for _, text := range now {
		if left[text] > 0 {
			left[text]--
		} else {
			fresh = append(fresh, text)
		}
	}
	for _, n := range left {
		gone += n
	}
	return fresh, gone
}

// Rule M14 of docs/protocol.md: only lines that the job does not have are new.
func TestNewIsAMultisetDifferenceInOrder(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		words := 1 + rnd.IntN(300)
		draw := func(most int) []string {
			list := make([]string, rnd.IntN(most))
			for i := range list {
				list[i] = fmt.Sprint("w", rnd.IntN(words))
			}
			return list
		}
		now, old := draw(500), [][]string{draw(500), draw(100)}
		var readers []*manifest.Reader
		first := 1
		for _, list := range old {
			l := itemstest.ListOf(t, list...)
			_, r := itemstest.Store(t, mem.New(), l, first)
			readers, first = append(readers, r), first+l.Count()
		}
		dir := t.TempDir()
		fresh, gone, err := manifest.New(t.Context(), itemstest.ListOf(t, now...), readers, dir)
		if err != nil {
			t.Fatal(err)
		}
		want, wantGone := naive(now, old...)
		if diff := cmp.Diff(want, itemstest.ReadTexts(t, fresh.Reader()), cmpopts.EquateEmpty()); diff != "" || gone != wantGone {
			t.Fatalf("seed %d: %d gone, not %d; %s", seed, gone, wantGone, diff)
		}
		// What is stored together is what is wanted, and then nothing is new.
		_, r := itemstest.Store(t, mem.New(), fresh, first)
		again, gone, err := manifest.New(t.Context(), itemstest.ListOf(t, now...), append(readers, r), dir)
		if err != nil || again.Count() != 0 || gone != wantGone {
			t.Fatalf("seed %d: once more: %d new, %d gone, %v", seed, again.Count(), gone, err)
		}
		fresh.Close()
		again.Close()
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Fatalf("left behind: %v", left)
		}
	}
}

func TestTheLaterOfEqualLinesIsTheNewOne(t *testing.T) {
	fresh, gone, err := manifest.New(t.Context(), itemstest.ListOf(t, "a", "b", "a", "c", "a"), []*manifest.Reader{itemstest.ListOf(t, "a", "a", "d", "d").Reader()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if diff := cmp.Diff([]string{"b", "c", "a"}, itemstest.ReadTexts(t, fresh.Reader())); diff != "" || gone != 2 {
		t.Errorf("%d gone; %s", gone, diff)
	}
}

func TestTheSameListHasNothingNew(t *testing.T) {
	l := collected(t, manifest.JSONL, `{"a":1}`)
	_, r := itemstest.Store(t, mem.New(), collected(t, manifest.JSONL, "{\"a\":1}\r\n"), 1)
	dir := t.TempDir() + "/none"
	fresh, gone, err := manifest.New(t.Context(), l, []*manifest.Reader{r}, dir)
	if err != nil || fresh.Count() != 0 || gone != 0 {
		t.Fatalf("%v, %v, %v", fresh, gone, err)
	}
	fresh.Close()
}

// A list that equals the items that were added last lacks those from before.
func TestTheListThatWasAddedLastLacksTheRest(t *testing.T) {
	before, added := itemstest.ListOf(t, "a", "b"), itemstest.ListOf(t, "c")
	fresh, gone, err := manifest.New(t.Context(), itemstest.ListOf(t, "c"), []*manifest.Reader{before.Reader(), added.Reader()}, t.TempDir())
	if err != nil || fresh.Count() != 0 || gone != 2 {
		t.Fatalf("%v, %d gone of 2, %v", fresh, gone, err)
	}
	fresh.Close()
}

func TestALongerRangeAddsARange(t *testing.T) {
	_, old := itemstest.Store(t, mem.New(), manifest.NewRange(manifest.Range{From: 1, To: 100, Step: 1}), 1)
	fresh, gone, err := manifest.New(t.Context(), manifest.NewRange(manifest.Range{From: 1, To: 250, Step: 1}), []*manifest.Reader{old}, t.TempDir())
	if err != nil || gone != 0 {
		t.Fatal(gone, err)
	}
	m, err := fresh.Put(t.Context(), nil, "x")
	if err != nil || m.Key != "" || m.From != 101 || m.To != 250 || m.Step != 1 || m.Count != 150 {
		t.Errorf("%+v, %v", m, err)
	}
	// A range is lines too, and what is new of it need not stand together.
	fresh, gone, err = manifest.New(t.Context(), manifest.NewRange(manifest.Range{From: 0, To: 10, Step: 2}), []*manifest.Reader{itemstest.ListOf(t, "4", "x", "6").Reader()}, t.TempDir())
	if err != nil || gone != 1 {
		t.Fatal(gone, err)
	}
	defer fresh.Close()
	if diff := cmp.Diff([]string{"0", "2", "8", "10"}, itemstest.ReadTexts(t, fresh.Reader())); diff != "" {
		t.Error(diff)
	}
}

func TestATemplateOfTheOldFillsTheNew(t *testing.T) {
	old := collected(t, manifest.JSONL, `{"b":1,"a":2}`)
	now := collected(t, manifest.JSONL, "{\"c\":3,\"a\":9}\n{\"b\":1,\"a\":2}\n{\"b\":7}")
	fresh, _, err := manifest.New(t.Context(), now, []*manifest.Reader{old.Reader()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if diff := cmp.Diff([]string{"b", "a", "c"}, fresh.Fields()); diff != "" {
		t.Error(diff)
	}
	tmpl, err := template.Parse([]string{"{a}"}, template.TemplateOptions{Fields: old.Fields()})
	if err != nil {
		t.Fatal(err)
	}
	_, r := itemstest.Store(t, mem.New(), fresh, 2)
	it, err := r.One(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tmpl.Fill(it, nil); err != nil || got[0] != "9" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestItemsOfAnotherFormAreNotCompared(t *testing.T) {
	for name, c := range map[string][2]*manifest.List{
		"header": {collected(t, manifest.CSV, "a,b\n1,2\n"), collected(t, manifest.CSV, "a,c\n1,2\n")},
		"format": {collected(t, manifest.CSV, "a\n1\n"), collected(t, manifest.Lines, "1\n")},
		"json":   {collected(t, manifest.JSONL, "1\n"), collected(t, manifest.Lines, "1\n")},
	} {
		_, _, err := manifest.New(t.Context(), c[0], []*manifest.Reader{c[1].Reader()}, t.TempDir())
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "--force") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewStopsAndClearsUp(t *testing.T) {
	why := errors.New("asked to")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	dir := t.TempDir()
	_, _, err := manifest.New(ctx, itemstest.ListOf(t, "a", "b"), []*manifest.Reader{itemstest.ListOf(t, "b").Reader()}, dir)
	if !errors.Is(err, why) {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// collected reads text as it would come through a pipe.
func collected(t testing.TB, format, text string) *manifest.List {
	t.Helper()
	l, err := items.Collect(t.Context(), items.Source{From: "-", Format: format, Stdin: strings.NewReader(text)}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
