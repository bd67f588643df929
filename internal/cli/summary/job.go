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

// listed is a map as a list of jobs shows it; many is false of other jobs.
func listed(ctx context.Context, j *drover.Job) (s drover.MapStatus, many bool, err error) {
	if many, err = IsMap(ctx, j); err != nil || !many {
		return s, many, err
	}
	s, err = j.MapStatus(ctx)
	return s, true, err
}

// StatusOfAny is how a job of either kind stands; tally is empty of one that is no map.
func StatusOfAny(ctx context.Context, j *drover.Job) (s drover.Status, tally string, err error) {
	m, many, err := listed(ctx, j)
	if err != nil {
		return s, "", err
	}
	if many {
		return m.Status, strings.Join(progress.Counts(m), ", "), nil
	}
	s, err = j.Status(ctx)
	return s, "", err
}
