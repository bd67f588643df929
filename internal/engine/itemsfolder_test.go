package engine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestItemsOfKilledCommandsAreTakenAwayByTheNext(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	live, err := newItemsFolder()
	if err != nil {
		t.Fatal(err)
	}
	dead, err := newItemsFolder()
	if err != nil {
		t.Fatal(err)
	}
	dead.lock.Close() // as the kernel does when its process is killed
	made, old, strange := filepath.Join(temp, "drover-items-made"), filepath.Join(temp, "drover-items-old"), filepath.Join(temp, "other")
	for _, dir := range []string{made, old, strange} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(temp, "drover-items-link")
	if err := os.Symlink(strange, link); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-2 * unlockedFor)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	next, err := newItemsFolder()
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{live.dir, next.dir, made, strange, link}
	slices.Sort(want)
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("what is left differs (-want +got):\n%s", diff)
	}
	for range 2 {
		if err := live.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(next.dir); err != nil {
		t.Errorf("another's folder went with ours: %v", err)
	}
}
