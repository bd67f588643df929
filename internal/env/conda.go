package env

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/tools"
)

// condaFile is what drover reads of an environment.yml: enough to judge an
// active environment. What builds one reads the file itself.
type condaFile struct {
	needs     [][2]string // name and version as PEP 440 says it, "" for any
	unclear   string      // a dependency that cannot be judged here; "" for none
	variables []string    // "NAME=value", what activating the environment sets
}

// readConda reads environment.yml, or environment.yaml.
func readConda(r Request) (*manifest, error) {
	name := SourceConda
	data, path, err := beside(r, name)
	if err == nil && data == nil {
		name = "environment.yaml"
		data, path, err = beside(r, name)
	}
	if err != nil || data == nil {
		return nil, err
	}
	var file struct {
		Dependencies []any          `yaml:"dependencies"`
		Variables    map[string]any `yaml:"variables"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, badFile(name, firstLine(err.Error()))
	}
	m := &manifest{Path: path, Source: SourceConda, conda: &condaFile{}, also: string(data)}
	for _, d := range file.Dependencies {
		switch d := d.(type) {
		case string:
			m.conda.readDependency(d)
		case map[string]any:
			if err := m.readPipSection(d["pip"], name); err != nil {
				return nil, err
			}
		}
	}
	for key, value := range file.Variables {
		m.conda.variables = append(m.conda.variables, fmt.Sprintf("%s=%v", key, value))
	}
	slices.Sort(m.conda.variables)
	return m, nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// readPipSection reads the list that conda hands to pip, one line each of a
// requirements file.
func (m *manifest) readPipSection(list any, file string) error {
	items, _ := list.([]any)
	for _, item := range items {
		text, ok := item.(string)
		if !ok {
			return badFile(file, "its pip section holds something that is not text")
		}
		if err := m.addLines([]byte(text), entry{File: file, folder: filepath.Dir(m.Path)}, map[string]bool{}); err != nil {
			return err
		}
	}
	return nil
}

var (
	condaName    = tools.Compiled(`^(?:[A-Za-z0-9_./-]+::)?([A-Za-z0-9_.-]+)\s*(.*)$`)
	condaVersion = tools.Compiled(`^(==|=|!=|>=|<=|>|<|~=)?\s*(\d[A-Za-z0-9_.+!]*?)(\.?\*)?$`)
)

// readDependency reads one dependency of conda: "numpy", "numpy=1.26", "c::numpy >=1.20,<2".
func (c *condaFile) readDependency(text string) {
	m := condaName().FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		c.unclear = text
		return
	}
	spec := ""
	for _, one := range strings.Split(strings.TrimSpace(m[2]), ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		v := condaVersion().FindStringSubmatch(one)
		if v == nil { // a build, a choice, brackets
			c.unclear = text
			return
		}
		op, version, star := v[1], v[2], v[3] != ""
		switch {
		case op == "=" || op == "" && star || op == "==" && star:
			op, version = "==", version+".*"
		case op == "":
			op = "=="
		case op == "!=" && star:
			version += ".*"
		}
		spec += "," + op + version
	}
	c.needs = append(c.needs, [2]string{strings.ToLower(m[1]), strings.TrimPrefix(spec, ",")})
}

// condaDigest names an environment that brings its own Python: the interpreter
// that was judged has no part in it.
func condaDigest(m *manifest) string {
	var b strings.Builder
	m.writeDigest(&b)
	return hashOf("drover conda 1", runtime.GOOS, runtime.GOARCH, b.String())
}

// condaTools in the order of their speed. Verb makes an environment from
// such a file: conda's own create takes another kind.
var condaTools = []struct {
	name string
	verb []string
}{{"micromamba", []string{"create", "--yes"}}, {"mamba", []string{"env", "create"}}, {"conda", []string{"env", "create"}}}

// condaTool finds what can build from an environment.yml; a shell has conda and
// mamba as functions, and says in a variable where the programs are.
func condaTool(environ []string) (path string, verb []string) {
	for _, tool := range condaTools {
		if found := tools.FindAll(environ, tool.name); len(found) > 0 {
			return found[0], tool.verb
		}
		for _, name := range []string{"MAMBA_EXE", "CONDA_EXE"} {
			if path := tools.Variable(environ, name); filepath.Base(path) == tool.name && filepath.IsAbs(path) && tools.Runnable(path) {
				return path, tool.verb
			}
		}
	}
	return "", nil
}

func noConda(name string) error {
	return fault.New(fault.Missing, "Install micromamba, or take an interpreter that has the packages: --python /path/to/python --no-env.",
		"build environment: %s: there is no micromamba, mamba or conda here", name)
}

// buildWithConda has conda, or one of its kin, make the whole environment.
func (b *builder) buildWithConda(ctx context.Context) error {
	tool, verb := condaTool(b.plan.caller.Environ)
	if tool == "" {
		return noConda(b.plan.asked.shownName())
	}
	b.tool = filepath.Base(tool)
	if out, err := tools.Answer(ctx, "/", b.buildEnviron(), tool, "--version"); err == nil {
		words := strings.Fields(out)
		b.tool += " " + strings.Join(words[max(len(words)-1, 0):], "")
	}
	environ := append(b.buildEnviron(), "CONDA_ALWAYS_YES=1", "MAMBA_ALWAYS_YES=1", "MAMBA_NO_BANNER=1", "CONDA_AUTO_UPDATE_CONDA=0")
	args := append(slices.Clone(verb), "--prefix", b.dir, "--file", b.plan.asked.Path)
	if out, err := b.runTool(ctx, b.lock, environ, tool, args...); err != nil {
		return b.explainFailure(ctx, out, err)
	}
	if !tools.Runnable(filepath.Join(b.dir, "bin", "python")) {
		return fault.New(fault.Invalid, "Add python to its dependencies.", "build environment: %s: it brings no python", b.plan.asked.shownName())
	}
	return nil
}

// condaEnviron is what activating the environment would set. The scripts in its
// etc/conda/activate.d are not run.
func (p *Plan) condaEnviron(prefix string) []string {
	out := []string{
		"CONDA_PREFIX=" + prefix, "CONDA_DEFAULT_ENV=" + prefix,
		"PATH=" + filepath.Join(prefix, "bin") + string(os.PathListSeparator) + tools.Variable(p.caller.Environ, "PATH"),
	}
	if tools.Variable(p.caller.Environ, "VIRTUAL_ENV") != "" {
		out = append(out, "VIRTUAL_ENV=") // or tools inside would take the other one for theirs
	}
	return append(out, p.asked.conda.variables...)
}
