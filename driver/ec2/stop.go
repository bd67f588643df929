package ec2

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/ec2/api"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/driver/stack"
)

// Terminate ends machines: all of a group by setting it to none, others each.
func (e *engine) Terminate(ctx context.Context, h driver.Handle, some []remote.Process) error {
	c, _, err := e.clientOfHandle(ctx, h)
	if err != nil {
		return err
	}
	name := groupName(h)
	g, err := c.Group(ctx, name)
	if err != nil {
		return err
	}
	if g == nil { // the group was deleted by hand, and a machine of it is left
		return c.terminate(ctx, some)
	}
	end := map[string]bool{}
	empty := 0
	for _, p := range some {
		if strings.HasPrefix(p.Process, emptyPrefix) {
			empty++
		} else {
			end[p.Process] = true
		}
	}
	left := slices.ContainsFunc(g.Instances, func(m api.GroupMachine) bool {
		return !end[m.InstanceId] && !strings.HasPrefix(m.LifecycleState, "Terminat")
	})
	if !left {
		return errors.Join(c.TagGroup(ctx, name, tagStopped, "yes"), c.Resize(ctx, name, -1, 0)) // without the tag the end looks like the scheduled one, and is one all the same
	}
	if empty > 0 {
		if err := c.Resize(ctx, name, -1, max(g.DesiredCapacity-empty, 0)); err != nil {
			return err
		}
	}
	for id := range end {
		if err := c.EndMachine(ctx, id, true); err != nil {
			return err
		}
	}
	return nil
}

// terminate ends machines that are of no group.
func (c *client) terminate(ctx context.Context, some []remote.Process) error {
	var ids []string
	for _, p := range some {
		if !strings.HasPrefix(p.Process, emptyPrefix) {
			ids = append(ids, p.Process)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return c.ReadMachines(ctx, "end machines", "TerminateInstances", struct{ InstanceId []string }{ids}, nil)
}

// Find gives the group of a handle. One that was not set to machines is none: its making was cut off, and goes on.
func (e *engine) Find(ctx context.Context, h driver.Handle) (ids []string, err error) {
	c, _, err := e.clientOfHandle(ctx, h)
	if err != nil {
		return nil, err
	}
	name := groupName(h)
	g, err := c.Group(ctx, name)
	if err != nil || g != nil && !g.Raised() {
		return nil, err
	}
	if g == nil { // it was deleted by hand; machines may be left that were detached before
		machines, err := c.Instances(ctx, api.Filter{Name: "tag:Name", Value: []string{name}}, living)
		if err != nil || len(machines) == 0 {
			return nil, err
		}
	}
	return []string{name}, nil
}

// living are machines that have not ended.
var living = api.Filter{Name: "instance-state-name", Value: []string{"pending", "running", "stopping", "stopped"}}

// Remove deletes a placement's group, launch template and secrets.
func (e *engine) Remove(ctx context.Context, h driver.Handle, _ []string) error {
	c, _, err := e.clientOfHandle(ctx, h)
	if err != nil {
		return err
	}
	name := groupName(h)
	if err := c.RemoveGroup(ctx, name); err != nil {
		return err
	}
	if err := c.RemoveTemplate(ctx, name); err != nil {
		return err
	}
	return c.secrets.Remove(ctx, secretName(h))
}

// Held names the groups of drover's in the regions where this machine has started something, and those of machines without a group. A region that does not
// answer hides no other.
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
		var names []string
		c, err := e.clients.In(ctx, at.region)
		if err == nil {
			names, err = c.liveNames(ctx)
		}
		silent = errors.Join(silent, err)
		for _, name := range names {
			h, ok := parseGroupName(name)
			if h.Detail = at.String(); ok && !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
	return all, silent
}

// liveNames are the names of groups of drover's that are raised, and of those with machines that live.
func (c *client) liveNames(ctx context.Context) (all []string, err error) {
	groups, err := c.Groups(ctx, api.GroupQuery{Filters: []api.GroupFilter{{Name: "tag:" + stack.TagManaged, Values: []string{stack.ManagedBy}}}})
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if g.Raised() {
			all = append(all, g.AutoScalingGroupName)
		}
	}
	machines, err := c.Instances(ctx, api.Filter{Name: "tag:" + stack.TagManaged, Value: []string{stack.ManagedBy}}, living)
	for _, m := range machines {
		for _, t := range m.Tags {
			if t.Key == "Name" && !slices.Contains(all, t.Value) {
				all = append(all, t.Value)
			}
		}
	}
	return all, err
}
