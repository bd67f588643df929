package kube

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/driver/kube/nodes"
	"github.com/drover-run/drover/driver/kube/pod"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// mostAgents is the most completions that an Indexed Job may have.
const mostAgents = 100_000

// Start makes the Job, by a name that only one of several Starts can make, after it what its pods
// wait for, and then the pods. A Start that finds the Job makes what is missing, and hands a newer
// credential to the pods.
func (d *Driver) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	const doing = "start agents"
	switch {
	case ctx.Err() != nil:
		return driver.Handle{}, context.Cause(ctx)
	case !job.ValidID(r.Job) || r.Placement < 1:
		return driver.Handle{}, fault.New(fault.Invalid, "", "start agents: job %q, placement %d is not a valid name for them", r.Job, r.Placement)
	case r.Agents < 1 || r.Agents > mostAgents:
		return driver.Handle{}, fault.New(fault.Invalid, "Ask for fewer: Kubernetes runs up to 100,000 in one Job.", "start agents: %d is not a number of agents", r.Agents)
	}
	if err := folder.Runnable(r.Run.Binary); err != nil {
		return driver.Handle{}, err
	}
	c, s, err := d.dial(r.Needs.Detail, true)
	if err != nil {
		return driver.Handle{}, err
	}
	p, err := d.plan(ctx, c, s, r)
	if err != nil {
		return driver.Handle{}, err
	}
	secrets, credential, err := folder.Sealed(ctx, r.Run)
	if err != nil {
		return driver.Handle{}, err
	}
	if len(secrets)+len(credential) > mostSecret {
		return driver.Handle{}, fault.New(fault.Invalid, "Keep large ones in files of a volume: `--target-arg volume=pvc/NAME:/path`.", "start agents: the job's secrets are larger than 1 MiB")
	}
	if err := folder.NotePlace(d.state, s.String()); err != nil {
		return driver.Handle{}, err
	}
	if p.options.agentImage == "" {
		if err := p.program.Look(ctx, c, s.namespace); err != nil {
			return driver.Handle{}, refused(doing, s, err)
		}
	}
	j, err := d.ensureJob(ctx, c, s, p)
	if err == nil {
		err = d.complete(ctx, c, s, &p, ownerOf(j), secrets, credential)
	}
	if err == nil && isStarting(j) {
		err = d.startPods(ctx, c, s, p)
	}
	if err != nil {
		return driver.Handle{}, refused(doing, s, err)
	}
	d.forget(p.handle)
	return p.handle, nil
}

// mostSecret is what a Secret holds, in bytes.
const mostSecret = 1<<20 - 1<<10

// plan checks a request against what this machine and the cluster say.
func (d *Driver) plan(ctx context.Context, c *api.Client, s site, r driver.Request) (p placed, err error) {
	p = placed{request: r, handle: driver.Handle{Target: Name, Detail: s.String(), Job: r.Job, Placement: r.Placement}}
	if p.options, err = parseOptions(r.Needs.Args); err != nil {
		return p, err
	}
	if p.image, err = r.Needs.Place.ImageOrPython(); err != nil {
		return p, err
	}
	system, known := d.systemOf(s, r.Needs)
	var all nodes.Cluster
	if nodes.AsksFor(r.Needs) || !known && p.options.agentImage == "" {
		if all, err = nodes.Read(ctx, c); err != nil {
			return p, err
		}
		system = d.noteSystem(s, r.Needs, all)
	}
	if p.options.agentImage == "" {
		p.program, err = findProgram(r.Run, system)
	}
	if err != nil {
		return p, err
	}
	p.on, err = all.Select(r.Needs, p.options.nodes)
	return p, err
}

// ensureJob makes the Job, or finds the one of its name.
func (d *Driver) ensureJob(ctx context.Context, c *api.Client, s site, p placed) (j api.Job, err error) {
	err = c.Create(ctx, api.Jobs, s.namespace, p.job(), &j)
	if api.IsCode(err, http.StatusConflict) {
		err = c.Get(ctx, api.Jobs, s.namespace, objectName(p.handle), &j)
	}
	if err != nil {
		return j, err
	}
	if h, ok := handleOf(s, j.Metadata.Labels); !ok || h != p.handle {
		return j, fault.New(fault.Invalid, "Rename or delete it: kubectl delete job "+objectName(p.handle)+".", "start agents: the Job %s is not drover's", objectName(p.handle))
	}
	if !j.Metadata.DeletionTimestamp.IsZero() {
		return j, fault.New(fault.Full, "Type the command again in a moment.", "start agents: the Job %s is just being removed", objectName(p.handle))
	}
	return j, nil
}

// ownerOf is a Job as the owner of what goes with it.
func ownerOf(j api.Job) api.Owner {
	return api.Owner{APIVersion: "batch/v1", Kind: "Job", Name: j.Metadata.Name, UID: j.Metadata.UID}
}

// isStarting says whether a Job has no pods yet, as its Start has not come to its end.
func isStarting(j api.Job) bool { return j.Metadata.Annotations[annotationStarting] != "" }

// startPods has Kubernetes start the pods of a Job for which all is there. After a Stop that came
// meanwhile they end by its order.
func (d *Driver) startPods(ctx context.Context, c *api.Client, s site, p placed) error {
	patch := object{"metadata": object{"annotations": object{annotationStarting: nil}}, "spec": object{"parallelism": p.request.Agents}}
	return c.Merge(ctx, api.Jobs, s.namespace, objectName(p.handle), patch, nil)
}

// complete makes what the pods of a Job wait for.
func (d *Driver) complete(ctx context.Context, c *api.Client, s site, p *placed, owner api.Owner, secrets, credential []byte) error {
	if p.options.agentImage == "" {
		if err := p.program.Store(ctx, c, s.namespace, owner); err != nil {
			return err
		}
	}
	m, err := p.orders(owner)
	if err != nil {
		return err
	}
	err = c.Create(ctx, api.ConfigMaps, s.namespace, m, nil)
	if api.IsCode(err, http.StatusConflict) { // a Stop may have come first
		err = c.Merge(ctx, api.ConfigMaps, s.namespace, m.Metadata.Name, object{"data": object{pod.OrdersKey: m.Data[pod.OrdersKey]}}, nil)
	}
	if err != nil {
		return err
	}
	err = c.Create(ctx, api.Secrets, s.namespace, secret(p.handle, owner, secrets, credential), nil)
	if api.IsCode(err, http.StatusConflict) && credential != nil {
		return c.Merge(ctx, api.Secrets, s.namespace, objectName(p.handle), object{"data": secretData(nil, credential)}, nil)
	}
	if api.IsCode(err, http.StatusConflict) {
		return nil
	}
	return err
}

func jsonText(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}
