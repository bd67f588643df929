package verify

import (
	"fmt"
	"strings"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// Report is what a Verify found. One without doubts says that the job's logs agree
// with the protocol, with each other and with the outputs.
type Report struct {
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
	// without a record in all: these, and what the lost owners had at risk (M10).
	Losses  int       `json:"losses,omitempty"`
	Extra   ExtraRuns `json:"extra_runs,omitzero"`
	Stopped int       `json:"stopped,omitempty"`
	Bound   int       `json:"bound"`

	Attempts int   `json:"attempts,omitempty"` // of a run
	Outputs  int   `json:"outputs"`            // files with bytes that were read
	Bytes    int64 `json:"output_bytes"`

	// Ignored are entries that do not count (L3): allowed, but told. Told is how many
	// there are, Doubted how many doubts: the lists hold the first maxNamed of each.
	Ignored []Note  `json:"ignored,omitempty"`
	Told    int     `json:"ignored_count"`
	Doubts  []Doubt `json:"doubts,omitempty"`
	Doubted int     `json:"doubt_count"`
}

// Sound says that there is no doubt.
func (r Report) Sound() bool { return r.Doubted == 0 }

// Open says that the job has not settled.
func (r Report) Open() bool { return r.State == "" }

// ExtraRuns counts recorded tries of items beyond one for each.
type ExtraRuns struct {
	Retries     int `json:"retries,omitempty"`     // after a failure that was recorded, or a reopen
	Interrupted int `json:"interrupted,omitempty"` // that an agent gave up, or died in
	// Unexplained were recorded by agents that did not own the chunk any more: lost
	// agents' items in flight, which another agent has run again.
	Unexplained int `json:"unexplained,omitempty"`
}

// Sum is all of them.
func (e ExtraRuns) Sum() int { return e.Retries + e.Interrupted + e.Unexplained }

// Note is an entry and what is to be said of it.
type Note struct {
	Log   string `json:"log"`   // "job", "task", "job.json", a chunk's id, or what else it is of
	Entry int    `json:"entry"` // its number; -1: it is of the whole log
	Item  int    `json:"item,omitempty"`
	By    string `json:"by,omitempty"` // the writer
	Why   string `json:"why"`
}

// String is the note in one line: "000003 entry 7, item 12: why (by agent)".
func (n Note) String() string {
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

// Doubt is what does not agree, and the rule it is against.
type Doubt struct {
	Rule Rule `json:"rule"`
	Note
}

// Rule names what a doubt is about: one word that scripts may go by.
type Rule string

// The rules, and the rules of docs/protocol.md that they check.
const (
	RuleHole     Rule = "hole"     // logs: their numbers are 0, 1, 2, ...
	RuleEntry    Rule = "entry"    // L3, entries: an entry can be read, and says what its log may hold
	RuleStray    Rule = "stray"    // M2, the object layout: every object has its place, every chunk a parent
	RuleJob      Rule = "job"      // T1a: job.json is there, the job's own, and as it was submitted
	RuleTask     Rule = "task"     // T1, T2: the task's log and the job's agree
	RuleManifest Rule = "manifest" // M14, the object layout: the items are there, as many as is said
	RuleItems    Rule = "items"    // M2: every item is in one chunk
	RuleClaim    Rule = "claim"    // M1: an agent that claims may, and says why
	RuleResult   Rule = "result"   // M1: a result is of an item that its writer may run
	RuleTwice    Rule = "twice"    // M1: an item has one result
	RuleForeign  Rule = "foreign"  // L3: no later entry counts a result that does not count
	RuleRetries  Rule = "retries"  // M13: an item fails as often as it may
	RuleCareful  Rule = "careful"  // M13: what may have caused two silent losses runs one at a time
	RuleHanded   Rule = "handed"   // M2, M3: what is handed over takes along what it has behind it
	RuleReleased Rule = "released" // M13: what was in flight was the owner's
	RuleEnded    Rule = "ended"    // E2: nothing comes after the end, and a stop stands that says so
	RuleReopened Rule = "reopened" // M4: what was asked for, and never a success
	RuleSettled  Rule = "settled"  // E1, E3: when all has ended, and as it has
	RuleTally    Rule = "tally"    // E3: the counts are those of the logs
	RuleExtra    Rule = "extra"    // M10: no more runs are extra than may be
	RuleOutput   Rule = "output"   // M6: outputs are stored before the result that names them
	RuleSnapshot Rule = "snapshot" // V1: an index of results says what the log says
	RuleAttempt  Rule = "attempt"  // R3: attempts follow each other
	RuleExit     Rule = "exit"     // R5: every rank has ended well before the run has
)

// maxNamed bounds what a report holds: of a store that lost a million outputs a
// thousand are enough.
const maxNamed = 1000

func (v *verifier) addFinding(rule Rule, n Note) {
	if v.r.Doubted++; len(v.r.Doubts) < maxNamed {
		v.r.Doubts = append(v.r.Doubts, Doubt{rule, n})
	}
}

func (v *verifier) addNote(n Note) {
	if v.r.Told++; len(v.r.Ignored) < maxNamed {
		v.r.Ignored = append(v.r.Ignored, n)
	}
}

// numbered is n of something: 1 try, 2 tries.
func numbered(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// counts is what has happened to an item so far.
func counts(c protocol.Carry) string {
	var all []string
	for _, x := range []struct {
		n         int
		one, more string
	}{{c.Failures, "failure", "failures"}, {c.Interruptions, "interruption", "interruptions"}, {c.Blames, "blame", "blames"},
		{c.Suspicions, "suspicion", "suspicions"}, {c.OOMs, "end out of memory", "ends out of memory"}} {
		if x.n != 0 {
			all = append(all, numbered(x.n, x.one, x.more))
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// endedBy is how a try ended: exit status 3, signal SIGKILL.
func endedBy(r protocol.Result) string {
	if r.Signal != "" {
		return "signal " + r.Signal
	}
	return fmt.Sprintf("exit status %d", r.Code)
}
