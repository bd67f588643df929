package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/launcher"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
)

// command is what is started on this node: the user's program, or what starts
// it in the launcher's way. Paths in it are as the program sees them.
func (a *agent) command(ctx context.Context, facts contract.Facts, environ []string) (proc.Command, error) {
	c, err := a.userCommand(environ)
	if err != nil {
		return c, err
	}
	line := c.Args
	switch a.job.Spec.Launcher {
	case job.Torch:
		if facts.Procs > 1 {
			line = launcher.Ranks(a.Machine.Drover, facts.Rank, facts.Procs, whole(c))
		}
	case job.TorchRun:
		line, err = a.torchrun(ctx, c, facts)
	case job.MPI:
		line, err = a.mpi(ctx, c, facts)
	}
	if err != nil || slices.Equal(line, c.Args) {
		return c, err
	}
	c.Path, c.Args = line[0], line
	return c, nil
}

// whole is a command line that needs nothing beside it: the program's own name
// for itself gives way to the file.
func whole(c proc.Command) []string { return append([]string{c.Path}, c.Args[1:]...) }

// torchrun is the script below torch's own launcher, one on each node.
func (a *agent) torchrun(ctx context.Context, c proc.Command, f contract.Facts) ([]string, error) {
	interpreter := a.ready.env.Interpreter
	if err := env.FindTorchrun(ctx, c.Env, interpreter); err != nil {
		return c.Args, err
	}
	line := []string{interpreter, "-m", "torch.distributed.run", "--nnodes", strconv.Itoa(len(f.Hosts)),
		"--nproc_per_node", strconv.Itoa(max(1, f.Procs)), "--node_rank", strconv.Itoa(f.Rank),
		"--master_addr", f.Peers[0].Address, "--master_port", strconv.Itoa(f.Peers[0].Port)}
	return append(line, c.Args[1:]...), nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// userCommand is the user's program, its folder and its environment.
func (a *agent) userCommand(environ []string) (proc.Command, error) {
	spec, code := a.job.Spec, a.paths().Code
	c := proc.Command{Dir: a.seen().Code, Env: environ}
	switch {
	case spec.Verb == job.Shell:
		sh, err := lookPath("bash", environ, code)
		if err != nil {
			sh, err = lookPath("sh", environ, code)
		}
		if err != nil {
			return c, err
		}
		c.Path, c.Args = sh, []string{sh, "-c", spec.Program}
		return c, nil
	case a.job.Code.Script == "":
		p, err := lookPath(spec.Program, environ, code)
		c.Path, c.Args = a.inView(p), append([]string{spec.Program}, spec.Args...)
		return c, err
	}
	script := filepath.Join(code, filepath.FromSlash(a.job.Code.Script))
	switch {
	case a.ready.env.Interpreter != "":
		name := a.job.Code.Script
		if strings.HasPrefix(name, "-") {
			name = "./" + name // or it is taken for an option
		}
		c.Path = a.ready.env.Interpreter
		c.Args = append([]string{c.Path, name}, spec.Args...)
	case strings.HasSuffix(script, ".sh") && !executable(script):
		sh, err := lookPath("bash", environ, code)
		if err != nil {
			return c, err
		}
		c.Path, c.Args = sh, append([]string{sh, a.job.Code.Script}, spec.Args...)
	default:
		c.Path, c.Args = a.inView(script), append([]string{a.inView(script)}, spec.Args...)
	}
	return c, nil
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode()&0o111 != 0
}

// lookPath finds a program as a shell in that environment and folder would.
func lookPath(name string, environ []string, dir string) (string, error) {
	missing := fault.New(fault.Invalid, "Check the spelling, or install it where the job runs.", "start program: %q is not on PATH", name)
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return "", fault.New(fault.Invalid, "Check the path: it is looked up where the job runs.", "start program: %q is not there", name)
		}
		return name, nil
	}
	for _, kv := range environ {
		path, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(path) {
			if d == "" || !filepath.IsAbs(d) {
				d = filepath.Join(dir, d)
			}
			if full, err := exec.LookPath(filepath.Join(d, name)); err == nil {
				return full, nil
			}
		}
	}
	return "", missing
}
