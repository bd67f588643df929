package verify

import (
	"testing"

	"github.com/drover-run/drover/fault"
)

func TestAJobThatCannotBeVerifiedSaysWhy(t *testing.T) {
	t.Parallel()
	gone := plain()
	gone.task("gc", `"removed":{"job":"abcdabcdabcdabcd"}`)
	s := gone.store(t)
	_, err := Verify(t.Context(), s, mapPath, nil)
	if fault.KindOf(err) != fault.Missing || err.Error() != "verify job "+mapPath.Job+": it was removed" || fault.Hint(err) != "" {
		t.Errorf("removed: %v, %q", err, fault.Hint(err))
	}
	s = (&story{}).store(t)
	_, err = Verify(t.Context(), s, mapPath, nil)
	if fault.KindOf(err) != fault.Missing || err.Error() != "verify job "+mapPath.Job+": there is no such job in "+s.String() ||
		fault.Hint(err) != "Name a job by its id, its task, or last." {
		t.Errorf("never there: %v, %q", err, fault.Hint(err))
	}
}
