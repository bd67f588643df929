package manifest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/items/fields"
	"github.com/drover-run/drover/internal/items/itemstest"
	"github.com/drover-run/drover/internal/items/manifest"
)

func TestItemsAreSpreadOverTheWholeList(t *testing.T) {
	for count := range 60 {
		for n := range 65 {
			got := manifest.Spread(count, n)
			if len(got) != min(count, n) || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Fatalf("%d of %d: %v", n, count, got)
			}
			if len(got) == 0 {
				continue
			}
			if got[0] != 1 || len(got) > 1 && got[len(got)-1] != count {
				t.Fatalf("%d of %d: %v are without the first or the last", n, count, got)
			}
			least, most := count, 0
			for i := 1; i < len(got); i++ {
				least, most = min(least, got[i]-got[i-1]), max(most, got[i]-got[i-1])
			}
			if most > least+1 && len(got) > 1 {
				t.Fatalf("%d of %d: %v lie %d to %d apart", n, count, got, least, most)
			}
		}
	}
	if got := manifest.Spread(manifest.MaxItems, 3); !slices.Equal(got, []int{1, 1 + (manifest.MaxItems-1)/2, manifest.MaxItems}) {
		t.Errorf("%v", got)
	}
}

func TestASampleHoldsItsItemsAsTheyWere(t *testing.T) {
	for _, row := range []struct {
		source items.Source
		want   []manifest.Item
	}{
		{items.Source{From: "0-100:5"}, []manifest.Item{{N: 1, Text: "0"}, {N: 2, Text: "50"}, {N: 3, Text: "100"}}},
		{items.Source{From: "-", Format: manifest.CSV, Stdin: strings.NewReader("name,size\na,1\n\"b, c\",2\nd,3\n")},
			[]manifest.Item{{N: 1, Text: "a,1", Fields: []string{"a", "1"}}, {N: 2, Text: `"b, c",2`, Fields: []string{"b, c", "2"}}, {N: 3, Text: "d,3", Fields: []string{"d", "3"}}}},
		{items.Source{From: "-", Format: manifest.JSONL, Stdin: strings.NewReader("{\"a\":1}\n[2]\n{\"b\":\"x\"}\n4\n{\"a\":5}\n")},
			[]manifest.Item{{N: 1, Text: `{"a":1}`, Fields: []string{"1", fields.Absent}}, {N: 2, Text: `{"b":"x"}`, Fields: []string{fields.Absent, "x"}}, {N: 3, Text: `{"a":5}`, Fields: []string{"5", fields.Absent}}}},
	} {
		l, err := items.Collect(t.Context(), row.source, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s, err := manifest.Sample(t.Context(), l, manifest.Spread(l.Count(), 3), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var got []manifest.Item
		for it, err := range s.Reader().Range(t.Context(), 1, s.Count()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, it)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.source.From, diff)
		}
		if diff := cmp.Diff(l.Fields(), s.Fields()); diff != "" || s.Format() != l.Format() {
			t.Errorf("%s: fields or format differ:\n%s", row.source.From, diff)
		}
	}
}

func TestASampleOfNothingIsRefused(t *testing.T) {
	l := itemstest.ListOf(t, "a", "b")
	if _, err := manifest.Sample(t.Context(), l, nil, t.TempDir()); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}
