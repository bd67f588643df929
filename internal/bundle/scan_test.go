package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/bundletest"
)

func scan(t testing.TB, s Source) List {
	t.Helper()
	l, err := Scan(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func names(l List) []string {
	var names []string
	for _, e := range l.Entries {
		names = append(names, e.Name)
	}
	return names
}

func noted(l List, reason, name string) bool {
	for _, n := range l.Notes {
		if strings.Contains(n, reason) && strings.Contains(n, fmt.Sprintf("%q", name)) {
			return true
		}
	}
	return false
}

// project is a folder with one of everything that decides what is shipped.
var project = map[string]string{
	"train.py": "x", "lib/util.py": "x", "lib/__pycache__/util.pyc": "x", "loose.pyc": "x",
	".gitignore": "*.log\n/data/\nsecret.py\n", "run.log": "x", "data/big.bin": "x", "sub/data/kept": "x",
	"lib/.gitignore": "!kept.log\nscratch\n", "lib/kept.log": "x", "lib/scratch": "x", "secret.py": "x",
	".droverignore": "*.md\n!lib/README.md\n", "notes.md": "x", "lib/README.md": "x",
	"env/pyvenv.cfg": "x", "env/bin/python": "x", "out/.drover.json": "x", "out/model/m.pt": "x", "node_modules/a/index.js": "x",
	".ipynb_checkpoints/n.ipynb": "x", ".drover/cache": "x", "empty/": "",
}

var shipped = []string{".droverignore", ".gitignore", "lib/.gitignore", "lib/README.md", "lib/kept.log", "lib/util.py", "sub/data/kept", "train.py"}

func TestScanShipsWhatGitSees(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, project)
	git(t, dir, "init", "-q")
	l := scan(t, Source{Dir: dir})
	if l.How != "git" {
		t.Error("chosen by", l.How)
	}
	if diff := cmp.Diff(shipped, names(l)); diff != "" {
		t.Error("untracked:", diff)
	}
	// Tracked files stay whatever the rules say, but for .droverignore's.
	bundletest.WriteFiles(t, dir, map[string]string{"gone.py": "x", "node_modules/kept.js": "x"})
	git(t, dir, "add", "-f", "run.log", "notes.md", "loose.pyc", "node_modules/kept.js", "gone.py", "train.py")
	git(t, dir, "commit", "-qm", "x")
	if err := os.Remove(filepath.Join(dir, "gone.py")); err != nil {
		t.Fatal(err)
	}
	want := []string{".droverignore", ".gitignore", "lib/.gitignore", "lib/README.md", "lib/kept.log", "lib/util.py", "loose.pyc", "node_modules/kept.js", "run.log", "sub/data/kept", "train.py"}
	if diff := cmp.Diff(want, names(scan(t, Source{Dir: dir}))); diff != "" {
		t.Error("tracked:", diff)
	}
	// A folder inside the repository is shipped alone, by the whole's rules.
	if diff := cmp.Diff([]string{".gitignore", "README.md", "kept.log", "util.py"}, names(scan(t, Source{Dir: filepath.Join(dir, "lib")}))); diff != "" {
		t.Error("inside:", diff)
	}
	// One that is ignored as a whole was named all the same.
	if diff := cmp.Diff([]string{"big.bin"}, names(scan(t, Source{Dir: filepath.Join(dir, "data")}))); diff != "" {
		t.Error("ignored:", diff)
	}
}

func TestScanWithoutGitShipsTheSame(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no git there
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, project)
	l := scan(t, Source{Dir: dir})
	if diff := cmp.Diff(shipped, names(l)); diff != "" {
		t.Error("no repository:", diff)
	}
	if l.How != "walk" || l.Bytes == 0 {
		t.Errorf("chosen by %s, %d bytes", l.How, l.Bytes)
	}
	bundletest.WriteFiles(t, dir, map[string]string{".git/info/exclude": "*.tmp\n", "lib/x.tmp": "x"})
	if diff := cmp.Diff(shipped, names(scan(t, Source{Dir: dir}))); diff != "" {
		t.Error("repository:", diff)
	}
	bundletest.WriteFiles(t, dir, map[string]string{"lib/run.log": "x"})
	if diff := cmp.Diff([]string{".gitignore", "README.md", "kept.log", "util.py"}, names(scan(t, Source{Dir: filepath.Join(dir, "lib")}))); diff != "" {
		t.Error("inside:", diff)
	}
}

func TestDroverignoreBringsBackWhatDroverLeavesOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{".droverignore": "!node_modules/\nnode_modules/b\n", "node_modules/a": "x", "node_modules/b": "x", "x.pyc": "x"})
	if diff := cmp.Diff([]string{".droverignore", "node_modules/a"}, names(scan(t, Source{Dir: dir}))); diff != "" {
		t.Error(diff)
	}
}

func TestSubmodulesAndInnerRepositoriesAreShippedAsPlainFiles(t *testing.T) {
	t.Parallel()
	lib, dir := t.TempDir(), t.TempDir()
	bundletest.WriteFiles(t, lib, map[string]string{"sub.py": "x", ".gitignore": "*.o\n"})
	git(t, lib, "init", "-q")
	git(t, lib, "add", ".")
	git(t, lib, "commit", "-qm", "x")
	git(t, dir, "init", "-q")
	git(t, dir, "submodule", "--quiet", "add", lib, "deps/lib")
	git(t, dir, "submodule", "--quiet", "add", lib, "deps/bare")
	git(t, dir, "commit", "-qm", "x")
	git(t, dir, "submodule", "--quiet", "deinit", "-f", "deps/bare")
	git(t, dir, "clone", "-q", lib, "cloned")
	bundletest.WriteFiles(t, dir, map[string]string{"main.py": "x", "deps/bare/copied.py": "x", "deps/lib/new.py": "x", "deps/lib/x.o": "x", ".droverignore": "cloned/.gitignore"})
	want := []string{".droverignore", ".gitmodules", "cloned/sub.py", "deps/bare/copied.py", "deps/lib/.gitignore", "deps/lib/new.py", "deps/lib/sub.py", "main.py"}
	if diff := cmp.Diff(want, names(scan(t, Source{Dir: dir}))); diff != "" {
		t.Error(diff)
	}
}

func TestLinksInsideAreFollowedAndOthersNoted(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	bundletest.WriteFiles(t, outside, map[string]string{"secret": "x"})
	bundletest.WriteFiles(t, dir, map[string]string{
		"real.py": "text", "alias.py": "-> real.py", "abs.py": "-> " + filepath.Join(dir, "real.py"),
		"releases/2/app.py": "x", "releases/2/lib": "-> ../../lib", "current": "-> releases/2", "lib/l.py": "y", "lib/up": "-> ..",
		"dangling": "-> nowhere", "out": "-> " + filepath.Join(outside, "secret"), "outdir": "-> " + outside,
		"loop": "-> loop", "deep/self": "-> .", ".git/config": "x", "gitlink": "-> .git/config",
	})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := scan(t, Source{Dir: dir})
	want := []string{"abs.py", "alias.py", "current/app.py", "current/lib/l.py", "lib/l.py", "real.py", "releases/2/app.py", "releases/2/lib/l.py"}
	if diff := cmp.Diff(want, names(l)); diff != "" {
		t.Error(diff)
	}
	for name, reason := range map[string]string{
		"dangling": "to nothing", "loop": "to nothing", "out": "out of this folder", "outdir": "out of this folder",
		"gitlink": ".git", "pipe": "fifo", "deep/self": "around it", "lib/up": "around it",
	} {
		if !noted(l, reason, name) {
			t.Errorf("no note about %s in %q", name, l.Notes)
		}
	}
}

func TestFoldersOfLinksDoNotMultiplyWithoutEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{"f40/x": "x"}
	for i := range 40 {
		files[fmt.Sprintf("f%d/a", i)] = fmt.Sprintf("-> ../f%d", i+1)
		files[fmt.Sprintf("f%d/b", i)] = fmt.Sprintf("-> ../f%d", i+1)
	}
	bundletest.WriteFiles(t, dir, files)
	if l, err := Scan(t.Context(), Source{Dir: dir}); err != nil || !strings.Contains(strings.Join(l.Notes, ""), "too many") {
		t.Errorf("%v %q", err, l.Notes)
	}
}

func TestTheScriptComesAlongWhateverTheRulesSay(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{".gitignore": "gen/\n", "gen/run.py": "x", "a.py": "x"})
	bundletest.WriteFiles(t, other, map[string]string{"far.py": "x"})
	for _, script := range []string{"gen/run.py", filepath.Join(dir, "gen/run.py")} {
		l := scan(t, Source{Dir: dir, Script: script})
		if diff := cmp.Diff([]string{".gitignore", "a.py", "gen/run.py"}, names(l)); diff != "" || l.Script != "gen/run.py" {
			t.Error(l.Script, diff)
		}
	}
	l := scan(t, Source{Dir: dir, Script: filepath.Join(other, "far.py"), Extra: []string{filepath.Join(dir, "a.py")}, Alone: true})
	if diff := cmp.Diff([]string{"a.py", "far.py"}, names(l)); diff != "" || l.Script != "far.py" || l.How != "script" {
		t.Error(l.Script, l.How, diff)
	}
	for script, kind := range map[string]fault.Kind{"no.py": fault.Missing, "gen": fault.Invalid, filepath.Join(other, "far.py"): fault.Invalid} {
		if _, err := Scan(t.Context(), Source{Dir: dir, Script: script}); fault.KindOf(err) != kind {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestExtraFilesAndFoldersStandBeside(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"main.py": "x"})
	bundletest.WriteFiles(t, other, map[string]string{"lib/a.py": "x", "lib/x.pyc": "x", "one.txt": "x", "clash/main.py": "y", "main.py/x": "y"})
	l := scan(t, Source{Dir: dir, Extra: []string{filepath.Join(other, "lib"), filepath.Join(other, "one.txt")}})
	if diff := cmp.Diff([]string{"lib/a.py", "main.py", "one.txt"}, names(l)); diff != "" {
		t.Error(diff)
	}
	for extra, kind := range map[string]fault.Kind{"clash/main.py": fault.Invalid, "main.py": fault.Invalid, "nothing": fault.Missing} {
		if _, err := Scan(t.Context(), Source{Dir: dir, Extra: []string{filepath.Join(other, extra)}}); fault.KindOf(err) != kind {
			t.Errorf("%s: %v", extra, err)
		}
	}
}

func TestHomeIsRefusedInAWayACallerCanTell(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	bundletest.WriteFiles(t, home, map[string]string{"x.py": "x"})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{home, "/", link} {
		_, err := Scan(t.Context(), Source{Dir: dir})
		if !errors.Is(err, ErrHome) || fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if l := scan(t, Source{Dir: home, Script: "x.py", Alone: true}); len(l.Entries) != 1 {
		t.Error(l.Entries)
	}
}

func TestTooMuchNamesTheCulprits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"main.py": "x", "a/b/data/": "", "a/b/c.py": "x"})
	for i := range 12 {
		bundletest.WriteFiles(t, dir, map[string]string{fmt.Sprintf("many/%d", i): "x"})
	}
	for name, size := range map[string]int64{"a/b/data/1": 40e6, "a/b/data/2": 50e6, "model file.bin": 30e6, "z.bin": 1e6} {
		bundletest.WriteFiles(t, dir, map[string]string{name: ""})
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Scan(t.Context(), Source{Dir: dir})
	if !errors.Is(err, ErrTooBig) || fault.KindOf(err) != fault.Invalid {
		t.Fatal(err)
	}
	for _, want := range []string{`121 MB in 18 files is above 100 MB`, `"a/b/data/" (90 MB in 2 files)`, `"model file.bin" (30 MB)`, `"z.bin" (1.0 MB)`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in: %v", want, err)
		}
	}
	if hint := fault.Hint(err); !strings.Contains(hint, "-s DIR") || !strings.Contains(hint, "-i a/b/data") || !strings.Contains(hint, ".droverignore") {
		t.Error(hint)
	}
	_, err = Scan(t.Context(), Source{Dir: dir, Caps: Caps{Bytes: 1e9, Files: 10}})
	if !errors.Is(err, ErrTooBig) || !strings.Contains(err.Error(), `above 10 files; the largest are "many/" (12 B in 12 files)`) {
		t.Error(err)
	}
	_, err = Scan(t.Context(), Source{Dir: dir, Caps: Caps{Bytes: 1e9, Depth: 2}})
	if !errors.Is(err, ErrTooBig) || !strings.Contains(err.Error(), "3 folders deep") {
		t.Error(err)
	}
}

func TestScanStopsWhenAsked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"x": "x"})
	boom := errors.New("boom")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	if _, err := Scan(ctx, Source{Dir: dir}); !errors.Is(err, boom) {
		t.Error(err)
	}
}

func TestAHintCanBePasted(t *testing.T) {
	for in, want := range map[string]string{"data": "data", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "-x": "'-x'", "$(x)": "'$(x)'"} {
		if got := shellWord(in); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", in, got, want)
		}
	}
}
