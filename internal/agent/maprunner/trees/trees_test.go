package trees

import (
	"testing"

	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/resource"
)

func TestAnCommandWithMoreMemoryTakesTheRoomOfOthers(t *testing.T) {
	t.Parallel()
	m := New(t.Context(), Config{Slots: 4, Memory: 400, Limits: resource.Limits{Memory: 100}})
	for _, c := range []struct {
		used, asks int64
		fits       bool
	}{{0, 0, true}, {300, 0, true}, {300, 200, false}, {200, 200, true}, {0, 900, true}, {100, 900, false}} {
		m.used = c.used
		if got := m.memorySuffices(proc.SpawnCommand{Memory: c.asks}); got != c.fits {
			t.Errorf("beside %d one with %d fits: %v", c.used, c.asks, got)
		}
	}
	if m.Memory = 0; !m.memorySuffices(proc.SpawnCommand{}) {
		t.Error("where it is not known what there is nothing runs beside others")
	}
}
