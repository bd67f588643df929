package cli

import (
	"context"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// waitForJobs waits for the jobs that --after names, and refuses to go on after one that did not
// succeed. The command line itself waits, also with --detach: until they have succeeded
// nothing is planned or submitted, so what they leave can be an input, and the code is that
// of the moment when it starts. With --plan nothing is waited for.
func (a submitter) waitForJobs(ctx context.Context, s *startFlags) error {
	within, over := untilTold(ctx, nothingStarted)
	defer over()
	err := a.waitForEachJob(within, s)
	if told := context.Cause(within); told != nil && ctx.Err() == nil {
		return told
	}
	return err
}

func (a submitter) waitForEachJob(ctx context.Context, s *startFlags) error {
	for _, ref := range s.after {
		j, st, err := a.jobAndStatus(ctx, []string{ref})
		if err != nil {
			return err
		}
		if !st.State.Settled() && !s.plan {
			a.note("waiting for job %s (%s/%s), which is %s; nothing has been submitted yet", st.ID, st.Project, st.Task, strings.ToLower(string(st.State)))
			if st, err = j.Until(ctx, 0); err != nil {
				return err
			}
		}
		switch {
		case s.plan || st.State == job.Succeeded:
		case st.State == job.Interrupted:
			return fault.New(fault.Interrupted, "Continue it, then type this again: drover resume "+st.ID+".", "wait for job %s: it is interrupted, and no agent works on it", st.ID)
		default:
			return fault.New(fault.Failed, "drover why "+st.ID+" explains it; leave out --after to run all the same.", "start after job %s: it has %s", st.ID, strings.ToLower(string(st.State)))
		}
	}
	return nil
}
