package runs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

func sorted(ids []string) []string {
	slices.Sort(ids)
	return slices.Compact(ids)
}

// ReadExits reads the exit records of an attempt, by rank; those that are not
// there are left out.
func ReadExits(ctx context.Context, w protocol.World, p job.Path, nodes, attempt int) (map[int]protocol.Exit, error) {
	exits := map[int]protocol.Exit{}
	return exits, ReadRanks(ctx, w, p, attempt, "exit", nodes, exits, -1, func(e *protocol.Exit) *int { return &e.V })
}

// ReadRun refreshes the fold and reads the records of its current attempt that
// are still absent. Records already read never change.
func ReadRun(ctx context.Context, w protocol.World, p job.Path, l *protocol.Log[protocol.JobEntry], r *Run) error {
	if err := l.ReadUntil(ctx, func() bool { return RunHasEnded(l) }); err != nil {
		return err
	}
	r.RefoldLog(l.Entries)
	return ReadRecords(ctx, w, p, r, -1)
}

// ReadRecords reads the joins and exits of the current attempt that are still
// absent, but the exit of the rank own.
func ReadRecords(ctx context.Context, w protocol.World, p job.Path, r *Run, own int) error {
	k := r.Attempt()
	if k == 0 {
		return nil
	}
	err := ReadRanks(ctx, w, p, k, "join", r.Nodes, r.Joins, -1, func(j *protocol.Join) *int { return &j.V })
	if err != nil {
		return err
	}
	return ReadRanks(ctx, w, p, k, "exit", r.Nodes, r.Exits, own, func(e *protocol.Exit) *int { return &e.V })
}

// ObserveAgents observes the agents of which a decision asks whether they live: members without
// an exit, survivors for which a rank is kept, and others that the caller names.
func ObserveAgents(ctx context.Context, w protocol.World, o *liveness.Observer, r Run, self string, others ...string) error {
	agents := slices.Clone(others)
	for rank, join := range r.Joins {
		if join.Agent == self {
			continue
		}
		o.NoteJoin(join, w.Clock().Boot())
		if _, ended := r.Exits[rank]; !ended {
			agents = append(agents, join.Agent)
		}
	}
	if k := r.Attempt(); k > 0 {
		for rank, agent := range r.Attempts[k-1].Keep {
			if _, joined := r.Joins[rank]; !joined && agent != self {
				agents = append(agents, agent)
			}
		}
	}
	return o.ReadHeartbeats(ctx, sorted(agents))
}

// RunHasEnded says that a run has settled: what is written behind that does not count.
func RunHasEnded(l *protocol.Log[protocol.JobEntry]) bool {
	return slices.ContainsFunc(l.Entries, func(e protocol.JobEntry) bool { return e.Settled != nil }) && FoldRun(l.Entries).Settled != nil
}

// RefoldLog is the fold of entries, with the records that belong to its attempt.
func (r *Run) RefoldLog(entries []protocol.JobEntry) {
	was := r.Attempt()
	fresh := FoldRun(entries)
	fresh.Nodes, fresh.Retries, fresh.Grace = r.Nodes, r.Retries, r.Grace
	fresh.Joins, fresh.Exits = r.Joins, r.Exits
	*r = fresh
	if r.Attempt() != was || r.Joins == nil {
		r.Joins, r.Exits = map[int]protocol.Join{}, map[int]protocol.Exit{}
	}
}

// ReadRanks reads the records of ranks that are not in have yet, but that of rank own. A few are asked
// for by name; for many a listing says where to look (L6), one request for all.
func ReadRanks[T any](ctx context.Context, w protocol.World, p job.Path, k int, what string, nodes int, have map[int]T, own int, v func(*T) *int) error {
	const few = 8
	var ranks []int
	for rank := range nodes {
		if _, ok := have[rank]; !ok && rank != own {
			ranks = append(ranks, rank)
		}
	}
	if len(ranks) > few {
		ranks = ranks[:0]
		for o, err := range w.Store.List(ctx, fmt.Sprintf("%s/attempts/%d/%s/", protocol.JobDir(p), k, what)) {
			if err != nil {
				return err
			}
			var rank int
			if _, err := fmt.Sscanf(o.Key[len(protocol.JobDir(p)):], fmt.Sprintf("/attempts/%d/%s/%%d", k, what), &rank); err != nil {
				continue
			}
			if _, ok := have[rank]; !ok && rank < nodes && rank != own {
				ranks = append(ranks, rank)
			}
		}
	}
	for _, rank := range ranks {
		rec, ok, err := protocol.ReadRecord(ctx, w, protocol.AttemptKey(p, k, what, rank), v)
		if err != nil {
			return err
		}
		if ok {
			have[rank] = rec
		}
	}
	return nil
}

// SettledAt is when a run settled, by the clock of the agent that wrote it; zero: it has not.
func SettledAt(r Run, entries []protocol.JobEntry) time.Time {
	for _, e := range entries {
		if e.Settled != nil && r.Settled != nil {
			return e.At
		}
	}
	return time.Time{}
}
