package proc

import (
	"os"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/process"
)

func TestSweepRefusesItsOwnTreeAndNonsense(t *testing.T) {
	t.Setenv(process.Mark, "mine")
	for _, token := range []string{"", "a:b", "mine"} {
		if n, err := Sweep(token); n != 0 || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %d, %v", token, n, err)
		}
	}
	if os.Getenv(process.Mark) != "mine" {
		t.Error("the environment was changed")
	}
}
