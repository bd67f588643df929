package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

func TestATreesListIsABlobThatNamesIt(t *testing.T) {
	t.Parallel()
	blobs := store.New(mem.New(), store.Options{})
	for name, want := range map[string]Tree{
		"an empty folder": {},
		"everything":      {Files: files("a", "b/c", "not utf-8 \xff").Files, Dirs: []string{"e"}, Links: []Link{{"l", "b/c"}}},
	} {
		d, err := PutTree(t.Context(), blobs, want)
		if err != nil {
			t.Fatal(name, err)
		}
		again, err := PutTree(t.Context(), blobs, want)
		if err != nil || again != d {
			t.Errorf("%s: put twice it is %s and %s (%v)", name, d, again, err)
		}
		got, err := LoadTree(t.Context(), blobs, d)
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNotesAreNotStored(t *testing.T) {
	t.Parallel()
	blobs := store.New(mem.New(), store.Options{})
	plain, err := PutTree(t.Context(), blobs, files("a"))
	if err != nil {
		t.Fatal(err)
	}
	noted := files("a")
	noted.Notes = []string{"left out: b"}
	if d, err := PutTree(t.Context(), blobs, noted); err != nil || d != plain {
		t.Errorf("notes make another list: %s, not %s (%v)", d, plain, err)
	}
}

func TestAListThatCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	blobs := store.New(mem.New(), store.Options{})
	hostile, err := json.Marshal(files("../../etc/passwd"))
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string]string{"no JSON": "{", "leads outside": string(hostile)} {
		d, _, err := blobs.PutBlob(t.Context(), bytes.NewReader([]byte(list)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := LoadTree(t.Context(), blobs, d); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
	if _, err := LoadTree(t.Context(), blobs, abc); !errors.Is(err, store.ErrNotExist) {
		t.Errorf("a list that is not there: %v", err)
	}
	if _, err := PutTree(t.Context(), broken{}, Tree{}); !errors.Is(err, errBroken) {
		t.Errorf("a store that is broken: %v", err)
	}
	if _, err := LoadTree(t.Context(), broken{}, abc); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "read list of files: ") {
		t.Errorf("a store that is broken: %v", err)
	}
}

func TestMergedTreesAreOneFolder(t *testing.T) {
	t.Parallel()
	of := func(sha string, names ...string) Tree {
		tree := files(names...)
		for i := range tree.Files {
			tree.Files[i].SHA256 = store.Digest(strings.Repeat(sha, 64))
		}
		return tree
	}
	with := func(tree Tree, dirs []string, links ...Link) Tree { tree.Dirs, tree.Links = dirs, links; return tree }
	for _, row := range []struct {
		name  string
		trees []Tree
		want  []string // paths, with what they are
		lost  []string // path of node that was left
	}{
		{"none", nil, nil, nil},
		{"apart", []Tree{of("a", "z", "m/x"), of("b", "m/y")}, []string{"m/x a", "m/y b", "z a"}, nil},
		{"alike", []Tree{of("a", "x"), of("a", "x")}, []string{"x a"}, nil},
		{"the lower one wins", []Tree{of("a", "x"), of("b", "x"), of("c", "x")}, []string{"x a"}, []string{"x of 1", "x of 2"}},
		{"a file where another has a folder", []Tree{of("a", "x"), of("b", "x/y/z", "w")}, []string{"w b", "x a"}, []string{"x/y/z of 1"}},
		{"a folder where another has a file", []Tree{of("a", "x/y/z"), of("b", "x"), of("c", "x/y")}, []string{"x/y/z a"}, []string{"x of 1", "x/y of 2"}},
		{"an empty folder is filled", []Tree{with(Tree{}, []string{"d", "e"}), of("b", "d/x")}, []string{"d/x b", "e/"}, nil},
		{"a link is kept from being a folder", []Tree{with(Tree{}, nil, Link{"l", "d"}), of("b", "l/x")}, []string{"l -> d"}, []string{"l/x of 1"}},
		{"two links", []Tree{with(Tree{}, nil, Link{"l", "d"}), with(Tree{}, nil, Link{"l", "e"}, Link{"m", "d"})}, []string{"l -> d", "m -> d"}, []string{"l of 1"}},
	} {
		var named []Named
		for i, tree := range row.trees {
			if err := tree.Check(); err != nil {
				t.Fatal(row.name, err)
			}
			named = append(named, Named{Name: string(rune('0' + i)), Tree: tree})
		}
		merged, collisions := Merge(named)
		if err := merged.Check(); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		var got, lost []string
		for _, f := range merged.Files {
			got = append(got, f.Path+" "+string(f.SHA256[0]))
		}
		for _, d := range merged.Dirs {
			got = append(got, d+"/")
		}
		for _, l := range merged.Links {
			got = append(got, l.Path+" -> "+l.Target)
		}
		for _, c := range collisions {
			if c.Kept != "0" {
				t.Errorf("%s: %s is kept of %s", row.name, c.Path, c.Kept)
			}
			lost = append(lost, c.Path+" of "+c.Left)
		}
		if diff := cmp.Diff(row.want, got) + cmp.Diff(row.lost, lost); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}
