package code

import (
	"strings"

	"github.com/drover-run/drover/internal/env/programs"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/job"
)

// PythonFile is job.Code.Python of a program with known code: the file that a Python
// interpreter, named as the program, runs. The job then gets the file's environment, as
// for a script.
func (l *Locator) PythonFile(s job.Spec, ship Shipment) string {
	if ship.Nothing || ship.Script != "" {
		return ""
	}
	return l.pythonFileIn(s, ship.Files.Dir)
}

// pythonFileIn is the file that a spec's Python interpreter runs, in the folder dir of its
// code; "" where the program is none.
func (l *Locator) pythonFileIn(s job.Spec, dir string) string {
	if s.Verb == job.Shell || s.ByShell || len(s.Entrypoint) > 0 || !programs.IsInterpreter(s.Program) {
		return ""
	}
	cwd := l.Caller.Folder
	if s.Source != "" {
		cwd = dir
	}
	return programs.PythonFile(s.Args, dir, cwd, s.Verb == job.Map)
}

// PythonRequest asks for what a program needs of Python. A path that names an
// interpreter is this machine's, from where it was typed.
func (l *Locator) PythonRequest(s job.Spec, ship Shipment) requirements.Request {
	program := s.Program
	if strings.ContainsRune(program, '/') {
		program = l.absolutePaths([]string{program})[0]
	}
	return programs.For(requirements.Request{Dir: ship.Files.Dir, Sub: ship.Sub, Python: s.Python, NoEnv: s.NoEnv, Environ: l.Caller.Environ, Cache: l.Caller.Cache}, ship.Script, ship.Python, program)
}
