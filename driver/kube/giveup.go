package kube

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/driver/kube/words"
)

const (
	// patience is how long a placement of which nothing ever came up may wait for a person, such
	// as for an image that is not there: Kubernetes itself would try for ever.
	patience = 10 * time.Minute
	// mostReason is how much of a reason is kept, in bytes.
	mostReason = 2000
	// annotationGaveUp is why a placement was given up.
	annotationGaveUp = "drover.run/gave-up"
)

// gaveUp is why the placement was given up; "": it was not.
func (v view) gaveUp() string { return v.job.Metadata.Annotations[annotationGaveUp] }

// neverUp is the member of an agent of a placement that was given up.
func (v view) neverUp() driver.Member {
	_, hint := words.Explain(v.gaveUp())
	return driver.Member{State: driver.Ended, Code: -1, Reason: "never came up: " + v.gaveUp(), Hint: hint}
}

// hopeless says why a placement is to be given up: for the time of patience, every pod that it has, or
// the Job itself, has waited for a person, and no agent was ever up. "": it is not.
func (v view) hopeless(now time.Time) string {
	j := v.job
	if v.none || v.deleted || v.stop || v.ended() || j.Spec.Suspend || j.Spec.Parallelism == 0 || j.Status.CompletedIndexes+j.Status.FailedIndexes != "" {
		return ""
	}
	if len(v.pods) == 0 {
		if w := v.refusedPods(); w.stuck && !j.Status.StartTime.IsZero() && now.Sub(j.Status.StartTime) > patience {
			return w.reason
		}
		return ""
	}
	var reason string
	for _, p := range v.pods {
		since := api.Since(p.Status.Conditions, "PodScheduled")
		n, _ := attempt(p)
		if n > 0 || p.Status.Phase != "Pending" || since.IsZero() || now.Sub(since) < patience || hasBegun(p) {
			return ""
		}
		w := waitsFor(p, v.events)
		if w.stuck {
			reason = w.reason
		} else if w.reason != startsOn(p) || len(v.events) == 0 || v.events[0].About.Name == p.Metadata.Name {
			return "" // events are read of one pod, and the others wait as it does
		}
	}
	return reason
}

// hasBegun says whether a container of a pod has run.
func hasBegun(p api.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c api.Container) bool {
		return c.State.Running != nil || c.State.Terminated != nil
	})
}

// giveUp has Kubernetes start nothing more of a placement, and notes why.
func (d *Driver) giveUp(ctx context.Context, c *api.Client, s site, h driver.Handle, v *view, reason string) error {
	reason = reason[:min(len(reason), mostReason)]
	patch := object{"metadata": object{"annotations": object{annotationGaveUp: reason}}, "spec": object{"parallelism": 0}}
	err := c.Merge(ctx, api.Jobs, s.namespace, objectName(h), patch, &v.job)
	if api.IsCode(err, http.StatusNotFound) {
		v.none, err = true, nil
	}
	d.forget(h)
	return err
}
