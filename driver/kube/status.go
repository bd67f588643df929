package kube

import (
	"context"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/kube/api"
)

// Status says of each agent what Kubernetes and the pods' last words say. It takes away a
// placement that is to be removed and has no agent left, and gives up one of which nothing ever
// came up.
func (d *Driver) Status(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !names(h) {
		return nil, nil
	}
	c, s, err := d.dial(h.Detail, true)
	if err != nil {
		return nil, err
	}
	return d.statusAt(ctx, c, s, h)
}

// statusAt is Status by a client that the caller has.
func (d *Driver) statusAt(ctx context.Context, c *api.Client, s site, h driver.Handle) ([]driver.Member, error) {
	const doing = "look at agents"
	v, err := d.look(ctx, c, s, h)
	if err != nil {
		return nil, refused(doing, s, err)
	}
	if reason := v.hopeless(time.Now()); reason != "" {
		if err := d.giveUp(ctx, c, s, h, &v, reason); err != nil {
			return nil, refused(doing, s, err)
		}
	}
	if v.none {
		return nil, nil
	}
	members := v.members(h)
	if v.job.Metadata.Labels[labelRemove] != "" && !folder.AnyAlive(members) {
		if err := d.takeAway(ctx, c, s, h, v); err != nil {
			return nil, refused(doing, s, err)
		}
		return nil, nil
	}
	return members, nil
}

// takeAway deletes a placement of which nothing runs: what its Job owns goes with it.
func (d *Driver) takeAway(ctx context.Context, c *api.Client, s site, h driver.Handle, v view) error {
	d.forget(h)
	return c.Delete(ctx, api.Jobs, s.namespace, objectName(h), v.job.Metadata.UID)
}
