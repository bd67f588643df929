package proc

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/reason"
	"github.com/drover-run/drover/internal/proc/wire"
)

// A shell's exit statuses for a program that was never run.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// buildOrder checks a command and says it in the supervisor's terms.
func (c Command) buildOrder() (wire.Order, error) {
	o := wire.Order{Token: c.Token}
	if o.Token == "" {
		o.Token = rand.Text()
	} else if !process.IsToken(o.Token) {
		return o, fault.New(fault.Invalid, "", "start %s: token %q: want 1 to 64 of A-Z a-z 0-9 _ -", c.Path, c.Token)
	}
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	o.Mark = o.Token
	if outer := os.Getenv(process.Mark); outer != "" {
		o.Mark = outer + ":" + o.Token
	}
	o.Env = environ(env, o.Mark)
	err := c.Limits.CheckValues(c.Path)
	if err != nil {
		return o, err
	}
	if o.Layout, err = c.View.Resolve(c.Path); err != nil {
		return o, err
	}
	dir := c.Dir
	if o.Layout != nil && !filepath.IsAbs(dir) { // below another root no process is in the caller's folder
		here, err := os.Getwd()
		if err != nil {
			return o, fmt.Errorf("start %s: find the working folder: %w", c.Path, err)
		}
		dir = filepath.Join(here, dir)
	}
	o.Dir = []byte(dir)
	path, err := findProgram(o.Layout, c.Path, dir, env)
	if err != nil {
		return o, err
	}
	o.Path = []byte(path)
	args := c.Args
	if len(args) == 0 {
		args = []string{c.Path}
	}
	for _, a := range args {
		if strings.IndexByte(a, 0) >= 0 {
			return o, fault.New(fault.Invalid, "", "start %s: argument %q: holds a zero byte", c.Path, a)
		}
		o.Args = append(o.Args, []byte(a))
	}
	return o, nil
}

// findProgram finds the program as the user's own shell would in that folder and
// environment, and fails with a shell's exit status. Its paths are in the view.
func findProgram(s *mount.Layout, path, dir string, env []string) (string, error) {
	if path == "" {
		return "", fault.New(fault.Invalid, "", "start a program: none is named")
	}
	if strings.Contains(path, "/") {
		at := path
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		st, err := os.Stat(s.MachinePath(at))
		switch {
		case err != nil:
			return "", missing(path, "", reason.Of(err))
		case st.IsDir():
			return "", notExecutable(path, "", "it is a folder")
		}
		return path, nil
	}
	var list string
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			list = v // the last one wins, as in environ
		}
	}
	if list == "" {
		list = "/usr/local/bin:/usr/bin:/bin" // as a shell without PATH
	}
	for _, d := range filepath.SplitList(list) {
		at := filepath.Join(d, path)
		if d == "" || !filepath.IsAbs(d) {
			continue // a program must not depend on what lies in the working folder
		}
		if st, err := os.Stat(s.MachinePath(at)); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return at, nil
		}
	}
	hint := "Check the spelling, or name the program by its whole path."
	if _, err := os.Stat(s.MachinePath(filepath.Join(dir, path))); err == nil {
		hint = fmt.Sprintf("Type ./%s to run the one in the working folder.", path)
	}
	return "", missing(path, hint, "no such program in PATH")
}

// explain turns the kernel's one word into what is wrong and what to do.
func explain(o wire.Order, step string, errno syscall.Errno) error {
	path := string(o.Path)
	if step == wire.StepFolder {
		return fault.Wrap(errno, fault.Invalid, "", "start %s: enter folder %q", path, o.Dir)
	}
	head := peek(o.Layout, path, string(o.Dir))
	script, _ := bytes.CutPrefix(head, []byte("#!"))
	line, _, _ := bytes.Cut(script, []byte("\n"))
	isScript, isELF := len(script) < len(head), bytes.HasPrefix(head, []byte("\x7fELF"))
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP:
		switch {
		case isScript && bytes.HasSuffix(line, []byte("\r")):
			return notExecutable(path, fmt.Sprintf(`Give it Unix line endings: sed -i 's/\r$//' %s`, path),
				fmt.Sprintf("bad interpreter %q: the line ends in a carriage return", bytes.TrimSpace(line)))
		case isScript:
			return notExecutable(path, "Correct the #! line, or install that interpreter.",
				fmt.Sprintf("bad interpreter %q: no such file", bytes.TrimSpace(line)))
		case isELF:
			return notExecutable(path, "Build it on a system like this one, or link it statically.", "the loader it was built for is not here")
		}
		return missing(path, "", reason.Of(errno))
	case syscall.EACCES, syscall.EPERM:
		hint := "Make it executable: chmod +x " + path
		if isScript {
			hint += ", and see that its interpreter is, too"
		}
		return notExecutable(path, hint+".", reason.Of(errno))
	case syscall.ENOEXEC:
		if isELF {
			return notExecutable(path, "Build it for this machine.", "it was built for another kind of machine")
		}
		return notExecutable(path, "Begin it with a line that names its interpreter, such as #!/bin/sh.", "neither a program nor a script with a #! line")
	case syscall.E2BIG:
		return fault.Wrap(errno, fault.Invalid, "Put the list in a file and name the file.", "start %s: its arguments and environment", path)
	case syscall.EAGAIN, syscall.ENOMEM:
		return noRoom(path, errno)
	}
	return fmt.Errorf("start %s: %w", path, errno)
}

// peek reads where a #! line would stand; the kernel looks no further than 256.
func peek(s *mount.Layout, path, dir string) []byte {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	f, err := os.Open(s.MachinePath(path))
	if err != nil {
		return nil // an executable need not be readable
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	return head[:n]
}

func missing(path, hint, why string) error {
	f := fault.New(fault.Invalid, hint, "start %s: %s", path, why)
	if hint == "" {
		f.Hint = "Check the path and the folder it is run in."
	}
	f.Code = codeNotFound
	return f
}

func notExecutable(path, hint, why string) error {
	f := fault.New(fault.Invalid, hint, "start %s: %s", path, why)
	if hint == "" {
		f.Hint = "Name a program in it."
	}
	f.Code = codeNotExecutable
	return f
}

func noRoom(path string, err error) error {
	return fault.Wrap(err, fault.Full, "Raise the limit on processes (`ulimit -u`), or use fewer slots.", "start %s: no room for another process", path)
}
