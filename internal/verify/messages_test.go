package verify

import (
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/protocol"
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

func TestWhatAnItemTookAlongIsInWords(t *testing.T) {
	for want, c := range map[string]protocol.Carry{
		"nothing":                               {},
		"1 end out of memory":                   {OOMs: 1},
		"2 failures, 3 ends out of memory":      {Failures: 2, OOMs: 3},
		"1 interruption, 2 blames, 1 suspicion": {Interruptions: 1, Blames: 2, Suspicions: 1},
	} {
		if got := counts(c); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}
