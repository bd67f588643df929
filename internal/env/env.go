// Package env decides which Python runs a script, and builds one where the
// active one will not do.
//
// Resolve looks and decides: the active interpreter if it has everything the
// code's own files ask for, else an environment in drover's cache. Build makes
// that environment true: with uv where there is one or one can be had, else with
// venv and pip; from an environment.yml with conda or its kin. An environment
// lives at <cache>/envs/<digest>, belongs to one builder at a time, and is used
// only once its marker is on disk, so a process killed at any moment leaves
// nothing that is later run. Hold keeps one from being removed under a script.
//
// It refuses to know what the script does, where drover keeps its cache, and
// how a package is found, resolved or installed: interpreters judge what they
// have, uv and pip judge what they can get. The tests drive a real python3 and
// its pip against wheels that they make themselves.
package env

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/programs"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

// Plan is what Resolve decided. It is a value: Build may be called on it later,
// more than once, by several processes.
type Plan struct {
	Interpreter string // absolute path of the python that will run the script; "" when none is needed
	Active      string // absolute path of the interpreter that was judged, never a shim; "" when none is needed
	Source      string // one of the Source constants
	Why         string // one plain sentence, for the plan shown to a person
	Build       bool   // it is not in the cache: Build will take its time
	Version     string // of that interpreter, as "3.12"; "" when none is needed
	Digest      string // hex, of interpreter, platform and requirements; "" when no Python is needed

	editable editable               // of the interpreter that was judged
	self     identity               // of the interpreter that an environment would stand on
	asked    *requirements.Manifest // what to install; nil when nothing is to be built
	caller   requirements.Request
}

// Resolve decides which Python runs the script. It runs the interpreter once
// and remembers its verdict in the cache until the interpreter, its packages or
// the requirements change; from then on it reads a few files. It installs
// nothing. Faults: Missing without a Python, an included file or what builds
// from an environment.yml; Invalid for a file that says nothing readable, for a
// Python too old to build for, and for one that a file does not allow.
func Resolve(ctx context.Context, r requirements.Request) (Plan, error) {
	if !r.Module && !strings.HasSuffix(r.Script, ".py") && !programs.IsNotebook(r.Script) {
		return Plan{Source: requirements.SourceNone, Why: "no Python is needed", caller: r}, nil
	}
	asked, err := requirements.Read(r)
	if err != nil {
		return Plan{}, err
	}
	v, err := judge(ctx, r, asked)
	if asked != nil && asked.Conda != nil && r.Python == "" && fault.KindOf(err) == fault.Missing {
		// It brings its own.
		v, err = verdict{Missing: &lack{Text: "there is no python here"}}, nil
	}
	if err == nil {
		v, err = admit(ctx, r, asked, v)
	}
	if err != nil {
		return Plan{}, err
	}
	p := Plan{
		Interpreter: v.Self.Executable,
		Active:      v.Self.Executable,
		Source:      requirements.SourceActive,
		Version:     minor(v.Self.Version),
		Digest:      digest(v.Self, asked),
		editable:    v.Editable,
		self:        v.Self,
		caller:      r,
	}
	switch {
	case r.NoEnv:
		p.Why = fmt.Sprintf("%s, used as it is", v.Self)
	case asked == nil:
		p.Why = fmt.Sprintf("%s; no requirements file found%s", v.Self, requirements.Unread(r))
	case v.satisfied():
		p.Why = fmt.Sprintf("%s has %s", v.Self, asked.CountInWords())
	case v.Self.Old && asked.Conda == nil:
		return Plan{}, fault.New(fault.Invalid, "Try `--python python3.12`, or `--no-env` to take it as it is.",
			"resolve python: %s: Python %s is too old to build %s for", v.Self.Executable, v.Self.Version, asked.ShownName())
	default:
		return p.planCached(v, asked)
	}
	return p, nil
}

// admit holds an interpreter against the Pythons that a file allows. One that
// is not among them is replaced by another on PATH, to build on; not where the
// user has named one.
func admit(ctx context.Context, r requirements.Request, asked *requirements.Manifest, v verdict) (verdict, error) {
	if asked == nil {
		return v, nil
	}
	pin := requirements.Bound{}
	if r.Python == "" && v.Self.Kind == "" {
		pin = pinned(r) // an active environment was chosen by hand
	}
	allowed := asked.Python.AllowsVersion(v.Self.Version)
	if allowed && pin.AllowsVersion(v.Self.Version) {
		return v, nil
	}
	spec := strings.Trim(asked.Python.Spec+","+pin.Spec, ",")
	if r.Python == "" {
		for _, python := range others(r.Environ) {
			other, err := recall(ctx, r, python, asked)
			if ctx.Err() != nil {
				return verdict{}, context.Cause(ctx)
			}
			if err != nil || other.Self.Old || !asked.Python.AllowsVersion(other.Self.Version) || !pin.AllowsVersion(other.Self.Version) {
				continue
			}
			other.Unknown, other.Missing = "", &lack{Text: fmt.Sprintf("it needs Python %s, but %s is %s and %s is %s", spec,
				v.Self.Executable, v.Self.Version, other.Self.Executable, other.Self.Version)}
			return other, nil
		}
	}
	if allowed { // the version in .python-version is not to be had: it is a preference
		return v, nil
	}
	return verdict{}, fault.New(fault.Invalid, "Install one and name it with `--python`, or take yours as it is with `--no-env`.",
		"resolve python: %s: it needs Python %s, but %s is %s", asked.Python.At, asked.Python.Spec, v.Self.Executable, v.Self.Version)
}

// pinned are the Pythons that the nearest .python-version asks for, from the script's
// folder up to the code folder: its first line, such as 3.12 or cpython-3.12.4. One that
// names no version asks for nothing.
func pinned(r requirements.Request) requirements.Bound {
	for _, dir := range r.SearchFolders() {
		text, err := requirements.ReadFile(filepath.Join(dir, ".python-version"))
		if err != nil || text == nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			line = strings.TrimPrefix(strings.TrimPrefix(line, "cpython-"), "python")
			if versionOnly().MatchString(line) {
				return requirements.Bound{Spec: "==" + line + ".*", At: ".python-version"}
			}
			break
		}
		break
	}
	return requirements.Bound{}
}

// planCached turns to an environment of the cache.
func (p *Plan) planCached(v verdict, asked *requirements.Manifest) (Plan, error) {
	p.asked = asked
	p.Source = asked.Source
	p.Interpreter = filepath.Join(p.environFolder(), "bin", "python")
	p.Build = !complete(p.environFolder())
	if p.Build && asked.Conda != nil {
		if tool, _ := condaTool(p.caller.Environ); tool == "" {
			return Plan{}, noConda(asked.ShownName())
		}
	}
	state := "built from"
	if p.Build {
		state = "building from"
	}
	p.Why = fmt.Sprintf("%s %s: %s", state, asked.TitleIfUnclear(), v.whatIsMissing())
	return *p, nil
}

// minor is the part of a version that decides what can be installed: 3.12 of
// 3.12.4.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// UV is the uv that Build would use if one is there: on PATH, or in drover's own
// cache; "" otherwise. It asks nothing and fetches nothing.
func UV(environ []string, cache string) string {
	for _, path := range append(tools.FindAll(environ, "uv"), filepath.Join(cache, "tools", uvFolder, "bin", "uv")) {
		if tools.Runnable(path) {
			return path
		}
	}
	return ""
}

// environFolder is where the plan's environment lives, for good: virtual environments
// hold their own path and cannot be moved.
func (p *Plan) environFolder() string { return filepath.Join(envs(p.caller.Cache), p.Digest[:12]) }

func envs(cache string) string { return filepath.Join(cache, "envs") }

// digest names an environment. The interpreter's patch release is left out: an
// upgrade in place keeps its environments working.
func digest(self identity, asked *requirements.Manifest) string {
	if asked != nil && asked.Conda != nil {
		return condaDigest(asked)
	}
	h := sha256.New()
	fmt.Fprintf(h, "drover env 1\n%q\n%q\n%q\n%q\n", self.Base, self.Implementation, self.Platform, self.Tag)
	if asked != nil {
		asked.WriteDigest(h)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hashOf names a list of strings; used for file names and keys of the cache.
func hashOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		io.WriteString(h, p)
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}
