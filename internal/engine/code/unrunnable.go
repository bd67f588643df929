package code

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/fault"
)

// compilers are how a source file becomes a program, or what runs it as it is; %s is
// the file without its ending, %f the file.
var compilers = map[string]string{
	".c":    "Compile it, and run what comes out: cc -o %s %f && drover run ./%s.",
	".cc":   "Compile it, and run what comes out: c++ -o %s %f && drover run ./%s.",
	".cpp":  "Compile it, and run what comes out: c++ -o %s %f && drover run ./%s.",
	".cxx":  "Compile it, and run what comes out: c++ -o %s %f && drover run ./%s.",
	".cu":   "Compile it, and run what comes out: nvcc -o %s %f && drover run ./%s.",
	".f90":  "Compile it, and run what comes out: gfortran -o %s %f && drover run ./%s.",
	".go":   "Compile it, and run what comes out: go build -o %s %f && drover run ./%s.",
	".rs":   "Compile it, and run what comes out: rustc -o %s %f && drover run ./%s.",
	".java": "Name what runs it: drover run java %f.",
	".lua":  "Name what runs it: drover run lua %f.",
	".php":  "Name what runs it: drover run php %f.",
	".ts":   "Name what runs it: drover run npx tsx %f.",
	".m":    "Name what runs it: drover run octave %f.",
	".do":   "Name what runs it: drover run stata -b %f.",
	".sas":  "Name what runs it: drover run sas %f.",
	".scm":  "Name what runs it: drover run guile %f.",
	".tcl":  "Name what runs it: drover run tclsh %f.",
	".awk":  "Name what runs it: drover run awk -f %f.",
}

// Unrunnable refuses a file, typed as name, that is here and that nothing runs: it is
// no script, and cannot be executed. nil is for any other.
func Unrunnable(name, file string) error {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 != 0 || isScript(file) {
		return nil
	}
	ending := strings.ToLower(filepath.Ext(name))
	hint := "Name what runs it, as in `drover run PROGRAM " + name + "`; or begin it with a line such as #!/bin/sh, and: `chmod +x " + name + " && drover run " + orHere(name) + "`."
	what := "it cannot be executed, and neither its name nor its first line says what runs it"
	if how := compilers[ending]; how != "" {
		base := strings.TrimSuffix(name, filepath.Ext(name))
		hint = strings.NewReplacer("./%s", orHere(base), "%s", base, "%f", name).Replace(how)
		what = "drover does not know how to run a " + ending + " file"
	}
	return fault.New(fault.Invalid, hint, "run %q: %s", name, what)
}

// orHere is a file's name as a shell starts it.
func orHere(name string) string {
	if strings.ContainsRune(name, '/') {
		return name
	}
	return "./" + name
}
