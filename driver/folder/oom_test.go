package folder

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStarvedIsReadOfBothVersionsOfGroups(t *testing.T) {
	for file, text := range map[string]string{
		"memory.events":             "low 0\noom 4\noom_kill 3\noom_group_kill 0\n",
		"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
		"memory/other":              "oom_kill 3\n",
	} {
		root := t.TempDir()
		want := int64(3)
		if file == "memory/other" {
			want = 0
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := OOMKills(root); got != want {
			t.Errorf("%s: %d, want %d", file, got, want)
		}
	}
}
