package sagemaker

import (
	"context"
	"errors"
	"slices"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

// Submit creates the jobs of a placement, in their order. Where SageMaker makes jobs for some of its workers alone, the others wait: missing.go.
func (e *engine) Submit(ctx context.Context, s remote.Submission) (ids []string, err error) {
	at, err := parseSite(s.Handle.Detail)
	if err != nil {
		return nil, err
	}
	c, err := e.clients.In(ctx, at.region)
	if err != nil {
		return nil, err
	}
	o, err := parseOptions(s.Request.Needs.Args)
	if err != nil {
		return nil, err
	}
	in, err := c.request(ctx, s, o, at.kind())
	if err != nil {
		return nil, err
	}
	if err := e.notePlace(at); err != nil {
		return nil, err
	}
	if len(s.Secrets) > 0 {
		if err := c.secrets.Store(ctx, secretName(s.Handle), s.Secrets); err != nil {
			return nil, err
		}
	}
	names := jobNames(s.Handle, s.Request.Needs, s.Request.Agents)
	if len(names) == 1 {
		in.ResourceConfig.InstanceCount = s.Request.Agents
	}
	for _, name := range names {
		in.TrainingJobName = name
		var body any = in
		if at.processes {
			p := in.asProcessing()
			if o.output != "" {
				p.store(o.output)
			}
			body = p
		}
		if said := o.merges[at.kind().option()]; len(said) > 0 {
			body = merge(body, said)
		}
		if err := c.create(ctx, at.kind(), name, body); err != nil {
			if kind := fault.KindOf(err); len(ids) > 0 && (kind == fault.Full || kind == fault.Denied || kind == fault.Invalid) {
				e.noteRefusal(s.Handle, err)
				break
			}
			if len(ids) > 0 {
				return nil, err
			}
			return nil, remote.Undo(err, func() bool { return len(s.Secrets) == 0 || c.secrets.Remove(ctx, secretName(s.Handle)) == nil })
		}
		ids = append(ids, name)
	}
	return names, nil
}

// Find gives the jobs of a handle's name, oldest first.
func (e *engine) Find(ctx context.Context, h driver.Handle) (ids []string, err error) {
	c, k, err := e.clientOfHandle(ctx, h)
	if err != nil {
		return nil, err
	}
	found, err := c.list(ctx, k, jobName(h), false)
	for _, j := range found {
		if of, _, ok := parseJobName(j.name()); ok && jobName(of) == jobName(h) {
			ids = append(ids, j.name())
		}
	}
	return ids, err
}

// clientOfHandle is the client of the region of a handle, and the kind of its jobs.
func (e *engine) clientOfHandle(ctx context.Context, h driver.Handle) (*client, kind, error) {
	at, err := parseSite(h.Detail)
	if err != nil {
		return nil, training, err
	}
	c, err := e.clients.In(ctx, at.region)
	return c, at.kind(), err
}

// Held names what goes on in the regions where this machine has started something: what has ended cannot be taken away.
func (e *engine) Held(ctx context.Context) (all []driver.Handle, silent error) {
	places := e.readPlaces()
	var regions []string
	for _, at := range places {
		regions = append(regions, at.region)
	}
	if err := amazon.CheckConfigured(ctx, regions...); err != nil {
		return nil, err
	}
	for _, at := range places {
		c, err := e.clients.In(ctx, at.region)
		if err != nil {
			silent = errors.Join(silent, err)
			continue
		}
		found, err := c.list(ctx, at.kind(), "drover-", true)
		silent = errors.Join(silent, err)
		for _, j := range found {
			h, _, ok := parseJobName(j.name())
			if h.Detail = at.String(); ok && !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
	return all, silent
}

// Remove deletes a placement's secrets. Jobs that have ended stay in SageMaker's list.
func (e *engine) Remove(ctx context.Context, h driver.Handle, ids []string) error {
	c, _, err := e.clientOfHandle(ctx, h)
	if err != nil {
		return err
	}
	return c.secrets.Remove(ctx, secretName(h))
}
