package drover

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/line"
	"github.com/drover-run/drover/job"
)

// LogOptions choose output. The zero value is everything the program printed.
type LogOptions struct {
	Attempts []int // none: all
	Nodes    []int // none: all
	Stdout   bool  // with Stderr and Agent all false: stdout and stderr
	Stderr   bool
	Agent    bool      // drover's own notes
	Since    time.Time // from this on
	Until    time.Time // before this; zero: to the end
	Tail     int       // Lines and Search: begin with the last so many lines; 0: with the first
	Follow   bool      // go on until the job has settled
	// Item is the number, from 1, of the one item of a map that is wanted, in all its tries; 0: all of
	// them. Nodes mean nothing in a map.
	Item int
	// Enough, when closed, ends a Follow before the job has settled: once all
	// that its agents have stored is given. nil: it is never enough.
	Enough <-chan struct{}
	// Settled, with Follow, is closed by a caller that itself waits for the job's end: then
	// the store is not asked whether it has come. nil: it is.
	Settled <-chan struct{}
}

func (o LogOptions) recordFilter() record.Filter {
	f := record.Filter{Attempts: o.Attempts, Ranks: o.Nodes, Since: o.Since, Until: o.Until}
	for s, on := range map[record.Stream]bool{record.Stdout: o.Stdout, record.Stderr: o.Stderr, record.Agent: o.Agent} {
		if on {
			f.Streams |= s
		}
	}
	if f.Streams == 0 {
		f.Streams = record.Stdout | record.Stderr
	}
	return f
}

// Output is a piece of what a program printed, exactly as it was read: it may
// hold half a line or many.
type Output struct {
	Item    int // of a map
	Attempt int
	Node    int
	Stream  string // stdout, stderr or agent
	Time    time.Time
	Data    []byte
}

// Line is one line of a program's output.
type Line struct {
	Item    int       `json:"item,omitempty"` // of a map
	V       int       `json:"v"`
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt"`
	Node    int       `json:"node"`
	Stream  string    `json:"stream"`
	Text    string    `json:"text"`
	Match   bool      `json:"match,omitempty"` // Search: it matches; otherwise it is beside one
	Apart   bool      `json:"-"`               // Search: lines before it were left out
}

// chosenOutput is what the store shows of the job, and which of its output o chooses.
func (j *jobOutput) chosenOutput(ctx context.Context, o LogOptions) (views.Report, record.Filter, error) {
	rep, err := j.readReport(ctx)
	if err != nil {
		return rep, record.Filter{}, err
	}
	f, err := j.kindOf(rep.Job).outputFilter(rep, o)
	return rep, f, err
}

// Logs gives what the program printed, or the items of a map, each byte once, as it was read.
// With Follow it goes on until the job has settled.
func (j *jobOutput) Logs(ctx context.Context, o LogOptions) iter.Seq2[Output, error] {
	return func(yield func(Output, error) bool) {
		var all iter.Seq2[record.Frame, error]
		if o.Settled != nil && o.Item == 0 {
			all = j.followFrames(ctx, o.recordFilter(), nil, nil, o)
		} else {
			rep, f, err := j.chosenOutput(ctx, o)
			if err != nil {
				yield(Output{}, err)
				return
			}
			all = j.readFrames(ctx, rep, f, o)
		}
		for f, err := range all {
			out := Output{Item: int(f.Item), Attempt: f.Attempt, Node: f.Rank, Stream: f.Stream.String(), Time: f.Time, Data: f.Data}
			if !yield(out, err) {
				return
			}
		}
	}
}

// Lines is Logs put together to lines, in a map each of one item.
func (j *jobOutput) Lines(ctx context.Context, o LogOptions) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		rep, f, err := j.chosenOutput(ctx, o)
		if err != nil {
			yield(Line{}, err)
			return
		}
		for l, err := range j.readLines(ctx, rep, f, o) {
			if !yield(plain(l), err) {
				return
			}
		}
	}
}

// Search gives those of Lines that re matches, with before and after lines around: in a map of
// the same item.
func (j *jobOutput) Search(ctx context.Context, o LogOptions, re *regexp.Regexp, before, after int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		rep, f, err := j.chosenOutput(ctx, o)
		if err != nil {
			yield(Line{}, err)
			return
		}
		j.searchOutput(ctx, rep, o, f, j.readLines(ctx, rep, f, o), re, before, after)(yield)
	}
}

// searchOutput looks through what is stored, and then, of a job that goes on, through what its
// agents have; if only the last lines are wanted, through those.
func (j *jobOutput) searchOutput(ctx context.Context, rep views.Report, o LogOptions, f record.Filter, last iter.Seq2[line.Line, error], re *regexp.Regexp, before, after int) iter.Seq2[Line, error] {
	var all iter.Seq2[line.Found, error]
	if o.Tail > 0 {
		all = line.Search(last, re, before, after)
	} else {
		var then func(map[string]uint64) iter.Seq2[record.Frame, error]
		if !j.allIsStored(rep, o.Follow) {
			then = func(known map[string]uint64) iter.Seq2[record.Frame, error] {
				return j.followFrames(ctx, f, known, nil, o)
			}
		}
		all = line.Sift(ctx, j.c.world.Store, protocol.LogsPrefix(j.path), f, then, re, before, after)
	}
	return func(yield func(Line, error) bool) {
		for m, err := range all {
			l := plain(m.Line)
			l.Match, l.Apart = m.Match, m.Apart
			if !yield(l, err) {
				return
			}
		}
	}
}

// readLines are those that o chooses. Of a job that goes on, the last lines are counted
// when it is asked; what comes then follows.
func (j *jobOutput) readLines(ctx context.Context, rep views.Report, f record.Filter, o LogOptions) iter.Seq2[line.Line, error] {
	if o.Tail > 0 {
		return j.lastLines(ctx, rep, f, o)
	}
	return line.Lines(j.readFrames(ctx, rep, f, o))
}

func plain(l line.Line) Line {
	return Line{Item: int(l.Item), V: 1, Time: l.Time, Attempt: l.Attempt, Node: l.Rank, Stream: l.Stream.String(), Text: string(l.Text)}
}

// readFrames reads stored output. A live job's newest output is not stored yet, so
// then, and to follow, its agents are asked as well.
func (j *jobOutput) readFrames(ctx context.Context, rep views.Report, f record.Filter, o LogOptions) iter.Seq2[record.Frame, error] {
	if j.allIsStored(rep, o.Follow) {
		return record.Read(ctx, j.c.world.Store, protocol.LogsPrefix(j.path), f)
	}
	return j.followFrames(ctx, f, nil, nil, o)
}

// allIsStored says that nothing is looked at but what is stored.
func (j *jobOutput) allIsStored(rep views.Report, follow bool) bool {
	return rep.Run.Settled != nil || !follow && len(sockets(rep)) == 0
}

// followFrames gives what the job has printed and prints, but the frames that are known, and
// those in objects before the ones that are named.
func (j *jobOutput) followFrames(ctx context.Context, f record.Filter, known map[string]uint64, objects map[string]int, l LogOptions) iter.Seq2[record.Frame, error] {
	w := j.c.world
	ended := make(chan struct{})
	o := record.FollowOptions{Store: w.Store, Prefix: protocol.LogsPrefix(j.path), Filter: f, After: known, Objects: objects, Every: j.c.pollInterval(), Ended: ended,
		Live: j.liveSockets}
	if !j.c.near {
		o.Heard, o.Quick = protocol.HeartbeatEvery, func() []string { return j.c.local(j.path.Job) }
		if l.Settled != nil {
			o.Every = protocol.Poll // the caller has just started the job, as a rule
		}
	}
	if !l.Follow {
		return untilQuiet(ctx, o)
	}
	return func(yield func(record.Frame, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		defer func() { cancel(); <-done }()
		go func() {
			defer close(done)
			if j.untilSettled(ctx, l) {
				close(ended)
			}
		}()
		for fr, err := range record.Follow(ctx, o) {
			if !yield(fr, err) {
				return
			}
		}
	}
}

// liveSockets gives the sockets of the job's agents on this machine: by their folders, or by
// their heartbeats.
func (j *jobOutput) liveSockets(ctx context.Context) []string {
	if here := j.c.local(j.path.Job); len(here) > 0 && !j.c.near {
		return here
	}
	rep, err := views.ReadReport(ctx, j.c.world, j.path)
	if err != nil {
		return nil
	}
	return sockets(rep)
}

// quiet is how long nothing may come before a look at a live job's output is
// over: a socket on this machine answers within milliseconds.
const quiet = 300 * time.Millisecond

// untilQuiet follows a live job until nothing has come for a moment.
func untilQuiet(ctx context.Context, o record.FollowOptions) iter.Seq2[record.Frame, error] {
	return func(yield func(record.Frame, error) bool) {
		enough := errors.New("nothing more for now")
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		began := time.Now()
		alarm := time.AfterFunc(quiet, func() { stop(enough) })
		defer alarm.Stop()
		for fr, err := range record.Follow(ctx, o) {
			if errors.Is(err, enough) {
				return
			}
			if fr.Time.After(began) {
				return // a program that never stops talking has no quiet moment
			}
			alarm.Reset(quiet)
			if !yield(fr, err) {
				return
			}
		}
	}
}

// untilSettled blocks until the job has settled, or l.Enough is closed; false when ctx
// ended first.
func (j *jobOutput) untilSettled(ctx context.Context, l LogOptions) bool {
	if l.Settled != nil {
		select {
		case <-l.Settled:
			return true
		case <-l.Enough:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		rep, err := views.ReadReport(ctx, j.c.world, j.path)
		if err == nil && rep.Run.Settled != nil {
			return true
		}
		select {
		case <-l.Enough:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(j.c.pollInterval()):
		}
	}
}

// sockets are where living agents serve their newest output.
func sockets(rep views.Report) []string {
	var live []string
	for _, b := range rep.Living {
		if b.Live != "" {
			live = append(live, b.Live)
		}
	}
	return live
}

func sortEvents(events []job.Event) []job.Event {
	slices.SortStableFunc(events, func(a, b job.Event) int { return a.Time.Compare(b.Time) })
	return events
}
