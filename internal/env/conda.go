package env

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

// condaDigest names an environment that brings its own Python: the interpreter
// that was judged has no part in it.
func condaDigest(m *requirements.Manifest) string {
	var b strings.Builder
	m.WriteDigest(&b)
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
	return fault.New(fault.Missing, "Install micromamba, or take an interpreter that has the packages: `--python /path/to/python --no-env`.",
		"build environment: %s: there is no micromamba, mamba or conda here", name)
}

// buildWithConda has conda, or one of its kin, make the whole environment.
func (b *builder) buildWithConda(ctx context.Context) error {
	tool, verb := condaTool(b.plan.caller.Environ)
	if tool == "" {
		return noConda(b.plan.asked.ShownName())
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
		return fault.New(fault.Invalid, "Add python to its dependencies.", "build environment: %s: it brings no python", b.plan.asked.ShownName())
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
	return append(out, p.asked.Conda.Variables...)
}
