//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Memory of this machine is on no other: what lies there is stored and brought, once
// for each item. (The tests' nodes would see it; the path that the program is given
// says which one it is.)
func TestRealSlurmMapOverFilesThatNodesDoNotSee(t *testing.T) {
	h := withSlurm(t)
	memory, err := os.MkdirTemp("/dev/shm", "drover items ")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(memory) })
	for name, text := range map[string]string{"a 1.txt": "one", "b.txt": "two", "c.txt": "one"} {
		put(t, filepath.Join(memory, name), []byte(text))
	}
	_, said := h.drover(t, 0, "map", "-t", "far", "--workers", "2", "--from", memory, "--out", "{.stem}.got", "-o", "out", "--",
		"sh", "-c", `printf '%s:' "$1" | cat - "$1" >"$2"; [ "$1" = "$DROVER_ITEM" ]`, "sh", "{}", "{out}")
	if !strings.Contains(said, "3 files, ") || !strings.Contains(said, "  stored   3 files of items, 9 B, in ") {
		t.Errorf("it does not say that files are stored:\n%s", said)
	}
	for name, want := range map[string]string{"a 1": "a 1.txt:one", "b": "b.txt:two", "c": "c.txt:one"} {
		text, err := os.ReadFile(filepath.Join(h.work, "out", name+".got"))
		if err != nil || strings.HasPrefix(string(text), memory) || !strings.HasSuffix(string(text), "/"+want) {
			t.Errorf("%s: the program was given %q, want .../%s, and not of %s: %v", name, text, want, memory, err)
		}
	}
	h.drover(t, 0, "verify", "far")
}
