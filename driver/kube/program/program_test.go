package program

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
)

func TestAProgramThatCannotBeSentIsRefused(t *testing.T) {
	path, large := filepath.Join(t.TempDir(), "large"), make([]byte, 2*partBytes)
	rand.Read(large)
	if err := os.WriteFile(path, large, 0o600); err != nil {
		t.Fatal(err)
	}
	if parts, err := compress(path, 3); err != nil || len(parts) != 3 {
		t.Errorf("%d parts, %v", len(parts), err)
	}
	_, err := compress(path, 2)
	if fault.KindOf(err) != fault.Invalid || err.Error() != "start agents: the program is too large for a namespace" || fault.Hint(err) != "Push an image of the agent with drover image agent REGISTRY, and name it: --target-arg agent-image=REF." {
		t.Errorf("%v, %q", err, fault.Hint(err))
	}
	_, err = Find(t.TempDir(), "linux/arm64", "", "")
	if err == nil || !strings.HasPrefix(err.Error(), "start agents: read /") {
		t.Errorf("%v", err)
	}
}
