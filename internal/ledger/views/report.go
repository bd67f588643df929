package views

import (
	"context"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/job"
)

// Report is a job as any reader sees it, from the store alone.
type Report struct {
	Job        job.Job
	Path       job.Path
	Run        runs.Run
	State      job.State
	Heartbeats []protocol.Heartbeat // heartbeats of its agents, by id
	// Living are the agents with no evidence against them that were heard of
	// within a lease, by the wall clock of this machine: for showing only.
	Living []protocol.Heartbeat
	Log    []protocol.JobEntry
	Map    *MapReport // of a map; Run holds then what its log has in common with a run's
}

// addHeartbeats adds the heartbeats of the job's agents.
func (rep *Report) addHeartbeats(ctx context.Context, w protocol.World) (err error) {
	rep.Heartbeats, rep.Living, err = readHeartbeats(ctx, w, rep.Path)
	return err
}
