// Package envtest holds what the tests of environments share.
package envtest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/fault"
)

func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func Read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Put writes a file with that mode. No process is forked meanwhile: it would hold
// the file open for writing until it executes another, and no process can execute
// the file as long.
func Put(t testing.TB, dir, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	Write(t, path, text)
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// Journal collects a build's log; Build promises not to call it from two
// goroutines, and the race detector holds it to that.
type Journal []string

func (j *Journal) Log(line string) { *j = append(*j, line) }

func (j Journal) Count(part string) (n int) {
	for _, l := range j {
		if strings.Contains(l, part) {
			n++
		}
	}
	return n
}

// RefusedWith fails the test unless err has this kind, these words and this hint.
func RefusedWith(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || !strings.Contains(err.Error(), text) || fault.Hint(err) != hint {
		t.Errorf("got %v, %s, %q; want %s, %s, %q", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}
