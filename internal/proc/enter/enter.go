// Package enter runs a command beside a program: with its view of the machine, and outside of
// its tree and limits.
//
// It refuses to know what the program is for. It is proved by enter_test.go and, with a
// program that has a view, by enter_linux_test.go of package proc.
package enter

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/process"
)

// Command is a command beside a program that runs.
type Command struct {
	View process.Identity // the command gets this process's view of the machine; zero: the machine as it is
	Dir  string           // where it begins, as the program sees it
	Env  []string         // all of its environment
	Args []string         // Args[0] is looked for as a shell does, by the PATH of Env
}

// Run runs a command beside a program, with this process's terminal, and returns its
// exit status as a shell says it. It is no part of the program's tree: no limit holds
// it, and it does not end with the program. Keys such as Ctrl-C are for the command.
func Run(e Command) (status int, err error) {
	c := &exec.Cmd{Path: e.Args[0], Args: e.Args, Dir: e.Dir, Env: e.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	keys := make(chan os.Signal, 1)
	signal.Notify(keys, unix.SIGINT, unix.SIGQUIT) // not ignored: that the command would inherit
	defer signal.Stop(keys)
	if e.View.PID > 0 {
		err = startInside(e.View, c)
	} else if err = resolveProgram(c); err == nil {
		err = c.Start()
	}
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return 0, fault.New(fault.Invalid, "Name a program that is there, such as sh.", "run %s: it is not found beside the program", e.Args[0])
	case err != nil:
		return 0, fault.Wrap(err, fault.Denied, "", "run %s beside the program", e.Args[0])
	}
	var ended *exec.ExitError
	if err = c.Wait(); err != nil && !errors.As(err, &ended) {
		return 0, fault.Wrap(err, fault.Lost, "", "wait for %s", e.Args[0])
	}
	if s, ok := c.ProcessState.Sys().(interface {
		Signaled() bool
		Signal() unix.Signal
	}); ok && s.Signaled() {
		return 128 + int(s.Signal()), nil
	}
	return c.ProcessState.ExitCode(), nil
}

// resolveProgram sets c.Path to where the program is, as a shell finds it.
func resolveProgram(c *exec.Cmd) error {
	for _, path := range candidatePaths(c.Args[0], c.Env, c.Dir) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			c.Path = path
			return nil
		}
	}
	return &exec.Error{Name: c.Args[0], Err: exec.ErrNotFound}
}

// candidatePaths are the absolute paths that a name may mean.
func candidatePaths(name string, environ []string, dir string) (paths []string) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return []string{name}
	}
	path := ""
	for _, kv := range environ {
		if p, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = p // the last one counts
		}
	}
	for _, folder := range filepath.SplitList(path) {
		if filepath.IsAbs(folder) {
			paths = append(paths, filepath.Join(folder, name))
		}
	}
	return paths
}
