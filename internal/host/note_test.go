package host

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestALockFileSaysWhoHoldsTheGPU(t *testing.T) {
	folder := t.TempDir()
	old := strings.Repeat("the note of somebody before, which was longer\n", 9)
	if err := os.WriteFile(filepath.Join(folder, "GPU-0.lock"), []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Truncate(time.Second)
	if _, _, err := (Claims{Folder: folder}).Take(t.Context(), gpus(1), 1, `job "7fk2"`, nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(folder, "GPU-0.lock"))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil || strings.Count(string(data), "\n") != 1 {
		t.Fatalf("%v: %s", err, data)
	}
	since, err := time.Parse(time.RFC3339, fmt.Sprint(got["since"]))
	if err != nil || since.Before(before) || since.After(time.Now()) {
		t.Errorf("since %v: %v", got["since"], err)
	}
	delete(got, "since")
	if diff := cmp.Diff(map[string]any{"pid": float64(os.Getpid()), "label": `job "7fk2"`}, got); diff != "" {
		t.Errorf("the note differs (-want +got):\n%s", diff)
	}
}

func TestTheSentenceNamesWhatIsKnown(t *testing.T) {
	now := time.Now()
	a := note{PID: 12, Label: "job a", Since: now.Add(-12*time.Minute - 3*time.Second)}
	late := note{PID: 13, Label: "job b", Since: now.Add(time.Hour)}
	got := sentence(1, []holder{
		{GPU{Index: 0}, a}, {GPU{Index: 1}, note{}}, {GPU{Index: 2}, a}, {GPU{Index: 3, UUID: "MIG-ab"}, a},
		{GPU{Index: 4, UUID: "GPU-cd"}, late},
	})
	want := "waiting for 1 GPU: job a has GPUs 0, 2 and MIG-ab (process 12, for 12m); somebody has GPU 1; job b has GPU 4 (process 13, for 0s)"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
