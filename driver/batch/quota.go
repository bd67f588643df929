package batch

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/drover-run/drover/cloud/amazon/quota"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// quotaWait is how long a plan waits for the account's quotas.
const quotaWait = 3 * time.Second

// quotas are those of the account, asked for once; nil where they cannot be read: AWS Batch says later what blocks a
// queue.
func (c *client) quotas(ctx context.Context, service string) []quota.Quota {
	c.mu.Lock()
	defer c.mu.Unlock()
	if all, asked := c.limits[service]; asked {
		return all
	}
	send := c.send
	send.Wait = min(send.Wait, quotaWait)
	all, err := quota.List(ctx, send, service)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	if c.limits == nil {
		c.limits = map[string][]quota.Quota{}
	}
	c.limits[service] = all
	return all
}

// limit is the largest of the quotas that hold for the machines of a queue; ok is false where one of them is not known.
func (c *client) limit(ctx context.Context, q queue) (most quota.Quota, ok bool) {
	for _, e := range q.below {
		r := e.ComputeResources
		if r == nil {
			return most, false
		}
		spot := r.Type == types.CRTypeSpot || r.Type == types.CRTypeFargateSpot
		if r.Type == types.CRTypeFargate || r.Type == types.CRTypeFargateSpot {
			one, known := quota.OfFargate(c.quotas(ctx, "fargate"), spot)
			if !known {
				return most, false
			}
			most, ok = larger(most, one, ok), true
			continue
		}
		for _, kind := range r.InstanceTypes {
			one, known := quota.OfMachines(c.quotas(ctx, "ec2"), kind, spot)
			if !known {
				return most, false
			}
			most, ok = larger(most, one, ok), true
		}
	}
	return most, ok
}

func larger(a, b quota.Quota, has bool) quota.Quota {
	if has && a.Value >= b.Value {
		return a
	}
	return b
}

// checkQuota holds needs against what the account may use at once: an agent that it does not allow is refused, and the note
// says how many of several it allows. Other machines of the account count too, which nothing tells.
func (c *client) checkQuota(ctx context.Context, q queue, n driver.Needs, s shape) (note string, err error) {
	most, ok := c.limit(ctx, q)
	wanted := s.cpus * float64(max(n.Agents, 1))
	if !ok || most.Value >= wanted {
		return "", nil
	}
	if most.Value < s.cpus {
		return "", fault.New(fault.Full, "Ask AWS for more: `"+most.Increase(c.region, wanted)+"`.", "the account's quota %q is %g cores in %s, and an agent needs %g", most.Name, most.Value, c.region, s.cpus)
	}
	return fmt.Sprintf("the account's quota %q is %g cores in %s: at most %d of %d agents run at once", most.Name, most.Value, c.region, int(most.Value/s.cpus), n.Agents), nil
}
