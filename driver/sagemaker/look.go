package sagemaker

import (
	"context"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
)

// few is up to how many jobs a look at a placement asks for each by itself. Of more it asks for their list, and for those alone of which the
// list says too little.
const few = 3

// describeAll describes jobs, by their names; those that are not there are left out. claimed is the newest attempt of each that has become an
// agent.
func (e *engine) describeAll(ctx context.Context, c *client, k kind, h driver.Handle, names []string, claimed map[string]int) (map[string]description, error) {
	all := map[string]description{}
	listed, like := map[string]summary{}, description{}
	if len(names) > few {
		found, err := c.list(ctx, k, jobName(h), false)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			listed[s.name()] = s
		}
		if like, _, err = e.describe(ctx, c, k, names[0]); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		s, ok := listed[name]
		if _, ended := e.ended(k, name); ok && !ended && s.saysAll(claimed[name]) {
			all[name] = s.describe(like, claimed[name])
			continue
		}
		j, there, err := e.describe(ctx, c, k, name)
		if err != nil {
			return nil, err
		}
		if there {
			all[name] = j
		}
	}
	return all, nil
}

// saysAll says whether a list tells enough of a job: that it goes on, as it did when its newest agent came up, or that it waits for its first one.
func (s summary) saysAll(claimed int) bool {
	switch {
	case s.status() == completed, s.ProcessingJobStatus == inProgress: // processing jobs are never started again
		return true
	case s.status() != inProgress:
		return false
	}
	switch s.SecondaryStatus {
	case "Training", "Uploading":
		return true
	case "Interrupted", "Restarting":
		return false
	}
	return claimed == 0
}

// describe is what a list says of a job. like is another job of the same placement: what is the same for all is taken from it.
func (s summary) describe(like description, claimed int) description {
	j := description{Status: s.status(), Secondary: s.SecondaryStatus, Resources: like.Resources, Spot: like.Spot}
	for range claimed - 1 {
		j.Transitions = append(j.Transitions, transition{Status: "Interrupted"})
	}
	if n := len(like.Transitions); n > 0 && like.Secondary == s.SecondaryStatus {
		j.Transitions = append(j.Transitions, like.Transitions[n-1])
	}
	return j
}

// describe asks for a job, unless what is known of it is new enough, or is its end.
func (e *engine) describe(ctx context.Context, c *client, k kind, name string) (j description, there bool, err error) {
	if j, ended := e.ended(k, name); ended {
		return j, true, nil
	}
	e.mu.Lock()
	known, ok := e.seen[k.noun+" "+name]
	e.mu.Unlock()
	if ok && time.Since(known.at) < e.look {
		return known.job, true, nil
	}
	j, there, err = c.describe(ctx, k, name)
	if err == nil && there {
		e.mu.Lock()
		e.seen[k.noun+" "+name] = seenJob{j, time.Now()}
		e.mu.Unlock()
	}
	return j, there, err
}

// ended is a job that is known to have ended.
func (e *engine) ended(k kind, name string) (j description, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known, ok := e.seen[k.noun+" "+name]
	return known.job, ok && !known.job.alive()
}

// newestClaims are the newest attempts that have become agents, by their jobs.
func newestClaims(up []remote.Claimant) map[string]int {
	newest := map[string]int{}
	for _, c := range up {
		newest[c.ID] = max(newest[c.ID], c.Attempt)
	}
	return newest
}
