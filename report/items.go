package report

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/drover-run/drover/job"
)

// FailedWhy is why an item has ended without success, in words.
func (r ItemResult) FailedWhy() string {
	switch {
	case r.State == job.ItemQuarantined:
		return "quarantined: it was running each time an agent died"
	case r.Code == nil && r.Interruptions > 0:
		return fmt.Sprintf("interrupted %s", times(r.Interruptions))
	case r.Code == nil && r.State == job.ItemLeased:
		return "" // it has not ended
	case r.Code == nil:
		return strings.ToLower(string(r.State))
	}
	return r.Why()
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// MaxStdout is the longest standard output of an item that ResultOptions.Whole gives.
const MaxStdout = 8 << 20

// ItemResult is one item of a map: what it is, how it stands, and what its newest
// recorded try came to.
type ItemResult struct {
	V     int    `json:"v"`
	Item  int    `json:"item"` // 1, 2, ...
	Value string `json:"value"`
	// Fields are its values by name, of CSV and JSON lines.
	Fields map[string]string `json:"fields,omitempty"`
	State  job.ItemState     `json:"state"`
	Try                      // the one that counts; of an item that is open, its last failure
	// Failures, Interruptions and Blames are what it has behind it: tries that
	// failed, that were cut off, and agents that died while it began.
	Failures      int `json:"failures,omitempty"`
	Interruptions int `json:"interruptions,omitempty"`
	Blames        int `json:"blames,omitempty"`
	// Tries are all that were recorded, in order; Item alone gives them.
	Tries []Try `json:"tries,omitempty"`
}

// Try is one recorded try of an item.
type Try struct {
	Failed  bool      `json:"failed,omitempty"`
	Code    *int      `json:"status,omitempty"` // as a shell says it; nil: no try was recorded
	Signal  string    `json:"signal,omitempty"`
	Reason  string    `json:"reason,omitempty"` // of a failure: the last line that it printed, or what drover says of it
	Agent   string    `json:"agent,omitempty"`
	Ended   time.Time `json:"ended,omitzero"`
	Seconds float64   `json:"seconds,omitempty"`
	CPU     float64   `json:"cpu_seconds,omitempty"`
	MaxRSS  int64     `json:"max_rss_bytes,omitempty"` // of the largest process
	// Stdout is what it printed there, up to a cap; of a longer text the beginning,
	// and Tail is its end. StdoutBytes counts all of it.
	Stdout      string     `json:"stdout"`
	Tail        string     `json:"stdout_end,omitempty"`
	StdoutBytes int64      `json:"stdout_bytes,omitempty"`
	Cut         bool       `json:"stdout_cut,omitempty"` // something is left out between Stdout and Tail
	Outputs     []ItemFile `json:"outputs,omitempty"`
	Folder      string     `json:"-"` // of its outputs, below the job's
}

// ItemFile is one output of a try: it is stored, and was verified.
type ItemFile struct {
	Name   string `json:"name"` // below the folder for outputs
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Mode   uint32 `json:"-"` // permission bits
}

// Why is how a try ended, in words: "no such file (exit status 3)".
func (t Try) Why() string {
	if t.Reason == "" {
		return t.Status()
	}
	return fmt.Sprintf("%s (%s)", t.Reason, t.Status())
}

// Status is how its program ended: "exit status 3", "SIGKILL"; "" when no try was
// recorded.
func (t Try) Status() string {
	switch {
	case t.Code == nil:
		return ""
	case t.Signal != "":
		return t.Signal
	}
	return fmt.Sprintf("exit status %d", *t.Code)
}

// ResultOptions choose items. The zero value is all of them.
type ResultOptions struct {
	States []job.ItemState // none: all
	Error  *regexp.Regexp  // that says why an item failed, or is in what it printed last; nil: whatever it was
	// Whole has Stdout hold all that an item printed there, up to MaxStdout: what does
	// not stand in its result is read from the logs. Of a longer text, and where the logs
	// do not have it (yet), Cut says so.
	Whole bool
}
