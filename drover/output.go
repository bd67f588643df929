package drover

import (
	"context"
	"iter"
	"regexp"

	"github.com/drover-run/drover/internal/engine/output"
)

func (j *jobOutput) newReader() output.Reader {
	return output.NewReader(j.c.engine.Session, j.path, j.c.local, j.readReport)
}

// Logs gives what the program printed, or the items of a map, each byte once, as it was read.
// With Follow it goes on until the job has settled.
func (j *jobOutput) Logs(ctx context.Context, o LogOptions) iter.Seq2[Output, error] {
	return j.newReader().Logs(ctx, o)
}

// Lines is Logs put together to lines, in a map each of one item.
func (j *jobOutput) Lines(ctx context.Context, o LogOptions) iter.Seq2[Line, error] {
	return j.newReader().Lines(ctx, o)
}

// Search gives those of Lines that re matches, with before and after lines around: in a map of
// the same item.
func (j *jobOutput) Search(ctx context.Context, o LogOptions, re *regexp.Regexp, before, after int) iter.Seq2[Line, error] {
	return j.newReader().Search(ctx, o, re, before, after)
}

// Metrics are the numbers that were found in what the job's programs printed, as
// far as they are stored: of a live job what is some seconds old.
func (j *jobOutput) Metrics(ctx context.Context, o MetricOptions) ([]Series, error) {
	return j.newReader().Metrics(ctx, o)
}

// Usage is what the job's nodes used, a sample every 5 s, as far as it is stored.
func (j *jobOutput) Usage(ctx context.Context, o MetricOptions) ([]NodeUsage, error) {
	return j.newReader().Usage(ctx, o)
}
