package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/bundle/bundletest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

func save(t testing.TB, b Blobs, dir string, opt SaveOptions) Tree {
	t.Helper()
	tree, err := Save(t.Context(), b, dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestWhatIsSavedIsRestored(t *testing.T) {
	t.Parallel()
	dir, out, blobs := t.TempDir(), filepath.Join(t.TempDir(), "new"), store.New(mem.New(), store.Options{})
	bundletest.WriteFiles(t, dir, bundletest.HostileNames)
	bundletest.WriteFiles(t, dir, map[string]string{
		"model.bin": bundletest.Noise(3 << 20), "same1": "same", "same2": "same", "empty/dir/": "", "zero": "", ".tmp-x~": "kept",
		"latest": "-> steps/2", "steps/2/w": "w", "steps/up": "-> ../model.bin", "soon": "-> not/yet", "abs": "-> " + dir + "/steps/2",
		"steps/seen": "-> /opt/ml/checkpoints/steps/2", "steps/2/top": "-> /opt/ml/checkpoints/zero",
	})
	for name, mode := range map[string]os.FileMode{"zero": 0o755, "same1": 0o400} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	when := time.Unix(1_600_000_000, 123_000_000)
	if err := os.Chtimes(filepath.Join(dir, "zero"), when, when); err != nil {
		t.Fatal(err)
	}
	tree := save(t, blobs, dir, SaveOptions{As: "/opt/ml/checkpoints"})
	if err := Restore(t.Context(), blobs, tree, out); err != nil {
		t.Fatal(err)
	}
	want := bundletest.ReadFiles(t, dir)
	want["abs"], want["steps/seen"], want["steps/2/top"] = "-> steps/2", "-> 2", "-> ../../zero"
	if diff := cmp.Diff(want, bundletest.ReadFiles(t, out)); diff != "" {
		t.Error(diff)
	}
	for name, mode := range map[string]os.FileMode{"zero": 0o755, "same1": 0o400} {
		if fi, err := os.Stat(filepath.Join(out, name)); err != nil || fi.Mode() != mode {
			t.Errorf("%s has mode %v, %v", name, fi.Mode(), err)
		}
	}
	if fi, err := os.Stat(filepath.Join(out, "zero")); err != nil || !fi.ModTime().Equal(when) {
		t.Error("the time is", fi.ModTime(), err)
	}
	if again := save(t, blobs, out, SaveOptions{Settled: true}); again.Digest() != tree.Digest() || again.Bytes() != tree.Bytes() {
		t.Error("the copy has another digest")
	}
	// Over what is there: the tree's names win, others stay.
	bundletest.WriteFiles(t, out, map[string]string{"mine": "stays", "steps/2/w2": "stays"})
	if err := errors.Join(os.WriteFile(filepath.Join(out, "steps/2/w"), []byte("old"), 0o644), os.Remove(filepath.Join(out, "latest")), os.Symlink("x", filepath.Join(out, "latest"))); err != nil {
		t.Fatal(err)
	}
	want["mine"], want["steps/2/w2"] = "stays", "stays"
	if err := Restore(t.Context(), blobs, tree, out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, bundletest.ReadFiles(t, out)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatLeadsOutsideIsLeftOutAndNoted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a": "x", "up": "-> ..", "etc": "-> /etc/passwd", "around": "-> d/../../x", "d/": ""})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree := save(t, store.New(mem.New(), store.Options{}), dir, SaveOptions{})
	if len(tree.Files) != 1 || len(tree.Links) != 0 || len(tree.Dirs) != 1 {
		t.Errorf("%+v", tree)
	}
	notes := strings.Join(tree.Notes, "\n")
	for _, want := range []string{`"up"`, `"etc"`, `"around"`, "outside", `"pipe"`, "fifo"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %s in %s", want, notes)
		}
	}
}

func TestSkipLeavesOutFilesAndFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a": "x", "b": "x", "d/c": "x", "d/e": "x", ".drover-part/0": "x"})
	var asked []string
	tree := save(t, store.New(mem.New(), store.Options{}), dir, SaveOptions{Settled: true, Skip: func(p string) bool { asked = append(asked, p); return p == "b" || p == "d" }})
	if len(tree.Files) != 1 || tree.Files[0].Path != "a" || len(asked) != 3 {
		t.Errorf("%+v, asked for %q", tree.Files, asked)
	}
}

func TestUnchangedFilesAreNeitherReadNorSentAgain(t *testing.T) {
	t.Parallel()
	dir, cache := t.TempDir(), new(Cache)
	var sent atomic.Int64
	blobs := &hooked{Blobs: store.New(mem.New(), store.Options{}), puts: func() { sent.Add(1) }}
	bundletest.WriteFiles(t, dir, map[string]string{"a": "1", "b": "2", "d/c": "3"})
	expect := func(n int64, why string) Tree {
		t.Helper()
		sent.Store(0)
		tree := save(t, blobs, dir, SaveOptions{Cache: cache})
		if got := sent.Load(); got != n {
			t.Errorf("%s: sent %d files, want %d", why, got, n)
		}
		return tree
	}
	first := expect(3, "first")
	if again := expect(0, "unchanged"); again.Digest() != first.Digest() {
		t.Error("the digest changed")
	}
	// The same size and time, by another hand: ctime tells.
	name := filepath.Join(dir, "a")
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(name, []byte("9"), 0o644), os.Chtimes(name, fi.ModTime(), fi.ModTime())); err != nil {
		t.Fatal(err)
	}
	if changed := expect(1, "forged time"); changed.Digest() == first.Digest() {
		t.Error("a changed file was taken for the old one")
	}
	if err := errors.Join(os.WriteFile(name+"~", []byte("8"), 0o644), os.Rename(name+"~", name)); err != nil {
		t.Fatal(err)
	}
	expect(1, "replaced")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	expect(0, "removed")
	if len(cache.files) != 2 {
		t.Errorf("the cache still holds %q", bundletest.SortedKeys(cache.files))
	}
}

func TestAFileThatChangesWhileItIsReadIsNeverSaved(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(name string) error{
		"appended":    func(name string) error { return bundletest.AppendTo(name, "more") },
		"overwritten": func(name string) error { return os.WriteFile(name, []byte("NEW CONTENTS"), 0o644) },
		"truncated":   func(name string) error { return os.Truncate(name, 3) },
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, "a")
		bundletest.WriteFiles(t, dir, map[string]string{"a": "old contents"})
		hook := func() {
			if err := change(name); err != nil {
				t.Error(err)
			}
		}
		// Always: an error, and one that can be told.
		tree, err := Save(t.Context(), &hooked{Blobs: store.New(mem.New(), store.Options{}), after: hook}, dir, SaveOptions{})
		if !errors.Is(err, ErrChanging) && what != "truncated" {
			t.Errorf("%s always: %+v, %v", what, tree, err)
		}
		// Once: the next look finds it still, as it is then.
		blobs, left := &hooked{Blobs: store.New(mem.New(), store.Options{})}, 1
		blobs.after = func() {
			if left--; left == 0 {
				hook()
			}
		}
		bundletest.WriteFiles(t, dir, map[string]string{"a": "old contents"})
		tree = save(t, blobs, dir, SaveOptions{})
		out := t.TempDir()
		if err := Restore(t.Context(), blobs, tree, out); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(bundletest.ReadFiles(t, dir), bundletest.ReadFiles(t, out)); diff != "" {
			t.Errorf("%s once: %s", what, diff)
		}
	}
}

func TestAFileReplacedOrRemovedWhileItIsReadIsSavedAsItWas(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(name string) error{
		"replaced": func(name string) error {
			return errors.Join(os.WriteFile(name+"~", []byte("new"), 0o644), os.Rename(name+"~", name))
		},
		"removed": os.Remove,
	} {
		dir, out := t.TempDir(), t.TempDir()
		bundletest.WriteFiles(t, dir, map[string]string{"a": "old"})
		blobs := &hooked{Blobs: store.New(mem.New(), store.Options{})}
		blobs.before = func() {
			if err := change(filepath.Join(dir, "a")); err != nil {
				t.Error(err)
			}
		}
		tree := save(t, blobs, dir, SaveOptions{})
		if err := Restore(t.Context(), blobs, tree, out); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"a": "old"}, bundletest.ReadFiles(t, out)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

func TestAFileHeldOpenForWritingIsNotSettled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can be asked")
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "half"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("half of it"); err != nil {
		t.Fatal(err)
	}
	if _, err := Save(t.Context(), store.New(mem.New(), store.Options{}), dir, SaveOptions{}); !errors.Is(err, ErrChanging) || !strings.Contains(err.Error(), `"half"`) {
		t.Error(err)
	}
	if tree := save(t, store.New(mem.New(), store.Options{}), dir, SaveOptions{Settled: true}); tree.Bytes() != 10 {
		t.Error(tree)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := os.Open(f.Name()) // a reader is no writer
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if tree := save(t, store.New(mem.New(), store.Options{}), dir, SaveOptions{}); tree.Bytes() != 10 {
		t.Error(tree)
	}
}

// With Last one file that does not hold still holds up no other: the version that was
// saved before stands, or it is left out.
func TestAFileThatDoesNotHoldStillHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can be asked")
	}
	dir, out := t.TempDir(), t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"log": "one", "quiet": "q", "grows": "g", "goes": "x", "sub/quiet": "s"})
	blobs, last := &hooked{Blobs: store.New(mem.New(), store.Options{})}, map[string]File{}
	for _, f := range save(t, blobs, dir, SaveOptions{Last: last}).Files {
		last[f.Path] = f
	}
	if len(last) != 5 {
		t.Fatal(last)
	}
	var open []*os.File
	for _, name := range []string{"log", "new"} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(" and two"); err != nil {
			t.Fatal(err)
		}
		open = append(open, f)
	}
	bundletest.WriteFiles(t, dir, map[string]string{"quiet": "Q", "grows": "G"})
	var once sync.Once
	blobs.after = func() { // while it is saved
		once.Do(func() {
			if err := bundletest.AppendTo(filepath.Join(dir, "grows"), "more"); err != nil {
				t.Error(err)
			}
			if err := os.Remove(filepath.Join(dir, "goes")); err != nil {
				t.Error(err)
			}
		})
	}
	tree := save(t, blobs, dir, SaveOptions{Last: last})
	if err := Restore(t.Context(), blobs, tree, out); err != nil {
		t.Fatal(err)
	}
	got := bundletest.ReadFiles(t, out)
	if g := got["grows"]; g != "g" && g != "G" { // it was read before it grew, or not at all
		t.Errorf("what grew is %q", g)
	}
	for name := range map[string]bool{"grows": true, "goes": true} { // the latter was there when it was looked for last
		delete(got, name)
	}
	if diff := cmp.Diff(map[string]string{"log": "one", "quiet": "Q", "sub/quiet": "s"}, got); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	// What has gone since the last time is not brought back by it.
	if files := save(t, blobs, dir, SaveOptions{Last: last}).Files; len(files) != 4 {
		t.Errorf("saved %v", files)
	}
	for _, f := range open {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if tree := save(t, blobs, dir, SaveOptions{Last: last}); tree.Bytes() != int64(len("one and two and twoQGmores")) {
		t.Error(tree)
	}
}

// A trainer that renames whole generations into place, in a fixed order, a
// before b: any saved pair must be one that existed, and a file must be whole.
func TestRenameWritersAreOnlySavedAsTheyWere(t *testing.T) {
	t.Parallel()
	dir, aside, blobs := t.TempDir(), t.TempDir(), store.New(mem.New(), store.Options{})
	write := func(name string, gen int) error {
		tmp := filepath.Join(aside, name)
		text := strings.Repeat(fmt.Sprintf("%08d\n", gen), 3000)
		return errors.Join(os.WriteFile(tmp, []byte(text), 0o644), os.Rename(tmp, filepath.Join(dir, name)))
	}
	if err := errors.Join(write("a", 0), write("b", 0)); err != nil {
		t.Fatal(err)
	}
	race(t, func(i int) error { return errors.Join(write("a", i+1), write("b", i+1)) }, func() bool {
		tree, err := Save(t.Context(), blobs, dir, SaveOptions{})
		if errors.Is(err, ErrChanging) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		a, b := generation(t, blobs, tree.Files[0]), generation(t, blobs, tree.Files[1])
		if a != b && a != b+1 {
			t.Fatalf("saved a of generation %d with b of %d, which never stood together", a, b)
		}
		return true
	})
}

// generation checks that a saved file is whole and says which it is.
func generation(t *testing.T, b Blobs, f File) int {
	t.Helper()
	var text strings.Builder
	if err := copyBlob(t.Context(), b, f, &text); err != nil {
		t.Fatal(err)
	}
	gen, err := strconv.Atoi(text.String()[:8])
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != strings.Repeat(fmt.Sprintf("%08d\n", gen), 3000) {
		t.Fatalf("%q of generation %d is torn", f.Path, gen)
	}
	return gen
}

// race runs a writer beside saves until a few have been good, or many tried.
func race(t *testing.T, write func(i int) error, save func() bool) {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := write(i); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	good := 0
	for tried := 0; tried < 6 && good < 4; tried++ {
		if save() {
			good++
		}
	}
	t.Logf("%d saves were good", good)
}

// In-place writers open a file, write a record in two halves, and close it.
// They take their steps wherever Save can be met half-way, by a seeded dice:
// what is saved holds no half record.
func TestInPlaceWritersAreSavedCompleteOrNotAtAll(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere a pause of a second between two halves looks like the end")
	}
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"log": "", "other": "x"})
	dice := rand.New(rand.NewPCG(3, 5))
	w := &writer{name: filepath.Join(dir, "log")}
	step := func() {
		if dice.IntN(5) == 0 {
			if err := w.step(dice.IntN(3) == 0); err != nil {
				t.Error(err)
			}
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	blobs := &hooked{Blobs: store.New(mem.New(), store.Options{})}
	s := &saver{root: root, dir: dir, blobs: blobs, cache: new(Cache)}
	// Skip is asked while Save looks, in one goroutine; files are sent by
	// several, which take turns.
	s.opt.Skip = func(string) bool { step(); return false }
	var one sync.Mutex
	locked := func() { one.Lock(); defer one.Unlock(); step() }
	blobs.before, blobs.after = locked, locked
	good, refused := 0, 0
	for range 120 {
		step()
		tree, err := s.saveOnce(t.Context())
		switch {
		case errors.Is(err, ErrChanging):
			refused++
			continue
		case err != nil:
			t.Fatal(err)
		}
		good++
		if tree.Files[0].Size%128 != 0 {
			t.Fatalf("saved half a record: %d bytes", tree.Files[0].Size)
		}
	}
	t.Logf("%d saved, %d refused", good, refused)
	if good < 10 || refused < 10 {
		t.Errorf("the dice shows too little: %d saved, %d refused", good, refused)
	}
	if err := w.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// writer writes one record in four steps.
type writer struct {
	name string
	f    *os.File
	at   int
}

func (w *writer) step(truncate bool) (err error) {
	half := strings.Repeat("r", 64)
	switch w.at++; w.at % 4 {
	case 1:
		mode := os.O_APPEND
		if truncate {
			mode = os.O_TRUNC
		}
		w.f, err = os.OpenFile(w.name, os.O_WRONLY|mode, 0)
	case 2, 3:
		_, err = w.f.WriteString(half)
	default:
		err = w.f.Close()
	}
	return err
}

func TestMoreFilesThanCanBeOpenAreOneSet(t *testing.T) {
	t.Parallel()
	dir, out, cache := t.TempDir(), t.TempDir(), new(Cache)
	for i := range 2*openAtOnce + 3 {
		bundletest.WriteFiles(t, dir, map[string]string{fmt.Sprintf("%04d", i): fmt.Sprint(i)})
	}
	// While the first group is read, a file of the same group is replaced: had
	// all been open, that would do no harm; so the whole is looked at again.
	blobs, done := &hooked{Blobs: store.New(mem.New(), store.Options{})}, atomic.Bool{}
	blobs.after = func() {
		if !done.Swap(true) {
			if err := errors.Join(os.WriteFile(filepath.Join(out, "x"), []byte("new"), 0o644), os.Rename(filepath.Join(out, "x"), filepath.Join(dir, "0001"))); err != nil {
				t.Error(err)
			}
		}
	}
	tree := save(t, blobs, dir, SaveOptions{Cache: cache})
	if err := Restore(t.Context(), blobs, tree, out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bundletest.ReadFiles(t, dir), bundletest.ReadFiles(t, out)); diff != "" {
		t.Error(diff)
	}
}

func TestALinkSwappedInIsNotFollowed(t *testing.T) {
	t.Parallel()
	dir, intact := bundletest.Cage(t)
	bundletest.WriteFiles(t, dir, map[string]string{"a": "x"})
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s := &saver{root: root, dir: dir, blobs: store.New(mem.New(), store.Options{}), cache: new(Cache)}
	seen, err := s.scanFolders(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"../canary", "b", "pipe"} {
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "a")), os.WriteFile(filepath.Join(dir, "b"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if target == "pipe" {
			err = syscall.Mkfifo(filepath.Join(dir, "a"), 0o600)
		} else {
			err = os.Symlink(target, filepath.Join(dir, "a"))
		}
		if err != nil {
			t.Fatal(err)
		}
		if f, err := s.openSeenFile(seen.files[0]); err == nil {
			f.Close()
			t.Errorf("opened what %s stands for", target)
		}
	}
	intact()
}

func TestSaveSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	if _, err := Save(t.Context(), store.New(mem.New(), store.Options{}), filepath.Join(t.TempDir(), "none"), SaveOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a": "x"})
	if _, err := Save(t.Context(), broken{}, dir, SaveOptions{}); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), `"a"`) {
		t.Error(err)
	}
	boom := errors.New("boom")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	if _, err := Save(ctx, store.New(mem.New(), store.Options{}), dir, SaveOptions{}); !errors.Is(err, boom) {
		t.Error(err)
	}
}

var errBroken = errors.New("the store is gone")

type broken struct{}

func (broken) PutBlob(context.Context, io.ReadSeeker) (store.Digest, int64, error) {
	return "", 0, errBroken
}
func (broken) OpenBlob(context.Context, store.Digest) (io.ReadCloser, error) { return nil, errBroken }
func (broken) HasBlob(context.Context, store.Digest) (bool, error)           { return false, errBroken }

func TestRestoreShowsNothingUntilAllIsThere(t *testing.T) {
	t.Parallel()
	dir, out, blobs := t.TempDir(), t.TempDir(), store.New(mem.New(), store.Options{})
	bundletest.WriteFiles(t, dir, map[string]string{"a": "new a", "b": "new b", "c": "new c"})
	tree := save(t, blobs, dir, SaveOptions{})
	bundletest.WriteFiles(t, out, map[string]string{"a": "old", ".drover-part/7": "of one that died"})
	for what, spoil := range map[string]func(*Tree){
		"a blob that is gone": func(t *Tree) { t.Files[2].SHA256 = abc },
		"a size too large":    func(t *Tree) { t.Files[2].Size++ },
		"a size too small":    func(t *Tree) { t.Files[2].Size-- },
	} {
		bad := Tree{Files: append([]File(nil), tree.Files...)}
		spoil(&bad)
		if err := Restore(t.Context(), blobs, bad, out); err == nil || !strings.Contains(err.Error(), `"c"`) {
			t.Errorf("%s: %v", what, err)
		}
		if diff := cmp.Diff(map[string]string{"a": "old"}, bundletest.ReadFiles(t, out)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if err := Restore(t.Context(), lying{blobs}, tree, out); !errors.Is(err, store.ErrCorrupt) {
		t.Error("changed contents:", err)
	}
	if err := Restore(t.Context(), blobs, tree, out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bundletest.ReadFiles(t, dir), bundletest.ReadFiles(t, out)); diff != "" {
		t.Error(diff)
	}
}

// lying gives other contents of the right length, as a Blobs must tell.
type lying struct{ Blobs }

func (l lying) OpenBlob(ctx context.Context, d store.Digest) (io.ReadCloser, error) {
	r, err := l.Blobs.OpenBlob(ctx, d)
	return corrupt{r}, err
}

type corrupt struct{ io.ReadCloser }

func (c corrupt) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		err = store.ErrCorrupt
	}
	return n, err
}

// hooked is a store with something done around its calls.
type hooked struct {
	Blobs
	before, after func()
	puts          func()
}

func (h *hooked) PutBlob(ctx context.Context, body io.ReadSeeker) (store.Digest, int64, error) {
	if h.puts != nil {
		h.puts()
	}
	if h.before != nil {
		h.before()
	}
	d, n, err := h.Blobs.PutBlob(ctx, body)
	if h.after != nil {
		h.after()
	}
	return d, n, err
}
