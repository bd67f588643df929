//go:build linux

package enter

import (
	"strings"
	"testing"
)

func TestACommandIsFoundByThePathOfItsOwnEnvironment(t *testing.T) {
	got := strings.Join(candidatePaths("tool", []string{"PATH=/a", "X=1", "PATH=/b:rel::/c"}, "/work"), " ")
	if got != "/b/tool /c/tool" {
		t.Errorf("it looks at %s", got)
	}
	if got := candidatePaths("./tool", nil, "/work"); len(got) != 1 || got[0] != "/work/tool" {
		t.Errorf("a path leads to %v", got)
	}
}
