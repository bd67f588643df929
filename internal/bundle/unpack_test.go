package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/bundletest"
)

// squeeze compresses b as Pack does.
func squeeze(t testing.TB, b []byte) []byte {
	t.Helper()
	zw, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer zw.Close()
	return zw.EncodeAll(b, nil)
}

func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(tw, zeros{}, h.Size); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestHostileArchivesAreRefusedWithOneClearError(t *testing.T) {
	t.Parallel()
	file := func(name string) tar.Header { return tar.Header{Name: name, Mode: 0o644} }
	link := func(kind byte, name, to string) tar.Header {
		return tar.Header{Typeflag: kind, Name: name, Linkname: to, Mode: 0o777}
	}
	for name, c := range map[string]struct {
		headers []tar.Header
		say     string
	}{
		"climbs":          {[]tar.Header{file("../canary")}, "leads outside"},
		"climbs inside":   {[]tar.Header{file("a/../../canary")}, "plain form"},
		"absolute":        {[]tar.Header{file("/tmp/canary")}, "absolute"},
		"empty":           {[]tar.Header{file("")}, "empty name"},
		"dot":             {[]tar.Header{{Name: "./", Typeflag: tar.TypeDir}}, "empty name"},
		"symlink":         {[]tar.Header{link(tar.TypeSymlink, "a", "..")}, "neither a file nor a folder"},
		"through symlink": {[]tar.Header{link(tar.TypeSymlink, "a", ".."), file("a/canary")}, "neither a file nor a folder"},
		"hardlink":        {[]tar.Header{link(tar.TypeLink, "a", "../canary")}, "neither a file nor a folder"},
		"fifo":            {[]tar.Header{{Typeflag: tar.TypeFifo, Name: "a"}}, "neither a file nor a folder"},
		"device":          {[]tar.Header{{Typeflag: tar.TypeChar, Name: "a"}}, "neither a file nor a folder"},
		"global header":   {[]tar.Header{{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"comment": "x"}}}, "neither a file nor a folder"},
		"twice":           {[]tar.Header{file("a"), file("a")}, "twice"},
		"file as folder":  {[]tar.Header{file("a"), file("a/b")}, "both a folder and not one"},
		"folder as file":  {[]tar.Header{file("a/b/c"), file("a")}, "twice"},
		"too deep":        {[]tar.Header{file(strings.Repeat("d/", 65) + "x")}, "folders deep"},
		"too long":        {[]tar.Header{file(strings.Repeat("d/", 2100) + "x")}, "a path of"},
		"too many":        {[]tar.Header{file("a"), file("b"), file("c"), file("d")}, "more than 3 files"},
		"too large":       {[]tar.Header{{Name: "a", Size: 600, Mode: 0o644}, {Name: "b", Size: 600, Mode: 0o644}}, "more than 1.0 kB"},
	} {
		dir, intact := bundletest.Cage(t)
		err := Unpack(t.Context(), bytes.NewReader(squeeze(t, archive(t, c.headers...))), dir, Caps{Bytes: 1000, Files: 3})
		if err == nil || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.say)
		}
		if err != nil && fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %s", name, fault.KindOf(err))
		}
		intact()
	}
}

func TestALinkThatStandsThereLeadsNowhere(t *testing.T) {
	t.Parallel()
	dir, intact := bundletest.Cage(t)
	bundletest.WriteFiles(t, dir, map[string]string{"out": "-> ..", "file": "-> ../canary"})
	for _, name := range []string{"out/canary", "out/new", "file"} {
		if err := Unpack(t.Context(), bytes.NewReader(squeeze(t, archive(t, tar.Header{Name: name, Mode: 0o644}))), dir, Caps{}); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	intact()
}

func TestBombsStopEarly(t *testing.T) {
	t.Parallel()
	// 190 kB that promise a file of zeros: the meter stands behind the
	// decompressor, so it is fed directly.
	caps := Caps{Bytes: 2 << 30}.withDefaults()
	m := &meter{r: zeros{}, in: &counter{n: 190_000}, caps: caps}
	n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{m}, make([]byte, 1<<20))
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "times its compressed size") || n > ratioFree+1<<20 {
		t.Errorf("one large file: %v after %d bytes", err, n)
	}
	// All headers and no files: what the caps on files would never see.
	text := bytes.Repeat([]byte{0}, 1<<21)
	err = Unpack(t.Context(), bytes.NewReader(squeeze(t, append(archive(t), text...))), t.TempDir(), Caps{Bytes: 1, Files: 1})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "more than 1 B") {
		t.Error("endless padding:", err)
	}
	// What wants more memory than an agent has.
	var wide bytes.Buffer
	ww, err := zstd.NewWriter(&wide, zstd.WithWindowSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(ww, zeros{}, 65<<20); err != nil {
		t.Fatal(err)
	}
	if err := ww.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(t.Context(), bytes.NewReader(wide.Bytes()), t.TempDir(), Caps{}); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Error("wide window:", err)
	}
}

func TestTheDefaultCapsTakeTheEmptiestHonestBundle(t *testing.T) {
	t.Parallel()
	caps := Caps{}.withDefaults()
	if most := caps.Bytes + int64(caps.Files)*headers + 1<<20; most > ratioFree {
		t.Errorf("Pack may make %d bytes within the caps, the ratio counts from %d", most, ratioFree)
	}
}

func TestModesAreNeverMoreThan0755(t *testing.T) {
	t.Parallel()
	dir, _ := bundletest.Cage(t)
	a := archive(t, tar.Header{Name: "su", Mode: 0o6777}, tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o1777}, tar.Header{Name: "plain", Mode: 0o066})
	if err := Unpack(t.Context(), bytes.NewReader(squeeze(t, a)), dir, Caps{}); err != nil {
		t.Fatal(err)
	}
	for name, most := range map[string]os.FileMode{"su": 0o755, "d": os.ModeDir | 0o755, "plain": 0o644} {
		if fi, err := os.Lstat(filepath.Join(dir, name)); err != nil || fi.Mode()&^most != 0 {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
}

func TestUnpackReadsToTheEndSoThatDigestsAreChecked(t *testing.T) {
	t.Parallel()
	whole := squeeze(t, archive(t, tar.Header{Name: "a", Mode: 0o644}))
	wrong := errors.New("digest does not match")
	if err := Unpack(t.Context(), io.MultiReader(bytes.NewReader(whole), iotest.ErrReader(wrong)), t.TempDir(), Caps{}); !errors.Is(err, wrong) {
		t.Error(err)
	}
	second := append(bytes.Clone(whole), squeeze(t, archive(t, tar.Header{Name: "b", Mode: 0o644}))...)
	if err := Unpack(t.Context(), bytes.NewReader(second), t.TempDir(), Caps{}); fault.KindOf(err) != fault.Invalid {
		t.Error("a second archive behind the first:", err)
	}
	for cut := 1; cut < len(whole); cut += 7 {
		if err := Unpack(t.Context(), bytes.NewReader(whole[:cut]), t.TempDir(), Caps{}); err == nil {
			t.Errorf("cut after %d of %d bytes, and taken", cut, len(whole))
		}
	}
}

func FuzzUnpackNeverLeavesItsFolder(f *testing.F) {
	f.Add(archive(f, tar.Header{Name: "a/b", Size: 3, Mode: 0o644}), false)
	f.Add(archive(f, tar.Header{Name: "../canary", Mode: 0o644}), false)
	f.Add(archive(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "x", Linkname: ".."}, tar.Header{Name: "x/canary", Size: 1}), false)
	f.Add(archive(f, tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "../canary"}), false)
	f.Add(archive(f, tar.Header{Name: strings.Repeat("n", 300), Size: 9, PAXRecords: map[string]string{"DROVER.x": "y"}}), false)
	f.Add(squeeze(f, archive(f, tar.Header{Name: "a", Mode: 0o755})), true)
	f.Fuzz(func(t *testing.T, in []byte, raw bool) {
		if !raw {
			in = squeeze(t, in)
		}
		dir, intact := bundletest.Cage(t)
		caps := Caps{Bytes: 1 << 16, Files: 20, Depth: 5}
		err := Unpack(t.Context(), bytes.NewReader(in), dir, caps)
		intact()
		var total int64
		walked := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			fi, err := d.Info()
			if err == nil && (!fi.Mode().IsRegular() || fi.Mode()&^0o755 != 0) {
				t.Errorf("made %q with %v", name, fi.Mode())
			}
			total += fi.Size()
			return err
		})
		if walked != nil || total > caps.Bytes {
			t.Errorf("%d bytes, %v (%v)", total, walked, err)
		}
	})
}
