package report

import (
	"fmt"

	"github.com/drover-run/drover/job"
)

// Verified is what Verify found. One without findings says that the job's logs agree with the
// protocol, with each other and with the outputs.
type Verified struct {
	V   int    `json:"v"` // format, 1
	Job string `json:"job"`
	// State is as the log has settled it; empty while the job is still open.
	State job.State `json:"state,omitempty"`

	// Of a map: its items and where they stand, recomputed.
	Items int       `json:"items,omitempty"`
	Tally job.Tally `json:"tally,omitzero"`

	Rounds  int `json:"rounds,omitempty"` // how often it has settled
	Chunks  int `json:"chunks,omitempty"`
	Entries int `json:"entries"` // that were read, of all logs
	Claims  int `json:"claims,omitempty"`
	Handed  int `json:"handed,omitempty"` // chunks that were handed over

	// Losses are claims that followed an owner's death, Stopped tries that an owner ended
	// because a person had asked it to leave. Bound is how many items may have run
	// without a record in all.
	Losses  int       `json:"losses,omitempty"`
	Extra   ExtraRuns `json:"extra_runs,omitzero"`
	Stopped int       `json:"stopped,omitempty"`
	Bound   int       `json:"bound"`

	Attempts int   `json:"attempts,omitempty"` // of a run
	Outputs  int   `json:"outputs"`            // files that were read to check their bytes
	Bytes    int64 `json:"output_bytes"`

	// Ignored are entries that do not count: allowed, but told. Told is how many
	// there are, Doubted how many findings; the lists hold the first of each.
	Ignored  []VerifyNote `json:"ignored,omitempty"`
	Told     int          `json:"ignored_count"`
	Findings []Finding    `json:"doubts,omitempty"`
	Doubted  int          `json:"doubt_count"`
}

// ExtraRuns counts recorded tries of items beyond one for each.
type ExtraRuns struct {
	Retries     int `json:"retries,omitempty"`     // after a failure that was recorded, or a reopen
	Interrupted int `json:"interrupted,omitempty"` // that an agent gave up, or died in
	// Unexplained were recorded by agents that did not own the chunk any more.
	Unexplained int `json:"unexplained,omitempty"`
}

// Sum is all of them.
func (e ExtraRuns) Sum() int { return e.Retries + e.Interrupted + e.Unexplained }

// VerifyNote is an entry and what is to be said of it.
type VerifyNote struct {
	Log   string `json:"log"`   // "job", "task", "job.json", a chunk's id, or what else it is of
	Entry int    `json:"entry"` // its number; -1: it is of the whole log
	Item  int    `json:"item,omitempty"`
	By    string `json:"by,omitempty"` // its writer
	Why   string `json:"why"`
}

// String is the note in one line: "000003 entry 7, item 12: why (by agent)".
func (n VerifyNote) String() string {
	text := n.Log
	if n.Entry >= 0 {
		text += fmt.Sprintf(" entry %d", n.Entry)
	}
	if n.Item > 0 {
		text += fmt.Sprintf(", item %d", n.Item)
	}
	text += ": " + n.Why
	if n.By != "" {
		text += " (by " + n.By + ")"
	}
	return text
}

// Finding is what does not agree, and the rule it is against: one word that scripts may go by.
type Finding struct {
	Rule string `json:"rule"`
	VerifyNote
}

// Sound says that there is no finding.
func (r Verified) Sound() bool { return r.Doubted == 0 }

// Open says that the job has not settled.
func (r Verified) Open() bool { return r.State == "" }

// VerifyProgress is how far a Verify has come.
type VerifyProgress struct {
	Items, Of       int // items in the chunks that were read, and all that are known
	Chunks          int
	Entries         int
	Outputs         int
	Bytes           int64 // of outputs
	Findings, Notes int
}

// VerifyOptions say how much is read.
type VerifyOptions struct {
	LogsOnly bool                 // do not read outputs' bytes
	Told     func(VerifyProgress) // called now and then; may be nil
}
