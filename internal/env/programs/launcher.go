package programs

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/tools"
)

// Family is which MPI an mpiexec belongs to: each is told about nodes in its own way.
type Family string

// The families of MPI.
const (
	MPICH    Family = "MPICH"
	IntelMPI Family = "Intel MPI"
	OpenMPI  Family = "Open MPI"
)

// MPI is an mpiexec.
type MPI struct {
	Path    string // absolute
	Family  Family
	Version string // "4.1.4", "2021.18.1"
}

// Major is the first number of the version; 0 when there is none.
func (m MPI) Major() (n int) {
	_, _ = fmt.Sscanf(m.Version, "%d", &n) // 0 then
	return n
}

// FindMPI finds mpiexec: beside the interpreter first, as an environment that was
// built for the script may bring its own, then on environ's PATH. None, or one of
// no family that we know, is fault.Missing.
func FindMPI(ctx context.Context, environ []string, interpreter string) (MPI, error) {
	var candidates []string
	for _, name := range []string{"mpiexec", "mpiexec.hydra", "mpirun"} {
		if interpreter != "" {
			if beside := filepath.Join(filepath.Dir(interpreter), name); tools.Runnable(beside) {
				candidates = append(candidates, beside)
			}
		}
	}
	for _, name := range []string{"mpiexec", "mpiexec.hydra", "mpirun"} {
		candidates = append(candidates, tools.FindAll(environ, name)...)
	}
	var unknown string
	for _, path := range candidates {
		m, said := askMPI(ctx, environ, path)
		if m.Family != "" {
			return m, nil
		}
		if unknown == "" {
			unknown = fmt.Sprintf("%s says %q, which is not an MPI that drover knows", path, said)
		}
	}
	if unknown == "" {
		unknown = "none is on PATH or beside the interpreter"
	}
	return MPI{}, fault.New(fault.Missing, "Add mpich (and mpi4py) to requirements.txt, or install MPI: `apt install mpich`.", "find mpiexec: %s", unknown)
}

var (
	mpichVersion = tools.Compiled(`(?m)^\s*Version:\s+(\S+)`)
	intelVersion = tools.Compiled(`Version (\d[\d.]*)`)
	openVersion  = tools.Compiled(`\((?:OpenRTE|Open MPI|PRRTE)\) v?(\d[\w.]*)`)
)

// askMPI asks an mpiexec for its version. What it said is told of one that is
// none of ours.
func askMPI(ctx context.Context, environ []string, path string) (m MPI, said string) {
	ctx, cancel := context.WithTimeout(ctx, tools.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = environ
	out, err := cmd.CombinedOutput()
	text := string(out)
	m.Path = path
	for _, f := range []struct {
		family Family
		sign   string
		number func() *regexp.Regexp
	}{
		{IntelMPI, "Intel(R) MPI", intelVersion}, {MPICH, "HYDRA build details", mpichVersion}, {OpenMPI, "open-mpi.org", openVersion},
	} {
		if strings.Contains(text, f.sign) {
			m.Family = f.family
			if v := f.number().FindStringSubmatch(text); v != nil {
				m.Version = v[1]
			}
			return m, ""
		}
	}
	said, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if said == "" && err != nil {
		said = err.Error()
	}
	return m, said
}

// FindTorchrun refuses an interpreter that has no torch to start a script with.
func FindTorchrun(ctx context.Context, environ []string, interpreter string) error {
	if interpreter != "" && HasModule(ctx, environ, interpreter, "torch") {
		return nil
	}
	if interpreter == "" {
		interpreter = "the program's environment"
	}
	return fault.New(fault.Missing, "Add torch to requirements.txt, or use `--launcher torch`, which needs nothing.", "find torchrun: %s has no torch", interpreter)
}

// HasModule says whether an interpreter would find a module. It does not import it.
func HasModule(ctx context.Context, environ []string, interpreter, module string) bool {
	ctx, cancel := context.WithTimeout(ctx, tools.Patience)
	defer cancel()
	const ask = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
	cmd := exec.CommandContext(ctx, interpreter, "-c", ask, module)
	cmd.Env = environ
	return cmd.Run() == nil
}
