package engine

import (
	"strings"

	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/job"
)

// pythonFile is job.Code.Python of a plan whose code is known: what a Python interpreter
// runs that is named as the program, which is then given its environment as a script is.
func (e *Engine) pythonFile(p Plan) string {
	s := p.Spec
	if p.ship.nothing || p.Script != "" {
		return ""
	}
	return e.pythonFileIn(s, p.Code.Dir)
}

// pythonFileIn is the file that a spec's Python interpreter runs, in the folder dir of its
// code; "" where the program is none.
func (e *Engine) pythonFileIn(s job.Spec, dir string) string {
	if s.Verb == job.Shell || s.ByShell || len(s.Entrypoint) > 0 || !env.IsInterpreter(s.Program) {
		return ""
	}
	cwd := e.Caller.Folder
	if s.Source != "" {
		cwd = dir
	}
	return env.PythonFile(s.Args, dir, cwd, s.Verb == job.Map)
}

// pythonRequest asks for what the plan's program needs of Python. A path that names an
// interpreter is this machine's, from where it was typed.
func (e *Engine) pythonRequest(p Plan) env.Request {
	program := p.Spec.Program
	if strings.ContainsRune(program, '/') {
		program = e.absolutePaths([]string{program})[0]
	}
	return env.Request{Dir: p.Code.Dir, Sub: p.Sub, Python: p.Spec.Python, NoEnv: p.Spec.NoEnv, Environ: e.Caller.Environ, Cache: e.Caller.Cache}.For(p.Script, p.Python, program)
}
