package programs

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

var interpreterIs = tools.Compiled(`^(?:python|pypy)(?:\d+(?:\.\d+)?)?$`)

// IsInterpreter says by its name whether a program is a Python interpreter:
// python3, or .venv/bin/python3.12.
func IsInterpreter(program string) bool {
	return interpreterIs().MatchString(filepath.Base(program))
}

// chosenBy is what a command line that begins with that interpreter says about which
// Python is meant, as --python would: "" for plain python3 and python, which mean
// the active one.
func chosenBy(interpreter string) string {
	if interpreter == "python3" || interpreter == "python" {
		return ""
	}
	return interpreter
}

// PythonLine reads the words after a Python interpreter. One of script and module is
// what it runs; both are "" for what comes from elsewhere: -c, standard input, or
// nothing.
func PythonLine(args []string) (script, module string) {
	for i := 0; i < len(args); i++ {
		word := args[i]
		next := func() string {
			if i+1 < len(args) {
				return args[i+1]
			}
			return ""
		}
		switch {
		case word == "-" || word == "":
			return "", ""
		case word == "--":
			return next(), ""
		case word == "--check-hash-based-pycs":
			i++
			continue
		case strings.HasPrefix(word, "--"):
			continue
		case word[0] != '-':
			return word, ""
		}
		// Short options may share a word: -um json.tool, -Wignore.
	letters:
		for at := 1; at < len(word); at++ {
			rest := word[at+1:]
			switch word[at] {
			case 'c':
				return "", ""
			case 'm':
				if rest == "" {
					rest = next()
				}
				return "", rest
			case 'W', 'X':
				if rest == "" {
					i++
				}
				break letters
			}
		}
	}
	return "", ""
}

// ModuleFiles are where "python -m name" looks for a module's code below a folder
// that is on its path, in its order.
func ModuleFiles(name string) []string {
	base := strings.ReplaceAll(name, ".", "/")
	return []string{base + "/__main__.py", base + ".py"}
}

// NoFile is what PythonFile gives for what is not in the code.
const NoFile = "-"

// PythonFile is the file that a command line with a Python interpreter runs, as a slash
// path in the code folder dir; cwd is where the program begins. It is NoFile for an
// installed module, and for a script that is another one for each item of a map (each),
// which need what the code folder's own files ask for. It is "" for what has no file
// here at all, as after -c: such a line is run as it is.
func PythonFile(args []string, dir, cwd string, each bool) string {
	script, module := PythonLine(args)
	below := func(file string) string {
		rel, err := filepath.Rel(tools.Resolved(dir), filepath.Join(tools.Resolved(filepath.Dir(file)), filepath.Base(file)))
		if err != nil || !filepath.IsLocal(rel) {
			return ""
		}
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			return ""
		}
		return filepath.ToSlash(rel)
	}
	switch {
	case each && strings.ContainsRune(script, '{'):
		return NoFile
	case script != "":
		if !filepath.IsAbs(script) {
			script = filepath.Join(cwd, filepath.FromSlash(script))
		}
		return below(script)
	case module == "":
		return ""
	}
	for _, name := range ModuleFiles(module) {
		if file := below(filepath.Join(cwd, filepath.FromSlash(name))); file != "" {
			return file
		}
	}
	return NoFile
}

// For gives r as a request for what a job runs: its script; or, where there is none, python,
// which PythonFile gave for the interpreter that is its program.
func For(r requirements.Request, script, python, program string) requirements.Request {
	r.Script = script
	if script != "" || python == "" {
		return r
	}
	if r.Script = python; python == NoFile {
		r.Script, r.Module = "", true
	}
	if r.Python == "" {
		r.Python = chosenBy(program)
	}
	return r
}
