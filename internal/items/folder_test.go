package items

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/glob"
	"github.com/drover-run/drover/internal/items/itemstest"
	"github.com/drover-run/drover/internal/items/manifest"
)

// tree makes files; a name that ends in / is a folder.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil && strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o700)
		} else if err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// found is what a source finds, relative to root.
func found(t *testing.T, from, root string) (names, notes []string, err error) {
	t.Helper()
	l, err := Collect(t.Context(), Source{From: from, Dir: root}, t.TempDir())
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	for _, path := range itemstest.ReadTexts(t, l.Reader()) {
		name, ok := strings.CutPrefix(path, root+"/")
		if !ok {
			t.Fatalf("%q is not below %q", path, root)
		}
		names = append(names, name)
	}
	return names, l.Notes(), nil
}

func TestAFolderIsItsFiles(t *testing.T) {
	root := tree(t, "in/b", "in/a.txt", "in/a/x", "in/a/deep/er/y", "in/.git/config", "in/.hidden", "in/a/.h/z",
		"in/-rf", "in/with space", "in/new\nline", "in/q'uo\"te", "in/empty/", "in/\xff", "out")
	if err := os.Symlink("../out", filepath.Join(root, "in/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..", filepath.Join(root, "in/loop")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(root, "in/dangling")); err != nil {
		t.Fatal(err)
	}
	names, notes, err := found(t, "in", root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"in/-rf", "in/a.txt", "in/a/deep/er/y", "in/a/x", "in/b", "in/link", "in/new\nline", "in/q'uo\"te", "in/with space", "in/\xff"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"3 hidden names were left out", "2 links to folders or to nothing were left out"}, notes); diff != "" {
		t.Error(diff)
	}
	if names, _, err := found(t, "in/a/../a", root); err != nil || len(names) != 2 {
		t.Errorf("a folder named with ..: %q, %v", names, err)
	}
}

func TestWhatIsNoFileIsLeftOut(t *testing.T) {
	root := tree(t, "a")
	s, err := net.Listen("unix", filepath.Join(root, "sock"))
	if err != nil {
		t.Skip("no socket can be made:", err) // its path may be too long here
	}
	defer s.Close()
	names, notes, err := found(t, ".", root)
	if err != nil || !cmp.Equal(names, []string{"a"}) || !cmp.Equal(notes, []string{"1 socket, pipe or device was left out"}) {
		t.Errorf("%q, %q, %v", names, notes, err)
	}
}

func TestGlobs(t *testing.T) {
	var said faulttest.Sayings
	root := tree(t, "a.png", "b.png", "c.jpg", ".d.png", "x/e.png", "x/y/f.png", "x/.g/h.png", "x/y/z/i.png", "[1].png", "x-y.png", "k/")
	for from, want := range map[string][]string{
		"*.png":            {"[1].png", "a.png", "b.png", "x-y.png"},
		"?.png":            {"a.png", "b.png"},
		"[ab].png":         {"a.png", "b.png"},
		"[!a].*":           {"b.png", "c.jpg"},
		"[a-c].*":          {"a.png", "b.png", "c.jpg"},
		"x[-]y.png":        {"x-y.png"},
		"[[]1].png":        {"[1].png"},
		".*.png":           {".d.png"},
		"**/*.png":         {"[1].png", "a.png", "b.png", "x-y.png", "x/e.png", "x/y/f.png", "x/y/z/i.png"},
		"x/**":             {"x/e.png", "x/y/f.png", "x/y/z/i.png"},
		"x/**/**":          {"x/e.png", "x/y/f.png", "x/y/z/i.png"},
		"**/y/**":          {"x/y/f.png", "x/y/z/i.png"},
		"**/y/**/**/*.png": {"x/y/f.png", "x/y/z/i.png"},
		"*/*.png":          {"x/e.png"},
		"x/*/*.png":        {"x/y/f.png"},
		"x/.*/*":           {"x/.g/h.png"},
		"./x//*.png":       {"x/e.png"},
		"x/../*.jpg":       {"c.jpg"},
		"*":                {"[1].png", "a.png", "b.png", "c.jpg", "x-y.png"},
	} {
		names, _, err := found(t, from, root)
		if diff := cmp.Diff(want, names); diff != "" || err != nil {
			t.Errorf("%s: %v; %s", from, err, diff)
		}
	}
	for _, c := range []struct{ from, note string }{
		{"*", "2 folders match and were left out; /** takes the files in them"},
		{"x/*", "1 folder matches and was left out; /** takes the files in it"},
		{"x/**", "1 hidden name was left out"},
	} {
		if _, notes, err := found(t, c.from, root); err != nil || !cmp.Equal(notes, []string{c.note}) {
			t.Errorf("%s: %q, %v", c.from, notes, err)
		}
	}
	for _, from := range []string{"k", "k/*", "*.gif", "x/e.png/*", "k*"} {
		_, _, err := found(t, from, root)
		said.Error(from, err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "ls ") {
			t.Errorf("%s: %v", from, err)
		}
	}
	_, err := Collect(t.Context(), Source{From: "*.png", Dir: root, Format: manifest.CSV}, t.TempDir())
	said.Error("files as CSV", err)
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("files as CSV: %v", err)
	}
	said.Compare(t, "globs")
}

// TestGlobsAreTheShells has sh say which files a pattern of one folder matches.
func TestGlobsAreTheShells(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 5))
	word := func(letters string, n int) string {
		b := make([]byte, 1+rnd.IntN(n))
		for i := range b {
			b[i] = letters[rnd.IntN(len(letters))]
		}
		return string(b)
	}
	files := []string{"x/"}
	for range 60 {
		files = append(files, "x/"+word("ab.-!1", 4)+"f")
	}
	root := tree(t, files...)
	for range 150 {
		pattern := word("ab.*?[]-!1", 6)
		if _, err := os.Lstat(filepath.Join(root, "x", pattern)); err == nil || !glob.IsPattern(pattern) {
			continue
		}
		sh := exec.Command("sh", "-c", `LC_ALL=C; cd x; for f in `+pattern+`; do test -f "$f" && echo "x/$f"; done; true`)
		sh.Dir = root
		out, err := sh.Output()
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Fields(string(out))
		slices.Sort(want)
		names, _, err := found(t, "x/"+pattern, root)
		if err != nil && strings.Contains(err.Error(), "without its partner") {
			continue // a shell takes such a bracket for itself
		}
		if diff := cmp.Diff(want, names, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %v; %s", pattern, err, diff)
		}
	}
}

func TestAFolderThatMayNotBeReadIsRefused(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	root := tree(t, "a/b")
	if err := os.Chmod(filepath.Join(root, "a"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(root, "a"), 0o700)
	if _, _, err := found(t, ".", root); fault.KindOf(err) != fault.Denied {
		t.Error(err)
	}
}

func TestManyNamesAreSortedInLittleRoom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 6))
	s := newSorter(t.TempDir())
	s.room = 1000
	defer s.removeFiles()
	var want []string
	for i := range 5000 {
		name := fmt.Sprintf("%x/%d", rnd.IntN(3000), i%3)
		if i%500 == 0 {
			name += strings.Repeat("long", 1000)
		}
		want = append(want, name)
		if err := s.addName(name); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	var got []string
	if err := s.eachName(func(name []byte) error { got = append(got, string(name)); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(s.runs) < 20 {
		t.Errorf("only %d runs", len(s.runs))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
