package input

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/job"
)

// put makes files below dir; a name that ends in "/" is a folder.
func put(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		full := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(full, 0o755)
		} else if err == nil {
			err = os.WriteFile(full, []byte(name), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// taken lists the files of a source, as a walk with Skip finds them.
func taken(t *testing.T, s Source) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(s.Root, func(full string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(s.Root, full)
		switch {
		case err != nil || name == ".":
			return err
		case s.Skip != nil && s.Skip(name):
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir():
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// home is a folder without links in its own name.
func home(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestALocalInputIsFound(t *testing.T) {
	t.Parallel()
	dir := home(t)
	put(t, dir, "data/a.csv", "data/b.csv", "data/train/x", "data/train/deep/y", "one two/z", "we:ird*[x]/q", "star*")
	if err := errors.Join(os.Symlink("data", filepath.Join(dir, "link")), os.Symlink("data/a.csv", filepath.Join(dir, "latest.csv"))); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		path, subdir string
		root, file   string
		want         []string
	}{
		{"data", "", "data", "", []string{"a.csv", "b.csv", "train/deep/y", "train/x"}},
		{"./data/", "", "data", "", []string{"a.csv", "b.csv", "train/deep/y", "train/x"}},
		{"link", "train", "data/train", "", []string{"deep/y", "x"}},
		{"link/../data", "train/deep", "data/train/deep", "", []string{"y"}},
		{dir + "/data", "train", "data/train", "", []string{"deep/y", "x"}},
		{"data/b.csv", "", "data", "b.csv", []string{"b.csv"}},
		{"latest.csv", "", "data", "a.csv", []string{"a.csv"}},
		{"data", "a.csv", "data", "a.csv", []string{"a.csv"}},
		{"we:ird*[x]", "", "we:ird*[x]", "", []string{"q"}},
		{"star*", "", ".", "star*", []string{"star*"}},
		{"file://" + dir + "/one%20two", "", "one two", "", []string{"z"}},
		{"file://localhost" + dir + "/data", "train", "data/train", "", []string{"deep/y", "x"}},
		{"FILE://" + dir + "/we:ird*[x]", "", "we:ird*[x]", "", []string{"q"}},
	} {
		got, err := Find(job.Input{Name: "d", Path: row.path, Subdir: row.subdir}, dir)
		if err != nil {
			t.Errorf("%s: %v", row.path, err)
			continue
		}
		if got.Root != filepath.Join(dir, row.root) || got.File != row.file || len(got.Key) != 64 {
			t.Errorf("%s: %+v", row.path, got)
		}
		if diff := cmp.Diff(row.want, taken(t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.path, diff)
		}
	}
}

func TestWhatCannotBeFoundIsRefused(t *testing.T) {
	var said faulttest.Sayings
	t.Parallel()
	dir := home(t)
	said.Hide(dir, "HERE")
	put(t, dir, "data/a.csv", "data/.hidden.png")
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Symlink("nowhere", filepath.Join(dir, "dangling")), os.Symlink("loop", filepath.Join(dir, "loop"))); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ path, subdir, want, hint string }{
		{"gone", "", `read input d: "gone" is not there`, "Check the path."},
		{"data/a.csv/x", "", "is not there", "Check the path."},
		{strings.Repeat("x", 300), "", "is not there", "Check the path."},
		{"~/data", "", "is not there", `"$HOME"`},
		{"dangling", "", "is not there", "Check"},
		{"loop", "", "read input d: ", "Check"},
		{"data", "test", `"data" holds no folder "test"`, "Check the name"},
		{"data", "shraded", `holds no folder`, "Did you mean :sharded?"},
		{"data/a.csv", "x", "holds no folder", "Check"},
		{"pipe", "", "neither a file nor a folder", "into a file"},
		{"/", "", "root of the file system", "Name the folder"},
		{"file://" + dir + "/gone", "", "is not there", "Check the path."},
		{"file://" + dir + "/*", "", "is not there", "Check the path."},
		{"file://far/x", "", "names the machine", "three slashes"},
		{"data/*.png", "", "no file matches", "ls data"},
		{"none/*", "", "no file matches", "ls none"},
		{"data/*:train", "", "no file matches", "before the star"},
		{"data/*", "train", "has no subfolder", "before the star"},
		{"data/[a", "", "an unmatched bracket", "ls data"},
		{"*/../data/*", "", "has .. after a star", "ls -a."},
	} {
		got, err := Find(job.Input{Name: "d", Path: row.path, Subdir: row.subdir}, dir)
		if err == nil {
			t.Errorf("%s: found as %+v", row.path, got)
			continue
		}
		said.Error(row.path+" "+row.subdir, err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), row.want) || !strings.Contains(fault.Hint(err), row.hint) {
			t.Errorf("%s: %v (%s)", row.path, err, fault.Hint(err))
		}
	}
	said.Compare(t, "find")
}

func TestKeysTellSourcesApart(t *testing.T) {
	t.Parallel()
	dir := home(t)
	put(t, dir, "data/a", "data/b", "other/a")
	keys := map[string]string{}
	for _, path := range []string{"data", "data/a", "data/b", "data/*", "data/**", "other", "other/*"} {
		s, err := Find(job.Input{Path: path}, dir)
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := keys[s.Key]; ok {
			t.Errorf("%s and %s have one key", before, path)
		}
		keys[s.Key] = path
		again, err := Find(job.Input{Name: "x", Path: "./" + path}, dir)
		if err != nil || again.Key != s.Key {
			t.Errorf("%s: the key differs from one look to the next (%v)", path, err)
		}
	}
}

var gallery = []string{"a.csv", "b.csv", "c.txt", ".hidden.csv", "2024-01/a.csv", "2024-01/sub/d.csv", "2024-02/a.csv", "2024-02/x.txt",
	"2025/deep/er/z.csv", "2025/.cache/z.csv", "sp ace/q.csv", "br[1]/q.csv", "-rf/q.csv", "new\nline.csv", "empty/", "[odd", "]odd"}

func TestGlobsMatchAsTheyDoInAShell(t *testing.T) {
	t.Parallel()
	dir := home(t)
	put(t, dir, gallery...)
	for pattern, want := range map[string][]string{
		"*.csv":           {"a.csv", "b.csv", "new\nline.csv"},
		"2024-*":          {"2024-01/a.csv", "2024-01/sub/d.csv", "2024-02/a.csv", "2024-02/x.txt"},
		"2024-*/*.csv":    {"2024-01/a.csv", "2024-02/a.csv"},
		"2024-01/**":      {"a.csv", "sub/d.csv"},
		"**/z.csv":        {"2025/deep/er/z.csv"},
		"**/**/z.csv":     {"2025/deep/er/z.csv"},
		"2025/**/*.csv":   {"deep/er/z.csv"},
		"**/2024-01/**":   {"2024-01/a.csv", "2024-01/sub/d.csv"},
		".h*":             {".hidden.csv"},
		"2025/.c*/*":      {".cache/z.csv"},
		"[ab].csv":        {"a.csv", "b.csv"},
		"[!ab].txt":       {"c.txt"},
		"[^ab].txt":       {"c.txt"},
		"?.txt":           {"c.txt"},
		"br\\[1\\]/*":     {"br[1]/q.csv"},
		"./2024-02//*.*":  {"a.csv", "x.txt"},
		"sp ace/*":        {"q.csv"},
		"2024-01/../*.t*": {"c.txt"},
	} {
		s, err := Find(job.Input{Name: "d", Path: pattern}, dir)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		if diff := cmp.Diff(want, taken(t, s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pattern, diff)
		}
		abs, err := Find(job.Input{Name: "d", Path: filepath.Join(dir) + "/" + pattern}, "/nowhere")
		if err != nil || abs.Root != s.Root || abs.Key != s.Key {
			t.Errorf("%s as an absolute one: %+v, %v", pattern, abs, err)
		}
	}
}

// The shell is the oracle: what it expands a pattern to is what is chosen.
func TestBashChoosesTheSame(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	dir := home(t)
	put(t, dir, gallery...)
	for _, pattern := range []string{"*", "*.csv", "*/*", "*/*.csv", "2024-0[12]/*", "2024-0[!1]/*", "**/*.csv", "**/a.csv", "2025/**/z.csv", "*/**/z.csv", "**", ".*", "[-b]*", "[b-]*", "[]b]*", "[!]b]*", "[^-]*.csv", "[[]*", "*[]]/*", "[\\]]*", "br[[]*", "[a-b]*", "*\\ *", "br\\[*"} {
		cmd := exec.Command(bash, "-c", "shopt -s globstar nullglob; export LC_ALL=C; for f in "+pattern+"; do printf '%s\\0' \"$f\"; done")
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		chosen := map[string]bool{}
		for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if name = strings.TrimSuffix(name, "/"); name != "." && name != ".." && name != "" {
				chosen[name] = true
			}
		}
		s, err := Find(job.Input{Name: "d", Path: pattern}, dir)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		prefix, _ := filepath.Rel(dir, s.Root)
		for name := range everything(t, s.Root) {
			full := filepath.Join(prefix, name)
			want := false // it, or a folder above it
			for at := full; at != "."; at = filepath.Dir(at) {
				want = want || chosen[at]
			}
			above := false // on the way to one
			for c := range chosen {
				above = above || strings.HasPrefix(c, full+"/")
			}
			if got := !s.Skip(name); got != (want || above) {
				t.Errorf("%s: %q is chosen: %t; bash says %t", pattern, name, got, want || above)
			}
		}
	}
}

func everything(t *testing.T, root string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(full string, _ fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(root, full); name != "." {
			all[name] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAGlobOfManyStarsEnds(t *testing.T) {
	t.Parallel()
	dir := home(t)
	put(t, dir, strings.Repeat("d/", 60)+"end")
	s, err := Find(job.Input{Path: strings.Repeat("**/*/", 12) + "end"}, dir)
	if err != nil || len(taken(t, s)) != 1 {
		t.Error(err)
	}
}
