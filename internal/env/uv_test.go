package env

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

// A Python of uv's folder serves a file that asks for its version, and --python; nothing
// of it is on PATH.
func TestPythonsThatUVHasInstalledAreFound(t *testing.T) {
	t.Parallel()
	home, code := t.TempDir(), t.TempDir()
	fake := func(path, version string) {
		t.Helper()
		text := fmt.Sprintf("#!/bin/sh\ncat >/dev/null\necho '{\"self\":{\"executable\":\"%s\",\"base\":\"%s\",\"version\":\"%s\",\"platform\":\"linux\",\"implementation\":\"cpython\",\"tag\":\"t\"},\"missing\":{\"name\":\"numpy\"}}'\n", path, path, version)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(code, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(home, "bin")
	uv := filepath.Join(home, ".local", "share", "uv", "python")
	fake(filepath.Join(bin, "python3"), "3.11.2")
	fake(filepath.Join(uv, "cpython-3.12.7-linux-x86_64-gnu", "bin", "python3.12"), "3.12.7")
	fake(filepath.Join(uv, "cpython-3.12.10-linux-x86_64-gnu", "bin", "python3.12"), "3.12.10")
	fake(filepath.Join(uv, "cpython-3.13.1-linux-x86_64-gnu", "bin", "python3.13"), "3.13.1")
	write("plain.py", "")
	write("block.py", "# /// script\n# requires-python = \">=3.12,<3.13\"\n# dependencies = [\"numpy\"]\n# ///\n")
	write("exact.py", "# /// script\n# requires-python = \"==3.12.7\"\n# dependencies = [\"numpy\"]\n# ///\n")
	write("none.py", "# /// script\n# requires-python = \">=3.14\"\n# dependencies = [\"numpy\"]\n# ///\n")
	r := requirements.Request{Dir: code, Environ: []string{"PATH=" + bin + ":/bin:/usr/bin", "HOME=" + home}, Cache: t.TempDir()}
	look := func(script, python, version string) {
		t.Helper()
		q := r
		q.Script, q.Python = script, python
		p, err := Resolve(t.Context(), q)
		if err != nil || p.self.Version != version {
			t.Errorf("%s with --python %q: %s, %v; want %s", script, python, p.self.Version, err, version)
		}
	}
	look("plain.py", "", "3.11.2")
	look("block.py", "", "3.12.10")
	look("exact.py", "", "3.12.7")
	look("plain.py", "3.13", "3.13.1")
	look("plain.py", "3.12.7", "3.12.7")
	look("plain.py", "python3.12", "3.12.10")
	q := r
	q.Script = "none.py"
	if _, err := Resolve(t.Context(), q); err == nil || !strings.Contains(err.Error(), "it needs Python >=3.14") {
		t.Errorf("no Python fits: %v", err)
	}
	// .python-version chooses what an environment is built on, where that is to be had.
	write("requirements.txt", "numpy\n")
	write(".python-version", "3.13\n")
	look("plain.py", "", "3.13.1")
	write(".python-version", "3.9.1\n")
	look("plain.py", "", "3.11.2")
	// Nothing on PATH at all.
	r.Environ = []string{"PATH=/nowhere:/bin", "HOME=" + home}
	if len(tools.FindAll(r.Environ, "python3"))+len(tools.FindAll(r.Environ, "python")) == 0 {
		look("plain.py", "", "3.13.1")
	}
}
