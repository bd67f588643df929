package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/bundletest"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

func pack(t testing.TB, l List) ([]byte, string) {
	t.Helper()
	var b bytes.Buffer
	digest, err := Pack(t.Context(), l, &b)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), digest
}

func TestWhatIsPackedIsUnpackedByteForByte(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "new", "out")
	bundletest.WriteFiles(t, dir, bundletest.HostileNames)
	bundletest.WriteFiles(t, dir, map[string]string{"large.bin": bundletest.Noise(3<<20 + 5), "run.sh": "#!/bin/sh", "empty": "", "exact": bundletest.Noise(small)})
	if err := os.Chmod(filepath.Join(dir, "run.sh"), 0o4777); err != nil {
		t.Fatal(err)
	}
	l := scan(t, Source{Dir: dir})
	archive, digest := pack(t, l)
	if err := Unpack(t.Context(), bytes.NewReader(archive), out, Caps{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bundletest.ReadFiles(t, dir), bundletest.ReadFiles(t, out)); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]os.FileMode{"run.sh": 0o755, "empty": 0o644} {
		fi, err := os.Stat(filepath.Join(out, name))
		if err != nil || fi.Mode()&0o700 != want&0o700 || fi.Mode()&^want != 0 {
			t.Errorf("%s has mode %v, %v", name, fi.Mode(), err)
		}
	}
	if again, err := l.Digest(t.Context()); err != nil || again != digest {
		t.Errorf("packed as %s, but is %s (%v)", digest, again, err)
	}
	if _, there := pack(t, scan(t, Source{Dir: out})); there != digest {
		t.Error("the copy has another digest")
	}
}

func TestTheSameFilesGiveTheSameBytes(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	names := bundletest.SortedKeys(bundletest.HostileNames)
	for i := range names {
		bundletest.WriteFiles(t, one, map[string]string{names[i]: "text of " + names[i]})
		back := names[len(names)-1-i]
		bundletest.WriteFiles(t, two, map[string]string{back: "text of " + back})
		if err := os.Chmod(filepath.Join(two, back), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(two, back), time.Unix(5, 0), time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	bundletest.WriteFiles(t, one, map[string]string{"large": bundletest.Noise(5 << 20)})
	bundletest.WriteFiles(t, two, map[string]string{"large": bundletest.Noise(5 << 20)})
	want, digest := pack(t, scan(t, Source{Dir: one}))
	for range 3 {
		got, d := pack(t, scan(t, Source{Dir: two}))
		if !bytes.Equal(want, got) || d != digest {
			t.Fatal("two archives of the same files differ")
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if got, _ := pack(t, scan(t, Source{Dir: one})); !bytes.Equal(want, got) {
		t.Error("the bytes depend on the number of cores")
	}
	// And everything that matters shows in the digest.
	for what, change := range map[string]func(name string) error{
		"contents": func(name string) error { return os.WriteFile(name, []byte("other"), 0o644) },
		"name":     func(name string) error { return os.Rename(name, name+"2") },
		"mode":     func(name string) error { return os.Chmod(name, 0o755) },
	} {
		dir := t.TempDir()
		bundletest.WriteFiles(t, dir, map[string]string{"a": "x", "b": "x"})
		_, before := pack(t, scan(t, Source{Dir: dir}))
		if err := change(filepath.Join(dir, "b")); err != nil {
			t.Fatal(err)
		}
		if _, after := pack(t, scan(t, Source{Dir: dir})); after == before {
			t.Errorf("another %s does not show in the digest", what)
		}
	}
}

func TestPutSendsWhatUnpackReads(t *testing.T) {
	t.Parallel()
	dir, out, blobs := t.TempDir(), t.TempDir(), store.New(mem.New(), store.Options{})
	bundletest.WriteFiles(t, dir, bundletest.HostileNames)
	l := scan(t, Source{Dir: dir})
	b, err := Put(t.Context(), blobs, l)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := l.Digest(t.Context()); err != nil || d != b.Content {
		t.Errorf("content %s, want %s (%v)", b.Content, d, err)
	}
	r, err := blobs.OpenBlob(t.Context(), b.Blob)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := Unpack(t.Context(), r, out, Caps{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bundletest.HostileNames, bundletest.ReadFiles(t, out)); diff != "" {
		t.Error(diff)
	}
}

// onWrite does something when the first bytes arrive.
type onWrite struct {
	io.Writer
	once sync.Once
	do   func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	w.once.Do(w.do)
	return w.Writer.Write(p)
}

func TestALargeFileThatChangesWhilePackedIsNotShipped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a.bin": bundletest.Noise(8 << 20)})
	name := filepath.Join(dir, "a.bin")
	for what, change := range map[string]func() error{
		"grows":   func() error { return bundletest.AppendTo(name, "more") },
		"shrinks": func() error { return os.Truncate(name, 3<<20) },
	} {
		_, err := Pack(t.Context(), scan(t, Source{Dir: dir}), &onWrite{Writer: io.Discard, do: func() {
			if err := change(); err != nil {
				t.Error(err)
			}
		}})
		if !errors.Is(err, tree.ErrChanging) || fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), ".droverignore") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A log that grows all the time is shipped as it was at some moment, or not at
// all, but never mixed. Each line names the one before, so a mixture shows.
func TestAFileThatGrowsIsShippedAsItWasOnce(t *testing.T) {
	t.Parallel()
	dir, blobs := t.TempDir(), store.New(mem.New(), store.Options{})
	bundletest.WriteFiles(t, dir, map[string]string{"run.log": "", "a.py": "x"})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := bundletest.AppendTo(filepath.Join(dir, "run.log"), fmt.Sprintln(i)); err != nil {
				t.Error(err)
				return
			}
			if i%50 == 49 {
				runtime.Gosched()
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for range 20 {
		b, err := Put(t.Context(), blobs, scan(t, Source{Dir: dir}))
		if errors.Is(err, tree.ErrChanging) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out := t.TempDir()
		r, err := blobs.OpenBlob(t.Context(), b.Blob)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(Unpack(t.Context(), r, out, Caps{}), r.Close()); err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSuffix(bundletest.ReadFiles(t, out)["run.log"], "\n"), "\n") {
			if line != fmt.Sprint(i) && line != "" {
				t.Fatalf("line %d is %q", i, line)
			}
		}
	}
}

func TestPackSaysWhyAFileCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a": "x", "b": "x", "c": "x"})
	l := scan(t, Source{Dir: dir})
	if err := os.Remove(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := Pack(t.Context(), l, io.Discard); !errors.Is(err, tree.ErrChanging) || !strings.Contains(err.Error(), `"b"`) {
		t.Error("removed:", err)
	}
	// A link put there after the scan is not followed.
	if err := os.Symlink("a", filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := Pack(t.Context(), l, io.Discard); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Error("replaced by a link:", err)
	}
	if os.Getuid() == 0 {
		return // root reads everything
	}
	if err := os.Chmod(filepath.Join(dir, "a"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Pack(t.Context(), l, io.Discard); fault.KindOf(err) != fault.Denied {
		t.Error("unreadable:", err)
	}
}

func TestAFileThatGrewOverTheCapIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a": "x"})
	l := scan(t, Source{Dir: dir, Caps: Caps{Bytes: 10}})
	bundletest.WriteFiles(t, dir, map[string]string{"a": "much more than was there"})
	if _, err := Pack(t.Context(), l, io.Discard); !errors.Is(err, ErrTooBig) || fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
}

func TestPackStopsWhenAsked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a": bundletest.Noise(9 << 20), "b": "x"})
	l := scan(t, Source{Dir: dir})
	boom := errors.New("boom")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := Pack(ctx, l, &onWrite{Writer: io.Discard, do: func() { cancel(boom) }})
	if !errors.Is(err, boom) {
		t.Error(err)
	}
	if _, err := l.Digest(ctx); !errors.Is(err, boom) {
		t.Error(err)
	}
}

func TestPutLeavesNothingBehind(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a": "x"})
	l := scan(t, Source{Dir: dir})
	if _, err := Put(t.Context(), store.New(mem.New(), store.Options{}), l); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := Put(t.Context(), store.New(mem.New(), store.Options{}), l); err == nil {
		t.Fatal("a file that is gone was packed")
	}
	if got, err := os.ReadDir(tmp); err != nil || len(got) > 0 {
		t.Error(got, err)
	}
}

// BenchmarkPack5000 is the figure in the report: scan, pack and digest of 5,000
// files of 2 to 14 kB in 100 folders.
func BenchmarkPack5000(b *testing.B) {
	dir := b.TempDir()
	text := strings.Repeat("def f(x):\n    return [y * 2 for y in x]\n", 50)
	for i := range 5000 {
		size := 2000 + i*2400/1000%12000
		doc, _ := json.Marshal(map[string]int{"n": i})
		bundletest.WriteFiles(b, dir, map[string]string{fmt.Sprintf("d%02d/f%04d.py", i%100, i): string(doc) + strings.Repeat(text, 8)[:size]})
	}
	l := scan(b, Source{Dir: dir})
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			scan(b, Source{Dir: dir})
		}
	})
	b.Run("pack", func(b *testing.B) {
		b.SetBytes(l.Bytes)
		for b.Loop() {
			if _, err := Pack(b.Context(), l, io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("digest", func(b *testing.B) {
		b.SetBytes(l.Bytes)
		for b.Loop() {
			if _, err := l.Digest(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	archive, _ := pack(b, l)
	b.Run("unpack", func(b *testing.B) {
		b.SetBytes(l.Bytes)
		for i := 0; b.Loop(); i++ {
			if err := Unpack(b.Context(), bytes.NewReader(archive), filepath.Join(b.TempDir(), "out"), Caps{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
