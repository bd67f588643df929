package store_test

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// What is refused, storetest's table says for every bucket. Here: what is
// accepted can do no harm.
func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{
		"a", "a/b.c/d-e_f", "p/t/log/00000000", "", "/", "..", "a/../b", "a//b", "a/", ".tmp", "a/.nfs1", "a\x00", "é",
		strings.Repeat("a/", 449) + "aa", strings.Repeat("a/", 450) + "a", strings.Repeat("x", 256),
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if err := store.CheckKey(key); err != nil {
			if fault.KindOf(err) != fault.Invalid || len(err.Error()) > 600 {
				t.Errorf("%q: %v", key, err)
			}
			return
		}
		if path.Clean(key) != key || !filepath.IsLocal(filepath.FromSlash(key)) || len(key) > store.MaxKey {
			t.Errorf("%q leaves the store", key)
		}
		if strings.HasPrefix(key, ".") || strings.Contains(key, "/.") {
			t.Errorf("%q is a bucket's own", key)
		}
		for i := range key {
			if err := store.CheckPrefix(key[:i]); err != nil {
				t.Errorf("a key begins with %q: %v", key[:i], err)
			}
		}
	})
}

func FuzzCheckPrefix(f *testing.F) {
	for _, prefix := range []string{"", "a", "a/", "a/b", "/", "../", "a//", "a/.", ".", "a b"} {
		f.Add(prefix)
	}
	f.Fuzz(func(t *testing.T, prefix string) {
		if store.CheckPrefix(prefix) != nil {
			return
		}
		leaf := prefix[strings.LastIndexByte(prefix, '/')+1:]
		if len(prefix) < store.MaxKey && len(leaf) < store.MaxElement && store.CheckKey(prefix+"x") != nil {
			t.Errorf("no key begins with %q", prefix)
		}
	})
}

func FuzzParseDigest(f *testing.F) {
	good := strings.Repeat("0123456789abcdef", 4)
	for _, s := range []string{good, strings.ToUpper(good), good[1:], good + "0", "", "../" + good[3:], good[:63] + "g"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := store.ParseDigest(s)
		if err != nil {
			if d != "" {
				t.Errorf("%q is refused and is %q", s, d)
			}
			return
		}
		if string(d) != s || len(s) != 64 || store.CheckKey("blobs/"+s) != nil || s != strings.ToLower(s) {
			t.Errorf("%q is a digest", s)
		}
	})
}
