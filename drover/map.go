package drover

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/results"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// MapSpec asks for a program to be run for each of many items. Verb need not be
// set. The items are Values, or else what From names.
type MapSpec struct {
	job.Spec
	// Values are the items themselves. None holds a line break.
	Values []string
	// Stdin is read to its end when From is "-".
	Stdin io.Reader
}

// Map plans and submits a map. The second-command rule applies: a live job of the
// same command is attached to and one that was interrupted is gone on with; of one
// that has ended the items without success run again, and those that are new.
func (c *Client) Map(ctx context.Context, s MapSpec) (*Job, error) {
	s.Spec.Verb = job.Map
	p, err := c.Plan(ctx, s.Spec, PlanOptions{Values: s.Values, Stdin: s.Stdin})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Submit(ctx)
}

func checkValues(s job.Spec, values []string) error {
	if s.From != "" && s.From != "-" {
		return fault.New(fault.Invalid, "Leave one of them out.", "plan map: there are both Values and From %q", s.From)
	}
	for i, v := range values {
		if v == "" || strings.ContainsAny(v, "\r\n\x00") {
			return fault.New(fault.Invalid, "Write such items as JSON lines into a file, and name it as From.", "plan map: value %d is empty, or holds a line break or NUL", i+1)
		}
	}
	return nil
}

// valueReader reads values as lines.
type valueReader struct {
	left []string
	line string // of the one that is being read
}

func (r *valueReader) Read(b []byte) (n int, err error) {
	for n < len(b) {
		if r.line == "" {
			if len(r.left) == 0 {
				break
			}
			r.line, r.left = r.left[0]+"\n", r.left[1:]
		}
		m := copy(b[n:], r.line)
		r.line, n = r.line[m:], n+m
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// MapStatus is what a map's Status has beside what that of a run has. The nodes of such a Status
// are the agents that live.
type MapStatus struct {
	Time    time.Time `json:"time"` // of the look
	Items   job.Tally `json:"items"`
	Running int       `json:"running"`           // items that run now
	Retried int       `json:"retried,omitempty"` // failures that were followed by another try, or will be
	Workers int       `json:"workers"`           // agents that live
	Slots   int       `json:"slots,omitempty"`   // theirs
	Chunks  int       `json:"chunks"`
	Done    int       `json:"chunks_done"`
	Paused  bool      `json:"paused,omitempty"`
	// PausedBy, PausedAt and PausedWhy are the user that paused it, when, and why.
	PausedBy  string    `json:"paused_by,omitempty"`
	PausedAt  time.Time `json:"paused_at,omitzero"`
	PausedWhy string    `json:"paused_why,omitempty"`
	// Codes are the codes that items were run with, when there was more than the first.
	Codes []CodeUse `json:"codes,omitempty"`
	// Doing says what workers do that run nothing yet.
	Doing []string `json:"doing,omitempty"`
	// Agents are those that live.
	Agents []MapAgent `json:"agents,omitempty"`
	// Newest are failures that were seen while it was looked at, the newest last.
	Newest []ItemResult `json:"-"`
}

// MapAgent is an agent that works on a map, by its last heartbeat.
type MapAgent struct {
	Agent    string   `json:"agent"`
	Host     string   `json:"host,omitempty"`
	State    string   `json:"state"`
	Doing    string   `json:"doing,omitempty"` // in words, before it runs anything
	Slots    int      `json:"slots,omitempty"`
	Running  int      `json:"running"`
	Recorded int      `json:"recorded"` // results
	Failed   int      `json:"failed,omitempty"`
	Items    [][2]int `json:"items,omitempty"` // that it holds: ranges of numbers
}

// CodeUse is code that a map's items were run with from a time on.
type CodeUse struct {
	Digest string    `json:"digest"`
	Since  time.Time `json:"since"`
	Files  int       `json:"files"`
}

// codes lists the code of the first round, and all that were given later.
func codes(r views.MapReport) (all []CodeUse) {
	for _, e := range r.Log {
		if e.Amended == nil || e.Amended.Code == nil {
			continue
		}
		if all == nil {
			all = []CodeUse{{r.Job.Code.Digest, r.Job.At, r.Job.Code.Files}}
		}
		all = append(all, CodeUse{e.Amended.Code.Digest, e.At, e.Amended.Code.Files})
	}
	return all
}

// looksTheSame says whether two statuses of a job show the same.
func (s Status) looksTheSame(o Status) bool {
	if s.State != o.State || s.Reason != o.Reason || (s.MapStatus == nil) != (o.MapStatus == nil) {
		return false
	}
	if s.MapStatus == nil {
		return s.Attempt == o.Attempt && slices.EqualFunc(s.Nodes, o.Nodes, func(a, b Node) bool { return a.State == b.State && a.Saved == b.Saved })
	}
	return s.Items == o.Items && s.Running == o.Running && s.Retried == o.Retried &&
		s.Workers == o.Workers && s.Paused == o.Paused && slices.Equal(s.Doing, o.Doing)
}

func mapStatus(p job.Path, v *views.MapView, r views.MapReport, now time.Time) Status {
	rep := views.Report{Job: r.Job, Path: p, State: r.State, Heartbeats: r.Heartbeats, Living: r.Living, Log: r.Log,
		Run: runs.Run{Placed: r.Map.Placed, Stop: r.Map.Stop, Settled: r.Map.Settled}}
	s := status(rep)
	s.MapStatus = &MapStatus{Time: now, Items: r.Tally, Retried: r.Retried, Workers: len(r.Living),
		Chunks: r.Chunks, Done: r.Done, Paused: r.State == job.Paused}
	s.Codes = codes(r)
	if s.Paused {
		s.PausedBy, s.PausedAt, s.PausedWhy = r.Map.Pause.User, r.Map.Pause.At, r.Map.Pause.Reason
	}
	s.Ended, s.Nodes, s.Failures, s.Interruptions, s.Attempt = r.Map.Ended, nil, r.Tally.Failed, 0, 0
	if r.Map.Settled == nil {
		s.Ended = time.Time{}
	}
	if i := slices.IndexFunc(r.Log, func(e protocol.JobEntry) bool { return e.Placed != nil }); i >= 0 {
		s.Started = r.Log[i].At
	}
	for i, b := range r.Living {
		s.Nodes = append(s.Nodes, Node{Rank: i, State: b.Phase, Host: b.Name, PID: b.Host.PID})
		s.Agents = append(s.Agents, MapAgent{Agent: b.Agent, Host: b.Name, State: b.Phase, Doing: cmp.Or(b.Queue, b.Note), Slots: b.Slots,
			Running: min(b.Flight, b.Slots), Recorded: b.Recorded, Failed: b.Failed, Items: v.Held(b)})
		s.Slots += b.Slots
		s.Running += min(b.Flight, b.Slots) // the rest waits for a slot
		what := b.Phase
		if b.Note != "" {
			what += ": " + b.Note
		}
		if b.Queue != "" {
			what = b.Queue
		}
		if !protocol.Works(b.Phase) && !slices.Contains(s.Doing, what) {
			s.Doing = append(s.Doing, what)
		}
	}
	for _, f := range r.Newest {
		s.Newest = append(s.Newest, ItemResult{V: 1, Item: f.N, State: f.State, Try: results.TryOf(f.Agent, *f.Result)})
	}
	return s
}
