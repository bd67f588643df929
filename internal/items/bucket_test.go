package items

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/items/itemstest"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// others is a bucket in which any name is an object's, in pages of two.
type others struct {
	store.Bucket
	objects map[string]string
}

func (o others) Get(_ context.Context, key string, _, _ int64) (io.ReadCloser, error) {
	text, is := o.objects[key]
	if !is {
		return nil, store.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (o others) List(_ context.Context, prefix, after string, _ int) (page []store.Object, more bool, err error) {
	for _, key := range slices.Sorted(maps.Keys(o.objects)) {
		if strings.HasPrefix(key, prefix) && key > after {
			if len(page) == 2 {
				return page, true, nil
			}
			page = append(page, store.Object{Key: key, Size: int64(len(o.objects[key]))})
		}
	}
	return page, false, nil
}

// theirs opens such a bucket.
func theirs(t *testing.T, objects map[string]string) func(context.Context, string) (*store.Store, error) {
	return func(_ context.Context, url string) (*store.Store, error) {
		if url != "s3://b" && url != "s3://b?anonymous=true" {
			t.Errorf("%q was opened", url)
		}
		return store.New(others{Bucket: mem.New(), objects: objects}, store.Options{}), nil
	}
}

func TestObjectsOfABucketAreItems(t *testing.T) {
	objects := map[string]string{}
	for _, key := range []string{"p/1.jpg", "p/2.jpg", "p/10.jpg", "p/a b.jpg", "p/x.txt", "p/deep/3.jpg", "p/deep/er/4.jpg", "p/.hid/5.jpg", "p/.6.jpg", "pq/7.jpg", "p/", "p//8.jpg", "p/q?.jpg", "p/[x].jpg", "e/*y.jpg", "e/xy.jpg", `e\/z.jpg`} {
		objects[key] = ""
	}
	unnamed := "1 object with a ? in their names left out: in a URL it begins what leads to the server"
	for from, want := range map[string]struct{ names, notes string }{
		"s3://b/p/*.jpg":                {"p/1.jpg p/10.jpg p/2.jpg p/[x].jpg p/a b.jpg", unnamed},
		"s3://b/p/[0-9].jpg":            {"p/1.jpg p/2.jpg", ""},
		"s3://b/p/1*?anonymous=true":    {"p/1.jpg p/10.jpg", ""},
		"s3://b/p/[!1]*.jpg":            {"p/2.jpg p/[x].jpg p/a b.jpg", unnamed},
		"s3://b/p/.*.jpg":               {"p/.6.jpg", ""},
		"s3://b/*/7.jpg":                {"pq/7.jpg", ""},
		"s3://b/p/**/4.jpg":             {"p/deep/er/4.jpg", "2 objects in hidden names left out"},
		"s3://b/p/deep/**":              {"p/deep/3.jpg p/deep/er/4.jpg", ""},
		"s3://b/p/deep":                 {"p/deep/3.jpg p/deep/er/4.jpg", ""},
		"s3://b/p/deep/?anonymous=true": {"p/deep/3.jpg p/deep/er/4.jpg", ""},
		"s3://b/pq":                     {"pq/7.jpg", ""},
		"s3://b/p":                      {"p/1.jpg p/10.jpg p/2.jpg p/[x].jpg p/a b.jpg p/deep/3.jpg p/deep/er/4.jpg p/x.txt", "2 objects in hidden names left out; " + unnamed},
		"s3://b/p/.hid/*":               {"p/.hid/5.jpg", ""},
		"s3://b/**/.hid/**":             {"p/.hid/5.jpg", "1 object in hidden names left out"},
		"s3://b/p/[[]x[]].jpg":          {"p/[x].jpg", ""},
		`s3://b/e/\**.jpg`:              {"e/*y.jpg", ""},
		`s3://b/e\/*.jpg`:               {`e\/z.jpg`, ""},
		"s3://b/p/d*":                   {"", "no object matches"},
		"s3://b/p/none":                 {"", "nothing is there"},
		"s3://b/p/[":                    {"", "it has an unmatched bracket or backslash"},
	} {
		l, err := Collect(t.Context(), Source{From: from, Open: theirs(t, objects)}, t.TempDir())
		if err != nil {
			if want.names != "" || !strings.HasSuffix(err.Error(), want.notes) || fault.Hint(err) == "" {
				t.Errorf("%s: %v", from, err)
			}
			continue
		}
		var names []string
		for _, text := range itemstest.ReadTexts(t, l.Reader()) {
			names = append(names, strings.TrimPrefix(text, "s3://b/"))
		}
		if got := strings.Join(names, " "); got != want.names || l.Format() != manifest.Lines {
			t.Errorf("%s: %s\nwant %s", from, got, want.names)
		}
		if notes := strings.Join(l.Notes(), "; "); notes != want.notes {
			t.Errorf("%s: notes %q, want %q", from, notes, want.notes)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOneObjectIsAListOfItems(t *testing.T) {
	var said faulttest.Sayings
	open := theirs(t, map[string]string{"l/items.txt": "one\n\ntwo\n", "l/rows.csv": "a,b\n1,2\n", "l/empty.txt": "", "l/items.txt.d/x": ""})
	for from, want := range map[string]struct {
		items  []string
		fields []string
	}{
		"s3://b/l/items.txt":                {[]string{"one", "two"}, nil},
		"s3://b/l/rows.csv?anonymous=true":  {[]string{"1,2"}, []string{"a", "b"}},
		"s3://b/l/items.txt?anonymous=true": {[]string{"one", "two"}, nil},
	} {
		l, err := Collect(t.Context(), Source{From: from, Open: open}, t.TempDir())
		if err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		if diff := cmp.Diff(want.items, itemstest.ReadTexts(t, l.Reader())); diff != "" {
			t.Errorf("%s: %s", from, diff)
		}
		if diff := cmp.Diff(want.fields, l.Fields()); diff != "" {
			t.Errorf("%s: fields %s", from, diff)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for from, format := range map[string]string{"s3://b/l/empty.txt": "", "s3://b/l/*.txt": manifest.CSV, "s3://": "", "gs://": ""} {
		_, err := Collect(t.Context(), Source{From: from, Format: format, Open: open}, t.TempDir())
		said.Error(from+" "+format, err)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", from, err)
		}
	}
	_, err := Collect(t.Context(), Source{From: "s3://b/x"}, t.TempDir())
	said.Error("without a way to open buckets", err)
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("without a way to open buckets: %v", err)
	}
	said.Compare(t, "objects")
}
