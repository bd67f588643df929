package protocol

import (
	"maps"

	"github.com/drover-run/drover/job"
)

// Drained asks one agent to leave while its job goes on (J4): its machine is wanted for
// something else. It is an entry of the job's log, so that it reaches an agent that
// cannot be reached otherwise, at its next read (R7, E5). The agent begins nothing new. In a map
// it hands on what it has not begun, lets end what runs, and leaves; in a run it
// saves and leaves as an interruption, and another takes its rank. For all other
// processes it changes nothing: no fold, no budget and no decision but the keeper's, which
// asks for no other agent in the place of a map's.
type Drained struct {
	Agent  string `json:"agent"`
	Reason string `json:"reason,omitempty"`
	User   string `json:"user,omitempty"` // the user that asked, for people
}

// WithDrained adds one. Folds are copied, so what another holds stays.
func WithDrained(all map[string]Drained, d Drained) map[string]Drained {
	more := map[string]Drained{}
	maps.Copy(more, all)
	if _, twice := more[d.Agent]; !twice {
		more[d.Agent] = d
	}
	return more
}

// Placed comes before the driver is asked for agents (J1): the engine's name
// for them is the job's id and Placement, so an ambiguous start is found again.
type Placed struct {
	Placement int    `json:"placement"` // 1, 2, ...
	Agents    int    `json:"agents"`    // how many were asked for
	Target    string `json:"target"`
	// Inherited are the variables of the command that asks for the agents, where these
	// inherit them and they are others than the job's; nil: they are the job's.
	Inherited *job.Inherited `json:"inherited,omitempty"`
}

// Cause says why an attempt was opened.
type Cause string

// The causes of R3, and the first attempt's. Only Failure spends a retry; Lost
// and Notice count as interruptions; Asked (Ctrl-C, then resume) is no fault of the program.
const (
	First   Cause = "first"
	Lost    Cause = "lost"
	Notice  Cause = "notice"
	Asked   Cause = "asked"
	Failure Cause = "failure"
)

// Attempt opens try K of the whole run. Keep names the survivors and the ranks
// they keep.
type Attempt struct {
	K     int            `json:"k"` // 1, 2, ...
	Cause Cause          `json:"cause"`
	Ranks []int          `json:"ranks,omitempty"` // the ranks that caused it
	Keep  map[int]string `json:"keep,omitempty"`  // rank -> agent id
}

// Stop ends a job early: a user cancelled it, or a limit was reached (E1).
type Stop struct {
	Reason string `json:"reason,omitempty"`
	Code   int    `json:"code,omitempty"` // exit status to give, 0: by kind
	// Drain lets a map's running items end (E2), until a cancel without it.
	Drain bool `json:"drain,omitempty"`
}

// Settled ends a job for good.
type Settled struct {
	State   job.State `json:"state"`
	Attempt int       `json:"attempt"`        // the attempt of the outputs that count; 0: none
	Rank    int       `json:"rank"`           // the rank that Code and Reason come from
	Code    int       `json:"code"`           // the program's exit status, or drover's
	Reason  string    `json:"reason"`         // one line; empty after success
	Hint    string    `json:"hint,omitempty"` // one command or sentence that would help
	// Tally counts the items of a map. Submission is the number of the job's `submitted`
	// for which this was said: a map may settle again at a later one (T2).
	Tally      *job.Tally `json:"tally,omitempty"`
	Submission int        `json:"submission,omitempty"`
}

func (d Drained) ReasonInWords() string { return "its agent is drained" + ReasonSuffix(d.Reason) }

// IsHardenedBy says whether a later cancel takes the place of the stop that stands:
// one that was to let items end is cancelled outright.
func (s *Stop) IsHardenedBy(later Stop) bool { return s != nil && s.Drain && !later.Drain }

func ReasonSuffix(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}
