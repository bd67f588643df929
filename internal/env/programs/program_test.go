package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/env/envtest"
	"github.com/drover-run/drover/internal/env/packages"
	"github.com/drover-run/drover/internal/env/requirements"
)

// languagesOnPath is a PATH that has every language. One that this machine lacks
// is a fake: it says its name and what it was given after the script.
func languagesOnPath(t testing.TB) string {
	t.Helper()
	fakes := t.TempDir()
	for _, name := range []string{"Rscript", "julia", "perl", "ruby", "node"} {
		if _, err := exec.LookPath(name); err != nil {
			envtest.Put(t, fakes, name, "#!/bin/sh\n# A fake "+name+".\nshift\necho "+name+` "$@"`+"\n", 0o755)
		}
	}
	return os.Getenv("PATH") + ":" + fakes
}

// started runs what Program says, in the code folder.
func started(t testing.TB, r Request) string {
	t.Helper()
	c, err := Find(t.Context(), r)
	if err != nil {
		t.Fatalf("%s: %v", r.Script, err)
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env = r.Dir, r.Environ
	if c.Name != "" {
		cmd.Args[0] = c.Name
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", r.Script, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestEveryKindOfFileIsRun(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	environ := []string{"PATH=" + languagesOnPath(t), "HOME=" + t.TempDir()}
	for _, c := range []struct {
		name string
		mode os.FileMode
		text string
		want string
	}{
		{"train.py", 0o644, "import sys; print('python', *sys.argv[1:])", "python a b c"},
		{"executable.py", 0o755, "#!/bin/false\nimport sys; print('python', *sys.argv[1:])", "python a b c"},
		{"train.sh", 0o644, "x=(bash); echo ${x[0]} \"$@\"", "bash a b c"},
		{"executable.sh", 0o755, "#!/bin/sh\necho own line \"$@\"", "own line a b c"},
		{"noline.sh", 0o755, "x=(bash); echo ${x[0]} \"$@\"", "bash a b c"},
		{"TRAIN.BASH", 0o644, "x=(bash); echo ${x[0]} \"$@\"", "bash a b c"},
		{"train.R", 0o644, "cat('Rscript', commandArgs(TRUE))", "Rscript a b c"},
		{"train.r", 0o644, "cat('Rscript', commandArgs(TRUE))", "Rscript a b c"},
		{"train.jl", 0o644, "println(join([\"julia\"; ARGS], \" \"))", "julia a b c"},
		{"train.pl", 0o644, "print \"perl @ARGV\"", "perl a b c"},
		{"train.rb", 0o644, "puts (['ruby'] + ARGV).join(' ')", "ruby a b c"},
		{"train.js", 0o644, "console.log('node', ...process.argv.slice(2))", "node a b c"},
		{"train.mjs", 0o644, "import process from 'process'; console.log('node', ...process.argv.slice(2))", "node a b c"},
		{"sub/train.pl", 0o644, "print \"perl @ARGV\"", "perl a b c"},
		{"-e.pl", 0o644, "print \"perl @ARGV\"", "perl a b c"},
		{"line", 0o644, "#!/bin/sh -e\necho $- \"$@\" | tr -d hB", "e a b c"},
		{"line-of-env", 0o644, "#! /usr/bin/env perl\nprint \"perl @ARGV\"", "perl a b c"},
		{"line-that-env-splits", 0o644, "#!/usr/bin/env -S X=1 perl -l\nprint \"$ENV{X} @ARGV\"", "1 a b c"},
		{"executable", 0o755, "#!/usr/bin/env perl\nprint \"perl @ARGV\"", "perl a b c"},
		{"executable-text", 0o755, "echo shell \"$@\"", "shell a b c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := Request{Dir: t.TempDir(), Script: c.name, Args: []string{"a", "b c"}, Environ: environ, Interpreter: python}
			envtest.Put(t, r.Dir, c.name, c.text, c.mode)
			if got := started(t, r); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestABinaryIsItsOwn(t *testing.T) {
	t.Parallel()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Dir: t.TempDir(), Script: "prog.sh", Args: []string{"-c", "echo binary"}, Environ: os.Environ()}
	envtest.Put(t, r.Dir, r.Script, string(shell), 0o755)
	if got := started(t, r); got != "binary" {
		t.Errorf("got %q", got)
	}
}

func TestNamesAndLinesAreRun(t *testing.T) {
	t.Parallel()
	r := Request{Dir: t.TempDir(), Environ: []string{"PATH=/nowhere", "PATH=bin:" + os.Getenv("PATH")}}
	envtest.Put(t, r.Dir, "bin/mine", "#!/bin/sh\necho mine \"$@\"", 0o755)
	r.Name, r.Args = "mine", []string{"a b"}
	if got := started(t, r); got != "mine a b" {
		t.Errorf("by name: %q", got)
	}
	r.Name = "bin/mine"
	if got := started(t, r); got != "mine a b" {
		t.Errorf("by path: %q", got)
	}
	c, err := Find(t.Context(), r)
	if want := (Command{Path: filepath.Join(r.Dir, "bin", "mine"), Name: "bin/mine", Args: []string{"a b"}}); err != nil || !cmp.Equal(c, want) {
		t.Errorf("%+v, %v", c, err)
	}
	r.Name, r.Args, r.Line = "", nil, "echo $((6*7)) | tr 4 5"
	if got := started(t, r); got != "52" {
		t.Errorf("a line: %q", got)
	}
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	var said faulttest.Sayings
	t.Parallel()
	dir := t.TempDir()
	said.Hide(dir, "HERE")
	here := func(name, text string, mode os.FileMode) Request {
		envtest.Put(t, dir, name, text, mode)
		return Request{Dir: dir, Script: name, Environ: []string{"PATH=" + t.TempDir()}}
	}
	for name, c := range map[string]struct {
		r    Request
		kind fault.Kind
		want string
	}{
		"python":            {here("a.py", "", 0o644), fault.Missing, "start program: a.py needs python3, which is not on PATH"},
		"a notebook":        {here("a.ipynb", "", 0o644), fault.Missing, "start program: a.ipynb needs python3, which is not on PATH"},
		"bash":              {here("a.sh", "", 0o644), fault.Missing, "start program: a.sh needs bash, which is not on PATH"},
		"bash, by its name": {here("a.bash", "", 0o644), fault.Missing, "start program: a.bash needs bash, which is not on PATH"},
		"R":                 {here("a.R", "", 0o644), fault.Missing, "start program: a.R needs Rscript, which is not on PATH"},
		"Julia":             {here("a.jl", "", 0o644), fault.Missing, "start program: a.jl needs julia, which is not on PATH"},
		"Perl":              {here("a.pl", "", 0o644), fault.Missing, "start program: a.pl needs perl, which is not on PATH"},
		"Ruby":              {here("a.rb", "", 0o644), fault.Missing, "start program: a.rb needs ruby, which is not on PATH"},
		"Node":              {here("a.cjs", "", 0o644), fault.Missing, "start program: a.cjs needs node, which is not on PATH"},
		"a shell":           {Request{Dir: dir, Line: "true"}, fault.Missing, "start program: a shell line needs bash, which is not on PATH"},
		"a text":            {here("text", "echo", 0o755), fault.Missing, "start program: text needs sh, which is not on PATH"},
		"a first line":      {here("b", "#!/nowhere/perl -w\n", 0o644), fault.Missing, `start program: the first line of "b" names /nowhere/perl, which is not there`},
		"executable":        {here("c", "#!/nowhere/perl -w\n", 0o755), fault.Missing, `start program: the first line of "c" names /nowhere/perl, which is not there`},
		"found by env":      {here("d", "#!/usr/bin/env -S -i A=b nosuch -x\n", 0o755), fault.Missing, `start program: the first line of "d" names nosuch, which is not there`},
		"Windows":           {here("e", "#!/bin/sh\r\necho\r\n", 0o755), fault.Invalid, `start program: "e" has the line ends of Windows, so its first line names no program`},
		"no program":        {here("f.txt", "hello", 0o644), fault.Invalid, `start program: "f.txt" cannot be executed, and neither its name nor its first line says what runs it`},
		"a name":            {Request{Dir: dir, Name: "nosuch"}, fault.Invalid, `start program: "nosuch" is not on PATH`},
		"a path":            {Request{Dir: dir, Name: "./nosuch"}, fault.Invalid, `start program: "` + dir + `/nosuch" is not there`},
	} {
		_, err := Find(t.Context(), c.r)
		said.Error(name, err)
		if fault.KindOf(err) != c.kind || err == nil || err.Error() != c.want || !strings.HasSuffix(fault.Hint(err), ".") {
			t.Errorf("%s: %v (%v) %q\nwant %s (%v)", name, err, fault.KindOf(err), fault.Hint(err), c.want, c.kind)
		}
	}
	said.Compare(t, "programs")
}

func TestJuliaFindsItsProject(t *testing.T) {
	t.Parallel()
	dir, bin := t.TempDir(), t.TempDir()
	envtest.Put(t, dir, "Project.toml", "", 0o644)
	envtest.Put(t, dir, "own/JuliaProject.toml", "", 0o644)
	envtest.Put(t, bin, "julia", "#!/bin/sh\n# A fake julia: nothing starts it here.\n", 0o755)
	environ := []string{"PATH=" + bin}
	for script, want := range map[string][]string{
		"a.jl":         {"--project=.", "a.jl", "--x"},
		"sub/dir/a.jl": {"--project=.", "sub/dir/a.jl", "--x"},
		"own/sub/a.jl": {"--project=own", "own/sub/a.jl", "--x"},
	} {
		envtest.Put(t, dir, script, "", 0o644)
		c, err := Find(t.Context(), Request{Dir: dir, Script: script, Args: []string{"--x"}, Environ: environ})
		if diff := cmp.Diff(want, c.Args); err != nil || diff != "" || c.Path != filepath.Join(bin, "julia") {
			t.Errorf("%s: %s, %v (-want +got):\n%s", script, c.Path, err, diff)
		}
	}
	c, err := Find(t.Context(), Request{Dir: dir, Script: "a.jl", Environ: append(environ, "JULIA_PROJECT=@v1.10")})
	if err != nil || !slices.Equal(c.Args, []string{"a.jl"}) {
		t.Errorf("with the caller's own: %q, %v", c.Args, err)
	}
}

func TestANotebookNeedsWhatExecutesIt(t *testing.T) {
	t.Parallel()
	dir, bin := t.TempDir(), t.TempDir()
	envtest.Put(t, dir, "-n.ipynb", "{}", 0o644)
	python := filepath.Join(bin, "python")
	r := Request{Dir: dir, Script: "-n.ipynb", Args: []string{"--lr", "1"}, Environ: os.Environ(), Interpreter: python}
	for _, lacks := range Extra(r.Script) {
		// A stub of an interpreter: it knows which module it lacks.
		envtest.Put(t, bin, "python", "#!/bin/sh\n[ \"$3\" != "+lacks+" ]\n", 0o755)
		_, err := Find(t.Context(), r)
		want := "start program: -n.ipynb needs " + lacks + ", which is not in " + python
		if fault.KindOf(err) != fault.Missing || err.Error() != want || fault.Hint(err) != "Add nbclient and ipykernel to requirements.txt." {
			t.Errorf("without %s: %v (%s)", lacks, err, fault.Hint(err))
		}
	}
	envtest.Put(t, bin, "python", "#!/bin/sh\n", 0o755)
	c, err := Find(t.Context(), r)
	want := Command{Path: python, Args: []string{"-c", Executor, "./-n.ipynb", "--lr", "1"}}
	if diff := cmp.Diff(want, c); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestScriptsAreKnownByTheirNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a.py": true, "a.sh": true, "a.bash": true, "dir/a.R": true, "a.r": true, "a.jl": true, "a.pl": true, "a.rb": true,
		"a.js": true, "a.mjs": true, "a.ipynb": true, "a.txt": false, "py": false, "a": false, "a.py/b": false, "": false,
	} {
		if IsScript(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	if got := Extra("sub/n.ipynb"); !slices.Equal(got, []string{"nbclient", "ipykernel"}) || Extra("train.py") != nil {
		t.Errorf("extra = %q", got)
	}
}

// The words of a command line name files from the working folder, as a person typed them.
func TestProgramNamesFilesFromTheWorkingFolder(t *testing.T) {
	dir := t.TempDir()
	envtest.Put(t, dir, "scripts/train.py", "", 0o644)
	envtest.Put(t, dir, "conf/tool", "#!/bin/sh\n", 0o755)
	envtest.Put(t, dir, "-x.py", "", 0o644)
	for _, row := range []struct{ script, sub, want string }{
		{"scripts/train.py", "", "scripts/train.py"},
		{"scripts/train.py", "scripts", "train.py"},
		{"scripts/train.py", "conf", "../scripts/train.py"},
		{"scripts/train.py", "a/b", "../../scripts/train.py"},
		{"-x.py", "", "./-x.py"},
	} {
		c, err := Find(t.Context(), Request{Dir: dir, Sub: row.sub, Script: row.script, Interpreter: "/usr/bin/python3"})
		if err != nil || len(c.Args) != 1 || c.Args[0] != row.want {
			t.Errorf("%s in %q: %q, %v", row.script, row.sub, c.Args, err)
		}
	}
	if c, err := Find(t.Context(), Request{Dir: dir, Sub: "scripts", Name: "../conf/tool"}); err != nil || c.Path != filepath.Join(dir, "conf/tool") {
		t.Errorf("a program by its path: %q, %v", c.Path, err)
	}
}

// What a script needs is said by the nearest folder, from its own up to the code's; what
// a program needs, from the working folder up.
func TestTheNearestFolderSaysWhatAScriptNeeds(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []struct {
		script, sub string
		want        []string
	}{
		{"examples/mnist/main.py", "", []string{"examples/mnist", "examples", "."}},
		{"examples/main.py", "examples/mnist", []string{"examples", "."}},
		{"", "examples/mnist", []string{"examples/mnist", "examples", "."}},
		{"main.py", "", []string{"."}},
		{"", "", []string{"."}},
	} {
		var want []string
		for _, name := range row.want {
			want = append(want, filepath.Join(dir, name))
		}
		if diff := cmp.Diff(want, requirements.Request{Dir: dir, Script: row.script, Sub: row.sub}.SearchFolders()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", row, diff)
		}
	}
	envtest.Put(t, dir, "packages.txt", "above\n", 0o644)
	envtest.Put(t, dir, "examples/mnist/packages.txt", "beside\n", 0o644)
	for script, want := range map[string]string{"examples/mnist/src/main.py": "beside", "examples/rnn/main.py": "above"} {
		if got, err := packages.Read(requirements.Request{Dir: dir, Script: script}); err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, %v", script, got, err)
		}
	}
}
