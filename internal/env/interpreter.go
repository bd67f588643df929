package env

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

var versionOnly = tools.Compiled(`^\d+(\.\d+)*$`)

// candidates are the interpreters to try, best first: the one that was asked
// for, or the active environment's, or those on PATH. More than one, because
// the first on PATH may be a shim with nothing behind it.
func candidates(r requirements.Request) ([]string, error) {
	if r.Python != "" {
		return chosen(r)
	}
	var found []string
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := tools.Variable(r.Environ, name); root != "" {
			// A removed environment may still be active in the shell.
			if python := filepath.Join(root, "bin", "python"); tools.Runnable(python) {
				found = append(found, python)
			}
		}
	}
	found = append(found, tools.FindAll(r.Environ, "python3")...)
	found = append(found, tools.FindAll(r.Environ, "python")...)
	if len(found) == 0 {
		found = uvPythons(r.Environ)
	}
	if len(found) == 0 {
		return nil, noPython(r, nil)
	}
	return found, nil
}

// others are interpreters that carry their version in their name, newest
// first: for a file that does not allow the one that comes first. Older ones
// than 3.8 cannot be judged.
func others(environ []string) []string {
	var found []string
	uv := uvPythons(environ)
	for minor := 19; minor >= 8; minor-- {
		name := fmt.Sprintf("python3.%d", minor)
		found = append(found, tools.FindAll(environ, name)...)
		for _, python := range uv {
			if filepath.Base(python) == name {
				found = append(found, python)
			}
		}
	}
	return append(found, tools.FindAll(environ, "python3")...)
}

// uvPythons are the interpreters that "uv python install" has put in its folder,
// newest first: uv puts none of them on PATH unless it is told to.
func uvPythons(environ []string) []string {
	root := tools.Variable(environ, "UV_PYTHON_INSTALL_DIR")
	if root == "" {
		data := tools.Variable(environ, "XDG_DATA_HOME")
		if home := tools.Variable(environ, "HOME"); data == "" && home != "" {
			data = filepath.Join(home, ".local", "share")
		}
		if data == "" {
			return nil
		}
		root = filepath.Join(data, "uv", "python")
	}
	found, err := filepath.Glob(filepath.Join(root, "*", "bin", "python3.*"))
	if err != nil {
		return nil
	}
	release := func(python string) []int { // of cpython-3.12.7-linux-x86_64-gnu
		_, version, _ := strings.Cut(filepath.Base(filepath.Dir(filepath.Dir(python))), "-")
		version, _, _ = strings.Cut(version, "-")
		return requirements.Numbers(version)
	}
	found = slices.DeleteFunc(found, func(python string) bool {
		return !pythonMinor().MatchString(filepath.Base(python)) || !tools.Runnable(python)
	})
	slices.SortStableFunc(found, func(a, b string) int { return requirements.CompareNumbers(release(b), release(a)) })
	return found
}

var pythonMinor = tools.Compiled(`^python3\.\d+$`)

// chosen reads --python.
func chosen(r requirements.Request) ([]string, error) {
	name := r.Python
	if strings.ContainsRune(name, filepath.Separator) {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		if s, err := os.Stat(path); err == nil && s.IsDir() {
			path = filepath.Join(path, "bin", "python")
		}
		if tools.Runnable(path) {
			return []string{path}, nil
		}
		return nil, noPython(r, nil)
	}
	if versionOnly().MatchString(name) {
		name = "python" + name
	}
	found := tools.FindAll(r.Environ, name)
	for _, python := range uvPythons(r.Environ) {
		release := filepath.Base(filepath.Dir(filepath.Dir(python))) // cpython-3.12.7-linux-x86_64-gnu
		if filepath.Base(python) == name || strings.Contains(release, "-"+strings.TrimPrefix(name, "python")+"-") {
			found = append(found, python)
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, noPython(r, nil)
}

// noPython is the fault for "nothing here runs"; why may be nil.
func noPython(r requirements.Request, why error) error {
	if r.Python != "" {
		if why == nil {
			why = errors.New("there is no such interpreter")
		}
		return fault.Wrap(why, fault.Missing, "Try `--python /usr/bin/python3`, or leave `--python` out.", "find python: %q", r.Python)
	}
	if why == nil {
		why = errors.New("there is no python3 and no python on PATH")
	}
	return fault.Wrap(why, fault.Missing, "Install Python 3, or name one with `--python /path/to/python3`.", "find python")
}

// shim tells a version manager's stand-in from an interpreter: a script, or a
// link to a program that is not called python at all. What it starts depends
// on more than its own file.
func shim(python string) bool {
	real := tools.Resolved(python)
	if !strings.HasPrefix(filepath.Base(real), "py") {
		return true
	}
	f, err := os.Open(real)
	if err != nil {
		return true
	}
	defer f.Close()
	head := make([]byte, 2)
	n, _ := f.Read(head)
	return string(head[:n]) == "#!"
}

// shimInputs is all that pyenv, asdf and mise look at to choose a version.
func shimInputs(r requirements.Request) []string {
	var out []string
	for _, kv := range r.Environ {
		for _, prefix := range []string{"PYENV_", "ASDF_", "MISE_"} {
			if strings.HasPrefix(kv, prefix) {
				out = append(out, kv)
			}
		}
	}
	slices.Sort(out)
	files := []string{".python-version", ".tool-versions", "mise.toml", ".mise.toml"}
	job := filepath.Clean(r.Job)
	for dir := filepath.Clean(r.Dir); ; dir = filepath.Dir(dir) {
		for _, name := range files {
			path := filepath.Join(dir, name)
			out = append(out, path, requirements.Stamp(path))
		}
		if dir == filepath.Dir(dir) || dir == job {
			break
		}
	}
	home := tools.Variable(r.Environ, "HOME")
	root := tools.Variable(r.Environ, "PYENV_ROOT")
	if root == "" {
		root = filepath.Join(home, ".pyenv")
	}
	for _, path := range []string{
		filepath.Join(root, "version"), filepath.Join(root, "versions"),
		filepath.Join(home, ".tool-versions"), filepath.Join(home, ".config", "mise", "config.toml"),
	} {
		out = append(out, path, requirements.Stamp(path))
	}
	return out
}
