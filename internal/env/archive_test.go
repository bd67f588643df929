package env

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
)

func exported(t testing.TB, p Plan) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Export(t.Context(), p, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// tree is what a folder holds, for a comparison: mode, and content or target or time.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular() && rel != marker:
			text += " " + info.ModTime().Truncate(time.Second).UTC().String() + " " + read(t, path)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text = "link " + target
		}
		out[rel] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnEnvironmentComesBackFromItsArchiveAsItWas(t *testing.T) {
	t.Parallel()
	r := offline(t, "alpha\n")
	withFakeUV(t, &r, byUnzip)
	p := resolve(t, r)
	ready, _ := build(t, r)
	python(t, r, ready, "import alpha") // leaves bytecode
	odd := filepath.Join(p.folder(), "lib", "odd name\n"+strings.Repeat("x", 120))
	write(t, odd, "odd")
	if err := errors.Join(os.Chmod(odd, 0o640), os.Symlink("nowhere", filepath.Join(p.folder(), "dangling"))); err != nil {
		t.Fatal(err)
	}
	before, list := tree(t, p.folder()), mustList(t, r)
	data := exported(t, p)
	if !bytes.Equal(data, exported(t, p)) {
		t.Error("the same environment gives another archive")
	}
	if err := Remove(t.Context(), r.Cache, p.Digest[:12]); err != nil {
		t.Fatal(err)
	}
	if err := Import(t.Context(), p, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, tree(t, p.folder())); d != "" {
		t.Error(d)
	}
	after := mustList(t, r)
	after[0].Used, list[0].Used = time.Time{}, time.Time{}
	if d := cmp.Diff(list, after); d != "" {
		t.Error(d)
	}
	if later := resolve(t, r); later.Build {
		t.Errorf("later plan = %+v", later)
	}
	if got := python(t, r, ready, "import alpha, beta; print(alpha.VERSION, beta.VERSION, alpha.__cached__)"); !strings.HasPrefix(got, "1.0 2.1 "+p.folder()) {
		t.Errorf("the script sees %q", got)
	}
	// It is there: nothing is read.
	if err := Import(t.Context(), p, nil); err != nil {
		t.Error(err)
	}
}

func mustList(t *testing.T, r Request) []Built {
	t.Helper()
	list, err := List(r.Cache)
	if err != nil || len(list) != 1 {
		t.Fatalf("List = %+v, %v", list, err)
	}
	return list
}

func TestAnArchiveIsNamedByDigestAndPlace(t *testing.T) {
	t.Parallel()
	r := request(t, "nosuch\n")
	one := resolve(t, r)
	other := r
	other.Cache = filepath.Join(t.TempDir(), "cache")
	if a, b := one.Archive(), resolve(t, other).Archive(); len(a) != 64 || a == b || a != resolve(t, r).Archive() {
		t.Errorf("archives %s and %s", a, b)
	}
	r.NoEnv = true
	active := resolve(t, r)
	if active.Archive() != "" {
		t.Error("an interpreter that is the user's own has an archive")
	}
	for _, err := range []error{Export(t.Context(), active, io.Discard), Import(t.Context(), active, nil)} {
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("err = %v", err)
		}
	}
	if err := Export(t.Context(), one, io.Discard); fault.KindOf(err) != fault.Missing {
		t.Errorf("export of nothing: %v", err)
	}
}

// unfinished is a plan whose environment is not there, and an archive of it.
func unfinished(t *testing.T) (Plan, []byte) {
	t.Helper()
	r := request(t, "nosuch\n")
	p := finished(t, r)
	data := exported(t, p)
	if err := Remove(t.Context(), r.Cache, p.Digest[:12]); err != nil {
		t.Fatal(err)
	}
	return p, data
}

func TestATornArchiveLeavesNothing(t *testing.T) {
	t.Parallel()
	p, data := unfinished(t)
	for _, n := range []int{0, 1, 10, len(data) / 2, len(data) - 5, len(data) - 1} {
		err := Import(t.Context(), p, bytes.NewReader(data[:n]))
		if fault.KindOf(err) != fault.Lost || !strings.HasPrefix(err.Error(), "import environment: read archive: ") {
			t.Errorf("%d of %d bytes: %v (%s)", n, len(data), err, fault.KindOf(err))
		}
		if _, err := os.Stat(p.folder()); err == nil {
			t.Fatalf("%d bytes: a part was left", n)
		}
	}
	whole, err := inflated(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(data) / 3; i < len(data); i += 3 {
		flipped := bytes.Clone(data)
		flipped[i] ^= 0x10
		if same, err := inflated(flipped); err == nil && bytes.Equal(same, whole) {
			continue // two ways to say a run of zeros: nothing was changed
		}
		if err := Import(t.Context(), p, bytes.NewReader(flipped)); err == nil {
			t.Errorf("byte %d is another one, and nobody minds", i)
		}
	}
	cut, cancel := context.WithCancel(t.Context())
	err = Import(cut, p, readerFunc(func([]byte) (int, error) { cancel(); return 0, nil }))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if err := Import(t.Context(), p, bytes.NewReader(data)); err != nil {
		t.Errorf("whole, after all that: %v", err)
	}
}

// inflated is what an archive's zstd stream holds.
func inflated(data []byte) ([]byte, error) {
	zr, err := zstd.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	defer zr.Close()
	return io.ReadAll(zr)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// forged is an archive of these entries after honest contents, changed by change.
func forged(t *testing.T, p Plan, change func(*contents), entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	zw, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	c := contents{Format: archiveFormat, Dir: p.folder(), Mark: mark{Digest: p.Digest}, Names: len(entries)}
	for _, e := range entries {
		c.Bytes += e.Size
	}
	if change != nil {
		change(&c)
	}
	head, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(zw)
	entries = append([]tar.Header{{Name: contentsName, Typeflag: tar.TypeReg, Size: int64(len(head))}}, entries...)
	for i, e := range entries {
		body := head
		if i > 0 {
			body = make([]byte, e.Size)
		}
		e.Mode |= 0o644
		if err := w.WriteHeader(&e); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestHostileArchivesAreRefused(t *testing.T) {
	var said faulttest.Sayings
	t.Parallel()
	p, _ := unfinished(t)
	outside := t.TempDir()
	said.Hide(outside, "OUTSIDE")
	said.Hide(p.Digest[:12], "DIGEST")
	said.Hide(p.folder(), "FOLDER")
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1} }
	link := func(name, target string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
	}
	for _, c := range []struct {
		name    string
		change  func(*contents)
		entries []tar.Header
		want    string
	}{
		{"a name above", nil, []tar.Header{file("../x")}, `"../x": not a name in its folder`},
		{"a name in the middle", nil, []tar.Header{file("a/../../x")}, `not a name in its folder`},
		{"an absolute name", nil, []tar.Header{file(outside + "/x")}, "not a name in its folder"},
		{"no name", nil, []tar.Header{{Name: "./", Typeflag: tar.TypeDir}}, "not a name in its folder"},
		{"through a link", nil, []tar.Header{link("lib", outside), file("lib/x")}, `"lib/x": it is in no folder of the archive`},
		{"over a link", nil, []tar.Header{link("x", outside+"/x"), file("x")}, `"x": twice in the archive`},
		{"a hard link", nil, []tar.Header{{Name: "x", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}}, `neither a file nor a folder nor a link (type '1')`},
		{"a device", nil, []tar.Header{{Name: "x", Typeflag: tar.TypeChar}}, `neither a file nor a folder nor a link`},
		{"its own marker", nil, []tar.Header{file(marker)}, "a name that drover keeps for itself"},
		{"more names", func(c *contents) { c.Names = 1 }, []tar.Header{file("a"), file("b")}, `"b": more than it counts`},
		{"more bytes", func(c *contents) { c.Bytes = 1 }, []tar.Header{file("a"), file("b")}, `"b": more than it counts`},
		{"another environment", func(c *contents) { c.Mark.Digest = "feed" }, nil, `it is the environment "feed", not `},
		{"another place", func(c *contents) { c.Dir = "/elsewhere" }, nil, `it works in "/elsewhere" alone`},
		{"another format", func(c *contents) { c.Format = 2 }, nil, "format 2, which this drover does not know"},
	} {
		err := Import(t.Context(), p, bytes.NewReader(forged(t, p, c.change, c.entries...)))
		said.Error(c.name, err)
		if fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "import environment: refuse archive: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (%s), want %s", c.name, err, fault.KindOf(err), c.want)
		}
		if _, err := os.Stat(p.folder()); err == nil {
			t.Fatalf("%s: a part was left", c.name)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("outside there is %v", left)
	}
	// Nothing wrong with it, but no Python in it either.
	err := Import(t.Context(), p, bytes.NewReader(forged(t, p, nil, file("x"))))
	if fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), "start ") || complete(p.folder()) {
		t.Errorf("without a python: %v", err)
	}
	said.Compare(t, "archives")
}

func TestOneImportsWhileOthersWait(t *testing.T) {
	t.Parallel()
	p, data := unfinished(t)
	var errs [3]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			if i == 0 {
				_, errs[i] = Build(t.Context(), p, nil) // fails, or finds what came
				if fault.KindOf(errs[i]) == fault.Invalid {
					errs[i] = nil
				}
				return
			}
			errs[i] = Import(t.Context(), p, bytes.NewReader(data))
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Error(err)
	}
	if !complete(p.folder()) {
		t.Error("it is not there")
	}
}

func FuzzImport(f *testing.F) {
	r := request(f, "nosuch\n")
	p := finished(f, r)
	f.Add(exported(f, p))
	if err := Remove(f.Context(), r.Cache, p.Digest[:12]); err != nil {
		f.Fatal(err)
	}
	base := filepath.Dir(p.folder())
	f.Fuzz(func(t *testing.T, data []byte) {
		// The frame is what storage checks; what matters is the archive inside.
		var out bytes.Buffer
		zw, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := zstd.NewReader(bytes.NewReader(data)); err == nil {
			if text, err := io.ReadAll(io.LimitReader(plain, 1<<20)); err == nil {
				data = text
			}
			plain.Close()
		}
		if _, err := zw.Write(data); err != nil {
			t.Fatal(err)
		}
		zw.Close()
		_, err = unpack(t.Context(), p, p.folder(), &out)
		wipe(p.folder())
		if left, _ := filepath.Glob(filepath.Join(base, "*")); len(left) > 2 {
			t.Fatalf("%v after %v", left, err)
		}
	})
}
