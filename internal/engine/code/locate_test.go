package code

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/job"
)

// A line of ssm's that names no files brings none.
func TestBySSMsRulesNothingMayGoAlong(t *testing.T) {
	t.Parallel()
	d := newFolder(t)
	ship, err := d.Locate(t.Context(), job.Spec{Rules: job.SSM, Verb: job.Shell, Program: "ls"}, Surroundings{})
	d.check(err)
	if !ship.Nothing || len(ship.Files.Entries) > 0 || ship.Note != "" {
		t.Errorf("nothing %t, %d files, note %q", ship.Nothing, len(ship.Files.Entries), ship.Note)
	}
}

// DESIGN section 6: which files go along.
func TestWhatGoesAlong(t *testing.T) {
	t.Parallel()
	other := t.TempDir() // a folder that is not the caller's
	for name, text := range map[string]string{"far.py": "", "tool": "\x7fELF", "tool.sh": "", "helper.py": "", "hash": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(other, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	here := []string{"bin/prog", "lib/step.py", "train.py"}
	there := []string{"far.py", "hash", "helper.py", "tool", "tool.sh"}
	for _, row := range []struct {
		name   string
		spec   job.Spec
		script string
		files  []string
	}{
		{"a script here", job.Spec{Program: "train.py"}, "train.py", here},
		{"the same, spelled otherwise", job.Spec{Program: "./lib/../train.py"}, "train.py", here},
		{"a script below: the current folder comes along", job.Spec{Program: "lib/step.py"}, "lib/step.py", here},
		{"a program below: the current folder comes along", job.Spec{Program: "bin/prog"}, "bin/prog", here},
		{"a script elsewhere brings its folder", job.Spec{Program: filepath.Join(other, "far.py")}, "far.py", there},
		{"a script by its first line", job.Spec{Program: filepath.Join(other, "hash")}, "hash", there},
		{"a program elsewhere: the current folder comes along", job.Spec{Program: filepath.Join(other, "tool")}, "", here},
		{"a program on PATH: the current folder comes along", job.Spec{Program: "sh"}, "", here},
		{"a shell line: the current folder comes along", job.Spec{Verb: job.Shell, Program: "python train.py"}, "", here},
		{"a source folder", job.Spec{Program: "train.py", Source: "."}, "train.py", here},
		{"a script in a source folder, as it is called there", job.Spec{Program: "step.py", Source: "lib"}, "step.py", []string{"step.py"}},
		{"a script in a source folder, as it is called here", job.Spec{Program: "lib/step.py", Source: "lib"}, "step.py", []string{"step.py"}},
		{"a script below a source folder", job.Spec{Program: "lib/step.py", Source: "."}, "lib/step.py", here},
		{"a script elsewhere, in its source folder", job.Spec{Program: "far.py", Source: other}, "far.py", there},
		{"a program on PATH, with a source folder", job.Spec{Program: "sh", Source: "lib"}, "", []string{"step.py"}},
		{"a shell line, with a source folder", job.Spec{Verb: job.Shell, Program: "ls", Source: "lib"}, "", []string{"step.py"}},
		{"more beside it", job.Spec{Program: "lib/step.py", Deps: []string{"train.py", filepath.Join(other, "helper.py"), "bin"}}, "lib/step.py",
			[]string{"bin/prog", "helper.py", "lib/step.py", "train.py"}},
		{"by ssm's rules the script alone", job.Spec{Rules: job.SSM, Program: "train.py"}, "train.py", []string{"train.py"}},
		{"by ssm's rules what is named beside it", job.Spec{Rules: job.SSM, Program: "lib/step.py", Deps: []string{"bin"}}, "step.py", []string{"bin/prog", "step.py"}},
		{"by ssm's rules a line and what is named", job.Spec{Rules: job.SSM, Verb: job.Shell, Program: "ls", Deps: []string{"train.py"}}, "", []string{"train.py"}},
		{"by ssm's rules a source folder", job.Spec{Rules: job.SSM, Program: "train.py", Source: "."}, "train.py", here},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newFolder(t)
			d.check(os.Remove(filepath.Join(d.dir, "train.sh")))
			d.write(map[string]string{"train.py": "", "lib/step.py": "", "bin/prog": "\x7fELF"})
			ship, err := d.Locate(t.Context(), row.spec, Surroundings{})
			d.check(err)
			if ship.Script != row.script || ship.Nothing || ship.Note != "" {
				t.Errorf("script %q, nothing %t, note %q", ship.Script, ship.Nothing, ship.Note)
			}
			if diff := cmp.Diff(row.files, shipped(ship)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func shipped(s Shipment) (names []string) {
	for _, e := range s.Files.Entries {
		names = append(names, e.Name)
	}
	return names
}

func TestHomeAndWhatIsTooBigStayBehind(t *testing.T) {
	d := newFolder(t)
	t.Setenv("HOME", d.dir)
	d.write(map[string]string{"private": "", "more/x": ""})
	look := func(name string, s job.Spec, nothing bool, note string, files ...string) {
		t.Helper()
		ship, err := d.Locate(t.Context(), s, Surroundings{})
		d.check(err)
		if diff := cmp.Diff(files, shipped(ship)); diff != "" || ship.Nothing != nothing || !strings.HasPrefix(ship.Note, note) || note == "" && ship.Note != "" {
			t.Errorf("%s: nothing %t, note %q, files (-want +got):\n%s", name, ship.Nothing, ship.Note, diff)
		}
	}
	look("a script in HOME", job.Spec{Program: "train.sh"}, false, "only train.sh is shipped: "+d.dir, "train.sh")
	look("a script in HOME with more", job.Spec{Program: "train.sh", Deps: []string{"more"}}, false, "only train.sh", "more/x", "train.sh")
	look("a shell line in HOME", job.Spec{Verb: job.Shell, Program: "ls"}, true, "no files are shipped: "+d.dir+" is your home folder (-s DIR chooses another)")
	look("a program in HOME", job.Spec{Program: "sh"}, true, "no files are shipped")
	look("a program in HOME, with more", job.Spec{Program: "sh", Deps: []string{"more"}}, false, "no files are shipped", "more/x")
	if _, err := d.Locate(t.Context(), job.Spec{Verb: job.Shell, Program: "ls", Source: "."}, Surroundings{}); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("HOME by -s: %v", err)
	}

	d = newFolder(t)
	big, err := os.Create(filepath.Join(d.dir, "big.bin"))
	d.check(err)
	d.check(big.Truncate(101_000_000))
	d.check(big.Close())
	look("a shell line in a folder that is too big", job.Spec{Verb: job.Shell, Program: "ls"}, true, "no files are shipped: "+d.dir+": 101 MB in ")
	for name, s := range map[string]job.Spec{
		"a script":         {Program: "train.sh"},
		"a source folder":  {Program: "sh", Source: "."},
		"a file beside it": {Verb: job.Shell, Program: "ls", Deps: []string{"big.bin"}},
	} {
		if _, err := d.Locate(t.Context(), s, Surroundings{}); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%s that is too big: %v", name, err)
		}
	}
}

func TestAProgramThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	d := newFolder(t)
	d.write(map[string]string{"train.py": "", "lib/step.py": "", "plain-file": ""})
	for _, row := range []struct{ name, program, source, text, hint string }{
		{"a file here that is not a script", "plain-file", "", `find program: "plain-file" is not on PATH`, "Write ./plain-file"},
		{"a slip", "trian.py", "", `read script: "trian.py" is not there`, "train.py"},
		{"a slip below", "lib/setp.py", "", `read script: "lib/setp.py" is not there`, "lib/step.py"},
		{"nothing like it", "evaluate.py", "", `read script: "evaluate.py" is not there`, "Check the spelling"},
		{"a folder that is not there", "src/train.py", "", `read script: "src/train.py" is not there`, "Check the spelling"},
		{"absolute", "/no/such/prog", "", `read script: "/no/such/prog" is not there`, "Check the spelling"},
		{"no file and not on PATH", "no-such-program", "", `find program: "no-such-program" is not a file here and not on PATH`, "Check the spelling"},
		{"a folder", "lib", "", `read script: "lib" is a folder`, "drover run lib/train.py"},
		{"a source folder that is not there", "train.py", "scr", `read source folder: "scr" is not there`, "Check the spelling"},
		{"a source folder that is a file", "train.py", "train.py", `read source folder: "train.py" is a file`, "Name the folder"},
		{"not in the source folder", "train.py", "lib", `read script: "train.py" is not in the source folder "lib"`, "Choose a source folder"},
	} {
		_, err := d.Locate(t.Context(), job.Spec{Program: row.program, Source: row.source}, Surroundings{})
		if fault.KindOf(err) != fault.Invalid || err.Error() != row.text || !strings.Contains(fault.Hint(err), row.hint) {
			t.Errorf("%s: %v (%s)", row.name, err, fault.Hint(err))
		}
	}
}

// A program that is not here may be one of the image; a mistyped script is none.
func TestAPlaceApartHasProgramsOfItsOwn(t *testing.T) {
	d := newFolder(t)
	for _, program := range []string{"/app", "/usr/local/bin/solve.x", "solver"} {
		if ship, err := d.Locate(t.Context(), job.Spec{Program: program}, Surroundings{Apart: true}); err != nil || ship.Script != "" {
			t.Errorf("%s: %+v, %v", program, ship.Script, err)
		}
	}
	for _, program := range []string{"trian.py", "/nowhere/train.py", "bin/solver", "solve.x", "./app"} {
		if _, err := d.Locate(t.Context(), job.Spec{Program: program}, Surroundings{Apart: true}); err == nil {
			t.Errorf("%s is taken for one of the place's", program)
		}
	}
}

// docs/design/013-code-where-it-stands.md: which folder is shipped, and the working folder in it.
func TestTheRepositoryIsShippedAndTheWorkingFolderIsWhereTheCommandWasTyped(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"repo/.git/HEAD", "repo/scripts/train.py", "repo/pkg/mod.py", "repo/conf/a.yaml", "repo/nb/look.ipynb", "repo/sub/.git", "repo/sub/lib.py",
		"plain/a/train.py", "plain/b.py", "shared/mine/train.py", "shared/b.py"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(top, "shared"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, here string
		spec       job.Spec
		want       root
	}{
		{"at the root of a repository", "repo", job.Spec{Program: "scripts/train.py"}, root{"repo", "scripts/train.py", ""}},
		{"beside the script", "repo/scripts", job.Spec{Program: "train.py"}, root{"repo", "scripts/train.py", "scripts"}},
		{"elsewhere in the repository", "repo/conf", job.Spec{Program: "../scripts/train.py"}, root{"repo", "scripts/train.py", "conf"}},
		{"from outside", "plain", job.Spec{Program: top + "/repo/scripts/train.py"}, root{"repo", "scripts/train.py", ""}},
		{"a shell line", "repo/conf", job.Spec{Verb: job.Shell, Program: "ls"}, root{"repo", "", "conf"}},
		{"a program on PATH", "repo/conf", job.Spec{Program: "sh"}, root{"repo", "", "conf"}},
		{"a map", "repo/pkg", job.Spec{Verb: job.Map, Program: "sh"}, root{"repo", "", "pkg"}},
		{"a notebook runs in its folder", "repo", job.Spec{Program: "nb/look.ipynb"}, root{"repo", "nb/look.ipynb", "nb"}},
		{"a submodule, from around it", "repo", job.Spec{Program: "sub/lib.py"}, root{"repo", "sub/lib.py", ""}},
		{"in a submodule", "repo/sub", job.Spec{Program: "lib.py"}, root{"repo/sub", "lib.py", ""}},
		{"without git", "plain", job.Spec{Program: "a/train.py"}, root{"plain", "a/train.py", ""}},
		{"without git, the script elsewhere", "plain/a", job.Spec{Program: "../b.py"}, root{}},
		{"a folder of all users", "shared", job.Spec{Program: "mine/train.py"}, root{}},
		{"with -s", "repo", job.Spec{Program: "train.py", Source: "scripts"}, root{}},
		{"by the rules of ssm", "repo", job.Spec{Program: "scripts/train.py", Rules: job.SSM}, root{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := &Locator{&session.Session{}}
			e.Caller.Folder = filepath.Join(top, row.here)
			dir, script, err := e.FindProgram(row.spec, false)
			if err != nil {
				t.Fatal(err)
			}
			if row.want.dir != "" {
				row.want.dir = filepath.Join(top, row.want.dir)
			}
			if got := e.findProjectRoot(row.spec, dir, script); got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
	t.Setenv("HOME", filepath.Join(top, "repo"))
	e := &Locator{&session.Session{}}
	e.Caller.Folder = filepath.Join(top, "repo/conf")
	if got, want := e.findProjectRoot(job.Spec{Program: "sh"}, e.Caller.Folder, ""), (root{dir: filepath.Join(top, "repo/conf")}); got != want {
		t.Errorf("a home that is a repository: got %+v, want %+v", got, want)
	}
}

func TestAProjectThatIsTooBigBringsTheScriptsFolder(t *testing.T) {
	d := newFolder(t)
	d.write(map[string]string{"lib/step.py": "", "lib/helper.py": ""})
	big, err := os.Create(filepath.Join(d.dir, "big.bin"))
	d.check(err)
	d.check(errors.Join(big.Truncate(101_000_000), big.Close()))
	ship, err := d.Locate(t.Context(), job.Spec{Program: "lib/step.py"}, Surroundings{})
	d.check(err)
	if diff := cmp.Diff([]string{"helper.py", "step.py"}, shipped(ship)); diff != "" || ship.Script != "step.py" || ship.Sub != "" {
		t.Errorf("script %q in %q, files %s", ship.Script, ship.Sub, diff)
	}
	if !strings.Contains(ship.Note, "is too big (-s DIR chooses another folder)") {
		t.Errorf("note %q", ship.Note)
	}
}
