package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/tools"
)

// builder fills one environment, while it holds its lock.
type builder struct {
	plan *Plan
	dir  string
	lock *os.File
	log  func(string)
	tool string // what built it, with its version
}

// buildEnvironment makes the environment with uv, or with venv and pip where no uv can be
// had; an environment.yml is conda's.
func (b *builder) buildEnvironment(ctx context.Context) error {
	asked := b.plan.asked
	if asked.Conda != nil {
		return b.buildWithConda(ctx)
	}
	uv, err := b.findOrFetchUV(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("build environment: %w", context.Cause(ctx))
	}
	switch {
	case err != nil && asked.OnlyUV != "":
		return fault.Wrap(err, fault.Missing, "Install uv (`pip install uv`), or take your interpreter as it is with `--no-env`.",
			"build environment: %s", asked.OnlyUV)
	case err != nil:
		b.log("building without uv: " + err.Error())
		return b.buildWithPip(ctx)
	}
	return b.buildWithUV(ctx, uv)
}

// uvPackage is what drover asks pip for, and uvFolder where it is kept: raise
// both together when an older uv no longer does. Its first version that speaks
// all the flags and variables below is 0.5.
const (
	uvPackage = "uv>=0.5"
	uvFolder  = "uv-1"
)

// findOrFetchUV finds uv on PATH or in drover's own cache, or puts it there with pip.
func (b *builder) findOrFetchUV(ctx context.Context) (string, error) {
	for _, path := range tools.FindAll(b.plan.caller.Environ, "uv") {
		if b.uvWorks(ctx, path) {
			return path, nil
		}
	}
	tools := filepath.Join(b.plan.caller.Cache, "tools")
	home := filepath.Join(tools, uvFolder)
	path := filepath.Join(home, "bin", "uv")
	ready := func() bool {
		return sealed(b.plan.caller.Cache, tools) && sealed(b.plan.caller.Cache, home) && sealed(b.plan.caller.Cache, filepath.Dir(path)) && sealed(b.plan.caller.Cache, path) && b.uvWorks(ctx, path)
	}
	if ready() {
		return path, nil
	}
	python, _ := b.findPip(ctx)
	if python == "" {
		return "", errors.New("there is no pip to fetch it with")
	}
	if err := privateFolder(tools); err != nil {
		return "", err
	}
	l, err := lock(ctx, home+lockEnd, "fetching uv", func(holder string) { b.log("waiting for " + holder + ", which fetches uv") })
	if err != nil {
		return "", err
	}
	defer l.Close()
	if ready() {
		return path, nil
	}
	return path, b.fetchUV(ctx, l, python, home)
}

// fetchUV puts uv into home, whole or not at all.
func (b *builder) fetchUV(ctx context.Context, l *os.File, python, home string) error {
	fresh := home + ".new" // one name is enough under the lock, and sweeps what a killed one left
	for _, old := range []string{fresh, home} {
		if os.RemoveAll(old) == nil {
			continue
		}
		if err := setAside(old); err != nil {
			return err
		}
	}
	b.log("fetching uv, once")
	// A wheel or nothing: building uv needs a Rust compiler and many minutes.
	out, err := b.runTool(ctx, l, b.buildEnviron(), python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--no-compile",
		"--retries", "1", "--target", fresh, uvPackage)
	if err == nil {
		err = os.Rename(fresh, home)
	}
	if err != nil {
		os.RemoveAll(fresh)
		return fmt.Errorf("%w%s", err, tools.LastLine(out))
	}
	if !b.uvWorks(ctx, filepath.Join(home, "bin", "uv")) {
		return errors.New("the uv that pip installed does not run here")
	}
	return nil
}

// uvWorks asks for its version and keeps it.
func (b *builder) uvWorks(ctx context.Context, path string) bool {
	if !tools.Runnable(path) {
		return false
	}
	out, err := tools.Answer(ctx, "/", b.buildEnviron(), path, "--version")
	if f := strings.Fields(out); err == nil && len(f) >= 2 {
		b.tool = f[0] + " " + f[1]
		return true
	}
	return false
}

func (b *builder) buildWithUV(ctx context.Context, uv string) (err error) {
	remove, err := fence(b.plan.caller.Job)
	if err != nil {
		return onDisk(err, "build environment")
	}
	defer func() {
		if left := remove(); err == nil {
			err = onDisk(left, "build environment")
		}
	}()
	extra, args := b.pipSettings(ctx)
	environ := append(b.buildEnviron(), extra...)
	environ = append(environ, "UV_NO_PROGRESS=1", "UV_PYTHON_DOWNLOADS=never", "NO_COLOR=1")
	if tools.Variable(environ, "UV_CACHE_DIR") == "" && tools.Variable(environ, "HOME") == "" {
		// Without a home uv would put its cache into the code folder.
		environ = append(environ, "UV_CACHE_DIR="+filepath.Join(b.plan.caller.Cache, "uv"))
	}
	if out, err := b.runTool(ctx, b.lock, environ, uv, "venv", "--quiet", "--python", b.plan.self.Base, b.dir); err != nil {
		return b.explainFailure(ctx, out, err)
	}
	if b.shouldCompile() {
		args = append(args, "--compile-bytecode")
	}
	if b.plan.asked.Sync != nil {
		return b.syncUV(ctx, uv, environ, args)
	}
	return b.installRequirements(ctx, environ, uv, []string{"pip", "install", "--python", filepath.Join(b.dir, "bin", "python")}, args)
}

// syncUV has uv follow its own lock, or its own settings in a script.
func (b *builder) syncUV(ctx context.Context, uv string, environ, args []string) error {
	environ = append(environ, "UV_PROJECT_ENVIRONMENT="+b.dir, "VIRTUAL_ENV="+b.dir)
	args = slices.Concat([]string{"sync", "--python", b.plan.self.Base}, b.plan.asked.Sync, args)
	if out, err := b.runTool(ctx, b.lock, environ, uv, args...); err != nil {
		return b.explainFailure(ctx, out, err)
	}
	return nil
}

// installRequirements has uv or pip install what is asked for, one requirements file after
// the other. Where the code has none they are written, for as long as it takes:
// their lines may name an index with its password.
func (b *builder) installRequirements(ctx context.Context, environ []string, tool string, verb, options []string) error {
	asked := b.plan.asked
	if asked.Batches == nil || asked.OnlyUV != "" {
		out, err := b.runTool(ctx, b.lock, environ, tool, slices.Concat(verb, []string{"-r", asked.Path}, options)...)
		return b.explainFailure(ctx, out, err)
	}
	if asked.Single {
		options = append(options, "--no-deps")
	}
	for _, lines := range asked.Batches {
		if len(lines) == 0 {
			continue
		}
		file := filepath.Join(b.dir, "requirements.txt")
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return onDisk(err, "build environment")
		}
		out, err := b.runTool(ctx, b.lock, environ, tool, slices.Concat(verb, []string{"-r", file}, options)...)
		if gone := os.Remove(file); err == nil && gone != nil {
			return onDisk(gone, "build environment")
		}
		if err != nil {
			return b.explainFailure(ctx, out, err)
		}
	}
	return nil
}

// shouldCompile says whether to write bytecode now. It takes 3.6 s for scikit-learn
// on two cores; left to the first import it costs next to nothing, because that
// import compiles only what it uses. But a caller that forbids Python to write
// bytecode, as many images do, would compile anew in every run: 2.4 s instead
// of 0.9 s for the same import.
func (b *builder) shouldCompile() bool {
	return tools.Variable(b.plan.caller.Environ, "PYTHONDONTWRITEBYTECODE") != ""
}

// buildWithPip needs no ensurepip where some pip can install into another
// environment (since 22.3): that saves 5 s, and the Debian package python3-venv.
func (b *builder) buildWithPip(ctx context.Context) error {
	python, version := b.findPip(ctx)
	args := []string{"-m", "pip"}
	target := filepath.Join(b.dir, "bin", "python")
	if python == "" || older(version, 22, 3) {
		if out, err := b.runTool(ctx, b.lock, b.buildEnviron(), b.plan.self.Base, "-m", "venv", b.dir); err != nil {
			return b.explainFailure(ctx, out, err)
		}
		python, version = target, b.pipVersion(ctx, target)
	} else {
		if out, err := b.runTool(ctx, b.lock, b.buildEnviron(), b.plan.self.Base, "-m", "venv", "--without-pip", b.dir); err != nil {
			return b.explainFailure(ctx, out, err)
		}
		args = append(args, "--python", target)
	}
	b.tool = "pip " + version
	var options []string
	if !b.shouldCompile() {
		options = append(options, "--no-compile")
	}
	return b.installRequirements(ctx, b.buildEnviron(), python, append(args, "install", "--progress-bar", "off"), options)
}

// findPip finds an interpreter that has pip, and pip's version; both "" for none.
func (b *builder) findPip(ctx context.Context) (python, version string) {
	for _, python := range []string{b.plan.self.Base, b.plan.self.Executable} {
		if v := b.pipVersion(ctx, python); v != "" {
			return python, v
		}
	}
	return "", ""
}

// pipVersion asks the metadata: pip itself takes half a second to say it.
func (b *builder) pipVersion(ctx context.Context, python string) string {
	out, err := tools.Answer(ctx, "/", b.buildEnviron(), python, "-c", "from importlib.metadata import version; print(version('pip'))")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// older compares "23.2.1" with major.minor; what is not a version is old.
func older(version string, major, minor int) bool {
	var a, b int
	fmt.Sscanf(version, "%d.%d", &a, &b)
	return a < major || a == major && b < minor
}

// notOurs are variables that would send a build to another place, or let it
// count packages as installed that are not in the environment.
var notOurs = []string{
	"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "CONDA_PREFIX", "__PYVENV_LAUNCHER__",
	"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON", "PIP_REQUIRE_VIRTUALENV", "PIP_REQUIREMENT", "PIP_QUIET", "PIP_LOG",
	"UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_WORKING_DIR", "UV_PROJECT", "UV_PROJECT_ENVIRONMENT", "UV_FROZEN", "UV_LOCKED",
	"CONDA_DEFAULT_ENV", "CONDA_SHLVL", "CONDA_ENV_PATH",
}

// buildEnviron is the caller's, made fit for building. PIP_* here win over a
// pip.conf that says user or require-virtualenv.
func (b *builder) buildEnviron() []string {
	out := slices.DeleteFunc(slices.Clone(b.plan.caller.Environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(notOurs, name)
	})
	return append(out, "PIP_USER=0", "PIP_REQUIRE_VIRTUALENV=0", "PIP_NO_INPUT=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_COLOR=1", "PIP_ROOT_USER_ACTION=ignore")
}

// ownersWrite runs its arguments with a umask by which only the owner may write what
// they make; what else the umask forbids stays. This process has many threads, and other
// work that goes by its umask.
const ownersWrite = `umask g-w,o-w && exec "$@"`

// runTool runs a tool in the code folder, its output line by line to the log.
//
// The tool inherits the lock. When this process is killed, the tool may live
// on and write; the next builder then waits for it, instead of building in the
// same folder.
func (b *builder) runTool(ctx context.Context, held *os.File, environ []string, name string, args ...string) (string, error) {
	w := &tools.LineWriter{Each: b.log}
	cmd := tools.NewCommand(ctx, b.plan.caller.Dir, environ, "/bin/sh", slices.Concat([]string{"-c", ownersWrite, "sh", name}, args)...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = w, w, []*os.File{held}
	err := cmd.Run()
	w.Flush()
	if ctx.Err() != nil {
		return "", fmt.Errorf("build environment: %w", context.Cause(ctx))
	}
	return string(w.Kept), err
}
