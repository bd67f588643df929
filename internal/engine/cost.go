package engine

import (
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/price"
	"github.com/drover-run/drover/job"
)

// Cost is about what a job asks of an object store (E8 of docs/protocol.md), and what the
// store's maker takes for that. What inputs, outputs and environments ask for is not in
// it: a request for each object of theirs.
type Cost struct {
	Requests protocol.Requests // however long its program or its items take
	Minute   protocol.Requests // so many more in each minute that it works
	Price    price.StorePrice
	// Here says that the job's facts are in such a store. Else the price is S3's, for a
	// user that thinks of moving there.
	Here bool
}

// After is what it asks for when the work takes so long.
func (c Cost) After(minutes float64) protocol.Requests {
	return c.Requests.Add(c.Minute.Times(minutes))
}

// Of is what requests come to.
func (c Cost) Of(r protocol.Requests) price.Dollars {
	return c.Price.Requests(r.Writes, r.Lists, r.Reads)
}

// Beside what the ledger's protocol costs: TestWhatAPlanSaysOfTheStore, in cmd/drover,
// holds the sums against real jobs.
var (
	// submitting is a plan, a probe, the code, the job's own objects, and its end.
	submitting = protocol.Requests{Writes: 12, Lists: 1, Reads: 10}
	// attending is a command line that stays, in a minute.
	attending = protocol.Requests{Lists: 4, Reads: 20}
	// recording is what an agent stores and fetches beside its work, once, and its logs
	// and usage in a minute.
	recording, recordingMinute = protocol.Requests{Writes: 3, Reads: 5}, protocol.Requests{Writes: 2}
)

func (e planner) estimateCost(s job.Spec, items, chunks int) Cost {
	c := Cost{}
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
