package verify

import (
	"fmt"
	"strings"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/report"
)

// Rule names what a finding is about: one word that scripts may go by.
type Rule = string

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

func (v *verifier) addFinding(rule Rule, n report.VerifyNote) {
	if v.r.Doubted++; len(v.r.Findings) < maxNamed {
		v.r.Findings = append(v.r.Findings, report.Finding{Rule: rule, VerifyNote: n})
	}
}

func (v *verifier) addNote(n report.VerifyNote) {
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
