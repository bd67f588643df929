package agent

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/drover-run/drover/internal/agent/launcher"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
)

// command is what is started on this node: the user's program, or what starts
// it in the launcher's way. Paths in it are as the program sees them.
func (a *agent) command(ctx context.Context, facts contract.Facts, environ []string) (proc.Command, error) {
	c, err := a.userCommand(ctx, environ)
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
func (a *agent) userCommand(ctx context.Context, environ []string) (proc.Command, error) {
	spec := a.job.Spec
	r := env.ProgramRequest{Dir: a.paths().Code, Sub: a.job.Code.Sub, Script: a.job.Code.Script, Args: spec.Args, Environ: environ, Interpreter: a.ready.env.Interpreter}
	if a.atRoot() {
		r.At = a.seen().Code
	}
	switch {
	case len(spec.Entrypoint) > 0:
		found, err := a.withEntrypoint(ctx, r)
		return a.started(found, environ), err
	case spec.Verb == job.Shell:
		r.Script, r.Line, r.Args = "", spec.Program, nil
	case r.Script == "":
		r.Name = spec.Program
	}
	found, err := env.Program(ctx, r)
	if err != nil {
		return proc.Command{}, err
	}
	return a.started(found, environ), nil
}

// started is how a command line is started.
func (a *agent) started(c env.Command, environ []string) proc.Command {
	file := a.inView(c.Path)
	return proc.Command{Path: file, Args: append([]string{orElse(c.Name, file)}, c.Args...), Dir: a.workingFolder(), Env: environ}
}

// atRoot says that the program begins in "/", as SageMaker's containers do: a processing
// job by the rules of ssm.
func (a *agent) atRoot() bool { return a.job.Spec.Rules == job.SSM && a.job.Spec.Verb == job.Process }

// workingFolder is where the program begins, as it sees it: in its code, where the command
// was typed.
func (a *agent) workingFolder() string {
	if a.atRoot() {
		return "/"
	}
	return filepath.Join(a.codeSeen(), filepath.FromSlash(a.job.Code.Sub))
}

// withEntrypoint has the words before a processing job's program start it: the
// program is the word after them, a script by its whole path, as SageMaker's SDK
// gives it.
func (a *agent) withEntrypoint(ctx context.Context, r env.ProgramRequest) (env.Command, error) {
	words := a.job.Spec.Entrypoint
	program := a.job.Spec.Program
	if r.Script != "" {
		program = path.Join(a.seen().Code, r.Script)
	}
	r.Args = slices.Concat(words[1:], []string{program}, r.Args)
	r.Name, r.Script = words[0], ""
	if r.Interpreter != "" && (r.Name == "python3" || r.Name == "python") {
		return env.Command{Path: r.Interpreter, Name: r.Name, Args: r.Args}, nil // the one that has its packages
	}
	return env.Program(ctx, r)
}
