package drover

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// Pause has a map's agents begin nothing more until Continue; items that run go on
// to their end. It returns how the map stands once its agents have heeded it, which
// those near the store do at once and others within half a minute; one that does not
// answer is waited for no longer. A map that is paused already stays so.
func (j *Job) Pause(ctx context.Context, reason string) (Status, error) {
	rec, err := j.requireMap(ctx, "pause", "A program cannot be held: Ctrl-C where it is followed interrupts it, and drover resume goes on; drover queue pause keeps others from starting.")
	if err != nil {
		return Status{}, err
	}
	stands, err := control.PauseMap(ctx, j.c.world, j.path, j.c.engine.Caller.By, protocol.Paused{Reason: reason, User: j.c.engine.Caller.User})
	if err != nil {
		return Status{}, err
	}
	if !stands {
		s, err := j.Status(ctx)
		if err == nil {
			err = unmoved("pause", rec, s)
		}
		return s, err
	}
	return j.waitUntilHeeded(ctx, func(s Status) bool { return s.State == job.Paused })
}

// How long Pause and Drain wait for agents: longer than they look at the job's log and tell.
const (
	nearHeed = 3 * time.Second
	farHeed  = 2 * protocol.HeartbeatEvery
)

// waitUntilHeeded waits until every agent of a map that was paused, or is drained, has said that
// it begins nothing more; no longer than the map stands so.
func (j *Job) waitUntilHeeded(ctx context.Context, stands func(Status) bool) (Status, error) {
	clock := j.c.world.Store.Clock()
	for begin := clock.Boot(); ; {
		s, err := j.Status(ctx)
		limit := farHeed
		if j.c.near && mapagent.Few(len(s.Nodes)) { // many may not be near it themselves
			limit = nearHeed
		}
		at := func(n Node) bool { return n.State == "running" || n.State == "idle" }
		if err != nil || !stands(s) || clock.Boot()-begin >= limit || !slices.ContainsFunc(s.Nodes, at) {
			return s, err
		}
		if err := clock.Sleep(ctx, j.c.pollInterval()/4); err != nil {
			return s, err
		}
	}
}

// Continue ends a pause; a map that is not paused goes on as it does. Wait and
// Start put agents to work where none lives.
func (j *Job) Continue(ctx context.Context) error {
	rec, err := j.requireMap(ctx, "resume", "drover resume goes on with it.")
	if err != nil {
		return err
	}
	stands, err := control.ContinueMap(ctx, j.c.world, j.path, j.c.engine.Caller.By)
	if err != nil || stands {
		return err
	}
	s, err := j.Status(ctx)
	if err != nil {
		return err
	}
	return unmoved("resume", rec, s)
}

// unmoved says why what was asked of a live map came too late.
func unmoved(what string, rec job.Job, s Status) error {
	if s.State.Settled() {
		return fault.New(fault.Invalid, "Run its command again for what is left, or `drover retry "+rec.Short+"`.", "%s job %s: it has ended, %s", what, rec.Short, s.State)
	}
	return fault.New(fault.Invalid, "Wait for its end: `drover wait "+rec.Short+"`.", "%s job %s: it is being stopped", what, rec.Short)
}

// requireMap is the record of a job that must be a map; of another the hint says what
// to do instead.
func (j *jobRef) requireMap(ctx context.Context, what, hint string) (job.Job, error) {
	rec, err := j.Spec(ctx)
	if err != nil {
		_, err := j.readReport(ctx) // it says it in words for people
		return rec, err
	}
	if rec.Spec.Verb != job.Map {
		return rec, fault.New(fault.Invalid, hint, "%s job %s: it is a %s, not a map", what, rec.Short, rec.Spec.Verb)
	}
	return rec, nil
}

// Drain cancels a map and waits until it has settled, as Stop does, but items that
// run may end and are recorded. told is called once it is durable and agents know of it,
// before that is waited for. Stop after it has what still runs ended.
func (j *Job) Drain(ctx context.Context, reason string, told func(Status)) (stands bool, err error) {
	if _, err := j.requireMap(ctx, "drain", "Leave --drain out: a program gets SIGTERM, and its grace to save."); err != nil {
		return false, err
	}
	return j.c.engine.Drain(ctx, j.path, reason, func() {
		// it is for people alone
		if s, err := j.waitUntilHeeded(ctx, func(s Status) bool { return !s.State.Settled() }); err == nil {
			told(s)
		}
	})
}

// pausedWords is "paused by ann at 15:04:05 (lunch)".
func (s Status) pausedWords() string {
	text := "paused"
	if s.PausedBy != "" {
		text += " by " + s.PausedBy
	}
	if !s.PausedAt.IsZero() {
		at := s.PausedAt.Local()
		layout := time.TimeOnly
		if s.Time.Sub(at) > 20*time.Hour {
			layout = time.DateTime
		}
		text += " at " + at.Format(layout)
	}
	if s.PausedWhy != "" {
		text += fmt.Sprintf(" (%s)", s.PausedWhy)
	}
	return text
}
