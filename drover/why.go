package drover

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/engine/waiting"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// Reason explains why a job stands where it does.
type Reason struct {
	V       int       `json:"v"`
	ID      string    `json:"id"`
	Project string    `json:"project"`
	Task    string    `json:"task"`
	State   job.State `json:"state"`
	Answer  string    `json:"answer"`           // one sentence
	Detail  []string  `json:"detail,omitempty"` // what the program said last, or what is waited for
	Next    string    `json:"next,omitempty"`   // one command to paste
	Code    *int      `json:"exit_code,omitempty"`
}

// traceLines is how much of what a program said last is shown.
const traceLines = 25

func (k runKind) explainState(ctx context.Context) (Reason, error) {
	j := k.j
	rep, err := j.readReport(ctx)
	if err != nil {
		return Reason{}, err
	}
	s := status(rep)
	w := Reason{V: 1, ID: s.ID, Project: s.Project, Task: s.Task, State: s.State, Code: s.Code}
	switch s.State {
	case job.Succeeded:
		w.Answer = "every node exited with status 0, and its outputs are stored"
		w.Next = "drover get " + s.ID + " -o out"
	case job.Failed:
		w.explainFailure(rep, s)
		if hint := j.stayedHome(ctx, rep); hint != "" {
			w.Detail = append(w.Detail, hint)
		}
	case job.Cancelled:
		w.Answer = s.Reason
		w.Detail = []string{"the command that started it, typed again, goes on from its checkpoints"}
		w.Next = "drover logs " + s.ID
	case job.Interrupted:
		w.explainInterruption(rep)
		w.Next = "drover resume " + s.ID
		w.explainReplacement(j.listMembers(ctx, rep.Job, rep.Run.Placed))
	default:
		w.explainWaiting(rep)
		if len(rep.Living) == 0 {
			w.explainMembers(j.listMembers(ctx, rep.Job, rep.Run.Placed))
		}
		w.Next = "drover logs -f " + s.ID
	}
	return w, nil
}

func (w *Reason) explainFailure(rep views.Report, s Status) {
	settled := rep.Run.Settled
	w.Answer = s.Reason
	if rep.Run.Nodes > 1 {
		w.Answer = fmt.Sprintf("node %d: %s", settled.Rank, s.Reason)
	}
	w.Next = "drover logs " + s.ID
	exit, ok := rep.Run.Exits[settled.Rank]
	if !ok {
		return
	}
	if trace := strings.TrimRight(exit.Trace, "\n"); trace != "" {
		lines := strings.Split(trace, "\n")
		if i := lastIndex(lines, "Traceback (most recent call last):"); i >= 0 {
			lines = lines[i:]
		}
		w.Detail = lines[max(0, len(lines)-traceLines):]
	}
	if s.Hint != "" {
		w.Detail = append(w.Detail, s.Hint)
	}
}

// StayedHome says of a failed job which file its program did not find that is here and was
// not shipped, and what brings it along; "" where there is none.
func (j *Job) StayedHome(ctx context.Context) string {
	rep, err := j.readReport(ctx)
	if err != nil || rep.Run.Settled == nil {
		return ""
	}
	return j.stayedHome(ctx, rep)
}

func (j *Job) stayedHome(ctx context.Context, rep views.Report) string {
	exit, ok := rep.Run.Exits[rep.Run.Settled.Rank]
	if !ok || rep.Job.Spec.Verb == job.Map {
		return ""
	}
	return j.c.engine.Code.StayedHome(ctx, rep.Job, exit.Trace)
}

func lastIndex(lines []string, text string) int {
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.HasPrefix(lines[i], text) {
			return i
		}
	}
	return -1
}

func (w *Reason) explainInterruption(rep views.Report) {
	w.Answer = "no agent is working on it: its agents are gone"
	for rank := range rep.Run.Nodes {
		e, ok := rep.Run.Exits[rank]
		switch {
		case ok && e.Verdict == protocol.AskedToStop:
			w.Answer = "it was interrupted by hand: " + e.Reason
		case ok && e.Verdict == protocol.Interrupted:
			w.Answer = fmt.Sprintf("node %d was interrupted: %s", rank, e.Reason)
		}
	}
	for _, b := range rep.Heartbeats {
		if b.Saved > 0 {
			w.Detail = append(w.Detail, fmt.Sprintf("node %d saved its last checkpoint at %s", b.Rank, b.SavedAt.Local().Format(time.DateTime)))
		}
	}
}

func (w *Reason) explainWaiting(rep views.Report) {
	w.Answer = "no agent has started yet"
	if len(rep.Run.Placed) == 0 {
		w.Answer = "no agent has been requested yet"
		w.Detail = append(w.Detail, "the command that submitted it ended before; drover resume goes on")
	}
	for _, b := range rep.Living {
		what := b.Phase
		if b.Note != "" {
			what += ": " + b.Note
		}
		w.Detail = append(w.Detail, fmt.Sprintf("agent %s on %s: %s", b.Agent, b.Name, what))
		w.Answer = "an agent is " + b.Phase
	}
	for _, b := range rep.Living {
		if b.Queue != "" {
			w.Answer = b.Queue
			w.Detail = append(w.Detail, "drover queue ls shows the line; --now goes ahead without waiting, --priority changes the order")
		}
	}
	for rank := range rep.Run.Nodes {
		if _, ok := rep.Run.Joins[rank]; !ok && rep.Run.Nodes > 1 {
			w.Detail = append(w.Detail, fmt.Sprintf("node %d has not joined attempt %d", rank, rep.Run.Attempt()))
		}
	}
}

// mostMachines is how many different things that machines wait for are said.
const mostMachines = 5

// listMembers asks the target about all agents that it was asked for.
func (j *jobRef) listMembers(ctx context.Context, rec job.Job, placed []protocol.Placed) (all []driver.Member, err error) {
	for _, pl := range placed {
		members, err := j.c.engine.Members(ctx, rec, pl.Placement)
		if err != nil {
			return nil, err
		}
		all = append(all, members...)
	}
	return all, nil
}

// explainMembers says what the target has to say of agents that have not come up.
func (w *Reason) explainMembers(members []driver.Member, err error) {
	if err != nil {
		w.Detail = append(w.Detail, err.Error())
		return
	}
	for i, why := range waiting.Of(members) {
		switch {
		case i == 0:
			w.Answer = why.Reason
		case i < mostMachines:
			w.Detail = append(w.Detail, fmt.Sprintf("%s: %s", plural(why.Agents, "agent", "agents"), why.Reason))
		}
		if why.Hint != "" && i < mostMachines {
			w.Detail = append(w.Detail, why.Hint)
		}
	}
}

// explainReplacement says of a job that no agent works on that its target is to start others by itself.
func (w *Reason) explainReplacement(members []driver.Member, err error) {
	if err != nil || len(waiting.Of(members)) == 0 {
		return
	}
	before := w.Answer
	w.explainMembers(members, nil)
	w.Detail = append(w.Detail, before, "it goes on by itself: the target starts agents again")
	w.Next = "drover status --watch " + w.ID
}

// idleLooks is how often in a row a job must be seen without agents before that
// is said: for a moment it is so between two attempts.
const idleLooks = 20

// Until looks at the job until it has settled, is interrupted, or limit (0: none)
// has passed, and returns its last BriefStatus. Unlike Wait it asks for no agents.
func (j *Job) Until(ctx context.Context, limit time.Duration) (Status, error) {
	clock := j.c.world.Store.Clock()
	begin := clock.Boot()
	idle := 0
	for {
		s, err := j.BriefStatus(ctx)
		if err != nil {
			return s, err
		}
		if s.State.Settled() {
			return s, j.c.engine.Clean(ctx, j.path)
		}
		// Between two attempts no agent lives for a moment while an attached command line
		// starts the next agent: only a lasting absence is reported.
		if s.State == job.Interrupted {
			idle++
		} else {
			idle = 0
		}
		if idle > idleLooks || limit > 0 && clock.Boot()-begin >= limit {
			return s, nil
		}
		if err := clock.Sleep(ctx, j.c.pollInterval()); err != nil {
			return s, err
		}
	}
}

// Attached says whether the job's agents live beside the command line that
// attends it, so that Ctrl-C there is for them.
func (j *jobRef) Attached(ctx context.Context) (bool, error) {
	return j.c.engine.Attached(ctx, j.path)
}
