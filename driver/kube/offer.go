package kube

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/driver/kube/nodes"
	"github.com/drover-run/drover/driver/kube/program"
	"github.com/drover-run/drover/driver/kube/words"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// Offer tries the Job out on the API server, with its policies, and holds the needs against quotas,
// limits and, where they may be listed, nodes. Nodes never refuse what an autoscaler could add.
// There is no price. Options that are wrong are a fault of kind Invalid. On a machine that knows no
// cluster it sends nothing, and the fault says so.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (o driver.Offer, err error) {
	const doing = "ask Kubernetes"
	if ctx.Err() != nil {
		return driver.Offer{}, context.Cause(ctx)
	}
	typed, err := parseOptions(n.Args)
	if err != nil {
		return driver.Offer{}, err
	}
	c, s, err := d.dial(n.Detail, true)
	if err != nil {
		return driver.Offer{}, err
	}
	o.Detail, o.Machine = s.String(), "kube, "+s.words()
	p := placed{request: driver.Request{Job: triedJob, Placement: 1, Agents: max(n.Agents, 1), Needs: n}, handle: driver.Handle{Target: Name, Detail: s.String(), Job: triedJob, Placement: 1}, options: typed}
	m, err := nodes.Read(ctx, c)
	if err != nil {
		return driver.Offer{}, refused(doing, s, err)
	}
	o.Machine += m.Words()
	o.Cores, o.Memory = int(p.cores()), p.memory()
	o.Spot = n.Spot == job.SpotOnly || n.Spot == job.SpotFirst && m.HasSpot()
	needed, helpful, err := checkRights(ctx, c, s)
	if err != nil {
		return driver.Offer{}, refused(doing, s, err)
	}
	o.Missing = slices.Concat(needed, helpful)
	if len(o.Missing) > 0 {
		o.Hint = s.grant()
	}
	if len(needed) > 0 {
		o.Reason = fmt.Sprintf("you may not %s in %s", strings.Join(needed, ", nor "), s.words())
		return o, nil
	}
	if n.Agents == 0 { // about the cluster alone
		o.Fits, o.Choices = true, m.Choices(n, defaultCores)
		return o, nil
	}
	if typed.agentImage == "" {
		p.program = program.Program{Digest: strings.Repeat("0", 64), System: d.noteSystem(s, n, m), Parts: 1}
		if p.program.System != thisSystem {
			o.System = p.program.System
		}
	}
	err = p.check(m)
	var warnings []string
	if err == nil {
		warnings, err = d.tryOut(ctx, c, s, p)
	}
	if err == nil && len(warnings) == 0 {
		err = checkNamespace(ctx, c, s, p)
	}
	if err == nil && p.options.queue != "" {
		err = checkQueue(ctx, c, s, p.options.queue)
	}
	if len(warnings) > 0 {
		o.Reason, o.Hint = words.Explain(warnings[0])
	}
	if err := refused(doing, s, err); err != nil {
		if k := fault.KindOf(err); k == fault.Lost || ctx.Err() != nil {
			return driver.Offer{}, err
		}
		o.Reason, o.Hint = err.Error(), fault.Hint(err)
	}
	if o.Fits = o.Reason == ""; o.Fits {
		o.Hint, o.Notes = "", p.notes()
	}
	o.Choices = m.Choices(n, defaultCores)
	if !o.Fits {
		o.Spot = false
	}
	return o, nil
}

// triedJob is the id of a job that Offer tries out; no job has it.
const triedJob = "2222222222222222"

// The most of anything that a machine is taken to have, where nodes do not tell: more than the
// largest that a provider rents.
const (
	mostCores  = 4096
	mostMemory = 64 << 40
	mostGPUs   = 72
)

// check holds a placement against the nodes.
func (p *placed) check(m nodes.Cluster) (err error) {
	n := p.request.Needs
	switch {
	case len(n.Place.Mounts) > 0:
		return fault.New(fault.Full, "Give it as an input: `-i FOLDER`; or name a volume of the cluster: `--target-arg volume=pvc/NAME:/path`.", "pods see no folder of this machine: --mount %s", n.Place.Mounts[0])
	case p.request.Agents > mostAgents:
		return fault.New(fault.Invalid, "Ask for at most 100,000.", "a Job has no more than 100,000 agents")
	case n.CPUs > mostCores, n.Memory > mostMemory, n.GPUs > mostGPUs:
		return fault.New(fault.Full, "Ask for less.", "no machine has so much")
	case p.options.agentImage == "" && p.request.Agents > program.MostAgents:
		return fault.New(fault.Full, pushAgent,
			"%d agents need an image of the agent: without one each node reads the program from the API server", p.request.Agents)
	}
	if p.image, err = n.Place.ImageOrPython(); err != nil {
		return err
	}
	if (n.Spot == job.SpotOnly || n.Spot == job.SpotFirst) && !m.HasSpot() {
		return fault.New(fault.Full, "Leave `--spot` out.", "no node of the cluster is spot capacity")
	}
	if p.on, err = m.Select(n, p.options.nodes); err != nil {
		return err
	}
	return m.Fits(p.cores(), p.memory()+agentMemory, n.GPUs)
}

// notes are for the plan.
func (p placed) notes() (all []string) {
	n := p.request.Needs
	if n.CPUs == 0 || n.Memory == 0 {
		noun := "cores"
		if p.cores() == 1 {
			noun = "core"
		}
		all = append(all, fmt.Sprintf("each agent has %g %s and %s of memory: --cpus and --memory ask for more", p.cores(), noun, job.Bytes(p.memory()).Words()))
	}
	if n.Place.Nodes > 1 && p.options.queue == "" {
		all = append(all, "nodes begin one by one, as there is room: with Kueue, --target-arg queue=NAME starts all or none")
	}
	return all
}

// tryOut has the API server check the Job as if it were to be made, with its policies. Of what the
// server leaves out of its answer it knows nothing.
func (d *Driver) tryOut(ctx context.Context, c *api.Client, s site, p placed) (warnings []string, err error) {
	var j api.Job
	if warnings, err = c.TryOut(ctx, api.Jobs, s.namespace, p.job(), &j); err != nil {
		return nil, err
	}
	if j.Spec.BackoffLimitPerIndex == nil || j.Spec.PodFailurePolicy == nil {
		return nil, fault.New(fault.Invalid, "Use a cluster of Kubernetes 1.29 or newer.", "the cluster of context %s does not know how to start agents of a Job again (backoffLimitPerIndex)", s.context)
	}
	return slices.DeleteFunc(warnings, func(w string) bool { return !strings.Contains(w, "would violate") }), nil
}

// checkNamespace holds a placement against the quotas and limits of its namespace. A user that may
// not list them is told by Kubernetes when the pods are made.
func checkNamespace(ctx context.Context, c *api.Client, s site, p placed) error {
	asks := map[string]float64{"cpu": p.cores(), "memory": float64(p.memory() + agentMemory), nodes.GPUs: float64(p.request.Needs.GPUs), "ephemeral-storage": float64(p.request.Needs.Disk)}
	quotas, err := api.ListAll[api.Quota](ctx, c, api.ResourceQuotas, s.namespace, nil)
	if err != nil && !api.IsCode(err, 403) {
		return err
	}
	for _, q := range quotas {
		for key, hard := range q.Status.Hard {
			name := strings.TrimPrefix(strings.TrimPrefix(key, "requests."), "limits.")
			one := asks[name]
			if name == "pods" || name == "count/pods" {
				one = 1
			}
			if all := one * float64(p.request.Agents); all > nodes.Quantity(hard) {
				return fault.New(fault.Full, "Ask for fewer agents, or for less of each.", "the quota %s allows %s of %s in all, and %d agents need %g", q.Metadata.Name, hard, key, p.request.Agents, all)
			}
		}
	}
	limits, err := api.ListAll[api.LimitRange](ctx, c, api.LimitRanges, s.namespace, nil)
	if err != nil && !api.IsCode(err, 403) {
		return err
	}
	for _, l := range limits {
		for _, rule := range l.Spec.Limits {
			for name, most := range rule.Max {
				if (rule.Type == "Container" || rule.Type == "Pod") && asks[name] > nodes.Quantity(most) {
					return fault.New(fault.Full, "Ask for less.", "the limits of namespace %s allow %s of %s for one %s", s.namespace, most, name, strings.ToLower(rule.Type))
				}
			}
		}
	}
	return nil
}

// checkQueue refuses a queue of Kueue that is not there: a Job of such a queue is suspended for ever.
// A user that may not look is told so by the Job itself.
func checkQueue(ctx context.Context, c *api.Client, s site, queue string) error {
	err := c.Get(ctx, api.LocalQueues, s.namespace, queue, &struct{}{})
	switch {
	case api.IsCode(err, http.StatusForbidden):
		return nil
	case !api.IsCode(err, http.StatusNotFound):
		return err
	case strings.Contains(err.Error(), api.LocalQueues): // the kind of object is known
		return fault.New(fault.Full, "See them: `kubectl --context "+s.context+" --namespace "+s.namespace+" get localqueues`.", "namespace %s has no LocalQueue %s", s.namespace, queue)
	}
	return fault.New(fault.Full, "Leave `--target-arg queue` out.", "the cluster of context %s has no Kueue, and so no queue %s", s.context, queue)
}
