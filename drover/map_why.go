package drover

import (
	"context"
	"fmt"
	"strings"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/unit"
)

func (k mapKind) explainState(ctx context.Context) (Reason, error) {
	j, v, rec := k.j, k.view, k.rec
	r, err := v.Refresh(ctx)
	if err != nil {
		return Reason{}, fmt.Errorf("read job %s: %w", j.path.Job, err)
	}
	s := mapStatus(j.path, v, r, j.c.world.Store.Clock().Now())
	w := Reason{V: 1, ID: s.ID, Project: s.Project, Task: s.Task, State: s.State, Code: s.Code, Next: "drover results " + s.ID}
	switch s.State {
	case job.Succeeded:
		w.Answer = fmt.Sprintf("all %s succeeded", plural(s.Items.Items, "item", "items"))
	case job.Failed:
		w.Answer = s.Reason
	case job.Cancelled:
		w.Answer = fmt.Sprintf("%s; %s of %s had succeeded", s.Reason, unit.Comma(s.Items.Succeeded), plural(s.Items.Items, "item", "items"))
	case job.Paused:
		w.Answer, w.Next = fmt.Sprintf("%s; %s of %s are left", s.pausedWords(), unit.Comma(s.Items.Open()), plural(s.Items.Items, "item", "items")), "drover resume "+s.ID
		if s.Running > 0 {
			w.Detail = append(w.Detail, plural(s.Running, "running item continues to its end", "running items continue to their end"))
		}
	case job.Interrupted:
		w.mapInterrupted(s, r.Heartbeats)
		w.explainReplacement(j.listMembers(ctx, rec, r.Map.Placed))
	default:
		w.mapWaiting(s, len(r.Map.Placed) > 0, r.Living)
		if s.Workers < rec.Spec.Workers {
			answer := w.Answer
			w.explainMembers(j.listMembers(ctx, rec, r.Map.Placed))
			if why := w.Answer; s.Workers > 0 && why != answer { // the others work
				w.Answer, w.Detail = answer, append([]string{"some agents wait: " + why}, w.Detail...)
			}
		}
	}
	if s.Items.Failed+s.Items.Quarantined > 0 {
		f, err := j.Figures(ctx)
		if err != nil {
			return w, err
		}
		w.addFailures(s, f, rec.Spec.ItemTimeout)
	}
	if s.Items.Cancelled > 0 {
		w.Detail = append(w.Detail, fmt.Sprintf("%s cancelled, and will not run: drover retry %s --state cancelled runs them, as does the command that started it, typed again", were(s.Items.Cancelled), s.ID))
	}
	return w, nil
}

// were is "1 item was", "7 items were".
func were(n int) string {
	if n == 1 {
		return "1 item was"
	}
	return unit.Comma(n) + " items were"
}

func (w *Reason) mapInterrupted(s Status, beats []protocol.Heartbeat) {
	how := "its agents stopped without a report: they were killed, or their machine is gone"
	for _, b := range beats {
		if b.Phase == protocol.Left {
			how = "their machines were taken away, and its agents have left"
		}
	}
	for _, b := range beats {
		if b.Asked {
			how = "it was stopped by hand"
		}
	}
	w.Answer = fmt.Sprintf("no agent is working on it: %s; %s of %s are left", how, unit.Comma(s.Items.Open()), plural(s.Items.Items, "item", "items"))
	w.Next = "drover resume " + w.ID
}

// mapWaiting says what a live map is at.
func (w *Reason) mapWaiting(s Status, placed bool, living []protocol.Heartbeat) {
	left := fmt.Sprintf("%s of %s are left", unit.Comma(s.Items.Open()), plural(s.Items.Items, "item", "items"))
	w.Next = "drover status --watch " + w.ID
	switch {
	case s.Running > 0:
		w.Answer = fmt.Sprintf("%s on %s, %s", plural(s.Running, "item runs", "items run"), plural(s.Workers, "worker", "workers"), left)
	case s.Workers == 0 && !placed:
		w.Answer, w.Next = "no agent has been requested yet", "drover resume "+w.ID
		w.Detail = append(w.Detail, "the command that submitted it ended before; drover resume goes on")
	case s.Workers == 0:
		w.Answer = "no agent has started yet"
	case len(s.Doing) > 0:
		w.Answer = "an agent is " + s.Doing[0]
	default:
		w.Answer = "no item runs just now: its agents look for work, or wait until what failed may run again; " + left
	}
	for _, b := range living {
		if b.Queue != "" && s.Running == 0 {
			w.Answer = b.Queue
			w.Detail = append(w.Detail, "drover queue ls shows the line; --now goes ahead without waiting, --priority changes the order")
			break
		}
	}
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return unit.Comma(n) + " " + more
}

// addFailures are the ways in which items failed, each with what to do about it.
func (w *Reason) addFailures(s Status, f Figures, timeout job.Duration) {
	for i, g := range f.Groups {
		if i == 5 {
			w.Detail = append(w.Detail, fmt.Sprintf("and %s other ways to fail", unit.Comma(len(f.Groups)-i)))
			break
		}
		w.Detail = append(w.Detail, fmt.Sprintf("%s × %s, such as item %d", unit.Comma(g.Items), g.Words(), g.First))
		if do := remedyCommand(g, w.ID, len(f.Groups), f.Limits, timeout); do != "" {
			w.Detail = append(w.Detail, "    "+do)
		}
	}
	if s.State.Settled() || s.State == job.Running {
		w.Next = fmt.Sprintf("drover logs %s --item %d", w.ID, f.Groups[0].First)
	}
}

// remedyCommand is a command for the items of a group that may help; "" when nothing is
// known that all others do not need, too.
func remedyCommand(g Group, id string, groups int, l job.Limits, timeout job.Duration) string {
	switch {
	case strings.HasPrefix(g.Said, "out of memory") && l.Memory > 0:
		return fmt.Sprintf("drover retry %s --error 'out of memory' --memory %s", id, 2*l.Memory)
	case strings.HasPrefix(g.Said, "timed out after") && timeout > 0:
		return fmt.Sprintf("drover retry %s --error 'timed out after' --timeout %s", id, 2*timeout)
	case g.Why == (ItemResult{State: job.ItemQuarantined}).FailedWhy():
		return fmt.Sprintf("drover items %s %d shows its end; drover retry %s --state quarantined runs such again", id, g.First, id)
	case groups > 1 && g.Pattern != "":
		return fmt.Sprintf("drover retry %s --error %s", id, quote(g.Pattern))
	}
	return ""
}

// quote makes a word of a shell's.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
