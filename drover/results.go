package drover

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/items/fields"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

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
	folder      string     // of its outputs, below the job's
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

// Results gives the items of a map in the order of their manifest, whatever the
// order in which they ended, also while it runs. It holds a chunk of them at a
// time, however many there are.
func (j *jobResults) Results(ctx context.Context, o ResultOptions) iter.Seq2[ItemResult, error] {
	if o.Whole {
		return j.withWholeOutput(ctx, j.readResults(ctx, o))
	}
	return j.readResults(ctx, o)
}

func (j *jobResults) readResults(ctx context.Context, o ResultOptions) iter.Seq2[ItemResult, error] {
	return func(yield func(ItemResult, error) bool) {
		v, _, err := j.newMapView(ctx)
		if err != nil {
			yield(ItemResult{}, err)
			return
		}
		m, err := mapOf(ctx, v)
		if err != nil {
			yield(ItemResult{}, err)
			return
		}
		next, stop := iter.Pull2(j.readValues(ctx, m))
		defer stop()
		enough := errors.New("enough")
		err = v.Each(ctx, func(r views.ItemReport) error {
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
			if o.Error != nil && !found.outputMatches(o.Error) {
				return nil
			}
			if !yield(found, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(ItemResult{}, err)
		}
	}
}

// mapOf is the fold of the job's log, brought up to date.
func mapOf(ctx context.Context, v *views.MapView) (*chunks.Map, error) {
	r, err := v.Refresh(ctx)
	return r.Map, err
}

// readValues reads the items of the manifest, then those that were added, in order.
func (j *jobResults) readValues(ctx context.Context, m *chunks.Map) iter.Seq2[manifest.Item, error] {
	return func(yield func(manifest.Item, error) bool) {
		readers, err := j.c.engine.Readers(ctx, m)
		if err != nil {
			yield(manifest.Item{}, err)
			return
		}
		for _, r := range readers {
			for it, err := range r.Range(ctx, r.First(), r.Last()) {
				if !yield(it, err) || err != nil {
					return
				}
			}
		}
	}
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

// Item is one item, with all its tries.
func (j *jobResults) Item(ctx context.Context, n int) (ItemResult, error) {
	v, rec, err := j.newMapView(ctx)
	if err != nil {
		return ItemResult{}, err
	}
	m, err := mapOf(ctx, v)
	if err != nil {
		return ItemResult{}, err
	}
	r, err := v.One(ctx, n)
	if errors.Is(err, views.ErrNoItem) {
		return ItemResult{}, noItem(rec.Short, n, m.Items())
	}
	if err != nil {
		return ItemResult{}, err
	}
	readers, err := j.c.engine.Readers(ctx, m)
	if err != nil {
		return ItemResult{}, err
	}
	for _, src := range readers {
		if n < src.First() || n > src.Last() {
			continue
		}
		it, err := src.One(ctx, n)
		if err != nil {
			return ItemResult{}, err
		}
		return result(it, r, m), nil
	}
	return ItemResult{}, noItem(rec.Short, n, m.Items())
}

// Fields names the fields of a map's items, in their order; none of plain lines.
func (j *jobResults) Fields(ctx context.Context) ([]string, error) {
	v, _, err := j.newMapView(ctx)
	if err != nil {
		return nil, err
	}
	m, err := mapOf(ctx, v)
	if err != nil {
		return nil, err
	}
	names := slices.Clone(m.Base.Fields)
	for _, x := range m.Extensions {
		for _, name := range x.Fact.Manifest.Fields {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

func result(it manifest.Item, r views.ItemReport, m *chunks.Map) ItemResult {
	out := ItemResult{V: 1, Item: r.N, Value: it.Text, State: r.State, Failures: r.Failures, Interruptions: r.Interruptions, Blames: r.Blames}
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
		out.Try = tryOf(r.Agent, *r.Result)
	}
	for _, t := range r.Tries {
		out.Tries = append(out.Tries, tryOf(t.Agent, t.Result))
	}
	return out
}

func tryOf(agent string, r protocol.Result) Try {
	code := r.Code
	t := Try{Failed: r.Failed, Code: &code, Signal: r.Signal, Reason: r.Why, Agent: agent, Ended: time.UnixMicro(r.Ended).UTC(),
		Seconds: time.Duration(r.Wall * int64(time.Microsecond)).Seconds(), CPU: time.Duration(r.CPU * int64(time.Microsecond)).Seconds(),
		MaxRSS: r.MaxRSS, Stdout: r.Head, Tail: r.Tail, StdoutBytes: r.Size, folder: r.Try}
	t.Cut = t.StdoutBytes > int64(len(t.Stdout)+len(t.Tail)) && (t.Tail != "" || len(t.Stdout) >= inHead)
	if r.Ended == 0 {
		t.Ended = time.Time{}
	}
	for _, o := range r.Outputs {
		t.Outputs = append(t.Outputs, ItemFile{Name: o.Name, Bytes: o.Size, SHA256: o.SHA256, Mode: o.Mode})
	}
	return t
}
