package mount

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsMountedBelowAFolder(t *testing.T) {
	t.Parallel()
	mounts := []string{"/", "/a", "/a/b", "/a/b/c", "/a/b-c", "/a/bc/d", "/ab"}
	slices.Sort(mounts)
	for dir, want := range map[string][]string{"/a": {"b", "b-c", "bc/d"}, "/a/b": {"c"}, "/a/b/c": nil, "/": {"a", "ab"}, "/none": nil} {
		if diff := cmp.Diff(want, outermostBelow(mounts, dir)); diff != "" {
			t.Errorf("%s: %s", dir, diff)
		}
	}
}
