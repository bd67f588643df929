package tree

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/bundle/bundletest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

func TestRanksMergeIntoOneArchiveAndCollisionsAreNamed(t *testing.T) {
	t.Parallel()
	blobs := store.New(mem.New(), store.Options{})
	var ranks []Named
	for i, files := range []map[string]string{
		{"model.bin": bundletest.Noise(2 << 20), "config": "same", "rank0": "0", "log": "a", "x": "file", "l": "-> log", "e/": "", "d/": "", "s/t": "1"},
		{"config": "same", "rank1": "1", "log": "b", "x/y": "below a file", "l": "-> rank1", "e/in": "e", "d/": "", "s": "above a file"},
		{"log": "a", "rank1": "2"},
	} {
		dir := t.TempDir()
		bundletest.WriteFiles(t, dir, files)
		ranks = append(ranks, Named{[]string{"rank 0", "rank 1", "rank 2"}[i], save(t, blobs, dir, SaveOptions{Settled: true})})
	}
	ranks[0].Tree.Files[0].Mode = 0o755 // config, and so it collides
	var out, again bytes.Buffer
	collisions, err := TarGz(t.Context(), blobs, ranks, &out)
	if err != nil {
		t.Fatal(err)
	}
	want := []Collision{
		{"config", "rank 0", "rank 1"}, {"log", "rank 0", "rank 1"}, {"s", "rank 0", "rank 1"},
		{"x/y", "rank 0", "rank 1"}, {"l", "rank 0", "rank 1"}, {"rank1", "rank 1", "rank 2"},
	}
	if diff := cmp.Diff(want, collisions); diff != "" {
		t.Error(diff)
	}
	got := map[string]string{}
	zr, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	for tr, last := tar.NewReader(zr), ""; ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || h.Name <= last || h.ModTime.Unix() != 0 || h.Uid != 0 {
			t.Fatal(h, err)
		}
		text, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		last, got[h.Name] = h.Name, string(text)
		if h.Typeflag == tar.TypeSymlink {
			got[h.Name] = "-> " + h.Linkname
		}
		if h.Name == "config" && h.Mode != 0o755 || h.Name == "log" && h.Mode != 0o644 {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"model.bin": bundletest.Noise(2 << 20), "config": "same", "rank0": "0", "rank1": "1", "log": "a", "x": "file", "l": "-> log", "e/in": "e", "d/": "", "s/t": "1",
	}, got); diff != "" {
		t.Error(diff)
	}
	// The order of a tree's lists and the times of files do not matter.
	size := out.Cap()
	out.Reset()
	if _, err := TarGz(t.Context(), blobs, ranks, &out); err != nil {
		t.Fatal(err)
	}
	for i := range ranks[0].Tree.Files {
		ranks[0].Tree.Files[i].Time++
	}
	if _, err := TarGz(t.Context(), blobs, ranks, &again); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) || size == 0 {
		t.Error("two archives of the same trees differ", err)
	}
}

func TestAnArchiveIsNeverCompleteWithoutItsBlobs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_, err := TarGz(t.Context(), store.New(mem.New(), store.Options{}), []Named{{"rank 0", files("gone")}}, &out)
	if err == nil || !strings.Contains(err.Error(), `"gone"`) {
		t.Error(err)
	}
	if zr, err := gzip.NewReader(&out); err == nil {
		if _, err := io.ReadAll(zr); err == nil {
			t.Error("what was written looks complete")
		}
	}
}

var _ Blobs = (*store.Store)(nil)
