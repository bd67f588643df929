//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// In a bucket many small files cost few requests: they go and come in packs.
func TestRealSlurmSmallFilesTravelInPacks(t *testing.T) {
	h := withSlurm(t).withKeys()
	var up, down atomic.Int64
	facts := versitygw(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.Contains(r.URL.Path, "/blobs/"):
		case r.Method == http.MethodPut:
			up.Add(1)
		case r.Method == http.MethodGet:
			down.Add(1)
		}
		facts.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	h.environ = append(h.environ, "AWS_ENDPOINT_URL="+server.URL)
	memory, err := os.MkdirTemp("/dev/shm", "drover packs ")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(memory) })
	const files = 2000
	for i := range files {
		put(t, filepath.Join(memory, fmt.Sprintf("%d.txt", i)), []byte(strings.Repeat(fmt.Sprintf("%4d", i), 1024)))
	}
	_, said := h.drover(t, 0, "map", "-t", "packs", "--store", "s3://facts/packs", "--workers", "2", "--from", memory, "--",
		"sh", "-c", `n=$(basename "$1" .txt); [ $(wc -c <"$1") = 4096 ] && head -c4 "$1" | grep -q "^ *$n$"`, "sh", "{}")
	if !strings.Contains(said, fmt.Sprintf("%d succeeded", files)) && !strings.Contains(said, "2,000 succeeded") {
		t.Errorf("it says\n%s", said)
	}
	// The code and what the agents leave are among them.
	if up.Load() > 40 || down.Load() > 100 {
		t.Errorf("%d files cost %d writes and %d reads of blobs", files, up.Load(), down.Load())
	}
	t.Logf("%d files: %d writes and %d reads of blobs", files, up.Load(), down.Load())
}

// Slurm gives a worker what its items need together, and the 256 MB of drover itself.
func TestRealSlurmAWorkerHasWhatItsItemsNeed(t *testing.T) {
	h := withSlurm(t)
	h.drover(t, 0, "map", "-t", "two", "-j", "2", "--cpus", "1", "--memory", "300M", "--from", "1-2", "--", "sh", "-c", "echo $SLURM_CPUS_PER_TASK $SLURM_MEM_PER_NODE")
	if said, _ := h.drover(t, 0, "logs", "two"); said != strings.Repeat("2 856\n", 2) {
		t.Errorf("its cores and MB are\n%swant 2 856 twice", said)
	}
}
