package drover

import (
	"context"
	"fmt"
	"strings"

	"github.com/drover-run/drover/job"
)

// FailedWhy is why an item has ended without success, in words.
func (r ItemResult) FailedWhy() string {
	switch {
	case r.State == job.ItemQuarantined:
		return "quarantined: found running each time an agent died"
	case r.Code == nil && r.Interruptions > 0:
		return fmt.Sprintf("interrupted %s", times(r.Interruptions))
	case r.Code == nil:
		return strings.ToLower(string(r.State))
	}
	return r.Why()
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// WhyMap explains a map's state in a sentence, with its failed items in groups.
func (j *Job) WhyMap(ctx context.Context) (Reason, error) {
	s, err := j.MapStatus(ctx)
	if err != nil {
		return Reason{}, err
	}
	w := Reason{V: 1, ID: s.ID, Project: s.Project, Task: s.Task, State: s.State, Code: s.Code}
	left := s.Items.Open()
	w.Next = "drover results " + s.ID
	switch s.State {
	case job.Succeeded:
		w.Answer = fmt.Sprintf("all %d items succeeded", s.Items.Items)
	case job.Failed:
		w.Answer = s.Reason
	case job.Cancelled:
		w.Answer = fmt.Sprintf("%s; %d of %d items had succeeded", s.Reason, s.Items.Succeeded, s.Items.Items)
		w.Detail = []string{"the command that started it, typed again, goes on with the rest"}
	case job.Interrupted:
		w.Answer = fmt.Sprintf("nobody works on it, its agents are gone; %d of %d items are left", left, s.Items.Items)
		w.Next = "drover resume " + s.ID
	default:
		w.Answer, w.Next = s.waiting(left), "drover items "+s.ID
	}
	if s.Items.Failed+s.Items.Quarantined == 0 {
		return w, nil
	}
	groups, err := j.FailedGroups(ctx)
	if err != nil {
		return w, err
	}
	w.Next = "drover items " + s.ID + " --state failed"
	for i, g := range groups {
		if i == 5 {
			w.Detail = append(w.Detail, fmt.Sprintf("and %d other ways to fail", len(groups)-i))
			break
		}
		w.Detail = append(w.Detail, fmt.Sprintf("%d × %s, such as item %d", g.Items, g.Words(), g.First))
	}
	return w, nil
}

// waiting says what a live map is at.
func (s MapStatus) waiting(left int) string {
	switch {
	case s.Paused:
		return fmt.Sprintf("it is paused; %d of %d items are left", left, s.Items.Items)
	case s.Running > 0:
		return fmt.Sprintf("%d items run, %d of %d are left", s.Running, left, s.Items.Items)
	case len(s.Doing) > 0:
		return "an agent is " + s.Doing[0]
	case s.Workers > 0:
		return fmt.Sprintf("its agents look for work; %d of %d items are left", left, s.Items.Items)
	}
	return "no agent has come up yet"
}
