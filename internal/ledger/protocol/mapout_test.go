package protocol

import (
	"strings"
	"testing"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

func TestAnyNameOfAnOutputHasAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	p := job.Path{Project: "p", Task: "t", Job: "j"}
	seen := map[string]string{}
	for name, want := range map[string]string{
		"thumbs/3.png":           "thumbs/3.png",
		"a b":                    "a_20b",
		"a_20b":                  "a_5f20b",
		"a_b":                    "a_b",
		"a:":                     "a_3a",
		"a_3a":                   "a_5f3a",
		"a_3":                    "a_3",
		".hidden/.x":             "_2ehidden/_2ex",
		"-rf":                    "-rf",
		"ä\n'\"":                 "_c3_a4_0a_27_22",
		strings.Repeat("ä", 100): "",
		strings.Repeat(strings.Repeat("x", 200)+"/", 4) + "y": "",
	} {
		key := OutKey(p, 7, "000001-1-2", name)
		if err := store.CheckKey(key); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		rest, ok := strings.CutPrefix(key, "p/t/j/out/7/000001-1-2/")
		if !ok || want != "" && rest != want || want == "" && !strings.HasPrefix(rest, "_h") && !strings.Contains(rest, "/") {
			t.Errorf("%q: %s, want %s", name, rest, want)
		}
		if seen[key] != "" {
			t.Errorf("%q and %q share %s", name, seen[key], key)
		}
		seen[key] = name
	}
}
