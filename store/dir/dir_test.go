package dir_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
	"github.com/drover-run/drover/store/storetest"
)

func open(t *testing.T, path string, fsys dir.FS) *dir.Bucket {
	t.Helper()
	b, err := dir.Open(path, fsys)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBucketKeepsEveryPromise(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (first, second store.Bucket) {
		root := t.TempDir()
		return open(t, root, dir.OS), open(t, root, dir.OS)
	})
}

func TestTheFakeDiskIsAsGoodAsTheRealOne(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (first, second store.Bucket) {
		d := newDisk()
		return open(t, "/store", d), open(t, "/store", d)
	})
}

func TestOpenMakesTheFolderForItsOwnerOnly(t *testing.T) {
	root := filepath.Join(t.TempDir(), "not", "yet", "there")
	b := open(t, root, dir.OS)
	create(t, b, "p/log/00000000")
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if want := map[bool]os.FileMode{true: 0o700, false: 0o600}[e.IsDir()]; err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, info.Mode().Perm(), err, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOpenTakesARelativePath(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	b := open(t, "store", dir.OS)
	create(t, b, "a")
	t.Chdir(t.TempDir())
	if _, err := get(t, b, "a"); err != nil {
		t.Errorf("after the working folder changed: %v", err)
	}
	if filepath.Base(b.String()) != "store" || !filepath.IsAbs(b.String()) {
		t.Errorf("it is called %s", b)
	}
}

func TestOpenRefusesWhatIsNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data.csv")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		_, err := dir.Open(path, dir.OS)
		if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" || err.Error() != "open store "+path+": not a folder" {
			t.Errorf("open %s: %v, hint %q", path, err, fault.Hint(err))
		}
	}
}

func TestOpenSweepsWhatIsOlderThanADay(t *testing.T) {
	root := t.TempDir()
	create(t, open(t, root, dir.OS), "a")
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour, "young": time.Hour, "new": 0} {
		path := filepath.Join(root, ".tmp", name)
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	open(t, root, dir.OS)
	entries, err := os.ReadDir(filepath.Join(root, ".tmp"))
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"new", "young"}, left); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestListingShowsObjectsAndNothingElse(t *testing.T) {
	root := t.TempDir()
	b := open(t, root, dir.OS)
	create(t, b, "p/log/00000000")
	for _, stranger := range []string{".DS_Store", "p/.nfs0001", "p/log/with space", "p/log/.look-1", "p/é"} {
		if err := os.WriteFile(filepath.Join(root, stranger), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/", filepath.Join(root, "p", "everything")); err != nil {
		t.Fatal(err)
	}
	found, _, err := b.List(t.Context(), "", "", 100)
	if err != nil || len(found) != 1 || found[0].Key != "p/log/00000000" {
		t.Errorf("listed %v, %v", found, err)
	}
}

func TestListingOfALargeFolderComesWholeInPages(t *testing.T) {
	d := newDisk()
	b := open(t, "/store", d)
	// More than are kept in memory at a time, as files made beside the bucket:
	// creating them one by one is not what is tried here.
	parent, base, _, err := d.find("", "/store/many")
	if err != nil {
		t.Fatal(err)
	}
	many := d.node(true)
	d.set(parent, base, many)
	var want []string
	for i := range 20_000 {
		name := fmt.Sprintf("%d", i)
		d.set(many, name, d.node(false))
		want = append(want, "many/"+name)
	}
	slices.Sort(want)
	var got []string
	for o, err := range store.New(b, store.Options{}).List(t.Context(), "many/") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o.Key)
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %d of %d", len(got), len(want))
	}
	all, more, err := b.List(t.Context(), "", "", 19_999)
	if err != nil || !more || len(all) != 19_999 || all[19_998].Key != want[19_998] {
		t.Errorf("one large page has %d objects, more is %v, %v", len(all), more, err)
	}
}

func TestDeleteRemovesTheFoldersItEmpties(t *testing.T) {
	d := newDisk()
	b := open(t, "/store", d)
	create(t, b, "p/t/log/0")
	create(t, b, "p/t/j/0")
	for _, c := range []struct{ key, left string }{
		{"p/t/j/0", "/ /store /store/.tmp /store/p /store/p/t /store/p/t/log /store/p/t/log/0"},
		{"p/t/log/0", "/ /store /store/.tmp"},
	} {
		if err := b.Delete(t.Context(), c.key); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(c.left, strings.Join(d.tree(), " ")); diff != "" {
			t.Errorf("after deleting %s: %s", c.key, diff)
		}
	}
}

func TestAStoreWhoseFolderIsGoneIsMissing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	b := open(t, root, dir.OS)
	create(t, b, "a")
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	err := b.Create(t.Context(), "b", strings.NewReader("x"))
	if fault.KindOf(err) != fault.Missing || errors.Is(err, store.ErrNotExist) {
		t.Errorf("create: %v", err)
	}
}

// One writer, and eight of them in one folder.
func BenchmarkCreate(b *testing.B) {
	body := strings.Repeat("x", 200)
	for _, writers := range []int{1, 8} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			bucket, err := dir.Open(b.TempDir(), dir.OS)
			if err != nil {
				b.Fatal(err)
			}
			var n atomic.Int64
			done := make(chan error)
			b.ResetTimer()
			for range writers {
				go func() {
					for {
						i := n.Add(1)
						if i > int64(b.N) {
							done <- nil
							return
						}
						if err := bucket.Create(b.Context(), fmt.Sprintf("p/t/log/%08d", i), strings.NewReader(body)); err != nil {
							done <- err
							return
						}
					}
				}()
			}
			for range writers {
				if err := <-done; err != nil {
					b.Error(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
		})
	}
}

// One small object of a job, read and replaced again and again.
func BenchmarkGetAndPut(b *testing.B) {
	bucket, err := dir.Open(b.TempDir(), dir.OS)
	if err != nil {
		b.Fatal(err)
	}
	const key = "p/t/0123456789abcdef/agents/1-0-0123456789abcdef"
	body := strings.Repeat("x", 200)
	put := func() error { return bucket.Put(b.Context(), key, strings.NewReader(body)) }
	for name, f := range map[string]func() error{
		"put": put,
		"get": func() error {
			r, err := bucket.Get(b.Context(), key, 0, -1)
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.Copy(io.Discard, r)
			return err
		},
		"list": func() error {
			_, _, err := bucket.List(b.Context(), "p/t/0123456789abcdef/agents/", "", 10)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			if err := put(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAFolderSaysHowToDownload(t *testing.T) {
	b, err := dir.Open(filepath.Join(t.TempDir(), "it's a store"), dir.OS)
	if err != nil {
		t.Fatal(err)
	}
	if ran := storetest.RunDownloads(t, b, nil); !slices.Contains(ran, "cat") {
		t.Errorf("%q ran", ran)
	}
}
