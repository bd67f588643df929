// Package views is what a reader sees of a job, from the store alone: its state, its agents and
// events, and of a map each item and the parts of its results.
//
// It changes nothing. Proved by the readers of the simulations in package ledger.
package views

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/unit"
)

// ReadReport reads a job. It changes nothing, and never blocks on anything but the store.
func ReadReport(ctx context.Context, w protocol.World, p job.Path) (Report, error) {
	rep := Report{Path: p}
	j, err := tasks.LoadJob(ctx, w, p)
	if err != nil {
		return rep, err
	}
	rep.Job = j
	if j.Spec.Verb == job.Map {
		return readMapReport(ctx, w, rep)
	}
	l := w.JobLog(p, "")
	rep.Run = runs.Run{Nodes: j.Spec.Nodes, Retries: j.Spec.Retries, Grace: time.Duration(j.Spec.Grace)}
	if err := runs.ReadRun(ctx, w, p, l, &rep.Run); err != nil {
		return rep, err
	}
	rep.Log = l.Entries
	if len(l.Entries) == 0 {
		if err := tasks.CheckSubmitted(ctx, w, p); err != nil {
			return rep, err
		}
	}
	if rep.Run.Settled == nil {
		if err := rep.addHeartbeats(ctx, w); err != nil {
			return rep, err
		}
	}
	rep.State = rep.deriveState()
	return rep, nil
}

func readMapReport(ctx context.Context, w protocol.World, rep Report) (Report, error) {
	m, err := NewMapView(w, rep.Job).Refresh(ctx)
	if err != nil {
		return rep, err
	}
	rep.Map, rep.State, rep.Heartbeats, rep.Living, rep.Log = &m, m.State, m.Heartbeats, m.Living, m.Log
	rep.Run = runs.Run{Nodes: 1, Placed: m.Map.Placed, Stop: m.Map.Stop, Failing: m.Map.Failing, Settled: m.Map.Settled}
	return rep, nil
}

// deriveState derives where the job stands. INTERRUPTED is computed, never written:
// not settled, something was started, and no agent lives (R1).
func (rep Report) deriveState() job.State {
	r := rep.Run
	switch {
	case r.Settled != nil:
		return r.Settled.State
	case len(rep.Living) == 0 && (r.Attempt() > 0 || len(rep.Heartbeats) > 0):
		return job.Interrupted
	case slices.ContainsFunc(rep.Living, func(b protocol.Heartbeat) bool { return b.Phase == "running" || b.Phase == "saving" }):
		return job.Running
	case slices.ContainsFunc(rep.Living, func(b protocol.Heartbeat) bool { return b.Phase != protocol.Queued }):
		return job.Starting
	}
	return job.Pending // no agent has come up, or all wait for room
}

// Started is when the current attempt's program began, by the agent's clock;
// zero when it has not.
func (rep Report) Started() time.Time {
	for rank := range rep.Run.Nodes {
		if e, ok := rep.Run.Exits[rank]; ok && !e.Started.IsZero() {
			return e.Started
		}
	}
	for _, b := range rep.Heartbeats {
		if b.Attempt == rep.Run.Attempt() && !b.Since.IsZero() {
			return b.Since
		}
	}
	return time.Time{}
}

// Active is when an agent of the job was last heard of: by its heartbeat, or by how the
// program of its newest attempt ended.
func (rep Report) Active() (last time.Time) {
	for _, b := range rep.Heartbeats {
		if b.At.After(last) {
			last = b.At
		}
	}
	for _, e := range rep.Run.Exits {
		if e.Ended.After(last) {
			last = e.Ended
		}
	}
	return last
}

// Ended is when the job settled, by its writer's clock; zero while it has not.
func (rep Report) Ended() time.Time {
	if rep.Map != nil {
		return rep.Map.Ended()
	}
	return runs.SettledAt(rep.Run, rep.Log)
}

// ReadEvents tells what the logs and records say, in order.
func ReadEvents(ctx context.Context, w protocol.World, rep Report) ([]job.Event, error) {
	id := rep.Job.Short
	at := func(t time.Time, kind, format string, args ...any) job.Event {
		return job.Event{V: 1, Time: t.UTC(), Job: id, Kind: kind, Text: fmt.Sprintf(format, args...)}
	}
	events := []job.Event{at(rep.Job.At, "submitted", "%s submitted by %s on %s", rep.Path.Task, rep.Job.User, rep.Job.Host)}
	for n, e := range rep.Log {
		if slices.Contains(rep.Run.Ignored, n) {
			continue
		}
		switch {
		case e.Placed != nil:
			events = append(events, at(e.At, "placed", "asked %s for %s", e.Placed.Target, CountOf(e.Placed.Agents, "agent")))
		case e.Attempt != nil:
			events = append(events, at(e.At, "attempt", "attempt %d began%s", e.Attempt.K, because(*e.Attempt)))
			more, err := readAttemptEvents(ctx, w, rep, e.Attempt.K, at)
			if err != nil {
				return nil, err
			}
			events = append(events, more...)
		case e.Cancelled != nil:
			events = append(events, at(e.At, "cancelled", "%s", orElse(e.Cancelled.Reason, "cancelled")))
		case e.Failing != nil:
			events = append(events, at(e.At, "failing", "%s", e.Failing.Reason))
		case e.Reopened != nil, e.Extended != nil:
			events = append(events, at(e.At, "reopened", "%s", round(e)))
		case e.Paused != nil:
			events = append(events, at(e.At, "paused", "%s", orElse(e.Paused.Reason, "paused")))
		case e.Resumed != nil:
			events = append(events, at(e.At, "resumed", "goes on"))
		case e.Amended != nil:
			events = append(events, at(e.At, "amended", "%s changed for items that start from now on", amendedWords(*e.Amended)))
		case e.Drained != nil:
			events = append(events, at(e.At, "drained", "agent %s is to leave%s", e.Drained.Agent, protocol.ReasonSuffix(e.Drained.Reason)))
		case e.Gone != nil:
			events = append(events, at(e.At, "lost", "the engine says that %s %s gone", CountOf(len(e.Gone), "agent"), isAre(len(e.Gone))))
		case e.Settled != nil:
			events = append(events, at(e.At, "settled", "%s", strings.TrimSuffix(string(e.Settled.State)+": "+e.Settled.Reason, ": ")))
		}
	}
	slices.SortStableFunc(events, func(a, b job.Event) int { return a.Time.Compare(b.Time) })
	return events, nil
}

// amendedWords says what an entry changes.
func amendedWords(a protocol.Amended) string {
	switch {
	case a.Settings != nil:
		return "settings"
	case a.Code != nil:
		return "code"
	}
	return "limits"
}

// round says in words what another round of a map is for.
func round(e protocol.JobEntry) string {
	var parts []string
	if e.Reopened != nil && !e.Reopened.None {
		parts = append(parts, "items without success run again")
	}
	if e.Extended != nil {
		parts = append(parts, CountOf(e.Extended.Manifest.Count, "new item"))
	}
	if e.Amended != nil {
		parts = append(parts, amendedWords(*e.Amended)+" changed")
	}
	return strings.Join(parts, ", ")
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

type eventMaker func(t time.Time, kind, format string, args ...any) job.Event

func readAttemptEvents(ctx context.Context, w protocol.World, rep Report, k int, at eventMaker) ([]job.Event, error) {
	var events []job.Event
	exits, err := runs.ReadExits(ctx, w, rep.Path, rep.Run.Nodes, k)
	if err != nil {
		return nil, err
	}
	for rank := range rep.Run.Nodes {
		join, ok, err := protocol.ReadRecord(ctx, w, protocol.AttemptKey(rep.Path, k, "join", rank), func(j *protocol.Join) *int { return &j.V })
		if err != nil {
			return nil, err
		}
		if ok {
			events = append(events, at(join.At, "joined", "node %d joined on %s", rank, orElse(join.Name, "a machine")))
		}
		if e, ok := exits[rank]; ok {
			events = append(events, at(e.At, "exit", "node %d: %s%s", rank, e.Verdict, protocol.ReasonSuffix(e.Reason)))
		}
	}
	return events, nil
}

func because(a protocol.Attempt) string {
	nodes := make([]string, len(a.Ranks))
	for i, r := range a.Ranks {
		nodes[i] = fmt.Sprint(r)
	}
	list := strings.Join(nodes, ", ")
	switch a.Cause {
	case protocol.Lost:
		return ": lost node " + list
	case protocol.Notice:
		return ": node " + list + " was interrupted"
	case protocol.Asked:
		return ": it was interrupted by hand"
	case protocol.Failure:
		return ": node " + list + " failed, a retry is left"
	}
	return ""
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func CountOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return unit.Comma(n) + " " + noun + "s"
}

// FindNewest finds the newest job of the store, or of one project when project is
// not empty. It trusts the times of a listing, so it is for people only.
// ok is false when there is none.
func FindNewest(ctx context.Context, w protocol.World, project string) (p job.Path, ok bool, err error) {
	all, err := ListJobs(ctx, w, project)
	if err != nil || len(all) == 0 {
		return p, false, err
	}
	return all[len(all)-1], true, nil
}

// ListJobs lists the jobs of the store, or of one project, oldest first, but for those
// that gc has removed. A job with a submit that never finished may be among them; Look
// tells.
func ListJobs(ctx context.Context, w protocol.World, project string) ([]job.Path, error) {
	return tasks.NewCatalog(w, project).Jobs(ctx)
}

// Leftovers are what items of a map did to files that are not brought home, as far as the
// heartbeats of its agents tell.
type Leftovers struct {
	Lost      int    // files that items left in their working folders
	LostFirst string // one of them
	Changed   int    // files of the user's own that changed while items had them as links
	// ChangedFirst is one of them.
	ChangedFirst string
}

// ReadLeftovers reads those of a job's agents from a time on.
func ReadLeftovers(ctx context.Context, w protocol.World, p job.Path, since time.Time) (all Leftovers, err error) {
	rep := Report{Path: p}
	if err := rep.addHeartbeats(ctx, w); err != nil {
		return all, err
	}
	for _, b := range rep.Heartbeats {
		if b.At.Before(since) {
			continue
		}
		all.Lost, all.LostFirst = all.Lost+b.Lost, cmp.Or(all.LostFirst, b.LostFirst)
		// All agents of a machine have the same links.
		all.Changed, all.ChangedFirst = max(all.Changed, b.Changed), cmp.Or(all.ChangedFirst, b.ChangedFirst)
	}
	return all, nil
}
