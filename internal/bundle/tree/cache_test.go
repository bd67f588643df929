package tree

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/bundle/bundletest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// asking counts what a store is asked.
type asking struct {
	Blobs
	puts, has atomic.Int64
}

func (a *asking) HasBlob(ctx context.Context, d store.Digest) (bool, error) {
	a.has.Add(1)
	return a.Blobs.HasBlob(ctx, d)
}

func (a *asking) counts() (puts, has int64) { return a.puts.Swap(0), a.has.Swap(0) }

func askable() *asking {
	a := &asking{}
	a.Blobs = &hooked{Blobs: store.New(mem.New(), store.Options{}), puts: func() { a.puts.Add(1) }}
	return a
}

// reopened is the cache as the next command finds it. Its files are made as old
// as they must be to be remembered.
func reopened(t *testing.T, c *Cache) *Cache {
	t.Helper()
	c.mu.Lock()
	for name, f := range c.files {
		f.at = f.stamp.ctime + int64(racy)
		c.files[name] = f
	}
	c.mu.Unlock()
	if err := c.Keep(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenCache(c.file)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func TestACacheLivesOnDisk(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "new", "cache")
	bundletest.WriteFiles(t, dir, bundletest.HostileNames)
	bundletest.WriteFiles(t, dir, map[string]string{"a": "1", "b": "2", "d/c": "3", "l": "-> a", "empty/": ""})
	files := int64(len(bundletest.HostileNames) + 3)
	blobs := askable()
	c, err := OpenCache(file)
	if err != nil {
		t.Fatal(err)
	}
	// A plan reads everything and stores nothing; what it learnt is kept.
	plan, err := Hash(t.Context(), dir, SaveOptions{Cache: c})
	if err != nil {
		t.Fatal(err)
	}
	if puts, has := blobs.counts(); puts != 0 || has != 0 {
		t.Errorf("a plan stored %d and asked for %d", puts, has)
	}
	sync := func(why string, puts, has int64) (Tree, store.Digest) {
		t.Helper()
		c = reopened(t, c)
		tree, list, err := Sync(t.Context(), blobs, "here", dir, SaveOptions{Cache: c})
		if err != nil {
			t.Fatal(err)
		}
		if gotPuts, gotHas := blobs.counts(); gotPuts != puts || gotHas != has {
			t.Errorf("%s: %d files were sent and %d asked for, want %d and %d", why, gotPuts, gotHas, puts, has)
		}
		return tree, list
	}
	// Each put is one for the list more; each file that is known is asked for.
	first, list := sync("the first", files+1, files)
	if diff := cmp.Diff(plan, first); diff != "" {
		t.Errorf("the plan's tree is another (-want +got):\n%s", diff)
	}
	if d, err := PutTree(t.Context(), blobs.Blobs, first); err != nil || d != list {
		t.Errorf("the list is %s, not %s (%v)", list, d, err)
	}
	blobs.counts()
	sync("unchanged", 1, 1)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "b"), []byte("two"), 0o644), os.Remove(filepath.Join(dir, "a"))); err != nil {
		t.Fatal(err)
	}
	tree, _ := sync("one changed, one removed", 2, 1)
	if tree.Digest() == first.Digest() || len(tree.Files) != int(files)-1 {
		t.Errorf("%d files in the new tree, want %d", len(tree.Files), files-1)
	}
	if again, err := Save(t.Context(), store.New(mem.New(), store.Options{}), dir, SaveOptions{}); err != nil || again.Digest() != tree.Digest() {
		t.Errorf("without a cache it is another tree (%v)", err)
	}
	sync("unchanged again", 1, 1)
}

// What was sent to one store is not taken to be in another, nor after its list
// is gone, nor after gc took a blob.
func TestACacheBelievesOnlyWhatTheStoreCanKnow(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	bundletest.WriteFiles(t, dir, map[string]string{"a": "1", "b": "2"})
	c, err := OpenCache(file)
	if err != nil {
		t.Fatal(err)
	}
	one, two := askable(), askable()
	check := func(b *asking, where string) (tree Tree) {
		t.Helper()
		c = reopened(t, c)
		tree, list, err := Sync(t.Context(), b, where, dir, SaveOptions{Cache: c})
		if err != nil {
			t.Fatal(err)
		}
		if gone, err := Missing(t.Context(), b, tree); err != nil || len(gone) > 0 {
			t.Errorf("%s lacks %v (%v)", where, gone, err)
		}
		if _, err := LoadTree(t.Context(), b, list); err != nil {
			t.Error(err)
		}
		b.counts()
		return tree
	}
	check(one, "one")
	check(two, "two")
	check(one, "one")
	emptied := askable() // the same place, after it was cleared
	tree := check(emptied, "one")
	// gc took a blob, and left the list: the caller that checks after the entry says so.
	partly := askable()
	if _, err := PutTree(t.Context(), partly, tree); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Sync(t.Context(), partly, "one", dir, SaveOptions{Cache: reopened(t, c)}); err != nil {
		t.Fatal(err)
	}
	gone, err := Missing(t.Context(), partly, tree)
	if err != nil || len(gone) != 2 {
		t.Fatalf("%v is missing, %v", gone, err)
	}
	c = reopened(t, c)
	c.Forget(gone...)
	check(partly, "one")
}

func TestAFileThatIsTooYoungIsNotRemembered(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	bundletest.WriteFiles(t, dir, map[string]string{"young": "1", "old": "2", "from the future": "3"})
	c, err := OpenCache(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Hash(t.Context(), dir, SaveOptions{Cache: c}); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"young": racy - 1, "old": racy, "from the future": -time.Hour} {
		f := c.files[name]
		f.at = f.stamp.ctime + int64(age)
		c.files[name] = f
	}
	if err := c.Keep(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenCache(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"old"}, bundletest.SortedKeys(again.files)); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
	if again.files["old"] != c.files["old"] {
		t.Errorf("it is remembered as %+v, was %+v", again.files["old"], c.files["old"])
	}
}

func TestADamagedCacheIsAnEmptyOne(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	bundletest.WriteFiles(t, dir, map[string]string{"a": "1", "b": "2"})
	c, err := OpenCache(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Sync(t.Context(), store.New(mem.New(), store.Options{}), "here", dir, SaveOptions{Cache: c}); err != nil {
		t.Fatal(err)
	}
	reopened(t, c)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{"nothing": nil, "foreign": []byte("{}"), "magic alone": []byte(cacheMagic), "longer": append(append([]byte(nil), whole...), 0)}
	for i := range whole {
		damage[fmt.Sprint("cut at ", i)] = whole[:i]
		flipped := append([]byte(nil), whole...)
		flipped[i] ^= 1
		damage[fmt.Sprint("flipped at ", i)] = flipped
	}
	for what, text := range damage {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := OpenCache(file)
		if err != nil || len(c.files) != 0 || c.where != "" || c.list != "" {
			t.Fatalf("%s: %v, %q", what, err, bundletest.SortedKeys(c.files))
		}
	}
	if _, err := OpenCache(dir); err == nil {
		t.Error("a folder is opened as a cache")
	}
}

func FuzzCacheFiles(f *testing.F) {
	c := &Cache{where: "s", list: abc, files: map[string]cached{"a": {stamp: stamp{1, 2, 3, 4, 5, 6}, digest: abc, at: int64(racy) + 5, sent: true}}}
	f.Add(c.encodeFile())
	f.Fuzz(func(t *testing.T, text []byte) {
		// With a right sum, or the checks behind it would never be met.
		body := text[:max(0, len(text)-sha256.Size)]
		sum := sha256.Sum256(body)
		var a Cache
		if err := a.decodeFile(append(slices.Clone(body), sum[:]...)); err != nil {
			return
		}
		var b Cache
		if err := b.decodeFile(a.encodeFile()); err != nil {
			t.Fatal(err)
		}
		for name, f := range b.files {
			if a.files[name] != f {
				t.Fatalf("%q: %+v became %+v", name, a.files[name], f)
			}
		}
	})
}

func TestACacheThatCannotBeKeptSaysSo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	bundletest.WriteFiles(t, filepath.Dir(file), map[string]string{"file": "x"})
	c := &Cache{file: filepath.Join(file, "cache"), changed: true}
	if err := c.Keep(); !errors.Is(err, syscall.ENOTDIR) || !strings.HasPrefix(err.Error(), "keep cache of files: ") {
		t.Error(err)
	}
	if err := (&Cache{changed: true}).Keep(); err != nil {
		t.Errorf("one that lives in memory: %v", err)
	}
}

// A file that is rewritten between two commands keeps its size, and, by a hand
// that sets it, its time.
func TestAForgedTimeIsSeenByTheNextCommand(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	name := filepath.Join(dir, "a")
	bundletest.WriteFiles(t, dir, map[string]string{"a": "old"})
	c, err := OpenCache(file)
	if err != nil {
		t.Fatal(err)
	}
	before, err := Hash(t.Context(), dir, SaveOptions{Cache: c})
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	c = reopened(t, c)
	if err := errors.Join(os.WriteFile(name, []byte("new"), 0o644), os.Chtimes(name, fi.ModTime(), fi.ModTime())); err != nil {
		t.Fatal(err)
	}
	after, err := Hash(t.Context(), dir, SaveOptions{Cache: c})
	if err != nil || after.Digest() == before.Digest() {
		t.Errorf("a changed file was taken for the old one (%v)", err)
	}
}
