package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A folder with very many names, or of packages, is one link.
func TestLinksAreBounded(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	writeFiles(t, from, map[string]string{"big/1": "", "big/2": "", "big/3": "", "venv/pyvenv.cfg": "", "node_modules/a/b": "", "few/1": "", "__pycache__/x.pyc": "", "own/x": ""})
	l := Linker{From: from, To: to, Left: 2, Skip: []string{filepath.Join(from, "own")}}
	if err := l.LinkMissing("."); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{} // by name: it is a link
	entries, err := os.ReadDir(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		kinds[e.Name()] = e.Type()&os.ModeSymlink != 0
	}
	if diff := cmp.Diff(map[string]bool{"big": true, "venv": true, "node_modules": true, "few": false}, kinds); diff != "" {
		t.Error(diff)
	}
	if _, refused := RefusedLayers(errors.New("another")); refused {
		t.Error("another error is a refusal")
	}
}

// Copies end where their bytes are used up; what cannot be read is a link.
func TestCopiesAreBounded(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	writeFiles(t, from, map[string]string{"a": "1234", "b": "1234", "c": "1"})
	l := Linker{From: from, To: to, Left: 9, Bytes: 5, Linked: Snapshot{}}
	p := os.Chtimes(filepath.Join(from, "a"), time.Time{}, time.Unix(1000, 0))
	if err := errors.Join(p, os.Chmod(filepath.Join(from, "a"), 0o754), l.LinkMissing(".")); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{} // by name: it is a link
	for _, name := range []string{"a", "b", "c"} {
		info, err := os.Lstat(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		kinds[name] = info.Mode()&os.ModeSymlink != 0
		if name == "a" && (info.Mode().Perm() != 0o754 || !info.ModTime().Equal(time.Unix(1000, 0))) {
			t.Errorf("a is %s of %s", info.Mode(), info.ModTime())
		}
	}
	if diff := cmp.Diff(map[string]bool{"a": false, "b": true, "c": false}, kinds); diff != "" {
		t.Error(diff)
	}
	if _, ok := l.Linked[filepath.Join(from, "b")]; !ok || len(l.Linked) != 1 {
		t.Errorf("linked: %v", l.Linked)
	}
}

// writeFiles writes files below a folder.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
