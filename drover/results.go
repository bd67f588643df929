package drover

import (
	"context"
	"io"
	"iter"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/figures"
	"github.com/drover-run/drover/internal/engine/results"
	"github.com/drover-run/drover/job"
)

// newReader reads the results of a map, from its job's record on.
func (j *jobResults) newReader(ctx context.Context) (*results.Reader, error) {
	rec, err := j.readMapRecord(ctx)
	if err != nil {
		return nil, err
	}
	return results.NewReader(j.c.engine.Session, j.path, rec), nil
}

// readMapRecord reads the record of a job that must be a map.
func (j *jobRef) readMapRecord(ctx context.Context) (job.Job, error) {
	rec, err := j.Spec(ctx)
	if err != nil {
		_, err := j.readReport(ctx) // it says it in words for people
		return rec, err
	}
	if rec.Spec.Verb != job.Map {
		return rec, fault.New(fault.Invalid, "`drover status "+rec.Short+"` shows it.", "read items of job %s: it is a %s, not a map", rec.Short, rec.Spec.Verb)
	}
	return rec, nil
}

// Results gives the items of a map in the order of their manifest, whatever the
// order in which they ended, also while it runs. It holds a chunk of them at a
// time, however many there are.
func (j *jobResults) Results(ctx context.Context, o ResultOptions) iter.Seq2[ItemResult, error] {
	return func(yield func(ItemResult, error) bool) {
		r, err := j.newReader(ctx)
		if err != nil {
			yield(ItemResult{}, err)
			return
		}
		r.Each(ctx, o)(yield)
	}
}

// Item is one item, with all its tries.
func (j *jobResults) Item(ctx context.Context, n int) (ItemResult, error) {
	r, err := j.newReader(ctx)
	if err != nil {
		return ItemResult{}, err
	}
	return r.One(ctx, n)
}

// Fields names the fields of a map's items, in their order; none of plain lines.
func (j *jobResults) Fields(ctx context.Context) ([]string, error) {
	r, err := j.newReader(ctx)
	if err != nil {
		return nil, err
	}
	return r.Fields(ctx)
}

// PrintInOrder writes to w what the items of a map printed to stdout, in the order of the
// items and nothing else: each item's when it and all those before it have ended, also when
// it failed. What programs that stay have answered is written as a line. It holds no more
// than some items at once, however long the first one takes: the rest is in the store.
func (j *jobResults) PrintInOrder(ctx context.Context, w io.Writer, o PrintOptions) error {
	r, err := j.newReader(ctx)
	if err != nil {
		return err
	}
	return r.PrintInOrder(ctx, w, o)
}

// Figures reads what items have come to. Of parts of the job that are done that is
// done once for each machine: what they come to is remembered in drover's cache
// there, so asking again costs one listing. It holds a chunk or two at a time.
func (j *jobResults) Figures(ctx context.Context) (Figures, error) {
	rec, err := j.readMapRecord(ctx)
	if err != nil {
		return Figures{}, err
	}
	return figures.Read(ctx, j.c.engine.Session, j.path, rec)
}

// Advice says how a map could ask for less and so have more items run at once where
// it runs; nil when it could not.
func (j *jobResults) Advice(ctx context.Context, f Figures) (*Advice, error) {
	rec, err := j.Spec(ctx)
	if err != nil {
		return nil, err
	}
	if rec.Spec.Slots > 0 {
		return nil, nil // whatever they ask for, that many run
	}
	d, err := j.c.engine.Driver(rec.Spec.On)
	if err != nil {
		return nil, nil // this client does not know the target
	}
	o, err := d.Offer(ctx, driver.Needs{})
	if err != nil || o.Cores == 0 {
		return nil, nil
	}
	return figures.Advise(f, o.Cores, o.Memory), nil
}

// Top gives the N items with the largest numbers in their results, or the smallest; of
// equal ones the first. It holds no more than N, however many there are. Fault: Invalid
// where no result has that number.
func (j *jobResults) Top(ctx context.Context, o TopOptions) (Ranking, error) {
	return figures.Top(j.Results(ctx, ResultOptions{Whole: true}), o)
}
