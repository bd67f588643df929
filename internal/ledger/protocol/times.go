package protocol

import "time"

// The protocol's times. Leases bound repeated work, they never protect correctness (D3).
const (
	Lease          = 60 * time.Second // a counter that stood still so long is a dead agent's (D1)
	HeartbeatEvery = 15 * time.Second // four fit into a lease, so that three may be lost
	Poll           = 5 * time.Second  // how often an agent reads the job's log at least (R7)
	// ReadGap is the longest pause between two looks after which a lease is
	// counted anew (D2). It must be longer than HeartbeatEvery, or no lease would
	// ever run out, and shorter than Lease.
	ReadGap = 30 * time.Second
	// KeepRankFor is how long a survivor's rank stays reserved in a new attempt
	// (R3). It must be longer than Lease: a survivor may be paused that long
	// and still count as alive.
	KeepRankFor = 120 * time.Second
	// StopGrace is the part of R8's bound that the user's grace is added to.
	StopGrace = 30 * time.Second
	// JobSeenFor is how long a job.json that was seen counts as there. It is asked for
	// that often and no more by all that one process does for a job, so that one
	// which was removed gets at most one heartbeat more of an agent (E6): what an
	// agent writes meanwhile a later gc sweeps.
	JobSeenFor = HeartbeatEvery
	// MaxInterruptions bounds a run that is interrupted for ever (R5).
	MaxInterruptions = 20
)
