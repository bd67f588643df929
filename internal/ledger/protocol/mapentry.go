package protocol

import (
	"slices"
	"time"

	"github.com/drover-run/drover/job"
)

// Claimed makes an agent the owner of a chunk (M1), until its own `released` or
// `ended`, or the next `claimed`.
type Claimed struct {
	Agent string  `json:"agent"`
	Host  Host    `json:"host,omitzero"` // of its process (D1a)
	N     int     `json:"n"`             // of this chunk's claims: 1, 2, ...
	Why   Grounds `json:"why"`
	// Risk is the most items that the owner lets begin without their results being
	// in this log: what an agent's death may cost (M10).
	Risk int `json:"risk,omitempty"`
}

// Grounds say why a chunk was free to be claimed.
type Grounds string

// The grounds of M1. After Silence its owner was dead by the evidence of D1a or
// D1c; after Taken the engine had called it an interruption.
const (
	Untouched Grounds = "untouched"
	FreeAgain Grounds = "released" // released, or reopened
	Silence   Grounds = "silence"
	TakenAway Grounds = "taken"
)

// Result says how one try of an item ended. Times are microseconds, so that a
// million of them stay small.
type Result struct {
	Item    int      `json:"i"`           // its number in the job: 1, 2, ...
	Try     string   `json:"y,omitempty"` // names the folder of its outputs; "" when there are none
	Failed  bool     `json:"f,omitempty"`
	Final   bool     `json:"z,omitempty"` // of a failure: there is no further try
	Code    int      `json:"c,omitempty"` // exit status as a shell would say it
	Signal  string   `json:"s,omitempty"`
	Kind    string   `json:"k,omitempty"` // of a failure: job.FailMemory, job.FailTime
	Why     string   `json:"w,omitempty"` // one line, when the status alone does not tell
	Ended   int64    `json:"e,omitempty"` // Unix time in microseconds
	Wall    int64    `json:"t,omitempty"`
	CPU     int64    `json:"u,omitempty"`
	MaxRSS  int64    `json:"m,omitempty"` // bytes, of the largest process
	Head    string   `json:"h,omitempty"` // what it printed to stdout, up to a cap; what is no UTF-8 is replaced
	Tail    string   `json:"l,omitempty"` // the end of it, when it is longer than the cap
	Size    int64    `json:"n,omitempty"` // of stdout, in bytes
	Outputs []Output `json:"o,omitempty"`
}

// FailedForGood says that the item has failed and is not tried again.
func (r Result) FailedForGood() bool { return r.Failed && r.Final }

// Output is one file that a try left, stored and verified.
type Output struct {
	Name   string `json:"n"` // below the folder for outputs
	Size   int64  `json:"s"`
	SHA256 string `json:"d"`
	Mode   uint32 `json:"m,omitempty"` // permission bits, when they are not 0644
}

// Handed moves items that are not running to a chunk of their own, named by this
// entry (ChildID). They are no longer the owner's (M2, M8).
type Handed struct {
	Seed
	// To is an idle agent that was told, for people.
	To string `json:"to,omitempty"`
}

// Seed is what a chunk begins with: its items, and what a handed one inherits
// (M3, M4).
type Seed struct {
	Items Spans `json:"items"`
	// Carry holds what items have behind them; those with nothing are left out.
	Carry map[int]Carry `json:"carry,omitempty"`
	Mark  int           `json:"mark,omitempty"` // number of the job's `reopened` or `extended` it stands at
	// Wait is how long no agent claims it, counted from when it first saw it: a back-off.
	Wait time.Duration `json:"wait,omitempty"`
}

// Carry is what an item has behind it: the three budgets of M13, and how often it
// is suspected.
type Carry struct {
	Failures      int `json:"f,omitempty"`
	Interruptions int `json:"i,omitempty"`
	Blames        int `json:"b,omitempty"` // silent losses that found it starting
	// Suspicions counts the silent losses that may have found it begun. With
	// isolateAfter of them it is a suspect, which runs alone.
	Suspicions int `json:"s,omitempty"`
	// OOMs are those of its failures for which it had too little memory.
	OOMs int `json:"o,omitempty"`
}

// Released gives a chunk back. Flight are the items that were running and are
// counted as interrupted; those a person stopped are not, but Stopped is how many.
type Released struct {
	Flight  []int `json:"flight,omitempty"`
	Stopped int   `json:"stopped,omitempty"`
}

// Ended closes a chunk: every item of it has a result or was handed on, or the
// job was stopped by entry By of its log (E2, L5), and what has no result is cancelled.
type Ended struct {
	By int `json:"by,omitempty"` // number in the job's log; 0: by itself
}

// Again opens an ended chunk again for some of its items, by entry By of the
// job's log (M4, L5). A success is never among them.
type Again struct {
	By    int   `json:"by"`
	Items Spans `json:"items"`
}

// Amended changes what binds items that start from now on (J2). Fields left out
// stay as they were.
type Amended struct {
	Limits  *job.Limits   `json:"limits,omitempty"`
	Timeout *job.Duration `json:"timeout,omitempty"`
	Retries *int          `json:"retries,omitempty"`
	// RetryOn and MemoryStep: what they are is said at job.Items.
	RetryOn    *job.RetryOn `json:"retry_on,omitempty"`
	MemoryStep *float64     `json:"memory_step,omitempty"`
	Code       *Code        `json:"code,omitempty"`
	// Settings are all settings of a command that was typed again with others, as
	// job.Spec.Settings gives them: none of those before binds any more.
	Settings *job.Spec `json:"settings,omitempty"`
}

// Code is what agents that begin from then on run items with: stored before an entry
// names it. The rest of job.json stays.
type Code struct {
	job.Code
	Environment string `json:"environment,omitempty"`
	Interpreter string `json:"interpreter,omitempty"`
}

// Extended adds items to a map, numbered after those it has.
type Extended struct {
	Manifest job.Manifest `json:"manifest"`
	First    int          `json:"first"` // number of its first item
	Size     int          `json:"size"`  // of its chunks
}

// Paused and Resumed stop and allow claims and starts (J3).
type (
	Paused struct {
		Reason string `json:"reason,omitempty"`
		User   string `json:"user,omitempty"` // the user that asked, for people
	}
	Resumed struct{}
)

// Reopened selects items without success for another round (M4, T2). Of a job
// that had settled it names the job's newest place.
type Reopened struct {
	Submission int             `json:"submission,omitempty"`
	States     []job.ItemState `json:"states,omitempty"` // none: failed, quarantined and cancelled
	Items      Spans           `json:"items,omitempty"`  // none: whatever their number
	// None selects nothing: the round is for what `extended` adds.
	None bool `json:"none,omitempty"`
}

// SelectsItem says whether an item that ended in state s is chosen.
func (r Reopened) SelectsItem(item int, s job.ItemState) bool {
	return r.TakesState(s) && (len(r.Items) == 0 || r.Items.Has(item))
}

// TakesState says whether items in a state may be among them.
func (r Reopened) TakesState(s job.ItemState) bool {
	switch s {
	case job.ItemFailed, job.ItemQuarantined, job.ItemCancelled:
	default:
		return false
	}
	return !r.None && (len(r.States) == 0 || slices.Contains(r.States, s))
}

// Spans are ranges of item numbers, both ends included, in order and apart.
type Spans [][2]int

// Len is how many items they hold.
func (s Spans) Len() (n int) {
	for _, r := range s {
		n += r[1] - r[0] + 1
	}
	return n
}

// Has says whether item is in one of them.
func (s Spans) Has(item int) bool {
	_, ok := slices.BinarySearchFunc(s, item, func(r [2]int, item int) int {
		switch {
		case r[1] < item:
			return -1
		case r[0] > item:
			return 1
		}
		return 0
	})
	return ok
}

// All yields the items in order.
func (s Spans) All(yield func(int) bool) {
	for _, r := range s {
		for i := r[0]; i <= r[1]; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

// SpansOf makes spans of item numbers that are in order.
func SpansOf(items []int) (s Spans) {
	for _, i := range items {
		if n := len(s); n > 0 && s[n-1][1]+1 == i {
			s[n-1][1] = i
			continue
		}
		s = append(s, [2]int{i, i})
	}
	return s
}
