package agent

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/drover-run/drover/internal/agent/launcher"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/env/programs"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
)

// programCommand is what is started on this node: the user's program, or what starts
// it in the launcher's way. Paths in it are as the program sees them.
func (l *commands) programCommand(ctx context.Context, facts contract.Facts, environ []string) (proc.Command, error) {
	c, err := l.userCommand(ctx, environ)
	if err != nil {
		return c, err
	}
	line := c.Args
	switch l.Job.Spec.Launcher {
	case job.Torch:
		if facts.Procs > 1 {
			line = launcher.Ranks(l.Machine.Drover, facts.Rank, facts.Procs, whole(c))
		}
	case job.TorchRun:
		line, err = l.torchrunCommand(ctx, c, facts)
	case job.MPI:
		line, err = l.mpiCommand(ctx, c, facts)
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

// torchrunCommand is the script below torch's own launcher, one on each node.
func (l *commands) torchrunCommand(ctx context.Context, c proc.Command, f contract.Facts) ([]string, error) {
	interpreter := l.ready.env.Interpreter
	if err := programs.FindTorchrun(ctx, c.Env, interpreter); err != nil {
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
func (l *commands) userCommand(ctx context.Context, environ []string) (proc.Command, error) {
	spec := l.Job.Spec
	r := programs.Request{Dir: l.space.HostPaths().Code, Sub: l.Job.Code.Sub, Script: l.Job.Code.Script, Args: spec.Args, Environ: environ, Interpreter: l.ready.env.Interpreter}
	if l.beginsAtRoot() {
		r.At = l.space.ProgramPaths().Code
	}
	switch {
	case len(spec.Entrypoint) > 0:
		found, err := l.withEntrypoint(ctx, r)
		return l.startedCommand(found, environ), err
	case spec.Verb == job.Shell:
		r.Script, r.Line, r.Args = "", spec.Program, nil
	case r.Script == "":
		r.Name = spec.Program
	}
	found, err := programs.Find(ctx, r)
	if err != nil {
		return proc.Command{}, err
	}
	return l.startedCommand(found, environ), nil
}

// startedCommand is how a command line is started.
func (l *commands) startedCommand(c programs.Command, environ []string) proc.Command {
	file := l.space.PathInView(c.Path)
	return proc.Command{Path: file, Args: append([]string{orElse(c.Name, file)}, c.Args...), Dir: l.workingFolder(), Env: environ}
}

// beginsAtRoot says that the program begins in "/", as SageMaker's containers do: a processing
// job by the rules of ssm.
func (l *commands) beginsAtRoot() bool {
	return l.Job.Spec.Rules == job.SSM && l.Job.Spec.Verb == job.Process
}

// workingFolder is where the program begins, as it sees it: in its code, where the command
// was typed.
func (l *commands) workingFolder() string {
	if l.beginsAtRoot() {
		return "/"
	}
	return filepath.Join(l.space.CodePathInView(), filepath.FromSlash(l.Job.Code.Sub))
}

// withEntrypoint has the words before a processing job's program start it: the
// program is the word after them, a script by its whole path, as SageMaker's SDK
// gives it.
func (l *commands) withEntrypoint(ctx context.Context, r programs.Request) (programs.Command, error) {
	words := l.Job.Spec.Entrypoint
	program := l.Job.Spec.Program
	if r.Script != "" {
		program = path.Join(l.space.ProgramPaths().Code, r.Script)
	}
	r.Args = slices.Concat(words[1:], []string{program}, r.Args)
	r.Name, r.Script = words[0], ""
	if r.Interpreter != "" && (r.Name == "python3" || r.Name == "python") {
		return programs.Command{Path: r.Interpreter, Name: r.Name, Args: r.Args}, nil // the one that has its packages
	}
	return programs.Find(ctx, r)
}
