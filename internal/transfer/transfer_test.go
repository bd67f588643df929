package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/flaky"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/s3/s3test"
	"github.com/drover-run/drover/store/storetest"
)

// server is a strict S3 server with a foreign bucket.
func server(t *testing.T) (*s3test.Server, *store.Store) {
	t.Helper()
	s := &s3test.Server{Bucket: "data"}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testtest")
	b, err := s3.Open(t.Context(), "s3://data", s3.Options{Endpoint: h.URL, Region: "us-east-1", Foreign: true, Clock: &storetest.Clock{}})
	if err != nil {
		t.Fatal(err)
	}
	return s, store.New(b, store.Options{Clock: &storetest.Clock{}})
}

func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// strange are names that a store's keys may not have.
var strange = map[string]string{
	"a.b": "1", "a/b": "2", "a0": "3", "a b/ü/日本": "4", ".hidden/.x": "5", "100%+1?&<>#": "6", "new\nline": "7",
	`back\slash`: "8", "empty": "", "deep/er/and/deeper": "9", "-dash": "10", "~": "11",
}

func TestAFolderComesBackAsItWas(t *testing.T) {
	_, s := server(t)
	big := strings.Repeat("0123456789abcdef", 20<<16) // 20 MiB: in parts
	files := maps.Clone(strange)
	files["big"] = big
	from := write(t, t.TempDir(), files)
	at := Place{Store: s, Key: "some where/x"}
	var last report.CopyProgress
	done, err := Put(t.Context(), from, at, Options{Watch: func(p report.CopyProgress) { last = p }})
	if err != nil {
		t.Fatal(err)
	}
	bytes := int64(0)
	for _, text := range files {
		bytes += int64(len(text))
	}
	want := report.CopyProgress{Files: int64(len(files)), Bytes: bytes, Found: int64(len(files)), FoundBytes: bytes, Counted: true}
	if diff := cmp.Diff(want, done.CopyProgress); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
	if last != done.CopyProgress {
		t.Errorf("the last that was told is %+v", last)
	}
	to := filepath.Join(t.TempDir(), "new")
	done, err = Get(t.Context(), at, to, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, done.CopyProgress); diff != "" {
		t.Errorf("brought (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(files, read(t, to)); diff != "" {
		t.Errorf("files (-want +got):\n%.2000s", diff)
	}
}

func TestASecondRunSendsOnlyWhatIsNewOrChanged(t *testing.T) {
	srv, s := server(t)
	from := write(t, t.TempDir(), map[string]string{"same": "same", "changed": "old!", "touched": "touched", "x/y": "y"})
	at := Place{Store: s, Key: "x"}
	if _, err := Put(t.Context(), from, at, Options{}); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Minute)
	write(t, from, map[string]string{"changed": "new!", "fresh": "fresh"})
	for _, name := range []string{"changed", "touched"} {
		if err := os.Chtimes(filepath.Join(from, name), later, later); err != nil {
			t.Fatal(err)
		}
	}
	srv.Requests()
	done, err := Put(t.Context(), from, at, Options{})
	if err != nil || done.Files != 2 || done.Same != 3 {
		t.Errorf("the second put: %+v, %v; want 2 sent, 3 there", done, err)
	}
	var puts []string
	for _, line := range srv.Requests() {
		if path, put := strings.CutPrefix(line, "PUT "); put {
			puts = append(puts, strings.FieldsFunc(path, func(r rune) bool { return r == 0x3f })[0])
		}
	}
	slices.Sort(puts)
	if diff := cmp.Diff([]string{"/data/x/changed", "/data/x/fresh"}, puts); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestASecondRunBringsOnlyWhatIsNewOrChanged(t *testing.T) {
	srv, s := server(t)
	for _, key := range []string{"x/same", "x/touched", "x/edited", "x/gone", "y/other"} {
		srv.Set(key, "text of "+key)
	}
	to, at := t.TempDir(), Place{Store: s, Key: "x/"}
	if _, err := Get(t.Context(), at, to, Options{}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := errors.Join(os.WriteFile(filepath.Join(to, "edited"), []byte("TEXT OF X/EDITED"), 0o644), os.Remove(filepath.Join(to, "gone")),
		os.Chtimes(filepath.Join(to, "touched"), now, now), os.Chtimes(filepath.Join(to, "edited"), now.Add(time.Hour), now.Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	srv.Set("x/new", "new")
	srv.Requests()
	done, err := Get(t.Context(), at, to, Options{})
	if err != nil || done.Files != 3 || done.Same != 2 {
		t.Errorf("the second get: %+v, %v; want 3 brought (edited, gone, new), 2 there", done, err)
	}
	if n := len(srv.Requests()); n != 4 {
		t.Errorf("%d requests, want a listing and 3 objects", n)
	}
	want := map[string]string{"new": "new"}
	for _, name := range []string{"same", "touched", "edited", "gone"} {
		want[name] = "text of x/" + name
	}
	if diff := cmp.Diff(want, read(t, to)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if done, err = Get(t.Context(), at, to, Options{Checksum: true}); err != nil || done.Same != 5 {
		t.Errorf("by checksums: %+v, %v; want all the same", done, err)
	}
}

func TestContentDecidesWhereItIsAskedFor(t *testing.T) {
	_, s := server(t)
	from := write(t, t.TempDir(), map[string]string{"f": "one"})
	at := Place{Store: s, Key: "x"}
	if _, err := Put(t.Context(), from, at, Options{}); err != nil {
		t.Fatal(err)
	}
	write(t, from, map[string]string{"f": "two"}) // of the same size, and as old
	if done, err := Put(t.Context(), from, at, Options{}); err != nil || done.Same != 1 {
		t.Errorf("by time: %+v, %v", done, err)
	}
	if done, err := Put(t.Context(), from, at, Options{Checksum: true}); err != nil || done.Files != 1 {
		t.Errorf("by checksum: %+v, %v; want it sent", done, err)
	}
}

func TestNothingIsWrittenOutsideTheTarget(t *testing.T) {
	srv, s := server(t)
	base := t.TempDir()
	to := filepath.Join(base, "in", "here")
	outside := write(t, filepath.Join(base, "outside"), map[string]string{"kept": "kept"})
	if err := errors.Join(os.MkdirAll(to, 0o755), os.Symlink(outside, filepath.Join(to, "link")), os.Symlink(filepath.Join(outside, "kept"), filepath.Join(to, "file"))); err != nil {
		t.Fatal(err)
	}
	hostile := []string{"x/../up", "x/../../up", "x//abs", "x/a/../../../b", "x/./dot", "x/a//b", "x/link/kept", "x/link/new", "x/" + strings.Repeat("n", 300), "x/" + ours + "1/lock", "x/file/below"}
	for _, key := range append(hostile, "x/good", "x/file", "x/sub/") {
		srv.Set(key, "hostile")
	}
	srv.Set("x/marker/", "")
	done, err := Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fmt.Sprint(err), "left out") || !strings.Contains(fmt.Sprint(err), "more") {
		t.Errorf("get: %v", err)
	}
	if done.Files != 2 {
		t.Errorf("%d files were brought, want good and file", done.Files)
	}
	if diff := cmp.Diff(map[string]string{"kept": "kept"}, read(t, outside)); diff != "" {
		t.Errorf("outside (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(filepath.Join(to, "file"))
	if info, e := os.Lstat(filepath.Join(to, "file")); err != nil || e != nil || string(text) != "hostile" || !info.Mode().IsRegular() {
		t.Errorf("the link was written through, or is there still: %q, %v, %v", text, err, e)
	}
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the target: %v, %v", entries, err)
	}
	if info, err := os.Stat(filepath.Join(to, "marker")); err != nil || !info.IsDir() {
		t.Errorf("the marker of an empty folder: %v", err)
	}
}

func TestAFileAndAFolderOfOneName(t *testing.T) {
	srv, s := server(t)
	srv.Set("x/a", "file")
	srv.Set("x/a/b", "below")
	srv.Set("x/c", "c")
	to := t.TempDir()
	done, err := Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{workers: 1})
	if done.Files != 2 || !strings.Contains(fmt.Sprint(err), `"x/a/b": a file and a folder of one name`) {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestOneFile(t *testing.T) {
	srv, s := server(t)
	dir := write(t, t.TempDir(), map[string]string{"f.txt": "text"})
	srv.Set("d/f.txt.bak", "another one")
	for _, key := range []string{"d/f.txt", "d/", "", "d/other"} {
		if _, err := Put(t.Context(), filepath.Join(dir, "f.txt"), Place{Store: s, Key: key}, Options{}); err != nil {
			t.Errorf("put to %q: %v", key, err)
		}
	}
	for _, key := range []string{"d/f.txt", "f.txt", "d/other"} {
		to := filepath.Join(t.TempDir(), "new")
		done, err := Get(t.Context(), Place{Store: s, Key: key}, to, Options{})
		if text, e := os.ReadFile(to); err != nil || e != nil || string(text) != "text" || done.Files != 1 {
			t.Errorf("get %q: %q, %v, %v", key, text, err, e)
		}
		into := t.TempDir()
		if _, err := Get(t.Context(), Place{Store: s, Key: key}, into, Options{}); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(into, filepath.Base(key))); err != nil {
			t.Errorf("get %q into a folder: %v", key, err)
		}
	}
	for _, key := range []string{"nothing", "d/f.tx", "d/f.txt/"} {
		to := filepath.Join(t.TempDir(), "new")
		if _, err := Get(t.Context(), Place{Store: s, Key: key}, to, Options{}); fault.KindOf(err) != fault.Missing {
			t.Errorf("get %q: %v, want fault.Missing", key, err)
		}
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("get %q made %s", key, to)
		}
	}
}

func TestLinksPipesAndSockets(t *testing.T) {
	_, s := server(t)
	from := write(t, t.TempDir(), map[string]string{"file": "text", "sub/f": "f"})
	if err := errors.Join(os.Symlink("file", filepath.Join(from, "to-file")), os.Symlink("sub", filepath.Join(from, "to-folder")), os.Symlink(".", filepath.Join(from, "loop")),
		os.Symlink("nowhere", filepath.Join(from, "broken")), syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	done, err := Put(t.Context(), from, Place{Store: s, Key: "x"}, Options{})
	if err != nil || done.Files != 3 || done.LeftOut != 4 {
		t.Errorf("%+v, %v; want 3 files (one by its link), 4 left out", done, err)
	}
}

func TestNamesThatNoObjectCanHave(t *testing.T) {
	_, s := server(t)
	from := write(t, t.TempDir(), map[string]string{"good": "1", "not\xffUTF-8": "2"})
	done, err := Put(t.Context(), from, Place{Store: s, Key: "x"}, Options{})
	if done.Files != 1 || fault.KindOf(err) != fault.Invalid || !strings.Contains(fmt.Sprint(err), `left out "not\xffUTF-8"`) {
		t.Errorf("%+v, %v", done, err)
	}
}

// A run that is ended leaves whole files only, and the next one goes on.
func TestAnEndedRunIsGoneOnWith(t *testing.T) {
	bucket := mem.New()
	s := store.New(bucket, store.Options{})
	want := map[string]string{}
	for i := range 300 {
		want[fmt.Sprintf("d%d/f%03d", i%7, i)] = strings.Repeat("x", i)
	}
	if _, err := Put(t.Context(), write(t, t.TempDir(), want), Place{Store: s, Key: "x"}, Options{}); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	enough := errors.New("enough")
	for i := 0; ; i++ {
		ctx, cancel := context.WithCancelCause(t.Context())
		tired := store.New(&tiring{Bucket: bucket, left: 100, end: func() { cancel(enough) }}, store.Options{})
		done, err := Get(ctx, Place{Store: tired, Key: "x"}, to, Options{workers: 4})
		cancel(nil)
		for name, text := range read(t, to) {
			if want[name] != text {
				t.Fatalf("round %d: %s is not whole: %d bytes", i, name, len(text))
			}
		}
		if err == nil {
			if i < 2 || done.Same < 190 {
				t.Errorf("round %d: %+v", i, done)
			}
			break
		}
		if !errors.Is(err, enough) {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, read(t, to)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// tiring ends the run after so many objects.
type tiring struct {
	store.Bucket
	mu   sync.Mutex
	left int
	end  func()
}

func (b *tiring) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left--; b.left < 0 {
		b.end()
		return nil, context.Cause(ctx)
	}
	return b.Bucket.Get(ctx, key, off, n)
}

// What a run that was killed left behind is swept by the next, and what a live one
// has is not.
func TestLeftoversAreSwept(t *testing.T) {
	srv, s := server(t)
	srv.Set("x/f", "text")
	to := t.TempDir()
	dead, live := filepath.Join(to, ours+"dead"), filepath.Join(to, ours+"live")
	write(t, to, map[string]string{ours + "dead/lock": "", ours + "dead/1": "half", ours + "live/lock": "", ours + "live/1": "half"})
	lock, err := os.Open(filepath.Join(live, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the dead run's folder: %v", err)
	}
	if _, err := os.Stat(live + "/1"); err != nil {
		t.Errorf("the live run's folder: %v", err)
	}
	if done, err := Put(t.Context(), to, Place{Store: s, Key: "back"}, Options{}); err != nil || done.Found != 1 {
		t.Errorf("put of that folder: %+v, %v; want only f", done, err)
	}
}

func TestTwoAtOnceOnOneTarget(t *testing.T) {
	_, s := server(t)
	want := map[string]string{}
	for i := range 400 {
		want[fmt.Sprintf("d%d/f%03d", i%5, i)] = strings.Repeat("y", i*10)
	}
	from, to := write(t, t.TempDir(), want), t.TempDir()
	at := Place{Store: s, Key: "x"}
	var all sync.WaitGroup
	both := func(f func() error) {
		for range 2 {
			all.Go(func() {
				if err := f(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	both(func() error { _, err := Put(t.Context(), from, at, Options{}); return err })
	both(func() error { _, err := Get(t.Context(), at, to, Options{}); return err })
	if diff := cmp.Diff(want, read(t, to)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// Over a bucket that loses and refuses all is there in the end.
func TestOverABucketThatLosesAnswers(t *testing.T) {
	want := map[string]string{}
	for i := range 200 {
		want[fmt.Sprintf("d%d/f%03d", i%5, i)] = strings.Repeat("z", i)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	draw := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
	b := flaky.New(mem.New(), flaky.Plan{Rand: draw, LoseReply: 0.1, LoseRequest: 0.1, Busy: 0.1})
	s := store.New(b, store.Options{Clock: &storetest.Clock{}})
	from, to := write(t, t.TempDir(), want), t.TempDir()
	done, err := Put(t.Context(), from, Place{Store: s, Key: "x"}, Options{})
	if err != nil || done.Files != 200 {
		t.Fatalf("put: %+v, %v", done, err)
	}
	if done, err = Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{}); err != nil || done.Files != 200 {
		t.Fatalf("get: %+v, %v", done, err)
	}
	if diff := cmp.Diff(want, read(t, to)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// What arrives otherwise than its checksum says is no file.
func TestADamagedObjectIsNoFile(t *testing.T) {
	srv, s := server(t)
	from := write(t, t.TempDir(), map[string]string{"f": "sound"})
	if _, err := Put(t.Context(), from, Place{Store: s, Key: "x"}, Options{}); err != nil {
		t.Fatal(err)
	}
	srv.Rot("x/f", "rot!!")
	to := t.TempDir()
	if _, err := Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{}); err == nil {
		t.Error("a damaged object was brought")
	}
	if left := read(t, to); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The listing is asked for once, in pages, and not held.
func TestManyMoreThanAPage(t *testing.T) {
	b := mem.New()
	s := store.New(b, store.Options{})
	for i := range 3*page + 17 {
		if err := b.Create(t.Context(), fmt.Sprintf("x/%05d", i), bytes.NewReader(nil)); err != nil {
			t.Fatal(err)
		}
	}
	to := t.TempDir()
	if done, err := Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{}); err != nil || done.Files != 3*page+17 {
		t.Errorf("%+v, %v", done, err)
	}
	if done, err := Put(t.Context(), to, Place{Store: s, Key: "x"}, Options{}); err != nil || done.Found != 3*page+17 {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestSplitDoesNotRepeatAKey(t *testing.T) {
	for _, url := range []string{"s3://AKIA:hush@bucket/x", "gs://AKIA:hu/sh+hush@bucket/x", "s3://hush@bucket",
		"s3://bucket/p&endpoint=http://u:hush@h", "gs://bucket/x/https://u:hush@h", "s3://bucket/x?endpoint=http://u:hush@h"} {
		if _, _, err := Split(url); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "holds no keys") || strings.Contains(err.Error()+fault.Hint(err), "hu") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestSplit(t *testing.T) {
	for url, want := range map[string][2]string{
		"s3://b/k/l":                  {"s3://b", "k/l"},
		"s3://b":                      {"s3://b", ""},
		"s3://b/k/?region=eu":         {"s3://b?region=eu", "k/"},
		"s3://b/a b%20c":              {"s3://b", "a b%20c"},
		"gs://b//k":                   {"gs://b", "k"},
		"file:///tmp/data":            {"file:///tmp/", "data"},
		"file:///tmp/data/":           {"file:///tmp/", "data/"},
		"s3://b?endpoint=http://h:90": {"s3://b?endpoint=http://h:90", ""},
	} {
		bucket, key, err := Split(url)
		if got := [2]string{bucket, key}; err != nil || got != want {
			t.Errorf("Split(%q) = %q, %v; want %q", url, got, err, want)
		}
	}
	for _, url := range []string{"s3://", "s3:///k", "file://", "file:///x?y=z", "x"} {
		if bucket, key, err := Split(url); err == nil {
			t.Errorf("Split(%q) = %q, %q; want an error", url, bucket, key)
		}
	}
}

// late is a bucket that does not answer for a while.
type late struct {
	store.Bucket
	until time.Time
}

func (l *late) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	if time.Now().Before(l.until) {
		return nil, false, fmt.Errorf("list: connection refused: %w", store.ErrBusy)
	}
	return l.Bucket.List(ctx, prefix, after, limit)
}

// virtual is the clock of a synctest bubble.
type virtual struct{}

func (virtual) Now() time.Time      { return time.Now() }
func (virtual) Boot() time.Duration { return time.Duration(time.Now().UnixNano()) }
func (virtual) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func TestABucketThatIsAwayIsSaidOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(file, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := &late{Bucket: mem.New(), until: time.Now().Add(12*time.Second + time.Millisecond)}
		var told []string
		o := Options{Away: func(_ time.Duration, last error) {
			told = append(told, fmt.Sprint("away ", errors.Is(last, store.ErrBusy)))
		},
			Back: func(time.Duration) { told = append(told, "back") }}
		for range 2 { // the second time it is there
			if _, err := Put(t.Context(), file, Place{Store: store.New(b, store.Options{Clock: virtual{}}), Key: "k"}, o); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(told, []string{"away true", "back"}) && !slices.Equal(told, []string{"away true"}) {
			t.Errorf("told: %v", told)
		}
	})
}
