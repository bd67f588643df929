// Package union makes one tree of a base and the parts that several nodes added to
// it.
//
// It refuses to know which nodes these are. Proved by its tests: random trees and a
// second implementation as judge.
package union

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/store"
)

// Part is one rank's copy of a folder that all of them share.
type Part struct {
	Rank int
	Own  string // the folder in it that is this rank's alone; "": none
	Tree tree.Tree
}

// Union is a folder that several ranks began with as base and changed, each its own
// copy, as one folder again:
//
//   - in a rank's own folder that rank decides, whatever the others did there;
//   - an own folder of a rank that has no part (owned says what is one) stays as it
//     was, but for what other ranks wrote there: no rank can delete it;
//   - elsewhere a rank's write counts more than another's deletion, and of two writes
//     that of the lower rank. What no rank wrote and one deleted is gone.
//
// The order of the parts does not matter. Empty folders are not kept: an object
// store has none. Trees that pass Check make one that does.
func Union(base tree.Tree, parts []Part, owned func(folder string) bool) (tree.Tree, []tree.Collision) {
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(a.Rank, b.Rank) })
	owner := map[string]int{} // by folder: its rank, as an index of parts
	for i, p := range parts {
		if p.Own != "" {
			owner[p.Own] = i
		}
	}
	before, gone := holds(base), map[string]bool{}
	var all []tree.Named
	for i, p := range parts {
		now := holds(p.Tree)
		all = append(all, tree.Named{Name: fmt.Sprintf("node %d", p.Rank), Tree: pick(p.Tree, func(name string) bool {
			if whose, ok := owner[top(name)]; ok {
				return whose == i
			}
			return now[name] != before[name]
		})})
		for name := range before {
			if now[name] == "" && !owned(top(name)) {
				gone[name] = true
			}
		}
	}
	all = append(all, tree.Named{Name: "before", Tree: pick(base, func(name string) bool {
		_, decided := owner[top(name)] // its owner's part holds all that stays
		return !decided && !gone[name]
	})})
	return tree.Merge(all)
}

// top is the first folder of a path, or the name of a file that is in none.
func top(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

// holds says what is under each name, so that two can be compared.
func holds(t tree.Tree) map[string]string {
	m := make(map[string]string, len(t.Files)+len(t.Links))
	for _, f := range t.Files {
		m[f.Path] = fmt.Sprintf("file %t %s", f.Mode&0o100 != 0, f.SHA256)
	}
	for _, l := range t.Links {
		m[l.Path] = "link " + l.Target
	}
	return m
}

// pick are the files and links of a tree with names that are meant.
func pick(t tree.Tree, meant func(name string) bool) (picked tree.Tree) {
	for _, f := range t.Files {
		if meant(f.Path) {
			picked.Files = append(picked.Files, f)
		}
	}
	for _, l := range t.Links {
		if meant(l.Path) {
			picked.Links = append(picked.Links, l)
		}
	}
	return picked
}

// Unite is Union of lists of files in a store, "" being an empty folder: base, and
// the copy and own folder of each rank that has one.
func Unite(ctx context.Context, b tree.Blobs, base store.Digest, parts []Copy, owned func(folder string) bool) (tree.Tree, error) {
	load := func(d store.Digest) (tree.Tree, error) {
		if d == "" {
			return tree.Tree{}, nil
		}
		return tree.LoadTree(ctx, b, d)
	}
	was, err := load(base)
	if err != nil {
		return tree.Tree{}, err
	}
	var all []Part
	for _, c := range parts {
		t, err := load(c.List)
		if err != nil {
			return tree.Tree{}, err
		}
		all = append(all, Part{Rank: c.Rank, Own: c.Own, Tree: t})
	}
	t, _ := Union(was, all, owned)
	return t, nil
}

// Copy is a Part as a store has it.
type Copy struct {
	Rank int
	Own  string
	List store.Digest
}
