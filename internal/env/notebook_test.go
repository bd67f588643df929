package env

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/internal/env/envtest"
	"github.com/drover-run/drover/internal/env/programs"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/google/go-cmp/cmp"
)

// cells is a notebook as Jupyter saves it, with what another run has printed.
func cells(t *testing.T, kernel map[string]string, sources ...string) string {
	t.Helper()
	list := []any{map[string]any{"cell_type": "markdown", "metadata": map[string]any{}, "source": "# A notebook"}}
	for _, s := range sources {
		list = append(list, map[string]any{"cell_type": "code", "execution_count": 7, "metadata": map[string]any{}, "source": s,
			"outputs": []any{map[string]any{"output_type": "stream", "name": "stdout", "text": "of another run\n"}}})
	}
	data, err := json.Marshal(map[string]any{"cells": list, "metadata": map[string]any{"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// kept are the outputs of each code cell in a notebook: texts, and the names of errors.
func kept(t *testing.T, path string) []string {
	t.Helper()
	var n struct {
		Cells []struct {
			Type    string `json:"cell_type"`
			Outputs []struct {
				Text  []string `json:"text"`
				Error string   `json:"ename"`
				Data  struct {
					Plain []string `json:"text/plain"`
				} `json:"data"`
			} `json:"outputs"`
		} `json:"cells"`
	}
	if err := json.Unmarshal([]byte(envtest.Read(t, path)), &n); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range n.Cells {
		text := ""
		for _, o := range c.Outputs {
			text += strings.Join(o.Text, "") + strings.Join(o.Data.Plain, "") + o.Error
		}
		if c.Type == "code" {
			out = append(out, text)
		}
	}
	return out
}

// ran is a notebook that has been executed.
type ran struct {
	code        int
	out, errors string
	kept        []string
}

// execute runs a notebook as the agent would. Seen is told each line as it is
// printed, with the process.
func execute(t *testing.T, r programs.Request, seen func(line string, p *os.Process)) ran {
	t.Helper()
	c, err := programs.Find(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var complaint strings.Builder
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.SysProcAttr = r.Dir, r.Environ, &complaint, &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for s := bufio.NewScanner(out); s.Scan(); {
		all.WriteString(s.Text() + "\n")
		if seen != nil {
			seen(s.Text(), cmd.Process)
		}
	}
	_ = cmd.Wait() // the status is looked at
	return ran{cmd.ProcessState.ExitCode(), all.String(), complaint.String(), kept(t, filepath.Join(r.Dir, r.Script))}
}

// terminate signals all processes of a notebook, as the agent does. The kernel
// is in a session of its own.
func terminate(t *testing.T, kernel string) func(string, *os.Process) {
	return func(line string, p *os.Process) {
		if !strings.HasPrefix(line, "up") {
			return
		}
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if out, err := exec.Command("kill", "-TERM", strings.TrimSpace(envtest.Read(t, kernel))).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// pidTo is a line of Python that leaves the kernel's process id.
func pidTo(file string) string {
	return "import os, signal, threading\nwith open('" + file + "', 'w') as f: print(os.getpid(), file=f)\n"
}

func TestRealNotebooks(t *testing.T) {
	r := indexed(t, strings.Join(programs.Extra("n.ipynb"), "\n")+"\n")
	ready, _ := build(t, r)
	t.Run("are executed", func(t *testing.T) { areExecuted(t, r, ready) })
	t.Run("are kept as far as they came", func(t *testing.T) { areKept(t, r, ready) })
	t.Run("are told from other files", func(t *testing.T) { areTold(t, r, ready) })
	t.Run("in examples", func(t *testing.T) {
		n := programs.Request{Dir: t.TempDir(), Script: "train.ipynb", Args: []string{"--epochs", "2"}, Interpreter: ready.Interpreter}
		envtest.Put(t, n.Dir, n.Script, envtest.Read(t, filepath.Join("..", "..", "examples", "notebook", n.Script)), 0o644)
		n.Environ = append(append(r.Environ, ready.Environ...), "SM_MODEL_DIR="+t.TempDir())
		if got := execute(t, n, nil); got.code != 0 || !strings.Contains(got.out, "epoch=2 loss=0.") || !strings.HasPrefix(got.kept[2], "'y = ") {
			t.Errorf("%+v", got)
		}
	})
}

func areExecuted(t *testing.T, r requirements.Request, ready Ready) {
	pid := filepath.Join(t.TempDir(), "pid")
	// A kernel of another language: it is this one under another name.
	kernels := t.TempDir()
	envtest.Put(t, kernels, "kernels/other/kernel.json", `{"argv": ["`+ready.Interpreter+`", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "Other", "language": "other"}`, 0o644)
	const never = "print('never')"
	for _, c := range []struct {
		name   string
		kernel map[string]string
		cells  []string
		seen   func(string, *os.Process)
		want   ran // of errors: what is in them
	}{
		{name: "what passes", cells: []string{"import sys, os\nprint(*sys.argv[1:], sep='|')\nopen('new', 'w').close()\nos.path.basename(os.getcwd())", "print('bar 1', end='')\nprint('\\rbar 2')\nprint(len(os.listdir()), file=sys.stderr)"},
			want: ran{0, "--lr|a b\n'sub'\nbar 1\rbar 2\n", "2\n", []string{"--lr|a b\n'sub'", "bar 2\n2\n"}}},
		{name: "metrics", cells: []string{"print('\\x1b]drover;metric\\x07loss=1')"}, want: ran{0, "\x1b]drover;metric\aloss=1\n", "", []string{"loss=1\n"}}},
		{name: "what is named otherwise for the user", kernel: map[string]string{"name": "my-venv", "language": "python"}, cells: []string{"1+1"}, want: ran{0, "2\n", "", []string{"2"}}},
		{name: "another language", kernel: map[string]string{"name": "other", "language": "other"}, cells: []string{"40+2"}, want: ran{0, "42\n", "", []string{"42"}}},
		{name: "a language that is not there", kernel: map[string]string{"name": "nosuch", "language": "other"}, cells: []string{never}, want: ran{1, "", "its kernel 'nosuch' is not installed here", []string{""}}},
		{name: "a cell that raises", cells: []string{"print('before')", "def f():\n    raise ValueError('bad thing')\nf()", never},
			want: ran{1, "before\n", "Traceback (most recent call last)\nCell In[2], line 3\n", []string{"before\n", "ValueError", ""}}},
		{name: "a syntax error", cells: []string{"x ="}, want: ran{1, "", "SyntaxError: invalid syntax", []string{"SyntaxError"}}},
		{name: "sys.exit(3)", cells: []string{"import sys; sys.exit(3)", never}, want: ran{3, "", "", []string{"SystemExit", ""}}},
		{name: "sys.exit()", cells: []string{"print('done'); import sys; sys.exit()", never}, want: ran{0, "done\n", "", []string{"done\nSystemExit", ""}}},
		{name: "sys.exit with words", cells: []string{"import sys; sys.exit('no such data')"}, want: ran{1, "", "no such data\n", []string{"SystemExit"}}},
		{name: "a kernel that ends", cells: []string{"print('x', flush=True)", "import os; os._exit(5)"}, want: ran{5, "x\n", "the kernel ended in cell [2], with exit status 5\n", []string{"x\n", ""}}},
		{name: "a kernel that is killed", cells: []string{"import os; os.kill(os.getpid(), 9)"}, want: ran{137, "", "with exit status 137\n", []string{""}}},
		{name: "a question", cells: []string{"input()"}, want: ran{1, "", "StdinNotImplementedError", []string{"StdinNotImplementedError"}}},
		{name: "SIGTERM", cells: []string{pidTo(pid) + "print('up', flush=True)\nthreading.Event().wait()", never}, seen: terminate(t, pid),
			want: ran{143, "up\n", "with exit status 143\n", []string{"up\n", ""}}},
		{name: "SIGTERM that it waits for", cells: []string{pidTo(pid) + "import time\nasked = []\nsignal.signal(signal.SIGTERM, lambda *_: asked.append(1))\nprint('up', flush=True)\nwhile not asked: time.sleep(.01)\nprint('saved')", "print('after')"}, seen: terminate(t, pid),
			want: ran{0, "up\nsaved\nafter\n", "", []string{"up\nsaved\n", "after\n"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := programs.Request{Dir: t.TempDir(), Script: "sub/n.ipynb", Args: []string{"--lr", "a b"}, Interpreter: ready.Interpreter}
			n.Environ = append(append(r.Environ, ready.Environ...), "JUPYTER_PATH="+kernels, "HOME=/nonexistent", "IPYTHONDIR="+t.TempDir(), "TMPDIR="+t.TempDir())
			envtest.Put(t, n.Dir, n.Script, cells(t, c.kernel, c.cells...), 0o640)
			// Modules of the code must not be taken for those that execute it.
			envtest.Put(t, n.Dir, "nbformat.py", "raise SystemExit('of the code')", 0o644)
			got := execute(t, n, c.seen)
			if flat := strings.ReplaceAll(got.errors, "  ", ""); !strings.Contains(flat, c.want.errors) {
				t.Errorf("stderr: %s", got.errors)
			}
			got.errors = c.want.errors
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if s, err := os.Stat(filepath.Join(n.Dir, n.Script)); err != nil || s.Mode().Perm() != 0o640 {
				t.Errorf("its mode: %v, %v", s.Mode(), err)
			}
			if left, err := filepath.Glob(filepath.Join(n.Dir, "sub", ".notebook-*")); len(left) > 0 || err != nil {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

func areKept(t *testing.T, r requirements.Request, ready Ready) {
	dir := t.TempDir()
	envtest.Put(t, dir, "n.ipynb", cells(t, nil, "print('first')", "import os; os.kill(os.getppid(), 9)"), 0o644)
	// As if each cell took its time.
	often := strings.Replace(programs.Executor, "max(EVERY, 20 * self.cost)", "-1", 1)
	if often == programs.Executor {
		t.Fatal("nothing was replaced")
	}
	cmd := exec.Command(ready.Interpreter, "-c", often, "n.ipynb")
	cmd.Dir, cmd.Env = dir, append(append(r.Environ, ready.Environ...), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v: %s", err, out)
	}
	if diff := cmp.Diff([]string{"first\n", ""}, kept(t, filepath.Join(dir, "n.ipynb"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func areTold(t *testing.T, r requirements.Request, ready Ready) {
	for text, want := range map[string]string{
		"hello":            "n.ipynb is not a notebook: Notebook does not appear to be JSON: 'hello'\n",
		`{"cells": "none`:  "n.ipynb is not a notebook: ",
		`{"some": "json"}`: "n.ipynb is not a notebook: ",
	} {
		dir := t.TempDir()
		envtest.Put(t, dir, "n.ipynb", text, 0o644)
		cmd := exec.Command(ready.Interpreter, "-c", programs.Executor, "n.ipynb")
		cmd.Dir, cmd.Env = dir, append(r.Environ, ready.Environ...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.HasPrefix(string(out), want) || envtest.Read(t, filepath.Join(dir, "n.ipynb")) != text {
			t.Errorf("%q: %v, %s", text, cmd.ProcessState, out)
		}
	}
}
