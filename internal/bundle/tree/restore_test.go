package tree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/bundle/bundletest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// cloned is a file system that shares contents, as far as Restore can tell, and
// a folder of local blobs for it.
type cloned struct {
	dir  string
	made atomic.Int64
	err  error
}

func (c *cloned) local(d store.Digest) (string, bool) {
	name := filepath.Join(c.dir, string(d))
	_, err := os.Stat(name)
	return name, err == nil
}

func (c *cloned) clone(out *os.File, src string) error {
	c.made.Add(1)
	if c.err != nil {
		out.WriteString("half of it")
		return c.err
	}
	text, err := os.ReadFile(src)
	if err == nil {
		_, err = out.WriteAt(text, 0)
	}
	return err
}

func TestLargeFilesAreClonedAndVerified(t *testing.T) {
	t.Parallel()
	dir, blobs := t.TempDir(), store.New(mem.New(), store.Options{})
	bundletest.WriteFiles(t, dir, map[string]string{"large": bundletest.Noise(cloneFrom), "larger": bundletest.Noise(cloneFrom + 1), "small": bundletest.Noise(cloneFrom - 1), "elsewhere": bundletest.Noise(2 * cloneFrom)})
	tree := save(t, blobs, dir, SaveOptions{})
	want := bundletest.ReadFiles(t, dir)
	for what, row := range map[string]struct {
		err   error
		spoil func(name string) error
		made  int64
		want  error
	}{
		"as they are":    {made: 2},
		"not supported":  {err: fmt.Errorf("%w: here", errNoClone), made: 1},
		"not this time":  {err: errors.New("busy"), made: 2},
		"rotten":         {spoil: func(name string) error { return os.WriteFile(name, []byte(bundletest.Noise(cloneFrom)[1:]+"x"), 0o600) }, want: store.ErrCorrupt},
		"of other size":  {spoil: func(name string) error { return bundletest.AppendTo(name, "x") }, want: errAny},
		"gone meanwhile": {spoil: os.Remove, made: 1},
	} {
		c := &cloned{dir: t.TempDir(), err: row.err}
		for _, f := range tree.Files {
			if f.Path != "elsewhere" {
				bundletest.WriteFiles(t, c.dir, map[string]string{string(f.SHA256): want[f.Path]})
			}
		}
		if row.spoil != nil {
			if err := row.spoil(filepath.Join(c.dir, string(tree.Files[1].SHA256))); err != nil {
				t.Fatal(err)
			}
		}
		out := t.TempDir()
		err := RestoreWith(t.Context(), blobs, tree, out, RestoreOptions{Local: c.local, clone: c.clone})
		if row.want != nil {
			if err == nil || row.want != errAny && !errors.Is(err, row.want) || !strings.Contains(err.Error(), `"large"`) {
				t.Errorf("%s: %v", what, err)
			}
			if left := bundletest.ReadFiles(t, out); len(left) > 0 {
				t.Errorf("%s: %q appeared", what, bundletest.SortedKeys(left))
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		// Without support, four workers may find out at once.
		if n := c.made.Load(); n != row.made && !(errors.Is(row.err, errNoClone) && n == 2) {
			t.Errorf("%s: %d clones, want %d", what, n, row.made)
		}
		if diff := cmp.Diff(want, bundletest.ReadFiles(t, out)); diff != "" {
			t.Errorf("%s: %d bytes differ", what, len(diff))
		}
	}
}

var errAny = errors.New("any")

// What the file system really does: a clone, where it can, is a file of its own.
func TestWritingToARestoredFileDoesNotReachItsBlob(t *testing.T) {
	t.Parallel()
	dir, blobs, local := t.TempDir(), store.New(mem.New(), store.Options{}), t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a": bundletest.Noise(cloneFrom)})
	tree := save(t, blobs, dir, SaveOptions{})
	blob := filepath.Join(local, "blob")
	bundletest.WriteFiles(t, local, map[string]string{"blob": bundletest.Noise(cloneFrom)})
	out := t.TempDir()
	err := RestoreWith(t.Context(), blobs, tree, out, RestoreOptions{Local: func(store.Digest) (string, bool) { return blob, true }})
	if err != nil {
		t.Fatal(err)
	}
	if err := bundletest.AppendTo(filepath.Join(out, "a"), "more"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "a"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(blob); err != nil || string(text) != bundletest.Noise(cloneFrom) {
		t.Errorf("the blob was changed (%v)", err)
	}
}

func TestManyFilesAreRestoredIntoWhatIsThere(t *testing.T) {
	t.Parallel()
	dir, out, blobs := t.TempDir(), t.TempDir(), store.New(mem.New(), store.Options{})
	files := map[string]string{}
	for i := range 3*batchFiles + 1 {
		files[fmt.Sprintf("many/%03d", i)] = fmt.Sprint(i)
		files[fmt.Sprintf("each/%03d/in/its/own", i)] = fmt.Sprint(i)
	}
	bundletest.WriteFiles(t, dir, files)
	tree := save(t, blobs, dir, SaveOptions{})
	// Some of it is there, some is other, a folder is a link inside, a file a
	// link that leads out, which is replaced and not followed.
	canary := filepath.Join(t.TempDir(), "canary")
	bundletest.WriteFiles(t, out, map[string]string{"many/000": "old", "many/mine": "stays", "real/x": "stays", "each": "-> real", "many/001": "-> " + canary})
	if err := Restore(t.Context(), blobs, tree, out); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"many/mine": "stays", "real/x": "stays", "each": "-> real"}
	for name, text := range files {
		want[strings.Replace(name, "each/", "real/", 1)] = text
	}
	if diff := cmp.Diff(want, bundletest.ReadFiles(t, out)); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Lstat(canary); !errors.Is(err, os.ErrNotExist) {
		t.Error("it wrote through a link that leads outside")
	}
	// A file where a folder must be, a folder where a file must be, and a link
	// that leads out where a folder must be, are errors.
	for what, there := range map[string]map[string]string{
		"a file":   {"many": "x"},
		"a folder": {"many/000/x": "x"},
		"a link":   {"many": "-> " + t.TempDir()},
	} {
		out := t.TempDir()
		bundletest.WriteFiles(t, out, there)
		if err := Restore(t.Context(), blobs, tree, out); err == nil || !strings.HasPrefix(err.Error(), "restore "+out) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
