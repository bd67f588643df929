package tree

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/bundletest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// putDeep writes a file at a path that may be longer than the kernel takes at once.
func putDeep(t *testing.T, dir, name string) {
	t.Helper()
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		if err := at.Mkdir(part, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		next, err := at.OpenRoot(part)
		at.Close()
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	defer at.Close()
	if err := at.WriteFile(parts[len(parts)-1], []byte("leaf"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsSavedCanBeBroughtHome(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat(strings.Repeat("w", 255)+"/", 12) // 3,072 bytes
	for name, row := range map[string]struct{ file, why string }{
		"as deep as may be":    {strings.Repeat("d/", MaxDepth) + "leaf", ""},
		"deeper":               {strings.Repeat("d/", MaxDepth+1) + "leaf", "513 folders deep, above 512"},
		"as 5,000 folders are": {strings.Repeat("d/", 5000) + "leaf", "3073 bytes, above 3072"},
		"as long as may be":    {wide[:MaxPath-2] + "/x", ""},
		"longer":               {wide[:MaxPath-2] + "/xy", "a path of 3073 bytes, above 3072"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, blobs := t.TempDir(), store.New(mem.New(), store.Options{})
			putDeep(t, dir, row.file)
			bundletest.WriteFiles(t, dir, map[string]string{"other": "x"})
			tree, err := Save(t.Context(), blobs, dir, SaveOptions{Settled: true})
			if row.why != "" {
				if !errors.Is(err, ErrLimit) || fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" || !strings.Contains(err.Error(), row.why) && !strings.Contains(err.Error(), "513 folders") {
					t.Errorf("saved with %v", err)
				}
				if err != nil && (!strings.Contains(err.Error(), row.file[:20]) || len(err.Error()) > 500) {
					t.Errorf("the path is not named, or fills a screen: %v", err)
				}
				for o, err := range blobs.List(t.Context(), "") {
					t.Errorf("stored: %s, %v", o.Key, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			d, err := PutTree(t.Context(), blobs, tree)
			if err != nil {
				t.Fatal(err)
			}
			home := filepath.Join(t.TempDir(), "out")
			again, err := LoadTree(t.Context(), blobs, d)
			if err == nil {
				err = Restore(t.Context(), blobs, again, home)
			}
			if err == nil {
				_, err = TarGz(t.Context(), blobs, []Named{{"node 0", again}}, io.Discard)
			}
			if err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(filepath.Join(home, row.file)); string(text) != "leaf" {
				t.Errorf("a program finds %q, %v", text, err)
			}
		})
	}
}

func TestATreeThatCouldNotBeReadIsNotStored(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]Tree{
		"a path":    files("a", strings.Repeat("p/", MaxPath/2)+"x"),
		"a depth":   files(strings.Repeat("p/", MaxDepth+1) + "x"),
		"a name":    files(strings.Repeat("n", MaxName+1)),
		"a link":    {Links: []Link{{strings.Repeat("n", MaxName+1), "x"}}},
		"a folder":  {Dirs: []string{strings.Repeat("n", MaxName+1)}},
		"a number":  {Dirs: make([]string, MaxEntries+1)},
		"all sizes": {Files: []File{{Path: "a", Size: math.MaxInt64, SHA256: abc}, {Path: "b", Size: 1, SHA256: abc}}},
	} {
		blobs := store.New(mem.New(), store.Options{})
		if _, err := PutTree(t.Context(), blobs, bad); !errors.Is(err, ErrLimit) || fault.KindOf(err) != fault.Invalid {
			t.Errorf("beyond %s: %v", name, err)
		}
		for o, err := range blobs.List(t.Context(), "") {
			t.Errorf("beyond %s: stored %s, %v", name, o.Key, err)
		}
		if err := Restore(t.Context(), blobs, bad, t.TempDir()); fault.KindOf(err) != fault.Invalid {
			t.Errorf("beyond %s: restored with %v", name, err)
		}
	}
}

func TestAListWithTooManyEntriesIsNotHeld(t *testing.T) {
	t.Parallel()
	blobs := store.New(mem.New(), store.Options{})
	list := []byte(`{"dirs":[""` + strings.Repeat(`,""`, MaxEntries) + `]}`)
	d, _, err := blobs.PutBlob(t.Context(), bytes.NewReader(list))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadTree(t.Context(), blobs, d); !errors.Is(err, ErrLimit) {
		t.Errorf("read with %v", err)
	}
}

func TestAFolderWithTooManyFilesIsRefusedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a": "x", "b/c": "x", "b/d/": "", "e": "-> a"})
	var reads atomic.Int64
	blobs := &hooked{Blobs: store.New(mem.New(), store.Options{}), puts: func() { reads.Add(1) }}
	if _, err := Save(t.Context(), blobs, dir, SaveOptions{Settled: true, maxEntries: 4}); err != nil {
		t.Error(err)
	}
	// What is left out is remembered, too, until it is told.
	bundletest.WriteFiles(t, dir, map[string]string{"out": "-> /etc"})
	if _, err := Save(t.Context(), blobs, dir, SaveOptions{Settled: true, maxEntries: 4}); !errors.Is(err, ErrLimit) {
		t.Errorf("with a name that is left out: %v", err)
	}
	reads.Store(0)
	_, err := Save(t.Context(), blobs, dir, SaveOptions{Settled: true, maxEntries: 3})
	if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "more than 3 files") || !strings.Contains(fault.Hint(err), "tar -cf") || reads.Load() > 0 {
		t.Errorf("after %d files: %v", reads.Load(), err)
	}
}

func TestHolesCountAsWhatIsStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"small": "x"})
	const size = 1 << 40
	hole, err := os.Create(filepath.Join(dir, "sparse"))
	if err == nil {
		err = errors.Join(hole.Truncate(size), hole.Close())
	}
	if err != nil {
		t.Skip("no file system for large files with holes:", err)
	}
	var reads atomic.Int64
	blobs := &hooked{Blobs: store.New(mem.New(), store.Options{}), puts: func() { reads.Add(1) }}
	for _, most := range []int64{1, 1 << 30, size} {
		_, err := Save(t.Context(), blobs, dir, SaveOptions{Settled: true, MaxBytes: most})
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), `"sparse"`) || reads.Load() > 0 {
			t.Errorf("with a limit of %d, after %d files: %v", most, reads.Load(), err)
		}
	}
}

// growing is a place for blobs beside which a file grows as fast as it is read.
type growing struct {
	Blobs
	file string
}

func (g growing) PutBlob(ctx context.Context, body io.ReadSeeker) (store.Digest, int64, error) {
	for read := 0; ; {
		n, err := body.Read(make([]byte, 4096))
		if read += n; read > 1<<20 {
			return "", 0, errors.New("the file has no end")
		}
		if err != nil {
			break
		}
		f, err := os.OpenFile(g.file, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.Write(make([]byte, 4096))
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return "", 0, err
		}
	}
	return g.Blobs.PutBlob(ctx, body)
}

func TestAFileThatGrowsAsItIsReadHasAnEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"log": strings.Repeat("x", 10_000)})
	blobs := growing{store.New(mem.New(), store.Options{}), filepath.Join(dir, "log")}
	tree, err := Save(t.Context(), blobs, dir, SaveOptions{Settled: true})
	if err != nil || len(tree.Files) != 1 || tree.Files[0].Size != 10_000 {
		t.Errorf("saved %+v, %v", tree.Files, err)
	}
	if _, err := Save(t.Context(), blobs, dir, SaveOptions{}); !errors.Is(err, ErrChanging) {
		t.Errorf("while it is written to: %v", err)
	}
}

func TestACancelReachesALookAtAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 100 {
		bundletest.WriteFiles(t, dir, map[string]string{fmt.Sprint(i): "x"})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough, asked := errors.New("cancelled"), 0
	_, err := Save(ctx, store.New(mem.New(), store.Options{}), dir, SaveOptions{Settled: true, Skip: func(string) bool {
		asked++
		cancel(enough)
		return false
	}})
	if !errors.Is(err, enough) || asked != 1 {
		t.Errorf("after %d names: %v", asked, err)
	}
}

func TestTheStoredFormIsWhatItWas(t *testing.T) {
	t.Parallel()
	away := &Away{Bucket: "s3://b", Below: "x/"}
	for name, row := range map[string]struct {
		tree Tree
		want string
	}{
		"nothing": {Tree{}, `{}`},
		"away":    {Tree{Away: away}, `{"away":{"bucket":"s3://b","below":"x/"}}`},
		"all": {Tree{Files: []File{{"a<b", 1, 0o644, abc, 5}, {"z\xff", 0, 0o755, abc, 0}}, Dirs: []string{"d", "e"}, Links: []Link{{"l", "a"}}, Away: away},
			`{"files":[{"path":"a\u003cb","size":1,"mode":420,"sha256":"` + string(abc) + `","time":5},{"path":"\u0000ev8=","size":0,"mode":493,"sha256":"` + string(abc) +
				`"}],"dirs":["d","e"],"links":[{"path":"l","target":"a"}],"away":{"bucket":"s3://b","below":"x/"}}`},
		"links alone": {Tree{Links: []Link{{"l", "a"}, {"m", "b"}}}, `{"links":[{"path":"l","target":"a"},{"path":"m","target":"b"}]}`},
	} {
		got, err := json.Marshal(row.tree)
		if diff := cmp.Diff(row.want, string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		var back Tree
		if err := json.Unmarshal(got, &back); err != nil || !cmp.Equal(row.tree, back) {
			t.Errorf("%s: read back as %+v, %v", name, back, err)
		}
		body := newListBody(row.tree)
		for _, from := range []int64{int64(len(got)), 0, int64(len(got)) / 2, 1, int64(len(got)) + 10} {
			at, err := body.Seek(from, io.SeekStart)
			text, rerr := io.ReadAll(body)
			if want := got[min(int(from), len(got)):]; at != from || err != nil || rerr != nil || !bytes.Equal(text, want) {
				t.Errorf("%s: from byte %d it reads %q, %v, %v; want %q", name, from, text, err, rerr, want)
			}
		}
	}
	for _, bad := range []string{"", "[]", "{", `{"files":{}}`, `{"files":[}`, `{"dirs":["a"]} x`, `{"dirs":["a"]}{}`, `{"dirs":[1]}`, "null"} {
		if tree, err := decodeList(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, tree)
		}
	}
	if tree, err := decodeList(strings.NewReader(` {"later":[{"x":1}],"files":null,"dirs":["a"]} `)); err != nil || len(tree.Dirs) != 1 {
		t.Errorf("a later drover's: %+v, %v", tree, err)
	}
}

// live is how many bytes are in use on the heap.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Not parallel: it measures the heap.
func TestTheMemoryOfAListIsBounded(t *testing.T) {
	const n = 40_000
	var tree Tree
	for i := range n {
		tree.Files = append(tree.Files, File{Path: fmt.Sprintf("outputs/of/a/program/%03d/file-number-%07d.json", i/1000, i), Size: 1, Mode: 0o644, SHA256: store.Digest(fmt.Sprintf("%064x", i)), Time: 1})
	}
	perEntry := func(what string, n int, most int64, before int64) {
		t.Helper()
		if each := (live() - before) / int64(n); each > most {
			t.Errorf("%s: %d bytes for each file, above %d", what, each, most)
		}
	}
	// While the list is stored: one entry at a time.
	var during int64
	before := live()
	sink := &watching{Blobs: hashOnly{}, at: 2 << 20, do: func() { during = live() - before }}
	if _, err := PutTree(t.Context(), sink, tree); err != nil {
		t.Fatal(err)
	}
	if during == 0 || during > 1<<20 {
		t.Errorf("%d bytes are held while the list of %d files is stored", during, n)
	}
	blobs := store.New(mem.New(), store.Options{})
	d, err := PutTree(t.Context(), blobs, tree)
	if err != nil {
		t.Fatal(err)
	}
	before = live()
	read, err := LoadTree(t.Context(), blobs, d)
	if err != nil {
		t.Fatal(err)
	}
	perEntry("a list that was read", n, 300, before)
	runtime.KeepAlive(read)
	runtime.KeepAlive(tree)
}

// watching calls do once, when so many bytes of a blob were read.
type watching struct {
	Blobs
	at int
	do func()
}

func (w *watching) PutBlob(ctx context.Context, body io.ReadSeeker) (store.Digest, int64, error) {
	for read, buf := 0, make([]byte, 64<<10); read < w.at; {
		n, err := body.Read(buf)
		if err != nil {
			return "", 0, err
		}
		read += n
	}
	w.do()
	return w.Blobs.PutBlob(ctx, body)
}

// Not parallel: it measures the heap.
func TestTheMemoryOfASaveIsBounded(t *testing.T) {
	const n = 8_000
	dir := t.TempDir()
	for i := range n {
		bundletest.WriteFiles(t, dir, map[string]string{fmt.Sprintf("%03d/file-number-%07d.json", i/1000, i): "x"})
	}
	for name, opt := range map[string]SaveOptions{"of outputs": {Settled: true}, "of checkpoints": {Settled: true, Cache: new(Cache)}} {
		before, during, puts := live(), int64(0), 0
		blobs := &hooked{Blobs: hashOnly{}, puts: func() {}}
		last := func() {
			if puts++; puts == n-openAtOnce {
				during = live() - before
			}
		}
		width := make(chan struct{}, 1)
		blobs.puts = func() { width <- struct{}{}; last(); <-width }
		tree, err := Save(t.Context(), blobs, dir, opt)
		if err != nil {
			t.Fatal(err)
		}
		if during == 0 || during/n > maxEntryMemory {
			t.Errorf("%s: %d bytes for each file, above %d", name, during/n, maxEntryMemory)
		}
		runtime.KeepAlive(tree)
	}
}

// maxEntryMemory is what MaxEntries was chosen by.
const maxEntryMemory = 500
