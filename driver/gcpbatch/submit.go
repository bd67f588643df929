package gcpbatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/gcpbatch/batchapi"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// Submit creates the jobs of a placement.
func (e *engine) Submit(ctx context.Context, s remote.Submission) (ids []string, err error) {
	at, err := siteOf(s.Handle)
	if err != nil {
		return nil, err
	}
	o, err := parseOptions(s.Request.Needs.Args)
	if err != nil {
		return nil, err
	}
	if o.account == "" {
		if o.account, err = e.findAccount(ctx, at, projectOf(s.Request), s.Request.Run.Store); err != nil {
			return nil, err
		}
	}
	if len(s.Secrets) > 0 && o.account == "" {
		return nil, fault.New(fault.Invalid, "Have one made: `drover target up gcp`; or name it: `--target-arg service-account=NAME@PROJECT.iam.gserviceaccount.com`.", "hand over secrets: it is not said which service account may read them")
	}
	in, err := newJob(ctx, s, at, o)
	if err != nil {
		return nil, err
	}
	if err := e.notePlace(at); err != nil {
		return nil, err
	}
	if len(s.Secrets) > 0 {
		until := time.Now().Add(timeLimit(s.Request.Needs.Time) + secretTime)
		if err := e.secrets(at).Store(ctx, secretName(s.Handle), s.Secrets, until, o.account); err != nil {
			return nil, remote.Undo(err, func() bool { return e.removeSecret(ctx, at, s.Handle) == nil })
		}
	}
	c := e.client(at)
	for k, name := range jobNames(s.Handle, s.Request.Agents) {
		err := create(ctx, c, name, part(in, name), o.patch)
		if err != nil && k > 0 {
			return nil, remote.Unsure(err) // the jobs before it are there
		}
		if err != nil {
			return nil, remote.Undo(err, func() bool { return len(s.Secrets) == 0 || e.removeSecret(ctx, at, s.Handle) == nil })
		}
		ids = append(ids, name)
	}
	if in.Labels[labelFirst] != "" {
		ids = append(ids, onDemandName(jobName(s.Handle)))
	}
	return ids, nil
}

// projectOf is the project of a request.
func projectOf(r driver.Request) string {
	path, _ := job.ParsePath(r.Run.Job)
	return cmp.Or(r.Needs.Labels["project"], path.Project)
}

// create creates a job, with a patch, or finds that it is there.
func create(ctx context.Context, c *batchapi.Client, name string, in batchapi.Job, patch map[string]any) error {
	body, err := amend(in, patch)
	if err != nil {
		return err
	}
	_, err = c.Create(ctx, name, requestID(c.Project, c.Region, name), body)
	if !errors.Is(err, rest.ErrExists) {
		return err
	}
	there, err := c.Get(ctx, name)
	if err != nil {
		return remote.Unsure(err)
	}
	if there.Labels["drover"] != in.Labels["drover"] || there.Labels["drover_job"] != in.Labels["drover_job"] {
		return fault.New(fault.Invalid, "Delete it, or use another region.", "start agents: job %s of Google Batch is one that drover did not make", name)
	}
	return nil
}

// Find gives the jobs of a handle's name. Where one is there, all count as there: what is missing of them is made by Processes.
func (e *engine) Find(ctx context.Context, h driver.Handle) (ids []string, err error) {
	at, err := siteOf(h)
	if err != nil {
		return nil, err
	}
	all, err := e.client(at).List(ctx, `labels.drover_job="`+labelText(h.Job)+`"`)
	for _, j := range all {
		id := idOf(j)
		of, _, ok := parseJobName(id)
		if !ok || jobName(of) != jobName(h) || leaving(j) {
			continue
		}
		names := append(jobNames(h, agentsOf(j)), id)
		if j.Labels[labelFirst] != "" {
			names = append(names, onDemandName(id))
		}
		for _, name := range names {
			if !slices.Contains(ids, name) {
				ids = append(ids, name)
			}
		}
	}
	return ids, err
}

// idOf is the last part of a job's name.
func idOf(j batchapi.Job) string { return j.Name[strings.LastIndexByte(j.Name, '/')+1:] }

// leaving says whether a job is being deleted.
func leaving(j batchapi.Job) bool { return j.Status != nil && j.Status.State == batchapi.JobDeleting }

// Held names what there is where this machine has started something. A place that does not answer hides no other.
func (e *engine) Held(ctx context.Context) (all []driver.Handle, silent error) {
	for _, at := range e.readPlaces() {
		jobs, err := e.client(at).List(ctx, `labels.drover="agents"`)
		silent = errors.Join(silent, err)
		for _, j := range jobs {
			h, _, ok := parseJobName(idOf(j))
			if h.Detail = at.String(); ok && !leaving(j) && !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
	return all, silent
}

// Remove deletes a placement's jobs and its secret.
func (e *engine) Remove(ctx context.Context, h driver.Handle, ids []string) error {
	at, err := siteOf(h)
	if err != nil {
		return err
	}
	e.forget(at, ids)
	c := e.client(at)
	for _, id := range ids {
		if err := c.Delete(ctx, id); err != nil && !errors.Is(err, rest.ErrNotFound) {
			return err
		}
	}
	return e.removeSecret(ctx, at, h)
}

// removeSecret deletes a placement's secret, if it has one. A user that may not delete secrets has made none, and another one's ends by itself.
func (e *engine) removeSecret(ctx context.Context, at site, h driver.Handle) error {
	if err := e.secrets(at).Remove(ctx, secretName(h)); fault.KindOf(err) != fault.Denied {
		return err
	}
	return nil
}

// Terminate cancels the jobs of which all that lives is to end: Google Batch cancels no single task. An agent of another one reads the order to
// stop, also when it begins.
func (e *engine) Terminate(ctx context.Context, h driver.Handle, end []remote.Process) error {
	at, err := siteOf(h)
	if err != nil {
		return err
	}
	ending := map[string]map[int]bool{}
	for _, p := range end {
		if p.State.Alive() {
			if ending[p.ID] == nil {
				ending[p.ID] = map[int]bool{}
			}
			ending[p.ID][p.Index] = true
		}
	}
	for id, which := range ending {
		for _, name := range []string{id, onDemandName(id)} { // the job may have another in its place
			e.forget(at, []string{name})
			j, err := e.find(ctx, at, name)
			if errors.Is(err, rest.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if err := e.cancel(ctx, at, name, j, which); err != nil {
				return err
			}
			if j.job.Labels[labelFirst] == "" {
				break
			}
		}
	}
	return nil
}

// cancel cancels a job of which all that lives is of the tasks which.
func (e *engine) cancel(ctx context.Context, at site, name string, j seenJob, which map[int]bool) error {
	for _, p := range processesOf(name, j, nil) {
		if p.State.Alive() && !which[p.Index] {
			return nil
		}
	}
	if j.settled() || leaving(j.job) || j.job.Status.State == batchapi.JobCancelling {
		return nil
	}
	e.forget(at, []string{name})
	return e.client(at).Cancel(ctx, name)
}
