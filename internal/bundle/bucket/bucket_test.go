package bucket

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/bundletest"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// somebodys is a bucket that says what a test wants beside what is there: opened is
// called before an object is read.
type somebodys struct {
	*mem.Bucket
	more   []store.Object
	opened func(key string)
}

func (b *somebodys) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	all, more, err := b.Bucket.List(ctx, prefix, after, limit)
	for _, o := range b.more {
		if strings.HasPrefix(o.Key, prefix) && o.Key > after {
			all = append(all, o)
		}
	}
	return all, more, err
}

func (b *somebodys) put(t *testing.T, key, text string) {
	t.Helper()
	if err := b.Put(t.Context(), key, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func bucketOf(t *testing.T, files map[string]string) (*somebodys, *store.Store) {
	b := &somebodys{Bucket: mem.New()}
	for key, text := range files {
		b.put(t, key, text)
	}
	return b, store.New(b, store.Options{})
}

func TestAFolderOfABucketIsLaidOutAsItWasListed(t *testing.T) {
	t.Parallel()
	b, s := bucketOf(t, map[string]string{"in/a": "one", "in/sub/b": "two", "in/e": "", "inner": "other", "x": "y"})
	b.more = []store.Object{{Key: "in/"}, {Key: "in/none/"}}
	blobs := store.New(mem.New(), store.Options{})
	for _, key := range []string{"in", "in/"} {
		listed, err := ListAway(t.Context(), s, "s3://b", key)
		if err != nil {
			t.Fatal(err)
		}
		d, err := tree.PutTree(t.Context(), blobs, listed)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := tree.LoadTree(t.Context(), blobs, d)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(listed, tree); diff != "" {
			t.Errorf("the list that came back (-want +got):\n%s", diff)
		}
		dir := t.TempDir()
		if err := RestoreAway(t.Context(), s, tree, dir); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"a": "one", "sub/b": "two", "e": ""}, texts(t, dir)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", key, diff)
		}
		if fi, err := os.Stat(filepath.Join(dir, "none")); err != nil || !fi.IsDir() {
			t.Errorf("the folder that a console shows: %v", err)
		}
	}
}

// texts are the files below a folder.
func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		all[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOneObjectIsOneFile(t *testing.T) {
	t.Parallel()
	_, s := bucketOf(t, map[string]string{"in/a.csv": "one", "in/a.csv2": "no"})
	tree, err := ListAway(t.Context(), s, "s3://b", "in/a.csv")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := RestoreAway(t.Context(), s, tree, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a.csv": "one"}, texts(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNoFolderOfABucketIsRefused(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		key  string
		more []store.Object
		kind fault.Kind
		why  string
	}{
		"nothing":             {"no", nil, fault.Missing, "nothing is there"},
		"nothing in a folder": {"no/", nil, fault.Missing, "nothing is there"},
		"a marker alone":      {"m", []store.Object{{Key: "m/"}}, fault.Missing, "nothing is there"},
		"half a name":         {"i", nil, fault.Missing, "nothing is there"},
		"a way out":           {"h", []store.Object{{Key: "h/../../etc/passwd", Size: 1}}, fault.Invalid, "a name that leads outside"},
		"absolute":            {"h", []store.Object{{Key: "h//etc", Size: 1}}, fault.Invalid, "an absolute name"},
		"file and folder":     {"h", []store.Object{{Key: "h/a", Size: 1}, {Key: "h/a/b", Size: 1}}, fault.Invalid, "both a folder and not one"},
		"a long name":         {"h", []store.Object{{Key: "h/" + strings.Repeat("n", 256), Size: 1}}, fault.Invalid, "longer than 255 bytes"},
		"drover's own":        {"h", []store.Object{{Key: "h/.drover-part/x", Size: 1}}, fault.Invalid, "drover's own name"},
		"too many":            {"in", nil, fault.Invalid, "more than 2 objects"},
	} {
		b, s := bucketOf(t, map[string]string{"in/a": "1", "in/b": "2", "in/c": "3"})
		b.more = row.more
		_, err := list(t.Context(), s, "s3://b", row.key, 2)
		if err == nil || fault.KindOf(err) != row.kind || !strings.Contains(err.Error(), row.why) {
			t.Errorf("%s: %v, want %q", what, err, row.why)
		}
	}
}

// Get calls opened first.
func (b *somebodys) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if b.opened != nil {
		b.opened(key)
	}
	return b.Bucket.Get(ctx, key, off, n)
}

func TestAnObjectThatChangedSinceIsNotUsed(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		change func(t *testing.T, b *somebodys)
		late   bool // while it is read
		why    string
	}{
		"longer":       {func(t *testing.T, b *somebodys) { b.put(t, "in/b", "longer") }, false, "it had 3 B then, and has 6 B now"},
		"as long":      {func(t *testing.T, b *somebodys) { b.put(t, "in/b", "TWO") }, false, "another one of the same size"},
		"gone":         {func(t *testing.T, b *somebodys) { _ = b.Delete(t.Context(), "in/b") }, false, "it is gone"},
		"longer late":  {func(t *testing.T, b *somebodys) { b.put(t, "in/b", "longer") }, true, "it is longer now"},
		"shorter late": {func(t *testing.T, b *somebodys) { b.put(t, "in/b", "l") }, true, "it is shorter now"},
		"as long late": {func(t *testing.T, b *somebodys) { b.put(t, "in/b", "TWO") }, true, "it has changed since"},
		"gone late":    {func(t *testing.T, b *somebodys) { _ = b.Delete(t.Context(), "in/b") }, true, "it is gone"},
	} {
		b, s := bucketOf(t, map[string]string{"in/a": "one", "in/b": "two"})
		tree, err := ListAway(t.Context(), s, "s3://b", "in")
		if err != nil {
			t.Fatal(err)
		}
		if row.late {
			b.opened = func(key string) {
				if key == "in/b" {
					row.change(t, b)
				}
			}
		} else {
			row.change(t, b)
		}
		dir := t.TempDir()
		err = RestoreAway(t.Context(), s, tree, dir)
		if err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), row.why) || !strings.Contains(err.Error(), `"in/b" of s3://b`) {
			t.Errorf("%s: %v, want %q", what, err, row.why)
		}
		if left := texts(t, dir); len(left) > 0 {
			t.Errorf("%s: there is %v", what, left)
		}
		again, err := ListAway(t.Context(), s, "s3://b", "in")
		if err != nil || again.Digest() == tree.Digest() {
			t.Errorf("%s: the list has the digest of before, %v", what, err)
		}
	}
}

func TestAFolderOfABucketThatCannotBeUsedSaysWhy(t *testing.T) {
	t.Parallel()
	long := "h/" + strings.Repeat("n", 256)
	for _, row := range []struct {
		key        string
		more       []store.Object
		kind       fault.Kind
		text, hint string
	}{
		{"no/", nil, fault.Missing, `list "no/": nothing is there`, "Check the name: a folder's end is a whole part of it, and * means nothing in a bucket."},
		{"h", []store.Object{{Key: long, Size: 1}}, fault.Invalid, `list "` + long[:100] + `": a part of its name is longer than 255 bytes`, "Give the object another name."},
		{"in", nil, fault.Invalid, "list in: there are more than 2 objects", "Name a folder below it, or pack the files into fewer ones."},
	} {
		b, s := bucketOf(t, map[string]string{"in/a": "1", "in/b": "2", "in/c": "3"})
		b.more = row.more
		_, err := list(t.Context(), s, "s3://b", row.key, 2)
		bundletest.CheckError(t, err, row.kind, row.text, row.hint)
	}
}

func TestAnObjectThatChangedSaysToSubmitAgain(t *testing.T) {
	t.Parallel()
	b, s := bucketOf(t, map[string]string{"in/b": "two"})
	listing, err := ListAway(t.Context(), s, "s3://b", "in")
	if err != nil {
		t.Fatal(err)
	}
	b.put(t, "in/b", "longer")
	err = RestoreAway(t.Context(), s, listing, t.TempDir())
	if want := `read "in/b" of s3://b: it has changed since the job was submitted: it had 3 B then, and has 6 B now`; err == nil || !strings.HasSuffix(err.Error(), want) ||
		fault.Hint(err) != "Submit it again, to use what is there now." || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
	dir := filepath.Join(t.TempDir(), "d")
	bundletest.CheckError(t, RestoreAway(t.Context(), s, tree.Tree{}, dir), fault.Bug, "restore "+dir+": its files are in no bucket", "")
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is there all the same")
	}
	_, _, err = (&objects{tree: listing}).PutBlob(t.Context(), strings.NewReader("x"))
	bundletest.CheckError(t, err, fault.Bug, "write to s3://b: it is read-only", "")
}
