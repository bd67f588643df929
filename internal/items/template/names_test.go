package template

import (
	"iter"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/manifest"
)

func TestTwoItemsWithAnOutputOfOneNameAreRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		out   string
		items string
		want  string // of the error; "": none
	}{
		{"{}.up", "a b c", ""},
		{"{}.up", "a b a", `check --out: items 1 and 3 would both write "a.up"`},
		{"{.stem}.up", "x/a y/b y/a.txt", `check --out: items 1 and 3 would both write "a.up"`},
		{"d/./{}/", "a b a", `check --out: items 1 and 3 would both write "d/a/"`},
		{"{n}-{}.up", "a a a", ""},
		{"{}-{n}.up", "a a a", ""},
		{"{}{n}.up", "a1 b c d e f g h i j a", `check --out: items 1 and 11 would both write "a11.up"`},
		{"{}.up", "../a ../a", ""}, // refused for each
	} {
		tmpl, err := Parse([]string{"work", "{}"}, TemplateOptions{Out: []string{row.out, "other/{n}"}})
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(row.items)
		all := func() iter.Seq2[manifest.Item, error] {
			return func(yield func(manifest.Item, error) bool) {
				for i, w := range words {
					if !yield(manifest.Item{N: i + 1, Text: w}, nil) {
						return
					}
				}
			}
		}
		err = tmpl.CheckNames(t.Context(), all, len(words))
		if row.want == "" && err != nil || row.want != "" && (err == nil || err.Error() != row.want || fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "{n}")) {
			t.Errorf("--out %s of %s: %v\n  %s", row.out, row.items, err, fault.Hint(err))
		}
	}
}
