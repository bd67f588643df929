// Package requirements reads what the code of a job asks for in Python packages: the block in a
// script, uv.lock, requirements.txt, pyproject.toml, Pipfile.lock or environment.yml, whichever is
// nearest to the script. It refuses to know interpreters, and what installs a package. Proved by its
// own tests, and by those of package env with real interpreters.
package requirements

import (
	"path"
	"path/filepath"
)

// Request says what is to run, and what the caller has around it.
type Request struct {
	Dir     string   // the code folder, absolute
	Script  string   // relative to Dir; only a ".py" and a notebook need a Python, "" is a program
	Module  bool     // a Python runs a module that is not in Dir, or a script that is not known yet: one is needed though Script is ""
	Sub     string   // the working folder, slash-separated below Dir; "" is Dir
	Python  string   // --python: a path, a folder of a virtual environment, a name or a version; "" chooses
	NoEnv   bool     // --no-env: take the interpreter as it is
	Environ []string // the caller's environment, "NAME=value"
	Cache   string   // root of drover's cache, absolute
	Job     string   // a folder above Dir that was made for one job alone: Build looks for no settings above it; "" for none
}

// What a Plan's Source can be: nothing, the caller's own, or what an environment
// is built from. The files count in this order.
const (
	SourceNone         = "none"             // no Python is needed
	SourceActive       = "active"           // the caller's own interpreter
	SourceScript       = "PEP 723"          // the block in the script's comments
	SourceUVLock       = "uv.lock"          // and the pyproject.toml beside it
	SourceRequirements = "requirements.txt" // and what it includes
	SourceProject      = "pyproject.toml"   // [project] alone
	SourcePipfile      = "Pipfile.lock"     // its default packages
	SourceConda        = "environment.yml"  // or environment.yaml
)

// SearchFolders are the folders in which the files that say what the script needs are looked
// for: from the script's own, or without a script from the working folder, up to the
// code folder.
func (r Request) SearchFolders() (dirs []string) {
	dir := path.Dir(filepath.ToSlash(r.Script))
	if r.Script == "" {
		dir = path.Clean(filepath.ToSlash(r.Sub))
	}
	for ; dir != "." && filepath.IsLocal(filepath.FromSlash(dir)); dir = path.Dir(dir) {
		dirs = append(dirs, filepath.Join(r.Dir, filepath.FromSlash(dir)))
	}
	return append(dirs, r.Dir)
}
