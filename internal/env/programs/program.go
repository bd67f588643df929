// Package programs finds what runs a script that is no Python of an environment: an interpreter by
// the script's suffix or first line, a launcher of several processes; and it tells which script a
// command line of Python means. It refuses to know environments. Proved by its tests with real
// programs.
package programs

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/tools"
)

// Request says what is to be started: Script, or Name, or Line.
type Request struct {
	Dir         string   // the code folder, absolute
	Sub         string   // the program's working folder, slash-separated below Dir; "" is Dir
	Script      string   // slash path of a file in Dir
	Name        string   // a program on PATH, or its path, relative to the working folder
	Line        string   // a shell's line; Args are not for it
	Args        []string // the program's own
	Environ     []string // of the program, "NAME=value"; its PATH finds what runs a script
	Interpreter string   // Ready's, for a .py or .ipynb; "" takes the python3 on PATH
	At          string   // Dir as the program sees it, where it works elsewhere; "" is its working folder
}

// Command is a command line. Where the program sees files elsewhere than this
// process does, only Path need be translated: the words in Args that name a file
// of the code are relative to the code folder, or below At.
type Command struct {
	Path string   // absolute, as this process sees it
	Name string   // what the program is told that it is called (argv[0]); "" is Path
	Args []string // the words after that
}

// language is what runs files of some suffixes that cannot be executed, or that
// do not say in their first line what to run them with.
type language struct {
	suffixes []string // in lower case
	programs []string // the first one that is on PATH
	hint     string
}

var languages = []language{
	{[]string{".py", ".ipynb"}, []string{"python3", "python"}, "Install Python 3, or name one with --python /path/to/python3."},
	{[]string{".sh"}, []string{"bash", "sh"}, "Put bash on PATH where the job runs."},
	{[]string{".bash"}, []string{"bash"}, "Install it where the job runs: apt-get install bash."},
	{[]string{".r"}, []string{"Rscript"}, "Install R where the job runs: apt-get install r-base-core, or brew install r."},
	{[]string{".jl"}, []string{"julia"}, "Install Julia where the job runs, from https://julialang.org/downloads, and put it on PATH."},
	{[]string{".pl"}, []string{"perl"}, "Install it where the job runs: apt-get install perl."},
	{[]string{".rb"}, []string{"ruby"}, "Install it where the job runs: apt-get install ruby, or brew install ruby."},
	{[]string{".js", ".mjs", ".cjs"}, []string{"node", "nodejs"}, "Install it where the job runs: apt-get install nodejs, or brew install node."},
}

func languageOf(script string) *language {
	suffix := strings.ToLower(path.Ext(script))
	for i := range languages {
		if slices.Contains(languages[i].suffixes, suffix) {
			return &languages[i]
		}
	}
	return nil
}

// IsScript says by its name whether a file is a text that an interpreter reads.
func IsScript(name string) bool { return languageOf(filepath.ToSlash(name)) != nil }

// IsNotebook says whether a script is a Jupyter notebook.
func IsNotebook(script string) bool { return strings.EqualFold(path.Ext(script), ".ipynb") }

// Extra are the packages that a script needs beside those that its own files ask
// for: a notebook what executes it.
func Extra(script string) []string {
	if IsNotebook(script) {
		return []string{"nbclient", "ipykernel"}
	}
	return nil
}

// Find decides which command line runs a program. A file that can be executed
// is, as a shell would; another is given to what its first line or its suffix
// names. It reads the file's beginning, and asks an interpreter whether it can
// execute a notebook; it starts nothing else. Faults: Missing without the
// interpreter; Invalid for a file that cannot be run and a name that is nowhere.
func Find(ctx context.Context, r Request) (Command, error) {
	switch {
	case r.Script != "":
		return r.scriptCommand(ctx)
	case r.Line != "":
		c, err := r.firstOnPath(&language{programs: []string{"bash", "sh"}, hint: "Put sh on PATH where the job runs."}, "a shell line")
		c.Args = []string{"-c", r.Line}
		return c, err
	}
	if r.Interpreter != "" && IsInterpreter(r.Name) { // the one that has the packages
		return Command{Path: r.Interpreter, Args: r.Args}, nil
	}
	file, err := r.findProgram(r.Name)
	return Command{Path: file, Name: r.Name, Args: r.Args}, err
}

func (r Request) scriptCommand(ctx context.Context) (Command, error) {
	file := filepath.Join(r.Dir, filepath.FromSlash(r.Script))
	h, err := readHead(file)
	if err != nil {
		return Command{}, err
	}
	l := languageOf(r.Script)
	switch {
	case l == &languages[0]: // Python: the interpreter that has its packages, whatever the first line says
		return r.pythonCommand(ctx, l)
	case h.executable && (h.binary || h.line != ""):
		if err := r.firstLine(h.line); err != nil {
			return Command{}, err
		}
		return Command{Path: file, Args: r.Args}, nil
	case l != nil:
		c, err := r.firstOnPath(l, r.Script)
		c.Args = slices.Concat(r.juliaProject(), []string{r.scriptArgument()}, r.Args)
		return c, err
	case h.line != "":
		if err := r.firstLine(h.line); err != nil {
			return Command{}, err
		}
		// As the kernel would: all that follows is one word.
		words := []string{r.scriptArgument()}
		interpreter, option := tools.CutBlank(h.line)
		if option != "" {
			words = []string{option, r.scriptArgument()}
		}
		return Command{Path: interpreter, Args: append(words, r.Args...)}, nil
	case h.executable: // a text without a first line is the shell's
		c, err := r.firstOnPath(&language{programs: []string{"sh"}, hint: "Begin it with a line such as #!/usr/bin/env python3."}, r.Script)
		c.Args = append([]string{r.scriptArgument()}, r.Args...)
		return c, err
	}
	return Command{}, fault.New(fault.Invalid, "Try chmod +x "+r.Script+", or begin it with a line such as #!/bin/sh.",
		"start program: %q cannot be executed, and neither its name nor its first line says what runs it", r.Script)
}

// scriptArgument is the script's name as an argument: it must not be taken for an option.
func (r Request) scriptArgument() string {
	if r.At != "" {
		return path.Join(r.At, r.Script)
	}
	word := r.pathFromFolder(r.Script)
	if strings.HasPrefix(word, "-") {
		return "./" + word
	}
	return word
}

// hostFolder is the working folder as this process sees it.
func (r Request) hostFolder() string { return filepath.Join(r.Dir, filepath.FromSlash(r.Sub)) }

// pathFromFolder is a path in the code folder as the program names it from its working folder.
func (r Request) pathFromFolder(name string) string {
	rel, err := filepath.Rel("/"+r.Sub, "/"+name)
	if err != nil {
		return name
	}
	return filepath.ToSlash(rel)
}

// firstOnPath is the first program of a language's that is on PATH.
func (r Request) firstOnPath(l *language, what string) (Command, error) {
	for _, name := range l.programs {
		if file := r.lookUpOnPath(name); file != "" {
			return Command{Path: file}, nil
		}
	}
	return Command{}, fault.New(fault.Missing, l.hint, "start program: %s needs %s, which is not on PATH", what, l.programs[0])
}

// executor executes a notebook, see there.
//
//go:embed notebook.py
var Executor string

// pythonCommand runs a script or a notebook in the interpreter that was prepared for it.
func (r Request) pythonCommand(ctx context.Context, l *language) (Command, error) {
	c, err := Command{Path: r.Interpreter}, error(nil)
	if r.Interpreter == "" {
		if c, err = r.firstOnPath(l, r.Script); err != nil {
			return c, err
		}
	}
	c.Args = append([]string{r.scriptArgument()}, r.Args...)
	if !IsNotebook(r.Script) {
		return c, nil
	}
	for _, module := range Extra(r.Script) {
		if HasModule(ctx, r.Environ, c.Path, module) {
			continue
		}
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		return c, fault.New(fault.Missing, "Add nbclient and ipykernel to requirements.txt.", "start program: %s needs %s, which is not in %s", r.Script, module, c.Path)
	}
	c.Args = append([]string{"-c", Executor}, c.Args...)
	return c, nil
}

// juliaProject is Julia's word for the packages of the nearest Project.toml from the
// script's folder up to the code folder. The caller's own JULIA_PROJECT counts.
func (r Request) juliaProject() []string {
	if !strings.EqualFold(path.Ext(r.Script), ".jl") || tools.Variable(r.Environ, "JULIA_PROJECT") != "" {
		return nil
	}
	for dir := path.Dir(r.Script); ; dir = path.Dir(dir) {
		for _, name := range []string{"Project.toml", "JuliaProject.toml"} {
			if s, err := os.Stat(filepath.Join(r.Dir, filepath.FromSlash(dir), name)); err == nil && s.Mode().IsRegular() {
				if r.At != "" {
					return []string{"--project=" + path.Join(r.At, dir)}
				}
				return []string{"--project=" + r.pathFromFolder(dir)}
			}
		}
		if dir == "." {
			return nil
		}
	}
}

// firstLine refuses what a script's first line names and is not there; the
// kernel would say that the script itself is not. "" is no such line.
func (r Request) firstLine(line string) error {
	if strings.HasSuffix(line, "\r") {
		return fault.New(fault.Invalid, "Try `sed -i 's/\\r$//' "+r.Script+"`.", "start program: %q has the line ends of Windows, so its first line names no program", r.Script)
	}
	name, rest := tools.CutBlank(line)
	if path.Base(name) == "env" {
		words := strings.Fields(rest)
		for len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")) {
			words = words[1:]
		}
		if len(words) > 0 && !strings.ContainsAny(words[0], `'"\$`) { // quoted as for env -S: env will tell
			name = words[0]
		}
	}
	if name == "" {
		return nil
	}
	if strings.Contains(name, "/") {
		if _, err := r.findProgram(name); err == nil {
			return nil
		}
	} else if r.lookUpOnPath(name) != "" {
		return nil
	}
	return fault.New(fault.Missing, "Install it where the job runs, or change the first line of "+r.Script+".",
		"start program: the first line of %q names %s, which is not there", r.Script, name)
}

// findProgram finds a program as a shell in that environment and folder would.
func (r Request) findProgram(name string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(r.hostFolder(), name)
		}
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return "", fault.New(fault.Invalid, "Check the path: it is looked up where the job runs.", "start program: %q is not there", name)
		}
		return name, nil
	}
	if file := r.lookUpOnPath(name); file != "" {
		return file, nil
	}
	return "", fault.New(fault.Invalid, "Check the spelling, or install it where the job runs.", "start program: %q is not on PATH", name)
}

// lookUpOnPath finds a name on PATH; "" when it is not there. Unlike FindAll it takes
// entries that are relative to the program's own folder.
func (r Request) lookUpOnPath(name string) string {
	for _, dir := range filepath.SplitList(tools.Variable(r.Environ, "PATH")) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(r.hostFolder(), dir)
		}
		if file, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return file
		}
	}
	return ""
}

// head is what a file's mode and beginning say about how to run it.
type head struct {
	executable bool
	binary     bool   // no text: the kernel must know it
	line       string // after #!, without the blanks around it; "" for none
}

// headSize is what is read of a file, in bytes: more than any kernel reads of a
// first line, and than the header of a binary before its first zero.
const headSize = 1024

func readHead(file string) (head, error) {
	f, err := os.Open(file)
	if err != nil {
		return head{}, fault.Wrap(err, fault.Invalid, "", "start program")
	}
	defer f.Close()
	s, err := f.Stat()
	if err != nil {
		return head{}, fault.Wrap(err, fault.Invalid, "", "start program")
	}
	h := head{executable: s.Mode()&0o111 != 0}
	first := make([]byte, headSize)
	n, err := io.ReadFull(f, first)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return head{}, fault.Wrap(err, fault.Invalid, "", "start program")
	}
	first = first[:n]
	h.binary = bytes.IndexByte(first, 0) >= 0
	if rest, ok := bytes.CutPrefix(first, []byte("#!")); ok {
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		h.line = strings.Trim(string(line), " \t")
	}
	return h, nil
}
