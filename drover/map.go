package drover

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/line"
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
	p, err := c.PlanMap(ctx, s, false)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Submit(ctx)
}

// PlanMap finds out what Map would do: it reads the items to their end, and changes
// nothing in the store. The caller closes the plan.
func (c *Client) PlanMap(ctx context.Context, s MapSpec, force bool) (*Plan, error) {
	s.Spec.Verb = job.Map
	if s.Values != nil {
		if s.Spec.From != "" && s.Spec.From != "-" {
			return nil, fault.New(fault.Invalid, "Leave one of them out.", "plan map: there are both Values and From %q", s.Spec.From)
		}
		for i, v := range s.Values {
			if v == "" || strings.ContainsAny(v, "\r\n\x00") {
				return nil, fault.New(fault.Invalid, "Write such items as JSON lines into a file, and name it as From.", "plan map: value %d is empty, or holds a line break or NUL", i+1)
			}
		}
		s.Spec.From, s.Spec.Format, s.Stdin = "-", "lines", &valueReader{left: s.Values}
	}
	e := *c.engine // its caller's input is this map's alone
	e.Caller.Stdin = s.Stdin
	p, err := e.Plan(ctx, s.Spec, force)
	if err != nil {
		return nil, err
	}
	return newPlan(c, p), nil
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

// MapStatus is a map as the store shows it. Its nodes are the agents that live.
type MapStatus struct {
	Status
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

// looksTheSame says whether two looks show the same.
func (s MapStatus) looksTheSame(o MapStatus) bool {
	return s.State == o.State && s.Items == o.Items && s.Running == o.Running && s.Retried == o.Retried &&
		s.Workers == o.Workers && s.Paused == o.Paused && s.Reason == o.Reason && slices.Equal(s.Doing, o.Doing)
}

func mapStatus(p job.Path, v *views.MapView, r views.MapReport, now time.Time) MapStatus {
	rep := views.Report{Job: r.Job, Path: p, State: r.State, Beats: r.Beats, Living: r.Living, Log: r.Log,
		Run: runs.Run{Placed: r.Map.Placed, Stop: r.Map.Stop, Settled: r.Map.Settled}}
	s := MapStatus{Status: status(rep), Time: now, Items: r.Tally, Retried: r.Retried, Workers: len(r.Living),
		Chunks: r.Chunks, Done: r.Done, Paused: r.State == job.Paused}
	s.Codes = codes(r)
	if s.Paused {
		s.PausedBy, s.PausedAt, s.PausedWhy = r.Map.Pause.User, r.Map.Pause.At, r.Map.Pause.Reason
	}
	s.Ended, s.Nodes, s.Failures, s.Interruptions, s.Attempt = r.Map.Ended, nil, r.Tally.Failed, 0, 0
	if r.Map.Settled == nil {
		s.Ended = time.Time{}
	}
	if i := slices.IndexFunc(r.Log, func(e protocol.Entry) bool { return e.Placed != nil }); i >= 0 {
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
		s.Newest = append(s.Newest, ItemResult{V: 1, Item: f.N, State: f.State, Try: tryOf(f.Agent, *f.Result)})
	}
	return s
}

// newMapView reads the map, from its job's record on.
func (j *jobRef) newMapView(ctx context.Context) (*views.MapView, job.Job, error) {
	rec, err := j.Spec(ctx)
	if err != nil {
		_, err := j.readReport(ctx) // it says it in words for people
		return nil, rec, err
	}
	if rec.Spec.Verb != job.Map {
		return nil, rec, fault.New(fault.Invalid, "drover status "+rec.Short+" shows it.", "read items of job %s: it is a %s, not a map", rec.Short, rec.Spec.Verb)
	}
	return views.NewMapView(j.c.world, rec), rec, nil
}

// ItemOutput is what an item printed.
type ItemOutput struct {
	Item int
	Output
}

// ItemLogs gives what item n printed in all its tries, both streams in the order
// in which they were read; of every item when n is 0. Nodes are not looked at.
func (j *jobOutput) ItemLogs(ctx context.Context, n int, o LogOptions) iter.Seq2[ItemOutput, error] {
	return func(yield func(ItemOutput, error) bool) {
		rep, err := j.readReport(ctx)
		if err != nil {
			yield(ItemOutput{}, err)
			return
		}
		f, err := itemFilter(rep, n, o)
		if err != nil {
			yield(ItemOutput{}, err)
			return
		}
		for f, err := range j.readFrames(ctx, rep, f, o) {
			out := Output{Attempt: f.Attempt, Node: f.Rank, Stream: f.Stream.String(), Time: f.Time, Data: f.Data}
			if !yield(ItemOutput{int(f.Item), out}, err) {
				return
			}
		}
	}
}

// ItemLine is one line of what an item printed.
type ItemLine struct {
	Item int `json:"item"`
	Line
}

// ItemLines is ItemLogs put together to lines, each of one item.
func (j *jobOutput) ItemLines(ctx context.Context, n int, o LogOptions) iter.Seq2[ItemLine, error] {
	return func(yield func(ItemLine, error) bool) {
		for l, err := range j.itemLines(ctx, n, o) {
			if !yield(ItemLine{int(l.Item), plain(l)}, err) {
				return
			}
		}
	}
}

// ItemSearch gives those of ItemLines that re matches, with before and after lines
// of the same item around.
func (j *jobOutput) ItemSearch(ctx context.Context, n int, o LogOptions, re *regexp.Regexp, before, after int) iter.Seq2[ItemLine, error] {
	return func(yield func(ItemLine, error) bool) {
		rep, err := j.readReport(ctx)
		if err != nil {
			yield(ItemLine{}, err)
			return
		}
		f, err := itemFilter(rep, n, o)
		if err != nil {
			yield(ItemLine{}, err)
			return
		}
		j.searchOutput(ctx, rep, o, f, j.itemLines(ctx, n, o), re, before, after)(yield)
	}
}

func (j *jobOutput) itemLines(ctx context.Context, n int, o LogOptions) iter.Seq2[line.Line, error] {
	return func(yield func(line.Line, error) bool) {
		rep, err := j.readReport(ctx)
		if err != nil {
			yield(line.Line{}, err)
			return
		}
		f, err := itemFilter(rep, n, o)
		if err != nil {
			yield(line.Line{}, err)
			return
		}
		j.readLines(ctx, rep, f, o)(yield)
	}
}

func itemFilter(rep views.Report, n int, o LogOptions) (record.Filter, error) {
	f := o.recordFilter()
	f.Ranks, f.Item = nil, uint64(max(n, 0))
	if rep.Map == nil {
		return f, fault.New(fault.Invalid, "drover logs "+rep.Job.Short+" prints what it printed.", "read output of item %d: job %s is not a map", n, rep.Job.Short)
	}
	if all := rep.Map.Map.Items(); n < 0 || n > all {
		return f, noItem(rep.Job.Short, n, all)
	}
	return f, nil
}

func noItem(short string, n, all int) error {
	return fault.New(fault.Missing, fmt.Sprintf("Its items are 1 to %s.", job.Comma(all)), "read item %d of job %s: there is none", n, short)
}
