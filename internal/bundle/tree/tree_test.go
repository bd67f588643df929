package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/bundle/bundletest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

var abc = store.Digest(strings.Repeat("abc0", 16))

func files(names ...string) Tree {
	var t Tree
	for _, n := range names {
		t.Files = append(t.Files, File{Path: n, SHA256: abc, Mode: 0o644})
	}
	return t
}

func TestTreesThatLeadOutsideAreRefused(t *testing.T) {
	var said faulttest.Sayings
	t.Parallel()
	for name, bad := range map[string]Tree{
		"climbs":              files("../x"),
		"absolute":            files("/x"),
		"nul":                 files("a\x00"),
		"twice":               files("a", "a"),
		"file and folder":     files("a", "a/b/c"),
		"folder and file":     files("a/b/c", "a"),
		"ours":                files(".drover-part/0"),
		"file and empty":      {Files: files("a").Files, Dirs: []string{"a"}},
		"below a file":        {Files: files("a").Files, Dirs: []string{"a/b"}},
		"dir climbs":          {Dirs: []string{"a/../.."}},
		"below a link":        {Files: files("l/x").Files, Links: []Link{{"l", "d"}}},
		"link and file":       {Files: files("l").Files, Links: []Link{{"l", "d"}}},
		"link climbs":         {Links: []Link{{"l", ".."}}},
		"link climbs deep":    {Links: []Link{{"a/b/l", "../../../x"}}},
		"link absolute":       {Links: []Link{{"l", "/etc"}}},
		"link by a detour":    {Links: []Link{{"l", "a/../../x"}}},
		"link by another":     {Links: []Link{{"d/l", "../m/.."}, {"m", "d/e"}}},
		"link over another":   {Links: []Link{{"a/b/c/l", "m/../x"}, {"a/b/c/m", "../../.."}}},
		"link to nothing":     {Links: []Link{{"l", ""}}},
		"link nul":            {Links: []Link{{"l", "a\x00"}}},
		"link's name climbs":  {Links: []Link{{"../l", "x"}}},
		"negative size":       {Files: []File{{Path: "a", Size: -1, SHA256: abc}}},
		"sizes that overflow": {Files: []File{{Path: "a", Size: math.MaxInt64, SHA256: abc}, {Path: "b", Size: 1, SHA256: abc}}},
		"setuid":              {Files: []File{{Path: "a", Mode: 0o4755, SHA256: abc}}},
		"no digest":           {Files: []File{{Path: "a"}}},
		"path as digest":      {Files: []File{{Path: "a", SHA256: "../../../../etc/passwd"}}},
		"upper-case digest":   {Files: []File{{Path: "a", SHA256: store.Digest(strings.ToUpper(string(abc)))}}},
	} {
		dir, intact := bundletest.Cage(t)
		said.Hide(dir, "HERE")
		err := Restore(t.Context(), store.New(mem.New(), store.Options{}), bad, dir)
		said.Error(name, err)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := TarGz(t.Context(), store.New(mem.New(), store.Options{}), []Named{{"rank 0", bad}}, new(bytes.Buffer)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s, merged: %v", name, err)
		}
		if got := bundletest.ReadFiles(t, dir); len(got) > 0 {
			t.Errorf("%s: made %q", name, bundletest.SortedKeys(got))
		}
		intact()
	}
	good := Tree{Files: files(bundletest.SortedKeys(bundletest.HostileNames)...).Files, Dirs: []string{"x/y", "x"}, Links: []Link{{"a/b/l", "../../x"}, {"m", "./a/b/"}, {"top/up", ".."}}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	said.Compare(t, "trees")
}

func TestATreeSurvivesItsStoredForm(t *testing.T) {
	t.Parallel()
	want := Tree{Dirs: []string{"bad\xff", "AGE="}, Links: []Link{{"l\xfe", "t\xfd"}}}
	for _, name := range bundletest.SortedKeys(bundletest.HostileNames) {
		want.Files = append(want.Files, File{name, 5, 0o755, abc, -7})
	}
	want.Notes = []string{"not stored"}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Tree
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want.Notes = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	small, err := json.Marshal(Tree{Files: files("a b").Files, Links: []Link{{"l", "a b"}}, Dirs: []string{"d"}})
	golden := `{"files":[{"path":"a b","size":0,"mode":420,"sha256":"` + string(abc) + `"}],"dirs":["d"],"links":[{"path":"l","target":"a b"}]}`
	if err != nil || string(small) != golden {
		t.Errorf("the stored form changed:\n%s\n%s (%v)", small, golden, err)
	}
}

func TestDigestSaysWhatAFolderHolds(t *testing.T) {
	t.Parallel()
	base := Tree{Files: files("a", "b").Files, Dirs: []string{"d"}, Links: []Link{{"l", "a"}}}
	if got, want := base.Digest(), "b6a2ba29c9e2a42ba0a2b56e5a3c0fe22b5f3a3a7cd1d6d3dbde9a9a4e7d1a4c"; len(got) != len(want) {
		t.Errorf("%q is not a digest", got)
	}
	same := Tree{Files: files("b", "a").Files, Dirs: []string{"d"}, Links: []Link{{"l", "a"}}, Notes: []string{"x"}}
	same.Files[0].Time, same.Files[1].Mode = 9, 0o600
	if same.Digest() != base.Digest() {
		t.Error("order, time or a umask shows in the digest")
	}
	seen := map[string]int{base.Digest(): -1}
	for i, other := range []Tree{
		{}, {Files: files("a", "b").Files}, {Files: files("a\" file false 0", "b").Files},
		{Files: base.Files, Dirs: []string{"e"}, Links: base.Links},
		{Files: base.Files, Dirs: base.Dirs, Links: []Link{{"l", "b"}}},
		{Files: []File{base.Files[0], {"b", 0, 0o755, abc, 0}}, Dirs: base.Dirs, Links: base.Links},
		{Files: []File{base.Files[0], {"b", 1, 0o644, abc, 0}}, Dirs: base.Dirs, Links: base.Links},
	} {
		if was, known := seen[other.Digest()]; known {
			t.Errorf("trees %d and %d have one digest", i, was)
		}
		seen[other.Digest()] = i
	}
}

func TestMissingNamesTheBlobsThatAreGone(t *testing.T) {
	t.Parallel()
	dir, blobs := t.TempDir(), store.New(mem.New(), store.Options{})
	bundletest.WriteFiles(t, dir, map[string]string{"a": "1", "b": "2", "c": "1"})
	cache := new(Cache)
	tree, err := Save(t.Context(), blobs, dir, SaveOptions{Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := Missing(t.Context(), blobs, tree); err != nil || len(gone) > 0 {
		t.Error(gone, err)
	}
	if err := blobs.Delete(t.Context(), "blobs/"+string(tree.Files[0].SHA256)); err != nil {
		t.Fatal(err)
	}
	gone, err := Missing(t.Context(), blobs, tree)
	if diff := cmp.Diff([]store.Digest{tree.Files[0].SHA256}, gone); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
	cache.Forget(gone...)
	again, err := Save(t.Context(), blobs, dir, SaveOptions{Cache: cache})
	if err != nil || again.Digest() != tree.Digest() {
		t.Fatal(err)
	}
	if gone, err := Missing(t.Context(), blobs, again); err != nil || len(gone) > 0 {
		t.Error("still missing:", gone, err)
	}
}

// FuzzRestoreNeverLeavesItsFolder gives Restore any tree with blobs that exist.
func FuzzRestoreNeverLeavesItsFolder(f *testing.F) {
	f.Add([]byte(`{"files":[{"path":"../canary"}]}`))
	f.Add([]byte(`{"files":[{"path":"l/canary"}],"links":[{"path":"l","target":".."}]}`))
	f.Add([]byte(`{"files":[{"path":"a/b","mode":420}],"links":[{"path":"a/l","target":"../a/b"}],"dirs":["d/e"]}`))
	f.Add([]byte(`{"links":[{"path":"d/l","target":"../m/.."},{"path":"m","target":"d/e"}],"dirs":["d/e"]}`))
	f.Add([]byte(`{"files":[{"path":"\u0000Li4vY2FuYXJ5"}]}`))
	f.Add([]byte(`{"files":[{"path":".drover-part/0"},{"path":"a"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var tree Tree
		if json.Unmarshal(text, &tree) != nil {
			return
		}
		blobs := store.New(mem.New(), store.Options{})
		d, n, err := blobs.PutBlob(t.Context(), strings.NewReader("text"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range tree.Files {
			tree.Files[i].SHA256, tree.Files[i].Size = d, n
		}
		dir, intact := bundletest.Cage(t)
		err = Restore(t.Context(), blobs, tree, dir)
		intact()
		if _, left := os.Lstat(filepath.Join(dir, Workshop)); !errors.Is(left, os.ErrNotExist) {
			t.Error("left its workshop:", left)
		}
		if err != nil {
			return
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		for _, l := range tree.Links {
			// Root tells an escape apart from a link to nothing or in a circle.
			if _, err := root.Stat(l.Path); err != nil && strings.Contains(err.Error(), "escapes") {
				t.Errorf("%q -> %q leads outside", l.Path, l.Target)
			}
		}
	})
}

var _ io.ReadSeeker = (*listBody)(nil)
