package source

import (
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

func TestAStoredFileThatIsAnotherIsSaid(t *testing.T) {
	t.Parallel()
	s := store.New(mem.New(), store.Options{})
	d, n, err := s.PutBlob(t.Context(), strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	c := &Fetcher{stored: manifest.NewStored(s)}
	free := func(context.Context, int64) error { return nil }
	_, err = c.restoreStored(t.Context(), storedName(manifest.File{Blob: d, Size: n + 1}, "/a/b"), t.TempDir(), free)
	if err == nil || !strings.HasSuffix(err.Error(), "it has 7 bytes and not 8") || fault.KindOf(err) != fault.Lost {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
	for _, name := range []string{storedMark + "x", storedName(manifest.File{Blob: d}, "..")} {
		if _, err = c.restoreStored(t.Context(), name, t.TempDir(), free); err == nil || !strings.HasPrefix(err.Error(), "fetch file: ") || !strings.HasSuffix(err.Error(), " is not the name of one") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// fullDisk is a bucket without room for its objects.
type fullDisk struct{ *mem.Bucket }

func (fullDisk) Get(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return io.NopCloser(iotest.ErrReader(syscall.ENOSPC)), nil
}

func TestAStoredFileWithoutRoomSaysWhatToFree(t *testing.T) {
	t.Parallel()
	b := fullDisk{mem.New()}
	s := store.New(b, store.Options{})
	d, n, err := store.New(b.Bucket, store.Options{}).PutBlob(t.Context(), strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	c := &Fetcher{stored: manifest.NewStored(s)}
	free := func(context.Context, int64) error { return nil }
	_, err = c.restoreStored(t.Context(), storedName(manifest.File{Blob: d, Size: n}, "/a/b.txt"), t.TempDir(), free)
	if err == nil || !strings.HasPrefix(err.Error(), "bring b.txt: ") || fault.KindOf(err) != fault.Full ||
		fault.Hint(err) != "Free some space, or set XDG_STATE_HOME to a folder with room." {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}

func TestFilesOfAnItemThatIsNoObjectAreRefused(t *testing.T) {
	t.Parallel()
	s := &Source{Format: manifest.JSONL, fields: []string{"file"}}
	_, err := s.ItemWithStored(manifest.Item{N: 3, Text: "[1]", Fields: []string{"x"}}, []ProvidedFile{{0, "/a"}})
	if err == nil || !strings.HasPrefix(err.Error(), "put files into item 3: ") || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}

func TestNoNameLeadsAStoredFileElsewhere(t *testing.T) {
	c := &Fetcher{}
	free := func(context.Context, int64) error { return nil }
	for _, name := range []string{"..", ".", "/", ""} {
		if file, err := c.restoreStored(t.Context(), storedName(manifest.File{Blob: "x"}, name), t.TempDir(), free); err == nil {
			t.Errorf("%q leads to %s", name, file)
		}
	}
	for text, want := range map[string]string{"file:///a/b%20c%25.txt": ":b c%.txt", "file:///a/%C3%BC:ü": ":ü:ü", "file:///a%2Fb": ":b", "/a/b%20c": ":b%20c", "FILE://localhost/a/b%41": ":bA"} {
		if got := storedName(manifest.File{Blob: "x"}, text); !strings.HasSuffix(got, want) {
			t.Errorf("%s is stored as %q, want %q", text, got, want)
		}
	}
	if got := storedName(manifest.File{Blob: "x"}, "/a/../../etc/b c:d"); !strings.HasSuffix(got, ":b c:d") {
		t.Error(got)
	}
}

// A few buckets are opened once, and of thousands no more are kept than a few.
func TestOfManyBucketsAFewAreKept(t *testing.T) {
	t.Parallel()
	asked := 0
	b := &buckets{opened: map[string]*store.Store{}, open: func(context.Context, string) (store.Bucket, error) { asked++; return mem.New(), nil }}
	for range 2 {
		for i := range maxBuckets {
			if s, err := b.openBucket(t.Context(), fmt.Sprintf("s3://b%d", i), ""); s == nil || err != nil {
				t.Fatal(s, err)
			}
		}
	}
	if asked != maxBuckets {
		t.Errorf("%d were opened", asked)
	}
	for i := range 10 * maxBuckets {
		if s, err := b.openBucket(t.Context(), fmt.Sprintf("gs://b%d", i), ""); s == nil || err != nil || len(b.opened) > maxBuckets {
			t.Fatalf("%v, %v, %d are kept", s, err, len(b.opened))
		}
	}
}
