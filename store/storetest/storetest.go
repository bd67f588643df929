// Package storetest is the suite that every bucket passes: a table of the promises that
// package store's contract makes, by name.
//
// It refuses to know which bucket it tests. What only one of them has (power cuts, NFS,
// faults) is proved beside that one.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/store"
)

// Open gives two handles on one empty space, as two processes would have them.
// They may be the same where a bucket has no handles. It is called once for each
// promise; what it makes, it removes with t.Cleanup.
type Open func(t *testing.T) (first, second store.Bucket)

// Run checks every promise of store.Bucket, and those of store.Store over it.
func Run(t *testing.T, open Open) {
	run(t, open, objects)
	run(t, open, races)
	run(t, open, listings)
	RunStore(t, open)
}

// RunStore checks the promises of store.Store over buckets with every fault that the contract
// of store.Bucket allows.
func RunStore(t *testing.T, open Open) { run(t, open, throughStore) }

type promise struct {
	name string
	test func(t *testing.T, first, second store.Bucket)
}

func run(t *testing.T, open Open, promises []promise) {
	t.Helper()
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			first, second := open(t)
			p.test(t, first, second)
		})
	}
}

var objects = []promise{
	{"a place has a name", func(t *testing.T, first, second store.Bucket) {
		if first.String() == "" || first.String() != second.String() {
			t.Errorf("one space is called %q and %q", first, second)
		}
	}},
	{"what was never written is absent", func(t *testing.T, first, _ store.Bucket) {
		absent(t, first, "a")
		create(t, first, "a/b/c", "x")
		absent(t, first, "a/b/d")
		absent(t, first, "a/b/c/d")
	}},
	{"what was created is read by everybody, whole", func(t *testing.T, first, second store.Bucket) {
		for _, size := range []int{0, 1, 200, 64<<10 + 1, 20 << 20} {
			key, body := fmt.Sprintf("of/size/%d", size), pattern(size)
			if err := first.Create(t.Context(), key, bytes.NewReader(body)); err != nil {
				t.Fatalf("create %s: %v", key, err)
			}
			for _, b := range []store.Bucket{first, second} {
				if got, err := read(t, b, key, 0, -1); err != nil || !bytes.Equal(got, body) {
					t.Errorf("read %s: %d bytes, %v", key, len(got), err)
				}
			}
		}
	}},
	{"creating twice keeps the first", func(t *testing.T, first, second store.Bucket) {
		create(t, first, "log/00000000", "one")
		for _, b := range []store.Bucket{first, second} {
			if err := b.Create(t.Context(), "log/00000000", strings.NewReader("two")); !errors.Is(err, store.ErrExists) {
				t.Errorf("the second create says %v, want ErrExists", err)
			}
			holds(t, b, "log/00000000", "one")
		}
	}},
	{"put replaces whole", func(t *testing.T, first, second store.Bucket) {
		for _, body := range []string{"a long first one", "short", ""} {
			if err := first.Put(t.Context(), "agents/1", strings.NewReader(body)); err != nil {
				t.Fatalf("put: %v", err)
			}
			holds(t, first, "agents/1", body)
			holds(t, second, "agents/1", body)
		}
		create(t, first, "agents/2", "created")
		if err := second.Put(t.Context(), "agents/2", strings.NewReader("put")); err != nil {
			t.Fatalf("put over a created object: %v", err)
		}
		holds(t, first, "agents/2", "put")
	}},
	{"ranges past the end are cut short", func(t *testing.T, first, second store.Bucket) {
		create(t, first, "r", "0123456789")
		create(t, first, "empty", "")
		for _, c := range []struct {
			key    string
			off, n int64
			want   string
		}{
			{"r", 0, -1, "0123456789"}, {"r", 3, -1, "3456789"}, {"r", 0, 4, "0123"}, {"r", 3, 4, "3456"},
			{"r", 8, 5, "89"}, {"r", 10, 1, ""}, {"r", 11, 1, ""}, {"r", 99, -1, ""}, {"r", 2, 0, ""},
			{"r", 1, 1<<63 - 1, "123456789"}, {"empty", 0, 1, ""}, {"empty", 0, -1, ""}, {"empty", 5, 5, ""},
		} {
			if got, err := read(t, second, c.key, c.off, c.n); err != nil || string(got) != c.want {
				t.Errorf("%d bytes of %s from %d are %q, %v; want %q", c.n, c.key, c.off, got, err, c.want)
			}
		}
	}},
	{"what was deleted is gone, for everybody", func(t *testing.T, first, second store.Bucket) {
		create(t, first, "a/b/1", "x")
		create(t, first, "a/b/2", "y")
		remove(t, second, "a/b/1")
		absent(t, first, "a/b/1")
		absent(t, second, "a/b/1")
		holds(t, first, "a/b/2", "y")
		create(t, first, "a/b/1", "again")
		holds(t, second, "a/b/1", "again")
	}},
	{"deleting what is absent is fine", func(t *testing.T, first, _ store.Bucket) {
		remove(t, first, "a/b/c")
		create(t, first, "a/b", "x")
		remove(t, first, "a/b/c")
		holds(t, first, "a/b", "x")
	}},
	{"a folder of objects is not an object", func(t *testing.T, first, second store.Bucket) {
		create(t, first, "a/b/c", "x")
		for _, key := range []string{"a", "a/b"} {
			absent(t, first, key)
			remove(t, first, key)
			err := first.Create(t.Context(), key, strings.NewReader("y"))
			if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrUnclear) || errors.Is(err, store.ErrBusy) {
				t.Errorf("create %s says %v: a writer would try for ever", key, err)
			}
		}
		err := first.Create(t.Context(), "a/b/c/d", strings.NewReader("y"))
		if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrUnclear) || errors.Is(err, store.ErrBusy) {
			t.Errorf("create below an object says %v: a writer would try for ever", err)
		}
		holds(t, second, "a/b/c", "x")
	}},
	{"hostile keys are refused", func(t *testing.T, first, _ store.Bucket) {
		long := strings.Repeat("abcdefg/", 200)
		for _, key := range []string{
			"", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", ".", "a/./b", "a//b", "a/", ".tmp/x", "a/.nfs1",
			"a\x00b", "a\nb", "a b", "a\\b", "é", "a/\xff", "C:x", "~x", "a*", long[:901], strings.Repeat("x", 256),
		} {
			refuse(t, first, key)
		}
		for _, prefix := range []string{"/", "../", "..", "a/../", "a//", "é", "a/.", "a b", long} {
			if _, _, err := first.List(t.Context(), prefix, "", 10); err == nil {
				t.Errorf("list of %.20q is not refused", prefix)
			}
		}
	}},
	{"the longest keys work", func(t *testing.T, first, second store.Bucket) {
		key := strings.Repeat(strings.Repeat("x", 255)+"/", 3) + strings.Repeat("y", 132)
		create(t, first, key, "x")
		holds(t, second, key, "x")
		objects, _ := page(t, second, key[:600], "", 10)
		if diff := cmp.Diff([]string{key}, objects); diff != "" {
			t.Error(diff)
		}
	}},
	{"a done context stops, with its cause", func(t *testing.T, first, _ store.Bucket) {
		create(t, first, "held", "x")
		why := errors.New("asked to stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		_, getErr := first.Get(ctx, "held", 0, -1)
		_, _, listErr := first.List(ctx, "", "", 1)
		for doing, err := range map[string]error{
			"create": first.Create(ctx, "new", strings.NewReader("x")),
			"put":    first.Put(ctx, "held", strings.NewReader("y")),
			"delete": first.Delete(ctx, "held"),
			"get":    getErr,
			"list":   listErr,
		} {
			if !errors.Is(err, why) {
				t.Errorf("%s says %v, want the cause", doing, err)
			}
		}
		absent(t, first, "new")
		holds(t, first, "held", "x")
	}},
	{"a body is read from its beginning", func(t *testing.T, first, _ store.Bucket) {
		for _, write := range []func(context.Context, string, io.ReadSeeker) error{first.Create, first.Put} {
			body := strings.NewReader("whole")
			_, _ = body.Seek(3, io.SeekStart)
			if err := write(t.Context(), "k", body); err != nil {
				t.Fatal(err)
			}
			holds(t, first, "k", "whole")
			remove(t, first, "k")
		}
	}},
	{"a body that breaks leaves nothing", func(t *testing.T, first, _ store.Bucket) {
		broken := errors.New("the disk it is on has gone")
		for doing, write := range map[string]func(context.Context, string, io.ReadSeeker) error{"create": first.Create, "put": first.Put} {
			body := &breaking{ReadSeeker: bytes.NewReader(pattern(300 << 10)), after: 200 << 10, err: broken}
			if err := write(t.Context(), "k", body); !errors.Is(err, broken) {
				t.Errorf("%s says %v, want the body's error", doing, err)
			}
			absent(t, first, "k")
		}
		if all, _ := page(t, first, "", "", 10); len(all) != 0 {
			t.Errorf("left behind: %v", all)
		}
	}},
}

func refuse(t *testing.T, b store.Bucket, key string) {
	t.Helper()
	if err := b.Create(t.Context(), key, strings.NewReader("x")); err == nil || errors.Is(err, store.ErrUnclear) {
		t.Errorf("create of %.20q says %v", key, err)
	}
	if err := b.Put(t.Context(), key, strings.NewReader("x")); err == nil {
		t.Errorf("put of %.20q is not refused", key)
	}
	if _, err := b.Get(t.Context(), key, 0, -1); err == nil || errors.Is(err, store.ErrNotExist) {
		t.Errorf("get of %.20q says %v", key, err)
	}
	if err := b.Delete(t.Context(), key); err == nil {
		t.Errorf("delete of %.20q is not refused", key)
	}
}

// breaking is a body that fails in the middle of a reading.
type breaking struct {
	io.ReadSeeker
	after int
	err   error
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.after <= 0 {
		return 0, b.err
	}
	n, err := b.ReadSeeker.Read(p[:min(len(p), b.after)])
	b.after -= n
	return n, err
}

// pattern is a body in which every byte differs from those near it.
func pattern(size int) []byte {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(i*31 + i>>8)
	}
	return body
}

func create(t *testing.T, b store.Bucket, key, body string) {
	t.Helper()
	if err := b.Create(t.Context(), key, strings.NewReader(body)); err != nil {
		t.Fatalf("create %s: %v", key, err)
	}
}

func remove(t *testing.T, b store.Bucket, key string) {
	t.Helper()
	if err := b.Delete(t.Context(), key); err != nil {
		t.Errorf("delete %s: %v", key, err)
	}
}

func read(t *testing.T, b store.Bucket, key string, off, n int64) ([]byte, error) {
	r, err := b.Get(t.Context(), key, off, n)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r)
	return body, errors.Join(err, r.Close())
}

func holds(t *testing.T, b store.Bucket, key, want string) {
	t.Helper()
	if got, err := read(t, b, key, 0, -1); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", key, got, err, want)
	}
}

func absent(t *testing.T, b store.Bucket, key string) {
	t.Helper()
	if got, err := read(t, b, key, 0, -1); !errors.Is(err, store.ErrNotExist) {
		t.Errorf("%s holds %q, %v; want ErrNotExist", key, got, err)
	}
}
