// Package output reads what the programs of a job print and measure: stored, and as it comes from
// agents that live; lines of it, searched and from the end; metrics, and what nodes used. It
// knows nothing of targets, and starts and ends no job. Proved by the tests of package drover and
// of record.
package output

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/results"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/line"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// Reader reads the output of one job.
type Reader struct {
	session    *session.Session
	path       job.Path
	local      func(id string) []string
	readReport func(context.Context) (views.Report, error)
}

// NewReader makes one. local gives the sockets where agents of the job with this id serve their
// newest output on this machine, as far as that is known without the store; read reads what the
// store shows of the job.
func NewReader(s *session.Session, p job.Path, local func(id string) []string, read func(context.Context) (views.Report, error)) Reader {
	return Reader{session: s, path: p, local: local, readReport: read}
}

func recordFilter(o report.LogOptions) record.Filter {
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

// chosenOutput is what the store shows of the job, and which of its output o chooses.
func (x Reader) chosenOutput(ctx context.Context, o report.LogOptions) (views.Report, record.Filter, error) {
	rep, err := x.readReport(ctx)
	if err != nil {
		return rep, record.Filter{}, err
	}
	f, err := outputFilter(rep, o)
	return rep, f, err
}

// outputFilter chooses the output that o asks for; rep is the job's.
func outputFilter(rep views.Report, o report.LogOptions) (record.Filter, error) {
	f := recordFilter(o)
	switch {
	case rep.Map == nil && o.Item == 0:
		return f, nil
	case rep.Map == nil:
		return f, fault.New(fault.Invalid, "`drover logs "+rep.Job.Short+"` prints what it printed.", "read output of item %d: job %s is not a map", o.Item, rep.Job.Short)
	}
	f.Ranks, f.Item = nil, uint64(max(o.Item, 0))
	if all := rep.Map.Map.Items(); o.Item < 0 || o.Item > all {
		return f, results.NoItem(rep.Job.Short, o.Item, all)
	}
	return f, nil
}

// Notes gives what the job's agents noted, as events.
func (x Reader) Notes(ctx context.Context, rep views.Report) ([]job.Event, error) {
	var events []job.Event
	for l, err := range line.Lines(x.readFrames(ctx, rep, record.Filter{Streams: record.Agent}, report.LogOptions{})) {
		if err != nil {
			return nil, err
		}
		events = append(events, job.Event{V: 1, Time: l.Time, Job: rep.Job.Short, Kind: "agent", Text: string(l.Text)})
	}
	return events, nil
}

// Logs gives what the program printed, or the items of a map, each byte once, as it was read.
// With Follow it goes on until the job has settled.
func (x Reader) Logs(ctx context.Context, o report.LogOptions) iter.Seq2[report.Output, error] {
	return func(yield func(report.Output, error) bool) {
		var all iter.Seq2[record.Frame, error]
		if o.Settled != nil && o.Item == 0 {
			all = x.followFrames(ctx, recordFilter(o), nil, nil, o)
		} else {
			rep, f, err := x.chosenOutput(ctx, o)
			if err != nil {
				yield(report.Output{}, err)
				return
			}
			all = x.readFrames(ctx, rep, f, o)
		}
		for f, err := range all {
			out := report.Output{Item: int(f.Item), Attempt: f.Attempt, Node: f.Rank, Stream: f.Stream.String(), Time: f.Time, Data: f.Data}
			if !yield(out, err) {
				return
			}
		}
	}
}

// Lines is Logs put together to lines, in a map each of one item.
func (x Reader) Lines(ctx context.Context, o report.LogOptions) iter.Seq2[report.Line, error] {
	return func(yield func(report.Line, error) bool) {
		rep, f, err := x.chosenOutput(ctx, o)
		if err != nil {
			yield(report.Line{}, err)
			return
		}
		for l, err := range x.readLines(ctx, rep, f, o) {
			if !yield(plain(l), err) {
				return
			}
		}
	}
}

// Search gives those of Lines that re matches, with before and after lines around: in a map of
// the same item.
func (x Reader) Search(ctx context.Context, o report.LogOptions, re *regexp.Regexp, before, after int) iter.Seq2[report.Line, error] {
	return func(yield func(report.Line, error) bool) {
		rep, f, err := x.chosenOutput(ctx, o)
		if err != nil {
			yield(report.Line{}, err)
			return
		}
		x.searchOutput(ctx, rep, o, f, x.readLines(ctx, rep, f, o), re, before, after)(yield)
	}
}

// searchOutput looks through what is stored, and then, of a job that goes on, through what its
// agents have; if only the last lines are wanted, through those.
func (x Reader) searchOutput(ctx context.Context, rep views.Report, o report.LogOptions, f record.Filter, last iter.Seq2[line.Line, error], re *regexp.Regexp, before, after int) iter.Seq2[report.Line, error] {
	var all iter.Seq2[line.Found, error]
	if o.Tail > 0 {
		all = line.Search(last, re, before, after)
	} else {
		var then func(map[record.Origin]uint64) iter.Seq2[record.Frame, error]
		if !x.allIsStored(rep, o.Follow) {
			then = func(known map[record.Origin]uint64) iter.Seq2[record.Frame, error] {
				if !o.Follow {
					return x.newestFrames(ctx, rep, f, known, nil)
				}
				return x.followFrames(ctx, f, known, nil, o)
			}
		}
		all = line.Sift(ctx, x.session.World.Store, protocol.LogsPrefix(x.path), f, then, re, before, after)
	}
	return func(yield func(report.Line, error) bool) {
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
func (x Reader) readLines(ctx context.Context, rep views.Report, f record.Filter, o report.LogOptions) iter.Seq2[line.Line, error] {
	if o.Tail > 0 {
		return x.lastLines(ctx, rep, f, o)
	}
	return line.Lines(x.readFrames(ctx, rep, f, o))
}

func plain(l line.Line) report.Line {
	return report.Line{Item: int(l.Item), V: 1, Time: l.Time, Attempt: l.Attempt, Node: l.Rank, Stream: l.Stream.String(), Text: string(l.Text)}
}

// readFrames reads stored output. A live job's newest output is not stored yet, so
// then, and to follow, its agents are asked as well.
func (x Reader) readFrames(ctx context.Context, rep views.Report, f record.Filter, o report.LogOptions) iter.Seq2[record.Frame, error] {
	switch {
	case x.allIsStored(rep, o.Follow):
		return record.Read(ctx, x.session.World.Store, protocol.LogsPrefix(x.path), f)
	case o.Follow:
		return x.followFrames(ctx, f, nil, nil, o)
	}
	return func(yield func(record.Frame, error) bool) {
		r := record.Reader{Store: x.session.World.Store, Prefix: protocol.LogsPrefix(x.path), Filter: f}
		if goOn, _ := r.Scan(ctx, false, yield); goOn { // however long a store far away takes
			x.newestFrames(ctx, rep, f, r.ReachedSeqs(), nil)(yield)
		}
	}
}

// allIsStored says that nothing is looked at but what is stored.
func (x Reader) allIsStored(rep views.Report, follow bool) bool {
	return rep.Run.Settled != nil || !follow && len(sockets(rep)) == 0
}

// followOptions are those of what is not known yet.
func (x Reader) followOptions(f record.Filter, known map[record.Origin]uint64, objects map[record.Origin]int) record.FollowOptions {
	return record.FollowOptions{Store: x.session.World.Store, Prefix: protocol.LogsPrefix(x.path), Filter: f, After: known, Objects: objects, Every: x.session.PollInterval(), Live: x.liveSockets}
}

// newestFrames gives what is not stored yet, as far as agents on this machine have it: all frames but
// those that are known, and those in objects before the ones that are named.
func (x Reader) newestFrames(ctx context.Context, rep views.Report, f record.Filter, known map[record.Origin]uint64, objects map[record.Origin]int) iter.Seq2[record.Frame, error] {
	o := x.followOptions(f, known, objects)
	if !x.session.Near {
		o.Quick = func() []string { return append(sockets(rep), x.local(x.path.Job)...) }
	}
	return untilQuiet(ctx, o)
}

// followFrames gives what the job has printed and prints, but the frames that are known, and
// those in objects before the ones that are named.
func (x Reader) followFrames(ctx context.Context, f record.Filter, known map[record.Origin]uint64, objects map[record.Origin]int, l report.LogOptions) iter.Seq2[record.Frame, error] {
	o, ended := x.followOptions(f, known, objects), make(chan struct{})
	o.Ended = ended
	if !x.session.Near {
		o.Heard, o.Quick = protocol.HeartbeatEvery, func() []string { return x.local(x.path.Job) }
		if l.Settled != nil {
			o.Every = protocol.Poll // the caller has just started the job, as a rule
		}
	}
	return func(yield func(record.Frame, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		defer func() { cancel(); <-done }()
		go func() {
			defer close(done)
			if x.untilSettled(ctx, l) {
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
func (x Reader) liveSockets(ctx context.Context) []string {
	if here := x.local(x.path.Job); len(here) > 0 && !x.session.Near {
		return here
	}
	rep, err := views.ReadReport(ctx, x.session.World, x.path)
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
func (x Reader) untilSettled(ctx context.Context, l report.LogOptions) bool {
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
		rep, err := views.ReadReport(ctx, x.session.World, x.path)
		if err == nil && rep.Run.Settled != nil {
			return true
		}
		select {
		case <-l.Enough:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(x.session.PollInterval()):
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
