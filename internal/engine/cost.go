package engine

import (
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/price"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// Beside what the ledger's protocol costs: TestWhatAPlanSaysOfTheStore, in cmd/drover,
// holds the sums against real jobs.
var (
	// submitting is a plan, a probe, the code, the job's own objects, and its end.
	submitting = report.Requests{Writes: 12, Lists: 1, Reads: 10}
	// attending is a command line that stays, in a minute.
	attending = report.Requests{Lists: 4, Reads: 20}
	// recording is what an agent stores and fetches beside its work, once, and its logs
	// and usage in a minute.
	recording, recordingMinute = report.Requests{Writes: 3, Reads: 5}, report.Requests{Writes: 2}
)

func (e planner) estimateCost(s job.Spec, items, chunks int) report.Cost {
	c := report.Cost{}
	agents := s.Nodes
	if s.Verb == job.Map {
		agents = s.Workers
		c.Requests, c.Minute = mapagent.Estimate(items, chunks, agents)
	} else {
		c.Requests, c.Minute = runs.EstimateRun(agents)
	}
	c.Requests = c.Requests.Add(submitting).Add(recording.Times(float64(agents)))
	c.Minute = c.Minute.Add(attending).Add(recordingMinute.Times(float64(agents)))
	if c.Price, c.Here = price.Of(e.World.Store.String()); !c.Here {
		c.Price = price.S3()
	}
	return c
}
