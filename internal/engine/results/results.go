// Package results reads what the items of a map have come to: each with its value, state and tries,
// whole outputs out of the logs, and all that items printed, in their order. It knows nothing of
// agents and targets, and writes nothing into the store. Proved by the tests of package drover.
package results

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/items/fields"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/unit"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// Reader reads the results of one map. Not for concurrent use.
type Reader struct {
	session *session.Session
	path    job.Path
	rec     job.Job
	view    *views.MapView
}

// NewReader makes one; rec is the job's record.
func NewReader(s *session.Session, p job.Path, rec job.Job) *Reader {
	return &Reader{session: s, path: p, rec: rec, view: views.NewMapView(s.World, rec)}
}

// Each gives the items of a map in the order of their manifest, whatever the
// order in which they ended, also while it runs. It holds a chunk of them at a
// time, however many there are.
func (x *Reader) Each(ctx context.Context, o report.ResultOptions) iter.Seq2[report.ItemResult, error] {
	if o.Whole {
		return x.withWholeOutput(ctx, x.readResults(ctx, o))
	}
	return x.readResults(ctx, o)
}

func (x *Reader) readResults(ctx context.Context, o report.ResultOptions) iter.Seq2[report.ItemResult, error] {
	return func(yield func(report.ItemResult, error) bool) {
		m, err := x.readMap(ctx)
		if err != nil {
			yield(report.ItemResult{}, err)
			return
		}
		next, stop := iter.Pull2(x.readValues(ctx, m))
		defer stop()
		enough := errors.New("enough")
		err = x.view.Each(ctx, func(r views.ItemReport) error {
			it, err, ok := next()
			if err == nil && !ok {
				err = errors.New("there are more results than items")
			}
			if err != nil {
				return err
			}
			if len(o.States) > 0 && !slices.Contains(o.States, r.State) {
				return nil
			}
			found := result(it, r, m)
			if o.Error != nil && !outputMatches(found, o.Error) {
				return nil
			}
			if !yield(found, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(report.ItemResult{}, err)
		}
	}
}

// readMap is the fold of the job's log, brought up to date.
func (x *Reader) readMap(ctx context.Context) (*chunks.Map, error) {
	r, err := x.view.Refresh(ctx)
	return r.Map, err
}

// readValues reads the items of the manifest, then those that were added, in order.
func (x *Reader) readValues(ctx context.Context, m *chunks.Map) iter.Seq2[manifest.Item, error] {
	return func(yield func(manifest.Item, error) bool) {
		lists, err := OpenLists(ctx, x.session.World.Store, m)
		if err != nil {
			yield(manifest.Item{}, err)
			return
		}
		for _, r := range lists {
			for it, err := range r.Range(ctx, r.First(), r.Last()) {
				if !yield(it, err) || err != nil {
					return
				}
			}
		}
	}
}

// OpenLists opens the lists of a map's items, the job's own and those added later.
func OpenLists(ctx context.Context, s *store.Store, m *chunks.Map) ([]*manifest.Reader, error) {
	r, err := manifest.Open(ctx, s, m.Base, 1)
	if err != nil {
		return nil, err
	}
	all := []*manifest.Reader{r}
	for _, x := range m.Extensions {
		r, err := manifest.Open(ctx, s, x.Fact.Manifest, x.Fact.First)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// outputMatches finds an expression in why an item failed and in what it printed last.
func outputMatches(r report.ItemResult, re *regexp.Regexp) bool {
	return re.MatchString(r.Why()) || re.MatchString(r.Stdout) || re.MatchString(r.Tail)
}

// NoItem refuses an item that a map of so many does not have.
func NoItem(short string, n, all int) error {
	return fault.New(fault.Missing, fmt.Sprintf("Its items are 1 to %s.", unit.Comma(all)), "read item %d of job %s: there is none", n, short)
}

// fieldsOf names the fields of item n: what was added later may have others.
func fieldsOf(m *chunks.Map, n int) []string {
	names := m.Base.Fields
	for _, x := range m.Extensions {
		if n >= x.Fact.First {
			names = x.Fact.Manifest.Fields
		}
	}
	return names
}

// One is one item, with all its tries.
func (x *Reader) One(ctx context.Context, n int) (report.ItemResult, error) {
	m, err := x.readMap(ctx)
	if err != nil {
		return report.ItemResult{}, err
	}
	r, err := x.view.One(ctx, n)
	if errors.Is(err, views.ErrNoItem) {
		return report.ItemResult{}, NoItem(x.rec.Short, n, m.Items())
	}
	if err != nil {
		return report.ItemResult{}, err
	}
	lists, err := OpenLists(ctx, x.session.World.Store, m)
	if err != nil {
		return report.ItemResult{}, err
	}
	for _, list := range lists {
		if n < list.First() || n > list.Last() {
			continue
		}
		it, err := list.One(ctx, n)
		if err != nil {
			return report.ItemResult{}, err
		}
		return result(it, r, m), nil
	}
	return report.ItemResult{}, NoItem(x.rec.Short, n, m.Items())
}

// Fields names the fields of a map's items, in their order; none of plain lines.
func (x *Reader) Fields(ctx context.Context) ([]string, error) {
	m, err := x.readMap(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.Clone(m.Base.Fields)
	for _, e := range m.Extensions {
		for _, name := range e.Fact.Manifest.Fields {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

func result(it manifest.Item, r views.ItemReport, m *chunks.Map) report.ItemResult {
	out := report.ItemResult{V: 1, Item: r.N, Value: it.Text, State: r.State, Failures: r.Failures, Interruptions: r.Interruptions, Blames: r.Blames}
	names := fieldsOf(m, r.N)
	for i, value := range it.Fields {
		if i < len(names) && value != fields.Absent {
			if out.Fields == nil {
				out.Fields = map[string]string{}
			}
			out.Fields[names[i]] = value
		}
	}
	if r.Result != nil {
		out.Try = TryOf(r.Agent, *r.Result)
	}
	for _, t := range r.Tries {
		out.Tries = append(out.Tries, TryOf(t.Agent, t.Result))
	}
	return out
}

// TryOf is a recorded result of an item, as it is reported.
func TryOf(agent string, r protocol.Result) report.Try {
	code := r.Code
	t := report.Try{Failed: r.Failed, Code: &code, Signal: r.Signal, Reason: r.Why, Agent: agent, Ended: time.UnixMicro(r.Ended).UTC(),
		Seconds: time.Duration(r.Wall * int64(time.Microsecond)).Seconds(), CPU: time.Duration(r.CPU * int64(time.Microsecond)).Seconds(),
		MaxRSS: r.MaxRSS, Stdout: r.Head, Tail: r.Tail, StdoutBytes: r.Size, Folder: r.Try}
	t.Cut = t.StdoutBytes > int64(len(t.Stdout)+len(t.Tail)) && (t.Tail != "" || len(t.Stdout) >= inHead)
	if r.Ended == 0 {
		t.Ended = time.Time{}
	}
	for _, o := range r.Outputs {
		t.Outputs = append(t.Outputs, report.ItemFile{Name: o.Name, Bytes: o.Size, SHA256: o.SHA256, Mode: o.Mode})
	}
	return t
}
