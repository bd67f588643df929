package summary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/job"
)

// CheckNodes refuses a node that a job does not have.
func CheckNodes(ctx context.Context, j *drover.Job, nodes []int) error {
	if len(nodes) == 0 {
		return nil
	}
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	last := rec.Spec.Nodes - 1
	if i := slices.IndexFunc(nodes, func(n int) bool { return n < 0 || n > last }); i >= 0 {
		return fault.New(fault.Invalid, fmt.Sprintf("Its nodes are 0 to %d.", last), "read --node: job %s has no node %d", rec.Short, nodes[i])
	}
	return nil
}

// Newest is how many jobs a list shows.
const Newest = 20

// Unreadable parts what is wrong with some jobs of a list, which are told of when the
// others were shown, from why there is none.
func Unreadable(err error) (some, all error) {
	if u := (*drover.Unreadable)(nil); errors.As(err, &u) {
		return u, nil
	}
	return nil, err
}

// IsMap says whether a job runs a program for each of many items.
func IsMap(ctx context.Context, j *drover.Job) (bool, error) {
	rec, err := j.Spec(ctx)
	return rec.Spec.Verb == job.Map, err
}

// StatusWithTally is how a job of either kind stands; tally is empty of one that is no map.
func StatusWithTally(ctx context.Context, j *drover.Job) (s drover.Status, tally string, err error) {
	if s, err = j.Status(ctx); err == nil && s.MapStatus != nil {
		tally = strings.Join(progress.Counts(s), ", ")
	}
	return s, tally, err
}
