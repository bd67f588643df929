package drover

import (
	"testing"
	"time"

	"github.com/drover-run/drover/job"
)

func TestTheTimeOfAJobThatNothingWorksOnStandsStill(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	for what, row := range map[string]struct {
		s    Status
		want time.Duration
		no   bool
	}{
		"nothing has begun":               {Status{State: job.Pending}, 0, true},
		"it runs":                         {Status{State: job.Running, Started: at(10), Active: at(12)}, 90 * time.Second, false},
		"it was interrupted":              {Status{State: job.Interrupted, Started: at(10), Active: at(13)}, 3 * time.Second, false},
		"before it was heard of":          {Status{State: job.Interrupted, Started: at(10), Active: at(9)}, 0, false},
		"it was cancelled, long after":    {Status{State: job.Cancelled, Started: at(10), Active: at(13), Ended: at(60)}, 3 * time.Second, false},
		"it was cancelled while it ran":   {Status{State: job.Cancelled, Started: at(10), Active: at(61), Ended: at(60)}, 50 * time.Second, false},
		"it has ended":                    {Status{State: job.Succeeded, Started: at(10), Active: at(13), Ended: at(15)}, 5 * time.Second, false},
		"it has ended and was heard late": {Status{State: job.Failed, Started: at(10), Active: at(70), Ended: at(15)}, 5 * time.Second, false},
	} {
		if got, ok := row.s.Ran(at(100)); got != row.want || ok == row.no {
			t.Errorf("%s: %v, %v", what, got, ok)
		}
	}
}
