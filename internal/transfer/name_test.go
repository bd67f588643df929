package transfer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzObjectNamesStayBelow: an object's name that is let through is the name of a file
// below the target, also for os.Root, and none of drover's own.
func FuzzObjectNamesStayBelow(f *testing.F) {
	for _, s := range []string{"a", "a/b", "../x", "/x", "a/../b", "a\x00", `a\..\b`, ".drover-get-1/x", "a/", "\xff", "a\nb", "con", "a:b", "./a", "a//b", ".drover-x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if badName(name) != "" || len(name) > 3000 {
			return
		}
		if !filepath.IsLocal(name) || filepath.Clean(name) != name || strings.HasPrefix(name, ours) {
			t.Errorf("%q is let through", name)
		}
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if parent := filepath.Dir(name); parent != "." {
			if root.MkdirAll(parent, 0o777) != nil {
				return
			}
		}
		if file, err := root.Create(name); err == nil {
			file.Close()
			if real, err := filepath.EvalSymlinks(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(real, dir+"/") {
				t.Errorf("%q came to %s, %v", name, real, err)
			}
		}
	})
}

// FuzzSplit: what is read of a URL is a bucket and a name in it, which are both parts of
// what was typed, and what is refused is not repeated with its password.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"s3://b/k", "gs://b?x=y/k", "file:///a/b", "s3://u:pAssw0rd9@b/k", "s3://b/k?endpoint=http://h:1", "s3://b/x/https://u:pAssw0rd9@h", "file://", "gs:///k", "s3://b//k"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		bucket, key, err := Split(url)
		if err != nil {
			if bucket != "" || key != "" {
				t.Errorf("%q is refused, and is %q and %q", url, bucket, key)
			}
			return
		}
		place, query, _ := strings.Cut(bucket, "?")
		if bucket == "" || !strings.HasPrefix(url, strings.TrimRight(place, "/")) || !strings.Contains(url, query) || !strings.Contains(url, key) || !IsURL(bucket) {
			t.Errorf("%q is %q and %q", url, bucket, key)
		}
		if again, none, err := Split(bucket); err == nil && !strings.HasPrefix(bucket, "file:") && (again != bucket || none != "") {
			t.Errorf("%q is the bucket %q, which is %q and %q", url, bucket, again, none)
		}
	})
}
