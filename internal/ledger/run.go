package ledger

import (
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Run is the fold of a run's log, with the join and exit records of its
// current attempt beside it.
type Run struct {
	Nodes   int // ranks 0 .. Nodes-1
	Retries int // how often the user's code may fail and start again
	Grace   time.Duration

	Placed   []Placed
	Attempts []Attempt // those that count, in order: Attempts[k-1] is attempt k
	Stop     *Stop
	Failing  bool // Stop came from `failing`, not `cancelled`
	Settled  *Settled
	Drained  map[string]Drained // agents that are to leave, by id; nil: none

	Joins map[int]Join // of the current attempt, by rank
	Exits map[int]Exit
	// Ignored lists the numbers of entries that were not allowed when written (L3).
	Ignored []int

	place int // of the round that a map is in (T2)
}

// Attempt is the current attempt's number; 0 before the first.
func (r Run) Attempt() int { return len(r.Attempts) }

// foldRun applies L3: `attempt` counts only as the current one plus one and
// while nothing stands against it, `settled` only for the current attempt.
func foldRun(entries []Entry) Run {
	var r Run
	for n, e := range entries {
		if !r.take(e) {
			r.Ignored = append(r.Ignored, n)
		}
	}
	return r
}

func (r *Run) take(e Entry) bool {
	open := r.Stop == nil && r.Settled == nil
	switch {
	case e.Placed != nil:
		r.Placed = append(r.Placed, *e.Placed)
		return r.Settled == nil
	case e.Attempt != nil:
		if !open || e.Attempt.K != r.Attempt()+1 {
			return false
		}
		r.Attempts = append(r.Attempts, *e.Attempt)
	case e.Cancelled != nil:
		if !open && (r.Settled != nil || !r.Stop.hardenedBy(*e.Cancelled)) {
			return false
		}
		r.Stop = e.Cancelled
	case e.Failing != nil:
		if !open {
			return false
		}
		r.Stop, r.Failing = e.Failing, true
	case e.Reopened != nil && r.Settled != nil: // a map's alone
		if e.Reopened.Place <= r.Settled.Place {
			return false
		}
		r.Settled, r.Stop, r.Failing, r.place = nil, nil, false, e.Reopened.Place
	case e.Drained != nil:
		r.Drained = withDrained(r.Drained, *e.Drained)
	case e.Settled != nil && r.Settled != nil && e.Settled.Place > r.Settled.Place:
		again := *r.Settled
		again.Place = e.Settled.Place
		r.Settled = &again
	case e.Settled != nil:
		if r.Settled != nil || e.Settled.Place != r.place || !r.allows(*e.Settled) {
			return false
		}
		r.Settled = e.Settled
	}
	return true
}

// allows says whether settled fits what stands before it: a stop decides the
// state, and without one the current attempt does.
func (r *Run) allows(s Settled) bool {
	if r.Stop != nil {
		return r.Failing == (s.State == job.Failed) && s.State != job.Succeeded
	}
	return s.Attempt == r.Attempt() && s.State != job.Cancelled
}

// Failures counts the attempts that the user's code has failed so far.
func (r Run) Failures() int { return r.count(Failure) }

// Interruptions counts the attempts that were lost or given notice: free of
// charge, up to MaxInterruptions.
func (r Run) Interruptions() int { return r.count(Lost) + r.count(Notice) }

func (r Run) count(c Cause) (n int) {
	for _, a := range r.Attempts {
		if a.Cause == c {
			n++
		}
	}
	return n
}

// Join says that an agent takes part in an attempt as a rank. Written once, by
// create-if-absent: who writes it has the rank.
type Join struct {
	V       int       `json:"v"`
	Nonce   string    `json:"nonce"`
	Agent   string    `json:"agent"`
	At      time.Time `json:"at"`
	Host    Host      `json:"host"`
	Name    string    `json:"name,omitempty"`    // host name, for people
	Address string    `json:"address,omitempty"` // where peers reach it
	Port    int       `json:"port,omitempty"`    // fresh for each attempt (R2)
	// Stack names its network stack: who has the same one reaches it by loopback.
	Stack string `json:"stack,omitempty"`
	Procs int    `json:"procs,omitempty"` // processes that this node will run
	Token string `json:"token"`           // of this attempt and rank alone (R2)
}

// Verdict says how a rank's part in an attempt ended.
type Verdict string

// The verdicts. Only Broke and Setup are held against the user; Halted ranks
// were ended because of another, or because the job was stopped.
const (
	Done        Verdict = "done"        // exit status 0, outputs stored and verified
	Broke       Verdict = "failed"      // the program's own non-zero exit
	TimedOut    Verdict = "timed out"   // --timeout
	Setup       Verdict = "setup"       // it never started: no environment, no program
	Halted      Verdict = "halted"      // ended because of another rank, or a stop
	Interrupted Verdict = "interrupted" // the machine had notice
	AskedToStop Verdict = "asked"       // Ctrl-C: interrupted by a person
)

// Exit says how a rank ended. Written once, after its outputs are stored (R5).
type Exit struct {
	V       int       `json:"v"`
	Nonce   string    `json:"nonce"`
	Agent   string    `json:"agent"`
	At      time.Time `json:"at"`
	Verdict Verdict   `json:"verdict"`
	Code    int       `json:"code"`             // exit status as a shell would say it
	Signal  string    `json:"signal,omitempty"` // the signal that ended it
	Reason  string    `json:"reason,omitempty"` // one line for people
	Hint    string    `json:"hint,omitempty"`
	// Message is what it left in output/message, for people.
	Message string `json:"message,omitempty"`
	// Trace is what the program said last, when it failed.
	Trace string `json:"trace,omitempty"`
	// Outputs are digests of file lists by name: model, output, files.
	Outputs map[string]store.Digest `json:"outputs,omitempty"`
	Started time.Time               `json:"started,omitzero"` // the program's process
	Ended   time.Time               `json:"ended,omitzero"`
	CPU     time.Duration           `json:"cpu,omitempty"`         // user and system, in ns
	MaxRSS  int64                   `json:"max_rss,omitempty"`     // bytes, of the largest process
	Peak    int64                   `json:"peak_memory,omitempty"` // bytes, of the whole tree at once
	Notes   []string                `json:"notes,omitempty"`       // what a person should know about the outputs
}

// EstimateRun is about how many requests to an object store a run of so many nodes
// costs: to meet, to record how each ended, and to settle; and in each minute its
// heartbeats, and each node's looks at the job, the attempt and the others.
func EstimateRun(nodes int) (whole, minute Requests) {
	beats, polls := int(time.Minute/Heartbeat), int(time.Minute/Poll)
	whole = Requests{Writes: 1 + 3*nodes, Lists: nodes - 1, Reads: 2 + 4*nodes}
	return whole, Requests{Writes: beats * nodes, Reads: polls*2*nodes + beats*nodes*(nodes-1)}
}
