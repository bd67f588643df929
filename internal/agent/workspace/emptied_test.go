package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A folder is emptied around the folders that are to stay, wherever they lie.
func TestAFolderIsEmptiedAroundWhatStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"model/a", "output/data/b", "output/c", "input/d", "model2/e"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	keep := []string{filepath.Join(dir, "model"), filepath.Join(dir, "output", "data"), filepath.Join(dir, "none", "there")}
	if err := emptyBut(dir, keep); err != nil {
		t.Fatal(err)
	}
	var left []string
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			left = append(left, name)
		}
		return err
	})
	if want := []string{"model/a", "output/data/b"}; !slices.Equal(left, want) {
		t.Errorf("there stay %s, want %s", left, want)
	}
	if err := emptyBut(filepath.Join(dir, "missing"), keep); err != nil {
		t.Error(err)
	}
}
