package env

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

// behindShim is the interpreter to ask for a verdict. A shim of pyenv, asdf or mise looks
// for the file that chooses a version in the folder it is started in and in those above.
// Nothing above a job's folder belongs to the job: with "python path:/tmp/x" in a
// .tool-versions in /tmp, another user would choose the program. So where the job's code
// chooses nothing itself, its shim is asked in / which interpreter it stands for.
func behindShim(ctx context.Context, r requirements.Request, python string) (string, error) {
	if r.Job == "" || !shim(python) || choosesPython(r, python) {
		return python, nil
	}
	out, err := tools.Answer(ctx, "/", r.Environ, python, "-c", "import sys; print(sys.executable)")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	real := lines[len(lines)-1] // a sitecustomize may print before
	if err == nil && !filepath.IsAbs(real) {
		err = fmt.Errorf("did not answer as a python does")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", python, err)
	}
	return real, nil
}

// How their shims hand over: exec "/home/ann/.pyenv/libexec/pyenv" exec "$program" "$@".
var (
	startsPyenv = tools.Compiled(`\bpyenv["']? exec `)
	startsASDF  = tools.Compiled(`\basdf["']? exec `)
)

// namesPython finds Python's line in .tool-versions, or its key in mise.toml.
var namesPython = tools.Compiled(`(?m)^\s*(?:["']?python["']?\s*=|python\s+\S|\[tools\.python\])`)

// choosesPython says whether a file of the job that this shim reads chooses a Python:
// the shim then looks no further up.
func choosesPython(r requirements.Request, python string) bool {
	names := []string{"mise.toml", ".mise.toml", ".tool-versions"}
	switch text := beginning(python); {
	case startsPyenv().Match(text):
		names = []string{".python-version"}
	case startsASDF().Match(text):
		names = []string{".tool-versions"}
	}
	for dir := filepath.Clean(r.Dir); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		for _, name := range names {
			text, err := requirements.ReadFile(filepath.Join(dir, name))
			if err == nil && (name == ".python-version" || namesPython().Match(text)) {
				return true
			}
		}
		if dir == filepath.Clean(r.Job) {
			return false
		}
	}
	return false
}

// beginning is the first part of a file, in which a script names what it starts.
func beginning(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 4<<10)) // of what cannot be read, no shim is known
	return text
}
