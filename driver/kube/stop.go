package kube

import (
	"context"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/driver/kube/pod"
)

const (
	// mostTouched is how many pods are touched, so that their kubelets bring the order at once;
	// those of others do so within 90 s.
	mostTouched = 256
	// touchedAtOnce is how many requests that takes at a time.
	touchedAtOnce = 32
)

// Stop writes the order into the placement's ConfigMap, where process 1 of each pod reads it, and
// touches the pods, which makes their kubelets look. Where nothing runs, it makes Kubernetes start
// nothing more; with remove, the Job is then deleted, and what it owns with it.
func (d *Driver) Stop(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
	const doing = "stop agents"
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !names(h) {
		return nil
	}
	c, s, err := d.dial(h.Detail, true)
	if err != nil {
		return err
	}
	defer d.forget(h)
	told, owner, err := findOrders(ctx, c, s, h)
	if err != nil || owner.UID == "" {
		return refused(doing, s, err)
	}
	if err := orderStop(ctx, c, s, h, told, owner, grace); err != nil {
		return refused(doing, s, err)
	}
	v := view{at: time.Now(), stop: true}
	if v.pods, err = api.ListAll[api.Pod](ctx, c, api.Pods, s.namespace, ofPlacement(h)); err != nil {
		return refused(doing, s, err)
	}
	meta, spec := object{}, object{}
	if remove {
		meta["labels"] = object{labelRemove: "yes"}
		spec["ttlSecondsAfterFinished"] = ttlAfterRemove
	}
	if !slices.ContainsFunc(v.pods, begins) {
		spec["parallelism"] = 0 // and no pod that waits is left
		meta["annotations"] = object{annotationStarting: nil}
	}
	if len(spec) > 0 {
		patch := object{"metadata": meta, "spec": spec}
		if err := c.Merge(ctx, api.Jobs, s.namespace, objectName(h), patch, &v.job); err != nil {
			if api.IsCode(err, http.StatusNotFound) {
				return nil
			}
			return refused(doing, s, err)
		}
		if remove && !folder.AnyAlive(v.members(h)) {
			return refused(doing, s, d.takeAway(ctx, c, s, h, v))
		}
	}
	return refused(doing, s, touch(ctx, c, s, v.pods))
}

// findOrders finds what the pods of a placement are told, and the Job that it belongs to. told is nil
// where a Start has not come so far; owner is empty where there is no such placement.
func findOrders(ctx context.Context, c *api.Client, s site, h driver.Handle) (told *api.ConfigMap, owner api.Owner, err error) {
	var m api.ConfigMap
	err = c.Get(ctx, api.ConfigMaps, s.namespace, objectName(h), &m)
	if err == nil {
		if own, ok := handleOf(s, m.Metadata.Labels); ok && own == h && len(m.Metadata.OwnerReferences) == 1 {
			return &m, m.Metadata.OwnerReferences[0], nil
		}
		return nil, owner, nil
	}
	if !api.IsCode(err, http.StatusNotFound) {
		return nil, owner, err
	}
	var j api.Job
	err = c.Get(ctx, api.Jobs, s.namespace, objectName(h), &j)
	if own, ok := handleOf(s, j.Metadata.Labels); err == nil && ok && own == h && j.Metadata.DeletionTimestamp.IsZero() {
		owner = ownerOf(j)
	}
	if api.IsCode(err, http.StatusNotFound) {
		err = nil
	}
	return nil, owner, err
}

// ttlAfterRemove is how long Kubernetes keeps a Job that is to be removed after it has ended, in
// seconds, where no command takes it away before.
const ttlAfterRemove = 60

// begins says whether a pod runs, or may begin at any moment.
func begins(p api.Pod) bool {
	agent, prepare := containerOf(p.Status.ContainerStatuses, agentContainer), containerOf(p.Status.InitContainerStatuses, initContainer)
	return p.Status.Phase == "Running" || p.Status.Phase == "Pending" && (agent.State.Running != nil || prepare.State.Running != nil || prepare.State.Terminated != nil)
}

// orderStop writes the grace into the ConfigMap. Of several Stops the shortest stands.
func orderStop(ctx context.Context, c *api.Client, s site, h driver.Handle, told *api.ConfigMap, owner api.Owner, grace time.Duration) error {
	name, grace := objectName(h), max(grace, 0)
	for {
		var err error
		if told == nil { // its Start has not come so far, or died
			err = c.Create(ctx, api.ConfigMaps, s.namespace, api.ConfigMap{Metadata: api.Meta{Name: name, Labels: labels(h), OwnerReferences: []api.Owner{owner}},
				Data: map[string]string{pod.StopKey: grace.String()}}, nil)
		} else {
			if before, err := time.ParseDuration(told.Data[pod.StopKey]); err == nil && before <= grace {
				return nil
			}
			patch := object{"metadata": object{"resourceVersion": told.Metadata.ResourceVersion}, "data": object{pod.StopKey: grace.String()}}
			err = c.Merge(ctx, api.ConfigMaps, s.namespace, name, patch, nil)
		}
		if !api.IsCode(err, http.StatusConflict) && !(told != nil && api.IsCode(err, http.StatusNotFound)) {
			return err
		}
		var m api.ConfigMap
		told = nil
		err = c.Get(ctx, api.ConfigMaps, s.namespace, name, &m)
		if err == nil {
			told = &m
		} else if !api.IsCode(err, http.StatusNotFound) {
			return err
		}
	}
}

// touch changes an annotation of each pod that runs. A pod that is gone meanwhile is no error.
func touch(ctx context.Context, c *api.Client, s site, pods []api.Pod) error {
	running := slices.DeleteFunc(slices.Clone(pods), func(p api.Pod) bool { return !begins(p) })
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(touchedAtOnce)
	patch := object{"metadata": object{"annotations": object{annotationRead: time.Now().UTC().Format(time.RFC3339Nano)}}}
	for _, p := range running[:min(len(running), mostTouched)] {
		all.Go(func() error {
			err := c.Merge(ctx, api.Pods, s.namespace, p.Metadata.Name, patch, nil)
			if api.IsCode(err, http.StatusNotFound) {
				return nil
			}
			return err
		})
	}
	return all.Wait()
}
