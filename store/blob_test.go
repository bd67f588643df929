package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// changing is a file that another process writes to: each reading of it from the start
// finds the next content.
type changing struct {
	*bytes.Reader
	contents []string
	reads    int
}

func newChanging(contents ...string) *changing {
	return &changing{Reader: bytes.NewReader([]byte(contents[0])), contents: contents}
}

func (c *changing) Read(p []byte) (int, error) {
	if c.Len() == int(c.Size()) {
		c.Reset([]byte(c.contents[min(c.reads, len(c.contents)-1)]))
		c.reads++
	}
	return c.Reader.Read(p)
}

// exact sends as HTTP clients do: it asks for the size, sends so many bytes, and
// never looks whether more follow. It may lose what says why sending stopped.
type exact struct{ *mem.Bucket }

func (e exact) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sent := make([]byte, size)
	if _, err := io.ReadFull(body, sent); err != nil {
		return fmt.Errorf("connection reset: %w", store.ErrUnclear)
	}
	return e.Bucket.Create(ctx, key, bytes.NewReader(sent))
}

func buckets(t *testing.T) map[string]store.Bucket {
	folder, err := dir.Open(t.TempDir(), dir.OS)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]store.Bucket{"mem": mem.New(), "dir": folder, "exact": exact{mem.New()}}
}

func TestBlobThatChangesWhileItIsStoredIsRefused(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000)
	for name, b := range buckets(t) {
		for change, contents := range map[string][]string{
			"other bytes":  {long, strings.Replace(long, "5", "x", 1)},
			"last byte":    {long, long[1:] + "x"},
			"shorter":      {long, long[1:]},
			"emptied":      {long, ""},
			"longer":       {long, "x" + long},
			"grown in one": {"a", "bc"},
		} {
			t.Run(name+" "+change, func(t *testing.T) {
				s := store.New(b, store.Options{Clock: &storetest.Clock{}})
				_, _, err := s.PutBlob(t.Context(), newChanging(contents...))
				if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
					t.Errorf("stored with %v", err)
				}
				for o, err := range s.List(t.Context(), "") {
					t.Errorf("left behind: %s, %v", o.Key, err)
				}
			})
		}
	}
}

func TestBlobOfEverySizeIsStoredAsItIs(t *testing.T) {
	for name, b := range buckets(t) {
		s := store.New(b, store.Options{Clock: &storetest.Clock{}})
		for _, size := range []int{0, 1, 32<<10 - 1, 32 << 10, 64 << 10, 200_000} {
			body := strings.Repeat("x", size)
			d, n, err := s.PutBlob(t.Context(), strings.NewReader(body))
			if err != nil || n != int64(size) {
				t.Fatalf("%s: %d bytes: %d, %v", name, size, n, err)
			}
			r, err := s.OpenBlob(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil || string(got) != body || r.Close() != nil {
				t.Errorf("%s: read %d of %d bytes, %v", name, len(got), size, err)
			}
		}
	}
}

func TestBlobIsReadTwiceToStoreAndOnceToFind(t *testing.T) {
	s, b := over()
	first, second := newChanging("content"), newChanging("content")
	for _, body := range []*changing{first, second} {
		if _, _, err := s.PutBlob(t.Context(), body); err != nil {
			t.Fatal(err)
		}
	}
	if first.reads != 2 || second.reads != 1 {
		t.Errorf("read %d and %d times", first.reads, second.reads)
	}
	if got := strings.Join(b.asked, " "); got != "get create get" {
		t.Errorf("asked %s", got)
	}
}

func TestBlobIsSentAgainAfterAnUnclearAnswer(t *testing.T) {
	for _, a := range []answer{unclear, busy, applied} {
		s, b := over(truth, a)
		d, _, err := s.PutBlob(t.Context(), strings.NewReader("content"))
		if err != nil {
			t.Errorf("after %v: %v", a.err, err)
		}
		if body, err := s.Get(t.Context(), "blobs/"+string(d)); string(body) != "content" || err != nil {
			t.Errorf("after %v: stored %q, %v", a.err, body, err)
		}
		if len(b.answers) != 0 {
			t.Errorf("%v was never met", a.err)
		}
	}
}

func TestRottenBlobIsToldBeforeItsEnd(t *testing.T) {
	s, b := over()
	d, _, err := s.PutBlob(t.Context(), strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	for _, rotten := range []string{"cOntent", "conten", "content.", ""} {
		if err := b.Bucket.Put(t.Context(), "blobs/"+string(d), strings.NewReader(rotten)); err != nil {
			t.Fatal(err)
		}
		r, err := s.OpenBlob(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := io.ReadAll(r); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("reading %q as %q: %v", rotten, "content", err)
			}
		}
	}
}

func TestBlobNamesAreChecked(t *testing.T) {
	s, b := over()
	for _, d := range []store.Digest{"", "../../etc/passwd", "ABC"} {
		if _, err := s.OpenBlob(t.Context(), d); fault.KindOf(err) != fault.Invalid {
			t.Errorf("open %q: %v", d, err)
		}
		if _, err := s.HasBlob(t.Context(), d); fault.KindOf(err) != fault.Invalid {
			t.Errorf("has %q: %v", d, err)
		}
	}
	if len(b.asked) != 0 {
		t.Errorf("asked the bucket: %v", b.asked)
	}
}
