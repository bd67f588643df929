package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/items/itemstest"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// filesOf is what the n-th item of a long list names: nothing, a line's file, or two.
func filesOf(n int) []manifest.File {
	switch n % 3 {
	case 0:
		return nil
	case 1:
		return []manifest.File{{Field: manifest.Whole, Blob: itemstest.DigestOf(n), Size: int64(n), Exec: n%2 == 0}}
	}
	return []manifest.File{{Field: 0, Blob: itemstest.DigestOf(n)}, {Field: 7, Blob: itemstest.DigestOf(n + 1), Size: 1 << 40, Exec: true}}
}

func each(count int) iter.Seq2[[]manifest.File, error] {
	return func(yield func([]manifest.File, error) bool) {
		for n := 1; n <= count; n++ {
			if !yield(filesOf(n), nil) {
				return
			}
		}
	}
}

func TestItemsHaveTheirStoredFiles(t *testing.T) {
	const count = 20_000 // several blocks of each list, which do not end together
	ctx, s := context.Background(), store.New(mem.New(), store.Options{})
	var text strings.Builder
	for n := range count {
		fmt.Fprintf(&text, "/data/%d.png\n", n)
	}
	l, err := items.Collect(ctx, items.Source{From: "-", Stdin: strings.NewReader(text.String())}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	files, n, err := manifest.StoredFiles(t.TempDir(), each(count))
	if err != nil || n != count+1 {
		t.Fatalf("%d files: %v", n, err)
	}
	defer files.Close()
	m, err := l.Put(ctx, s, "items")
	if err != nil {
		t.Fatal(err)
	}
	of, err := files.Put(ctx, s, "items")
	if err != nil {
		t.Fatal(err)
	}
	m.Files = &of
	r, err := manifest.OpenStored(ctx, s, m, 101)
	if err != nil {
		t.Fatal(err)
	}
	at := 101 + 6000
	for it, err := range r.Range(ctx, at, r.Last()) {
		if diff := cmp.Diff(filesOf(at-100), it.Files); err != nil || it.N != at || diff != "" {
			t.Fatalf("item %d of %d: %v\n%s", it.N, at, err, diff)
		}
		at++
	}
	if at != 101+count {
		t.Errorf("it ended before item %d", at)
	}
	blobs := 0
	for _, err := range manifest.Blobs(ctx, s, m) {
		if err != nil {
			t.Fatal(err)
		}
		blobs++
	}
	if blobs != count+1 {
		t.Errorf("%d blobs", blobs)
	}
	plain, err := manifest.Open(ctx, s, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	if it, err := plain.One(ctx, 1); err != nil || it.Files != nil {
		t.Errorf("who did not ask for files has %v: %v", it.Files, err)
	}
	m.Files = &job.Manifest{Key: of.Key, Count: count - 1, Digest: of.Digest, Format: manifest.Lines}
	if _, err := manifest.OpenStored(ctx, s, m, 1); err == nil {
		t.Error("files of other items are taken")
	}
}

func TestLinesThatNameNoStoredFilesAreRefused(t *testing.T) {
	d := string(itemstest.DigestOf(5))
	for _, line := range []string{" ", "x", d, ":" + d, ":" + d + ":-1", ":" + d + ":1:y", ":" + d + ":1:x:x", "-1:" + d + ":1", "-2:" + d + ":1",
		"a:" + d + ":1", "1:" + d + ":1 1:" + d + ":1", "2:" + d + ":1 1:" + d + ":1", ":../../etc:1", ":" + d + ":1  ", "0:" + d + ":1 :" + d + ":1"} {
		if f, err := manifest.ParseFiles(line); err == nil {
			t.Errorf("%q gives %v", line, f)
		}
	}
}

// A list that is there, and of which a part is gone, has not gone: a caller that asks what it
// names must not take it for one that names nothing.
func TestAListThatMissesAPartHasNotGone(t *testing.T) {
	ctx, s := context.Background(), store.New(mem.New(), store.Options{})
	files, _, err := manifest.StoredFiles(t.TempDir(), each(10))
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	of, err := files.Put(ctx, s, "items")
	if err != nil {
		t.Fatal(err)
	}
	m := manifest.Manifest{Count: 10, Files: &of}
	last := func() (err error) {
		for _, e := range manifest.Blobs(ctx, s, m) {
			err = e
		}
		return err
	}
	for o, err := range s.List(ctx, "items/part-") {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(ctx, o.Key); err != nil {
			t.Fatal(err)
		}
	}
	if err := last(); err == nil || errors.Is(err, store.ErrNotExist) || fault.KindOf(err) != fault.Lost {
		t.Errorf("without a part: %v", err)
	}
	if err := s.Delete(ctx, of.Key); err != nil {
		t.Fatal(err)
	}
	if err := last(); !errors.Is(err, store.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
}
