// Package code finds the files that go along with the program of a command, and how it is called among them
// (docs/design/013-code-where-it-stands.md): the project around it, what of that is code, what Python and which packages
// it finds, and which file stayed behind that a program did not find. It changes nothing and stores nothing.
//
// Proved by its tests, and by those of package engine.
package code

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/env/programs"
	"github.com/drover-run/drover/job"
)

// Shipment is which files go along with a program, and how it is called there.
type Shipment struct {
	Files   bundle.List
	Script  string   // the program's path among them; "" when it is looked up on PATH there
	Sub     string   // the working folder among them; "" is their root
	Python  string   // as job.Code has it
	Paths   []string // as job.Code has it
	Nothing bool     // no files go along
	Note    string   // why less goes along than a user may expect
	tooBig  error    // why nothing goes along, where the folder is above the caps
	Judge   *Judge
}

// Locator finds the files that go along with the program of a command, and how it is called there.
type Locator struct{ *session.Session }

// Surroundings is what is known of a job before its program is located.
type Surroundings struct {
	Items   func(string) bool // says which files are items, and so no code; may be nil
	Apart   bool              // the job runs where other programs are than here
	InPlace bool              // the program can run where its code stands: see job.Code.InPlace
}

// RunsInPlace says whether a job's program can run where its code stands.
func RunsInPlace(o driver.Properties, s job.Spec) bool {
	return o.InPlace && s.Rules != job.SSM && s.Verb != job.Process
}

// Locate finds out what a spec's program is and what comes with it
// (docs/design/013-code-where-it-stands.md): the project around it, see findProjectRoot. Where
// that is too big, a script brings its folder, and for a program from elsewhere, and for a
// shell line, the current folder comes along. Where the program can run in place, what is
// too big stays where it is: see locatePart.
func (l *Locator) Locate(ctx context.Context, s job.Spec, at Surroundings) (Shipment, error) {
	dir, script, err := l.FindProgram(s, at.Apart)
	if err != nil {
		return Shipment{}, err
	}
	note, items := "", at.Items
	root := l.findProjectRoot(s, dir, script)
	if root.dir != "" {
		ship, err := l.locateInProject(ctx, s, root, items)
		if errors.Is(err, bundle.ErrTooBig) && at.InPlace {
			return l.locatePart(ctx, s, root, items, err)
		}
		if !errors.Is(err, bundle.ErrTooBig) {
			return ship, err
		}
		note = "only the files of " + dir + " are shipped: all of " + root.dir + " is too big (-s DIR chooses another folder)"
	}
	ship, err := l.locateBeside(ctx, s, dir, script, items)
	if why := cmp.Or(err, ship.tooBig); errors.Is(why, bundle.ErrTooBig) && at.InPlace {
		if root.dir, err = filepath.EvalSymlinks(dir); err != nil {
			return ship, err
		}
		root.script = script
		return l.locatePart(ctx, s, root, items, why)
	}
	if ship.Note == "" {
		ship.Note = note
	}
	return ship, err
}

// root is a project's folder, and where in it the program and the working folder are.
type root struct{ dir, script, sub string }

// findProjectRoot finds the project that a program belongs to: the git repository of the script's
// folder, or of the current one for other programs; where the current folder lies in a
// repository around that one, this repository. Without git it is the current folder, if
// the script is in it. A folder that is no project's is none, such as HOME and /tmp: root{}.
// dir and script are as program gives them.
func (l *Locator) findProjectRoot(s job.Spec, dir, script string) root {
	here, err := filepath.EvalSymlinks(l.Caller.Folder)
	if err != nil || s.Rules == job.SSM || s.Source != "" {
		return root{}
	}
	from, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.Dir(filepath.FromSlash(script))))
	if err != nil {
		return root{}
	}
	r := root{dir: bundle.Repository(from, here)}
	if around := bundle.Repository(here); r.dir == "" || around != "" && Inside(around, r.dir) {
		r.dir = around
	}
	if r.dir == "" || !Inside(r.dir, from) || bundle.Common(r.dir) { // a repository of a home's settings is no project
		r.dir = here
	}
	if !Inside(r.dir, from) || bundle.Common(r.dir) {
		return root{}
	}
	if script != "" {
		r.script = slashPath(r.dir, filepath.Join(from, filepath.Base(filepath.FromSlash(script))))
	}
	switch {
	case programs.IsNotebook(r.script): // which Jupyter, too, runs in its own folder
		r.sub = slashPath(r.dir, from)
	case Inside(r.dir, here):
		r.sub = slashPath(r.dir, here)
	}
	return r
}

// slashPath is a path in a folder, slash-separated and relative to it; "" is the folder.
func slashPath(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil || rel == "." {
		return ""
	}
	return filepath.ToSlash(rel)
}

// locateInProject ships a project's folder.
func (l *Locator) locateInProject(ctx context.Context, s job.Spec, r root, items func(string) bool) (Shipment, error) {
	ship := Shipment{Script: r.script, Sub: r.sub, Judge: l.newJudge(s, r.dir)}
	var err error
	ship.Files, err = bundle.Scan(ctx, bundle.Source{Dir: r.dir, Script: filepath.FromSlash(r.script), Extra: l.absolutePaths(s.Deps), At: r.sub, Without: items, Judge: ship.Judge.judgeFile})
	if err == nil {
		ship.Files.Left = ship.Judge.summarizeLeft(ship.Files.Dir, ship.Files.Left)
	}
	return ship, err
}

// locatePart ships, of a project that is above the caps, what the command names, and the
// folder of that if it is not too big: the program runs in place and finds the rest there.
// why is what Scan says of the whole.
func (l *Locator) locatePart(ctx context.Context, s job.Spec, r root, items func(string) bool, why error) (Shipment, error) {
	ship := Shipment{Script: r.script, Sub: r.sub, Judge: l.newJudge(s, r.dir)}
	src := bundle.Source{Dir: r.dir, Script: filepath.FromSlash(r.script), Extra: l.absolutePaths(s.Deps), At: r.sub, Without: items, Judge: ship.Judge.judgeFile, Partial: true}
	file := r.script
	if named := l.pythonFileIn(s, r.dir); file == "" && named != programs.NoFile {
		file = named
	}
	if at := path.Dir(file); file != "" && at != "." {
		src.Parts = []string{at}
		files, err := bundle.Scan(ctx, src)
		if err == nil {
			ship.Files = files
			ship.Note = fmt.Sprintf("%s/ is kept with the job; the whole folder is too large for that, so the program finds the rest where it stands: %s", at, whyNothing(r.dir, why))
			return ship, nil
		}
		if !errors.Is(err, bundle.ErrTooBig) {
			return ship, err
		}
	}
	src.Parts = nil
	if file != "" {
		src.Parts = []string{file}
	}
	var err error
	ship.Files, err = bundle.Scan(ctx, src)
	ship.Note = "too large to be kept with the job, so it runs from where it stands: " + whyNothing(r.dir, why)
	return ship, err
}

// locateBeside ships the folder of the script, or the current one.
func (l *Locator) locateBeside(ctx context.Context, s job.Spec, dir, script string, items func(string) bool) (ship Shipment, err error) {
	ship = Shipment{Script: script}
	judge := l.newJudge(s, dir)
	ship.Judge = judge
	src := bundle.Source{Dir: dir, Script: filepath.FromSlash(script), Extra: l.absolutePaths(s.Deps), Without: items, Judge: judge.judgeFile}
	if s.Rules == job.SSM && s.Source == "" {
		// simple-sagemaker ships what is named and nothing else: a folder beside the
		// script may hold all the data there is.
		src.Alone = true
		if script == "" && len(src.Extra) == 0 {
			ship.Nothing = true
			return ship, nil
		}
	}
	ship.Files, err = bundle.Scan(ctx, src)
	switch {
	case err == nil:
		ship.Files.Left = judge.summarizeLeft(ship.Files.Dir, ship.Files.Left)
		return ship, nil
	case errors.Is(err, bundle.ErrHome) && script != "":
		ship.Note = "only " + script + " is shipped: " + whyNothing(dir, err)
		src.Alone = true
		ship.Files, err = bundle.Scan(ctx, src)
		return ship, err
	case script == "" && s.Source == "" && (errors.Is(err, bundle.ErrHome) || errors.Is(err, bundle.ErrTooBig)):
		ship.Files, ship.Nothing, ship.tooBig = bundle.List{}, true, err
		ship.Note = "no files are shipped: " + whyNothing(dir, err) + " (-s DIR chooses another)"
		if len(src.Extra) > 0 {
			src.Alone, ship.Nothing = true, false
			ship.Files, err = bundle.Scan(ctx, src)
			return ship, err
		}
		return ship, nil
	}
	return ship, err
}

// whyNothing says why a folder is not shipped.
func whyNothing(dir string, err error) string {
	switch {
	case !errors.Is(err, bundle.ErrHome):
		why := strings.TrimSuffix(err.Error(), ": "+bundle.ErrTooBig.Error())
		return strings.TrimPrefix(why, "scan code: ")
	case dir == "/":
		return "this is the root folder"
	}
	return dir + " is your home folder"
}

// FindProgram says which folder comes along, and the script's name in it.
func (l *Locator) FindProgram(s job.Spec, apart bool) (dir, script string, err error) {
	dir = l.Caller.Folder
	if s.Source != "" {
		if dir, err = l.findFolder("source folder", s.Source); err != nil {
			return "", "", err
		}
	}
	if s.Verb == job.Shell || s.ByShell {
		return dir, "", nil
	}
	if strings.ContainsRune(s.Program, '/') && len(s.Entrypoint) == 0 && isInterpreter(l.absolutePaths([]string{s.Program})[0]) {
		return dir, "", nil
	}
	if s.Verb == job.Map && s.Source == "" {
		file := s.Program
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		info, err := os.Stat(file)
		if err == nil && info.Mode().IsRegular() && l.isInFolder(file) && (strings.ContainsRune(s.Program, '/') || isScript(file)) {
			if err := Unrunnable(s.Program, file); err != nil && !apart {
				return "", "", err
			}
			if target := pythonTarget(file); l.isInFolder(target) {
				file = target
			}
			rel, err := filepath.Rel(dir, file) // the whole folder comes along, and items run in it
			return dir, filepath.ToSlash(rel), err
		}
	}
	if s.Source != "" {
		if info, err := os.Stat(filepath.Join(dir, s.Program)); err == nil && info.Mode().IsRegular() && filepath.IsLocal(s.Program) {
			return dir, filepath.ToSlash(filepath.Clean(s.Program)), nil
		}
	}
	file := s.Program
	if !filepath.IsAbs(file) {
		file = filepath.Join(l.Caller.Folder, file)
	}
	info, err := os.Stat(file)
	switch {
	case err == nil && info.IsDir() && !(apart && filepath.IsAbs(s.Program)):
		return "", "", fault.New(fault.Invalid, "Name the script in it: `drover run "+path.Join(s.Program, "train.py")+"`.", "read script: %q is a folder", s.Program)
	case err == nil && s.Source != "":
		if target := pythonTarget(file); Inside(dir, target) {
			file = target
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil || !filepath.IsLocal(rel) {
			return "", "", fault.New(fault.Invalid, "Choose a source folder that holds it.", "read script: %q is not in the source folder %q", s.Program, s.Source)
		}
		return dir, filepath.ToSlash(rel), nil
	case err == nil && (strings.ContainsRune(s.Program, '/') || isScript(file)):
		if err := Unrunnable(s.Program, file); err != nil && !apart {
			return "", "", err
		}
		if file = pythonTarget(file); l.isInFolder(file) || isScript(file) {
			return filepath.Dir(file), filepath.Base(file), nil
		}
		return dir, "", nil
	}
	if apart && elsewhere(s.Program) {
		return dir, "", nil
	}
	return dir, "", l.checkOnPath(s.Program)
}

// OtherPrograms says whether a job runs where other programs are than here: those of an
// image that the user named. An image that the target chooses does not count.
func OtherPrograms(o driver.Properties, s job.Spec) bool {
	return o.Apart && (!o.Containers || s.Image != "" || s.Dockerfile != "" || s.Framework != "")
}

// elsewhere says whether a program that is not here may be meant as one of the
// place it runs in: a whole path, or a name without an ending.
func elsewhere(program string) bool {
	return !programs.IsScript(program) && (filepath.IsAbs(program) || !strings.ContainsAny(program, "/."))
}

// isInterpreter says of a file that is named by its path whether it is a Python
// interpreter, as .venv/bin/python, and no script of that name.
func isInterpreter(file string) bool {
	info, err := os.Stat(file)
	return err == nil && programs.IsInterpreter(file) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !isScript(file)
}

// pythonTarget is the file that Python runs for a script: where the script is a symbolic
// link, what it points to, because Python looks for modules beside that.
func pythonTarget(file string) string {
	info, err := os.Lstat(file)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 || !strings.EqualFold(filepath.Ext(file), ".py") {
		return file
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil || !strings.EqualFold(filepath.Ext(real), ".py") {
		return file // a link to a file with another ending is run as what its own name says
	}
	return real
}

// isInFolder says whether a file lies in the current folder or below.
func (l *Locator) isInFolder(file string) bool {
	rel, err := filepath.Rel(l.Caller.Folder, file)
	return err == nil && filepath.IsLocal(rel)
}

// isScript says whether a file is text that an interpreter reads: by its name,
// or by a first line that begins with #!.
func isScript(file string) bool {
	if programs.IsScript(file) {
		return true
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	var first [2]byte
	n, _ := f.Read(first[:])
	return n == 2 && string(first[:]) == "#!"
}

// checkOnPath refuses a program that is neither a file here nor on PATH.
func (l *Locator) checkOnPath(name string) error {
	if _, err := exec.LookPath(name); err != nil {
		if err := Unrunnable(name, l.absolutePaths([]string{name})[0]); err != nil && strings.ContainsRune(name, '.') {
			return err
		}
	}
	looksLikeFile := strings.ContainsRune(name, '/') || strings.ContainsRune(path.Base(name), '.')
	if !strings.ContainsRune(name, '/') {
		if _, err := exec.LookPath(name); err == nil || errors.Is(err, exec.ErrDot) {
			return nil
		}
	}
	if info, err := os.Stat(filepath.Join(l.Caller.Folder, name)); err == nil && !looksLikeFile && info.Mode().IsRegular() {
		return fault.New(fault.Invalid, "Write ./"+name+" for the file here.", "find program: %q is not on PATH", name)
	}
	hint := "Check the spelling; drover's own flags come before the script."
	if near := l.nearestFile(name); near != "" {
		hint = "Did you mean " + near + "?"
	}
	if looksLikeFile {
		return fault.New(fault.Invalid, hint, "read script: %q is not there", name)
	}
	return fault.New(fault.Invalid, hint, "find program: %q is not a file here and not on PATH", name)
}

// nearestFile finds the file beside a mistyped one that has the closest name.
func (l *Locator) nearestFile(name string) string {
	dir := filepath.Dir(name)
	full := dir
	if !filepath.IsAbs(dir) {
		full = filepath.Join(l.Caller.Folder, dir)
	}
	entries, err := os.ReadDir(full)
	if err != nil {
		return ""
	}
	best, bestDistance := "", 3
	for _, d := range entries {
		if n := fault.Distance(d.Name(), filepath.Base(name)); n < bestDistance && d.Type().IsRegular() {
			best, bestDistance = filepath.Join(dir, d.Name()), n
		}
	}
	return best
}

func (l *Locator) findFolder(what, dir string) (string, error) {
	full := dir
	if !filepath.IsAbs(dir) {
		full = filepath.Join(l.Caller.Folder, dir)
	}
	info, err := os.Stat(full)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.Invalid, "Check the spelling.", "read %s: %q is not there", what, dir)
	}
	if err != nil {
		return "", fault.Wrap(err, fault.Denied, "", "read %s: %q", what, dir)
	}
	if !info.IsDir() {
		return "", fault.New(fault.Invalid, "Name the folder that holds it.", "read %s: %q is a file", what, dir)
	}
	return full, nil
}

func (l *Locator) absolutePaths(paths []string) []string {
	var full []string
	for _, p := range paths {
		if !filepath.IsAbs(p) {
			p = filepath.Join(l.Caller.Folder, p)
		}
		full = append(full, p)
	}
	return full
}

// Inside says whether a clean path is folder or in it.
func Inside(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}
