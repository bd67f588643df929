package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/store"
)

// page is one listing, as keys.
func page(t *testing.T, b store.Bucket, prefix, after string, limit int) (keys []string, more bool) {
	t.Helper()
	found, more, err := b.List(t.Context(), prefix, after, limit)
	if err != nil {
		t.Fatalf("list %q after %q: %v", prefix, after, err)
	}
	for _, o := range found {
		keys = append(keys, o.Key)
	}
	return keys, more
}

// pages follows a listing to its end.
func pages(t *testing.T, b store.Bucket, prefix, after string, limit int) (keys []string) {
	t.Helper()
	for {
		got, more := page(t, b, prefix, after, limit)
		if len(got) > limit {
			t.Fatalf("a page of %d objects, at most %d asked for", len(got), limit)
		}
		keys = append(keys, got...)
		if !more {
			return keys
		}
		if len(got) == 0 || got[0] <= after {
			t.Fatalf("list %q after %q: more of it, and so far %v", prefix, after, got)
		}
		after = got[len(got)-1]
	}
}

// ordered has every neighbour of "/" in byte order: "-" and "." are below it,
// digits and letters above.
var ordered = []string{
	"0", "a-b", "a.b", "a.b.c", "a/-", "a/b/c", "a/b/d/e", "a/b0", "a/c", "a0/x", "aB", "a_b", "aa", "b/00000000", "b/00000001", "b/00000010",
}

var listings = []promise{
	{"a listing of nothing is empty", func(t *testing.T, first, _ store.Bucket) {
		for _, prefix := range []string{"", "a", "a/", "a/b"} {
			if got, more := page(t, first, prefix, "", 5); len(got) != 0 || more {
				t.Errorf("list %q: %v, more is %v", prefix, got, more)
			}
		}
	}},
	{"a listing pages in key order", func(t *testing.T, first, second store.Bucket) {
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(ordered)) {
			create(t, first, ordered[i], "x")
		}
		for limit := 1; limit <= len(ordered)+1; limit++ {
			if diff := cmp.Diff(ordered, pages(t, second, "", "", limit)); diff != "" {
				t.Errorf("limit %d: %s", limit, diff)
			}
		}
		if _, more := page(t, first, "", "", len(ordered)); more {
			t.Error("a listing of everything says that there is more")
		}
	}},
	{"a listing holds what begins with prefix and comes after", func(t *testing.T, first, second store.Bucket) {
		for _, key := range ordered {
			create(t, first, key, "x")
		}
		afters := append([]string{"", "a", "a/", "a/b", "a/b/", "a/b/cc", "a0", "zz", "\xff"}, ordered...)
		for _, prefix := range []string{"", "a", "a/", "a/b", "a/b/", "a/b/d", "a/b/c", "a.", "a0", "b/0000", "b/00000010", "c", "a/b/c/"} {
			for _, after := range afters {
				var want []string
				for _, key := range ordered {
					if strings.HasPrefix(key, prefix) && key > after {
						want = append(want, key)
					}
				}
				if diff := cmp.Diff(want, pages(t, second, prefix, after, 3)); diff != "" {
					t.Errorf("list %q after %q: %s", prefix, after, diff)
				}
			}
		}
	}},
	{"a listing follows creating and deleting", func(t *testing.T, first, second store.Bucket) {
		r := rand.New(rand.NewPCG(3, 4))
		var held []string
		for range 300 {
			key := fmt.Sprintf("%d/%c%d/%d", r.IntN(3), "-.a"[r.IntN(3)], r.IntN(4), r.IntN(4))
			key = strings.ReplaceAll(key, "/.", "/z.") // a dot does not begin an element
			if at, is := slices.BinarySearch(held, key); is {
				remove(t, first, key)
				held = slices.Delete(held, at, at+1)
			} else {
				create(t, first, key, "x")
				held = slices.Insert(held, at, key)
			}
			if r.IntN(10) == 0 {
				if diff := cmp.Diff(held, pages(t, second, "", "", 1+r.IntN(40))); diff != "" {
					t.Fatal(diff)
				}
			}
		}
	}},
	{"a listing tells sizes and times", func(t *testing.T, first, second store.Bucket) {
		create(t, first, "a/empty", "")
		create(t, first, "a/five", "12345")
		found, _, err := second.List(t.Context(), "a/", "", 10)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []store.Object{{Key: "a/empty"}, {Key: "a/five", Size: 5}} {
			if i >= len(found) || found[i].Key != want.Key || found[i].Size != want.Size {
				t.Fatalf("listed %v, want %s of %d bytes in place %d", found, want.Key, want.Size, i)
			}
			// A bucket's clock is its own; a year tells time from nonsense.
			if age := time.Since(found[i].Time); age.Abs() > 366*24*time.Hour {
				t.Errorf("%s was written %v ago", want.Key, age)
			}
		}
	}},
}
