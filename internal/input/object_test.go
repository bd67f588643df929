package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// theirs is a bucket of which any name may be an object's; torn says how often a read
// breaks off.
type theirs struct {
	store.Bucket
	objects map[string]string
	torn    int
	broken  error
	asked   []string
}

func (b *theirs) Get(_ context.Context, key string, _, _ int64) (io.ReadCloser, error) {
	b.asked = append(b.asked, key)
	text, is := b.objects[key]
	if !is {
		return nil, fmt.Errorf("get %s: %w", key, store.ErrNotExist)
	}
	body := io.Reader(strings.NewReader(text))
	if b.torn > 0 {
		b.torn--
		body = io.MultiReader(io.LimitReader(body, 3), failing{b.broken})
	}
	return io.NopCloser(body), nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// bringer brings objects of b, and says which buckets were opened.
func (b *theirs) bringer(opened *[]string) Bringer {
	e := eager("")
	e.Open = func(_ context.Context, url string) (*store.Store, error) {
		*opened = append(*opened, url)
		return store.New(b, store.Options{Clock: &storetest.Clock{}}), nil
	}
	return e
}

func TestAnObjectIsBroughtIntoItsFolder(t *testing.T) {
	t.Parallel()
	b := &theirs{Bucket: mem.New(), objects: map[string]string{"a/b c.jpg": "body", "top": "", "a/..": "up", "a/.hid": "dot", "big": strings.Repeat("x", 5<<20)}}
	for text, want := range map[string]struct {
		bucket, name, body string
		room               []int64
	}{
		"s3://b/a/b c.jpg":          {"s3://b", "b c.jpg", "body", []int64{rationStep}},
		"gs://b/top?anonymous=true": {"gs://b?anonymous=true", "top", "", []int64{rationStep}},
		"s3://b/a/..":               {"s3://b", "_.", "up", []int64{rationStep}},
		"s3://b/a/.hid":             {"s3://b", "_hid", "dot", []int64{rationStep}},
		"s3://b/big":                {"s3://b", "big", b.objects["big"], []int64{rationStep, 2 * rationStep}},
	} {
		var opened []string
		into, room := filepath.Join(t.TempDir(), "in", "1"), &roomy{}
		file, ours, err := b.bringer(&opened).Bring(t.Context(), text, into, room.ask)
		if err != nil || !ours || file != filepath.Join(into, want.name) {
			t.Errorf("%s: %q, %t, %v", text, file, ours, err)
			continue
		}
		if body, err := os.ReadFile(file); err != nil || string(body) != want.body {
			t.Errorf("%s: it holds %.20q (%v)", text, body, err)
		}
		if diff := cmp.Diff([]string{want.bucket}, opened); diff != "" {
			t.Errorf("%s: opened %s", text, diff)
		}
		if diff := cmp.Diff(want.room, room.asked); diff != "" {
			t.Errorf("%s: room %s", text, diff)
		}
	}
}

func TestAnObjectThatCannotBeHad(t *testing.T) {
	t.Parallel()
	busy := fmt.Errorf("its checksum is another: %w", store.ErrBusy)
	for name, c := range map[string]struct {
		text string
		room error
		b    theirs
		kind fault.Kind
		why  string
		n    int
	}{
		"absent":       {"s3://b/none", nil, theirs{}, fault.Missing, "fetch s3://b/none: the bucket has no such object", 1},
		"torn for now": {"s3://b/k", nil, theirs{torn: 2, broken: busy}, 0, "", 3},
		"torn":         {"s3://b/k", nil, theirs{torn: 9, broken: busy}, fault.Lost, "its checksum is another: store busy", maxTries},
		"forbidden":    {"s3://b/k", nil, theirs{torn: 9, broken: fault.New(fault.Denied, "Ask.", "get k: forbidden")}, fault.Denied, "fetch s3://b/k: get k: forbidden", 1},
		"no room":      {"s3://b/k", errors.New("it is too large"), theirs{}, 0, "fetch s3://b/k: it is too large", 1},
		"disk full":    {"s3://b/k", nil, theirs{torn: 1, broken: &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}}, fault.Full, "no space left on device", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var opened []string
			b := &c.b
			b.Bucket, b.objects = mem.New(), map[string]string{"k": "content"}
			into := t.TempDir()
			file, _, err := b.bringer(&opened).Bring(t.Context(), c.text, into, (&roomy{err: c.room}).ask)
			if len(b.asked) != c.n {
				t.Errorf("asked %d times", len(b.asked))
			}
			if c.why == "" {
				if body, is := os.ReadFile(file); err != nil || is != nil || string(body) != "content" {
					t.Errorf("%q, %v, %v", body, is, err)
				}
				return
			}
			if err == nil || !strings.HasSuffix(err.Error(), c.why) || c.kind != 0 && fault.KindOf(err) != c.kind {
				t.Errorf("%v (%v), want %s", err, fault.KindOf(err), c.why)
			}
		})
	}
}

func TestWhoeverSubmitsSaysHowABucketIsOpened(t *testing.T) {
	places := []string{"s3://b?endpoint=http://h:9000", "gs://c?anonymous=true"}
	for bucket, want := range map[string]string{"s3://b": places[0], "gs://c": places[1], "gs://b": "gs://b", "s3://bb": "s3://bb"} {
		if got := PlaceOf(places, bucket); got != want {
			t.Errorf("%s is opened as %s", bucket, got)
		}
	}
}
