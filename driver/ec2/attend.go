package ec2

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver/ec2/api"
)

const (
	// moveTime is how often the end of a group's machines is moved on.
	moveTime = 20 * time.Minute
	// firstTime is how long spot capacity is waited for, before machines are bought on demand.
	firstTime = 10 * time.Minute
)

// groupLook is what this process has seen of a group.
type groupLook struct {
	moved   time.Time // when it first looked, or has moved the end
	waits   time.Time // since when there is no machine and some are missing; zero: it is not so
	changed bool      // machines are bought on demand now
}

// attend does what an attached command does for a group: a process that looks for a while moves the end of its machines on, and buys them on demand
// where no spot capacity comes and the job allows it. Where some has come it stays: Auto Scaling would replace it, to have the shares that the group asks for.
func (e *engine) attend(ctx context.Context, c *client, v view, missing bool) error {
	if v.group.DesiredCapacity == 0 {
		return nil
	}
	now := e.now()
	e.mu.Lock()
	l, seen := e.looks[v.name]
	if !seen {
		l.moved = now
	}
	missing = missing && !slices.ContainsFunc(v.group.Instances, func(m api.GroupMachine) bool { return !strings.HasPrefix(m.LifecycleState, "Terminat") })
	if !missing {
		l.waits = time.Time{}
	} else if l.waits.IsZero() {
		l.waits = now
	}
	move := now.Sub(l.moved) >= moveTime
	if move {
		l.moved = now
	}
	buy := missing && !l.changed && v.group.Tagged(tagFirst) != "" && now.Sub(l.waits) >= firstTime
	e.looks[v.name] = l
	e.mu.Unlock()
	if move {
		if err := c.EndAt(ctx, v.name, later(now.Add(aliveTime), v.group.Tagged(tagUntil))); err != nil {
			return err
		}
	}
	if !buy {
		return nil
	}
	all := 100
	err := c.Change(ctx, "buy machines on demand", "UpdateAutoScalingGroup", api.Group{AutoScalingGroupName: v.name, MixedInstancesPolicy: &api.MixedPolicy{InstancesDistribution: api.Distribution{OnDemandPercentageAboveBaseCapacity: &all}}})
	if err == nil {
		e.mu.Lock()
		l = e.looks[v.name]
		l.changed = true
		e.looks[v.name] = l
		e.mu.Unlock()
	}
	return err
}

// later is the later of a time and another one, in seconds since 1970 as text.
func later(at time.Time, other string) time.Time {
	if n, err := strconv.ParseInt(other, 10, 64); err == nil && time.Unix(n, 0).After(at) {
		return time.Unix(n, 0)
	}
	return at
}
