package local

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
)

func TestEveryFateHasItsState(t *testing.T) {
	was := &up{PID: 12}
	for name, c := range map[string]struct {
		held  bool
		note  note
		asked bool
		want  driver.Member
	}{
		"coming up":                 {true, note{}, false, driver.Member{State: driver.Waiting, Code: -1}},
		"asked while coming up":     {true, note{}, true, driver.Member{State: driver.Waiting, Code: -1}},
		"running":                   {true, note{Up: was}, false, driver.Member{State: driver.Running, Code: -1, PID: 12}},
		"about to go":               {true, note{Up: was, End: &end{}}, false, driver.Member{State: driver.Running, Code: -1, PID: 12}},
		"ended well":                {false, note{Up: was, End: &end{Reason: "done"}}, false, driver.Member{State: driver.Ended, Reason: "done"}},
		"ended badly, when asked":   {false, note{Up: was, End: &end{3, "x"}, Outcome: "exit status 3"}, true, driver.Member{State: driver.Ended, Code: 3, Reason: "x"}},
		"killed by stop":            {false, note{Up: was, Outcome: "signal: killed"}, true, driver.Member{State: driver.Ended, Code: -1, Reason: "stopped: signal: killed"}},
		"killed":                    {false, note{Up: was}, false, driver.Member{State: driver.Lost, Code: -1, Reason: "it died without reporting why, or was killed"}},
		"its starter died":          {false, note{}, false, driver.Member{State: driver.Lost, Code: -1, Reason: "never started"}},
		"it died before it adopted": {false, note{Outcome: "exit status 9"}, false, driver.Member{State: driver.Lost, Code: -1, Reason: "never started: exit status 9"}},
	} {
		if diff := cmp.Diff(c.want, judge(c.held, c.note, c.asked)); diff != "" {
			t.Errorf("%s: difference:\n%s", name, diff)
		}
	}
}

func TestTheFirstEndStands(t *testing.T) {
	notes := []note{{Up: &up{PID: 7}}, {End: &end{4, "first"}}, {Up: &up{PID: 8}, End: &end{5, "second"}}, {Outcome: "exit status 4"}}
	want := note{Up: &up{PID: 7}, End: &end{4, "first"}, Outcome: "exit status 4"}
	if diff := cmp.Diff(want, fold(notes)); diff != "" {
		t.Errorf("difference:\n%s", diff)
	}
}
