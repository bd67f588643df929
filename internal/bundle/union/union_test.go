package union

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/store"
)

// treeOf is a tree of files with short texts for digests: "a/b=1 c=2".
func treeOf(text string) (t tree.Tree) {
	for _, word := range strings.Fields(text) {
		name, content, _ := strings.Cut(word, "=")
		if target, ok := strings.CutPrefix(content, "->"); ok {
			t.Links = append(t.Links, tree.Link{Path: name, Target: target})
			continue
		}
		t.Files = append(t.Files, tree.File{Path: name, Mode: 0o644, SHA256: store.Digest(fmt.Sprintf("%064s", content))})
	}
	t.Sort()
	return t
}

func written(t tree.Tree) string {
	var words []string
	for _, f := range t.Files {
		words = append(words, f.Path+"="+strings.TrimLeft(string(f.SHA256), "0"))
	}
	for _, l := range t.Links {
		words = append(words, l.Path+"=->"+l.Target)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func algo(folder string) bool { return strings.HasPrefix(folder, "algo-") }

func TestWhatSeveralRanksMadeOfOneFolder(t *testing.T) {
	for _, row := range []struct {
		name  string
		base  string
		parts []string // of algo-1, algo-2, ...; "-": it has not saved
		want  string
	}{
		{"nobody has saved", "a=1 algo-1/x=1", nil, "a=1 algo-1/x=1"},
		{"nobody has changed anything", "a=1 b=2", []string{"a=1 b=2", "a=1 b=2"}, "a=1 b=2"},
		{"each writes its own", "", []string{"algo-1/x=1", "algo-2/x=2"}, "algo-1/x=1 algo-2/x=2"},
		{"each removes the others'", "algo-1/x=1 algo-2/x=2", []string{"algo-1/x=1", "algo-2/x=2"}, "algo-1/x=1 algo-2/x=2"},
		{"one removes its own", "algo-1/x=1 algo-2/x=2", []string{"algo-2/x=2", "algo-1/x=1 algo-2/x=2"}, "algo-2/x=2"},
		{"one writes into the other's", "algo-2/x=2", []string{"algo-2/x=8 algo-2/y=9", "algo-2/x=2"}, "algo-2/x=2"},
		{"one puts a file where the other's is", "algo-2/x=2", []string{"algo-2=8", "algo-2/x=2"}, "algo-2/x=2"},
		{"the owner has not saved", "algo-2/x=2", []string{"algo-1/x=1", "-"}, "algo-1/x=1 algo-2/x=2"},
		{"a folder of more ranks than there are", "algo-3/x=3", []string{"algo-1/x=1", "algo-2/x=2"}, "algo-1/x=1 algo-2/x=2 algo-3/x=3"},
		{"one writes into a folder of nobody", "algo-3/x=3", []string{"algo-3/x=4", "-"}, "algo-3/x=4"},
		{"written beside", "a=1", []string{"a=1 b=2", "a=1 c=3"}, "a=1 b=2 c=3"},
		{"written by one, removed by the other", "a=1", []string{"", "a=2"}, "a=2"},
		{"removed by one, left by the other", "a=1 b=1", []string{"b=1", "a=1 b=1"}, "b=1"},
		{"removed by both", "a=1", []string{"", ""}, ""},
		{"written by both", "a=1", []string{"a=2", "a=3"}, "a=2"},
		{"written by the second alone", "a=1", []string{"a=1", "a=3"}, "a=3"},
		{"a file becomes a folder", "a=1", []string{"a/b=2", "a=1"}, "a/b=2"},
		{"a file becomes a folder, and the other writes it", "a=1", []string{"a/b=2", "a=3"}, "a/b=2"},
		{"links", "a=1 l=->a", []string{"a=1 l=->a m=->a", "a=1"}, "a=1 m=->a"},
	} {
		var parts []Part
		for rank, text := range row.parts {
			if text != "-" {
				parts = append(parts, Part{Rank: rank, Own: fmt.Sprintf("algo-%d", rank+1), Tree: treeOf(text)})
			}
		}
		got, _ := Union(treeOf(row.base), parts, algo)
		if diff := cmp.Diff(row.want, written(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

func TestTheExecutableBitIsAChange(t *testing.T) {
	was, is := treeOf("run=1"), treeOf("run=1")
	is.Files[0].Mode = 0o755
	if got, _ := Union(was, []Part{{Rank: 0, Tree: was}, {Rank: 1, Tree: is}}, algo); got.Files[0].Mode != 0o755 {
		t.Errorf("its mode is %o", got.Files[0].Mode)
	}
}

// TestAUnionLosesNothingOfItsOwners plays ranks that write, remove and clash.
func TestAUnionLosesNothingOfItsOwners(t *testing.T) {
	names := []string{"a", "a/b", "a/b/c", "d", "algo-1", "algo-1/x", "algo-1/y", "algo-2/x", "algo-2/y/z", "algo-3/x", "algo-9/x"}
	for seed := range 3000 {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		some := func(from tree.Tree) tree.Tree {
			var words []string
			for _, name := range names {
				old := ""
				for _, f := range from.Files {
					if f.Path == name {
						old = strings.TrimLeft(string(f.SHA256), "0")
					}
				}
				switch n := r.IntN(4); {
				case n == 0 && old != "" || n == 1 && old != "":
					words = append(words, name+"="+old)
				case n == 2:
					words = append(words, fmt.Sprintf("%s=%d", name, 1+r.IntN(3)))
				}
			}
			t := treeOf(strings.Join(words, " "))
			made, _ := tree.Merge([]tree.Named{{Tree: t}}) // no file where a folder is
			return made
		}
		base := some(tree.Tree{})
		var parts []Part
		for rank := range 1 + r.IntN(3) {
			if r.IntN(5) > 0 {
				parts = append(parts, Part{Rank: rank, Own: fmt.Sprintf("algo-%d", rank+1), Tree: some(base)})
			}
		}
		got, _ := Union(base, parts, algo)
		if err := got.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		if again, _ := Union(base, parts, algo); written(again) != written(got) {
			t.Fatalf("seed %d: in another order it is\n%s\nand not\n%s", seed, written(again), written(got))
		}
		judge(t, seed, base, parts, got)
	}
}

// judge says each rule once more, path by path.
func judge(t *testing.T, seed int, base tree.Tree, parts []Part, got tree.Tree) {
	t.Helper()
	was, is := holds(base), holds(got)
	owner := map[string]map[string]string{}
	for _, p := range parts {
		owner[p.Own] = holds(p.Tree)
	}
	for name := range is {
		own, owned := owner[top(name)]
		known := was[name] == is[name]
		for _, p := range parts {
			known = known || holds(p.Tree)[name] == is[name]
		}
		if !known || owned && own[name] != is[name] {
			t.Fatalf("seed %d: %s is %s, which nobody said who may", seed, name, is[name])
		}
	}
	for folder, own := range owner {
		for name, content := range own {
			if top(name) == folder && is[name] != content {
				t.Fatalf("seed %d: %s of its owner is %q, want %q", seed, name, is[name], content)
			}
		}
	}
	for name, content := range was {
		_, owned := owner[top(name)]
		untouched := true
		for _, p := range parts {
			now := holds(p.Tree)
			untouched = untouched && now[name] == content
		}
		if untouched && !owned && is[name] != content && !under(is, name) {
			t.Fatalf("seed %d: %s, which nobody touched, is %q", seed, name, is[name])
		}
	}
}

// under says whether something is where the name's folders or files would be.
func under(is map[string]string, name string) bool {
	for other := range is {
		if strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
			return true
		}
	}
	return false
}
