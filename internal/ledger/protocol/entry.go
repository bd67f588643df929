package protocol

import "time"

// Header is what an entry of every log has.
type Header struct {
	V     int       `json:"v"`
	Nonce string    `json:"nonce"` // its writer's mark, after an unclear answer (L1)
	By    string    `json:"by"`    // agent id, or the id of a command line
	At    time.Time `json:"at"`    // the writer's wall clock: for people only
}

func (h *Header) header() *Header { return h }

// Entry is one numbered object of a log. Each log has a type of entries of its own, so that
// no fact is appended to a log where it means nothing. An entry may hold several facts (L4);
// those left out are nil. Once written it never changes.
type Entry interface {
	TaskEntry | JobEntry | ChunkEntry | StateEntry | InputEntry | OutputsEntry | RoundsEntry | SweepEntry
}

// HeaderOf is the header of an entry of any log: all of them embed one.
func HeaderOf[E Entry](e *E) *Header { return any(e).(interface{ header() *Header }).header() }

// TaskEntry is an entry of a task's log: which job is live.
type TaskEntry struct {
	Header
	Submitted *Submitted `json:"submitted,omitempty"`
	Closed    *Closed    `json:"closed,omitempty"`
	Removed   *Removed   `json:"removed,omitempty"`
	Beside    *Beside    `json:"beside,omitempty"`
}

// JobEntry is an entry of a job's log. Both kinds of job have one, and processes that do
// not know which kind a job is read it.
type JobEntry struct {
	Header
	Placed    *Placed  `json:"placed,omitempty"`
	Attempt   *Attempt `json:"attempt,omitempty"` // of a run alone
	Cancelled *Stop    `json:"cancelled,omitempty"`
	Failing   *Stop    `json:"failing,omitempty"`
	Settled   *Settled `json:"settled,omitempty"`
	Drained   *Drained `json:"drained,omitempty"`

	// Of a map alone.
	Amended  *Amended  `json:"amended,omitempty"`
	Extended *Extended `json:"extended,omitempty"`
	Paused   *Paused   `json:"paused,omitempty"`
	Resumed  *Resumed  `json:"resumed,omitempty"`
	// Gone names agents that the engine says are gone (D1b); true: it took them.
	Gone     map[string]bool `json:"gone,omitempty"`
	Reopened *Reopened       `json:"reopened,omitempty"`
}

// ChunkEntry is an entry of the log of a chunk: which agent owns it, and how its items ended.
type ChunkEntry struct {
	Header
	Claim    int       `json:"claim,omitempty"` // the claim that an owner's facts belong to
	Claimed  *Claimed  `json:"claimed,omitempty"`
	Results  []Result  `json:"results,omitempty"`
	Starting []int     `json:"starting,omitempty"` // numbers of items that start now
	Handed   *Handed   `json:"handed,omitempty"`
	Released *Released `json:"released,omitempty"`
	Ended    *Ended    `json:"ended,omitempty"`
	Again    *Again    `json:"again,omitempty"` // the job's reopened, applied to a chunk (M4)
}

// StateEntry is an entry of the log of a rank's state.
type StateEntry struct {
	Header
	Restored *Restored `json:"restored,omitempty"`
	Saved    *Saved    `json:"saved,omitempty"`
	Begun    *Begun    `json:"begun,omitempty"` // in rank 0's log alone
}

// InputEntry is an entry of the log of an input.
type InputEntry struct {
	Header
	Version *Version `json:"version,omitempty"`
}

// OutputsEntry is an entry of the log of what a rank's exit is about to name.
type OutputsEntry struct {
	Header
	Named *Named `json:"named,omitempty"`
}

// RoundsEntry is an entry of the log of what the rounds of a map are about to name.
type RoundsEntry struct {
	Header
	Amended  *Amended  `json:"amended,omitempty"`
	Extended *Extended `json:"extended,omitempty"`
}

// SweepEntry is an entry of gc's log, the store's own.
type SweepEntry struct {
	Header
	Sweep *Sweep `json:"sweep,omitempty"`
	Swept *Swept `json:"swept,omitempty"`
}
