package kube

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/driver/kube/pod"
	"github.com/drover-run/drover/driver/kube/words"
	"github.com/drover-run/drover/fault"
)

// The annotations and labels of pods that the Job controller writes.
const (
	annotationIndex   = "batch.kubernetes.io/job-completion-index"
	annotationFailed  = "batch.kubernetes.io/job-index-failure-count"
	annotationIgnored = "batch.kubernetes.io/job-index-ignored-failure-count"
)

// conditionTaken is the condition of a pod that Kubernetes itself has ended.
const conditionTaken = "DisruptionTarget"

// view is what was seen of a placement.
type view struct {
	at      time.Time
	none    bool // there is no such placement
	deleted bool // it was there, and not drover deleted it
	job     api.Job
	pods    []api.Pod
	stop    bool        // a Stop was ordered
	events  []api.Event // of the Job where it has no pods or is suspended, else of a pod that waits
	waits   bool        // for an agent, of which the Job and events may tell more though no pod changes
}

// goodFor is how long a view may be used again: the larger a placement, the more its list costs.
func goodFor(agents int) time.Duration { return time.Second + time.Duration(agents)*2*time.Millisecond }

// forget drops what was seen of a placement, which has just changed.
func (d *Driver) forget(h driver.Handle) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.views, h)
}

// look reads a placement: its Job, its pods, and what they are told.
func (d *Driver) look(ctx context.Context, c *api.Client, s site, h driver.Handle) (v view, err error) {
	d.mu.Lock()
	before, w := d.views[h], d.watches[h]
	d.mu.Unlock()
	if w != nil {
		w.look(false)
	}
	if before.good(w) {
		return before, nil
	}
	if w != nil {
		w.look(true)
		defer func() {
			if err != nil {
				w.note() // what has changed is still to be seen
			}
		}()
	}
	v = view{at: time.Now()}
	err = c.Get(ctx, api.Jobs, s.namespace, objectName(h), &v.job)
	if api.IsCode(err, http.StatusNotFound) {
		return d.viewWithoutJob(h, before), nil
	}
	if err != nil {
		return v, err
	}
	if own, ok := handleOf(s, v.job.Metadata.Labels); !ok || own != h || !v.job.Metadata.DeletionTimestamp.IsZero() {
		v.none = true // it is not ours, or is being removed
		return v, nil
	}
	// In this order: a pod that a later list does not have any more has counted in the Job by then.
	var version string
	if v.pods, version, err = api.ListFrom[api.Pod](ctx, c, api.Pods, s.namespace, ofPlacement(h)); err != nil {
		return v, err
	}
	var m api.ConfigMap
	if err = c.Get(ctx, api.ConfigMaps, s.namespace, objectName(h), &m); err != nil && !api.IsCode(err, http.StatusNotFound) {
		return v, err
	}
	_, v.stop = m.Data[pod.StopKey]
	if selector := v.eventSelector(); selector != "" {
		// An event says more, and may be missing.
		v.events, _ = api.ListAll[api.Event](ctx, c, api.Events, s.namespace, map[string][]string{"fieldSelector": {selector}})
	}
	members := v.members(h)
	v.waits = slices.ContainsFunc(members, func(m driver.Member) bool { return m.State == driver.Waiting })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.views[h] = v
	if w := d.watches[h]; (w == nil || w.mayBeginAnew()) && folder.AnyAlive(members) {
		d.watches[h] = watchPods(c, s, h, version)
	}
	return v, nil
}

// good says whether a view may be used again: a moment, and with a watch while nothing changes.
func (v view) good(w *watch) bool {
	age := time.Since(v.at)
	switch {
	case v.at.IsZero():
		return false
	case age < goodFor(v.job.Spec.Completions):
		return true
	case w == nil || !w.quiet() || v.deleted:
		return false
	}
	return !v.waits || age < watchedFor
}

// viewWithoutJob is what is known of a placement that has no Job any more. Where this process saw
// agents that were to go on, another party has deleted it.
func (d *Driver) viewWithoutJob(h driver.Handle, before view) view {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.watches[h]; w != nil {
		w.end()
		delete(d.watches, h)
	}
	if !before.deleted && (before.job.Metadata.Labels[labelRemove] != "" || !folder.AnyAlive(before.members(h))) {
		return view{at: time.Now(), none: true}
	}
	before.at, before.deleted = time.Now(), true
	d.views[h] = before
	return before
}

// eventsAfter is how long something may wait before events are read to explain it.
const eventsAfter = 15 * time.Second

// eventSelector selects the events that tell what an object waits for which does not say it itself; "":
// none does.
func (v view) eventSelector() string {
	const object = "involvedObject.name="
	if v.job.Spec.Suspend && v.job.Metadata.Labels[labelQueue] != "" {
		return "involvedObject.kind=Workload,reason=Pending" // Kueue's own object for a Job has a name that Kueue chooses
	}
	if len(v.pods) == 0 {
		if v.ended() || v.job.Spec.Suspend || v.job.Spec.Parallelism == 0 || time.Since(v.job.Metadata.CreationTimestamp) < eventsAfter/3 {
			return ""
		}
		return object + v.job.Metadata.Name
	}
	for _, p := range v.pods {
		if since := api.Since(p.Status.Conditions, "PodScheduled"); p.Status.Phase == "Pending" && !since.IsZero() && time.Since(since) > eventsAfter &&
			waitsFor(p, nil).reason == startsOn(p) {
			return object + p.Metadata.Name
		}
	}
	return ""
}

// ended says whether Kubernetes is through with the Job.
func (v view) ended() bool {
	_, complete := api.Find(v.job.Status.Conditions, "Complete")
	_, failed := api.Find(v.job.Status.Conditions, "Failed")
	return complete || failed
}

// members are the agents of a placement, in the order of their numbers.
func (v view) members(h driver.Handle) (all []driver.Member) {
	agents := v.job.Spec.Completions
	byIndex := make([][]api.Pod, agents)
	for _, p := range v.pods {
		if i, err := strconv.Atoi(p.Metadata.Annotations[annotationIndex]); err == nil && i >= 0 && i < agents {
			byIndex[i] = append(byIndex[i], p)
		}
	}
	completed, failed := api.ParseIndexes(v.job.Status.CompletedIndexes), api.ParseIndexes(v.job.Status.FailedIndexes)
	for i, pods := range byIndex {
		all = append(all, v.membersOf(h, i, pods, completed.Has(i), failed.Has(i))...)
	}
	slices.SortFunc(all, func(a, b driver.Member) int { return cmp.Compare(a.Index, b.Index) })
	for i, m := range all {
		if v.deleted && m.State.Alive() {
			all[i] = driver.Member{Index: m.Index, State: driver.Ended, Code: -1, Where: m.Where, Reason: "deleted in Kubernetes"}
		}
	}
	return all
}

// attempt is how many pods of its index Kubernetes started before this one, and how many of them
// it did not count as failures.
func attempt(p api.Pod) (n, ignored int) {
	failed, _ := strconv.Atoi(p.Metadata.Annotations[annotationFailed]) // absent: none
	ignored, _ = strconv.Atoi(p.Metadata.Annotations[annotationIgnored])
	return failed + ignored, ignored
}

// membersOf are the agents of one index.
func (v view) membersOf(h driver.Handle, i int, pods []api.Pod, completed, failed bool) (all []driver.Member) {
	agents := v.job.Spec.Completions
	byAttempt := map[int]driver.Member{}
	newest, ignored, silent := -1, 0, false
	slices.SortFunc(pods, func(a, b api.Pod) int { return a.Metadata.CreationTimestamp.Compare(b.Metadata.CreationTimestamp) })
	for _, p := range pods { // of two with the same number, as after a suspension, the newer one stands
		n, ign := attempt(p)
		m := v.judge(p)
		m.Index, m.Enter = pod.Number(i, agents, n), v.enter(h, p, m, pod.Number(i, agents, n))
		byAttempt[n] = m
		if n >= newest {
			silent = !m.State.Alive() && isOpen(p)
		}
		newest, ignored = max(newest, n), max(ignored, ign)
	}
	gone := func(n int, m driver.Member) driver.Member { m.Index, m.Code = pod.Number(i, agents, n), -1; return m }
	if newest < 0 {
		return []driver.Member{gone(0, v.unstarted(completed, failed))}
	}
	for n := range newest {
		if m, ok := byAttempt[n]; ok {
			all = append(all, m)
			if m.State == driver.Taken {
				ignored--
			}
		}
	}
	for n := range newest { // pods that are gone are told from the counters of the newest
		if _, ok := byAttempt[n]; ok {
			continue
		}
		m := driver.Member{State: driver.Lost, Reason: "its pod is gone"}
		if ignored > 0 {
			ignored--
			m = driver.Member{State: driver.Taken, Reason: "Kubernetes took its machine away, or it left"}
		}
		all = append(all, gone(n, m))
	}
	last := byAttempt[newest]
	all = append(all, last)
	if !silent && v.replaces(last, completed || failed) { // in the place of a silent one only when its Node is deleted
		all = append(all, gone(newest+1, driver.Member{State: driver.Waiting, Reason: "Kubernetes starts another pod in its place"}))
	}
	return all
}

// isOpen says whether a pod has not ended as far as Kubernetes knows: its node may be silent.
func isOpen(p api.Pod) bool {
	return (p.Status.Phase == "Pending" || p.Status.Phase == "Running") && containerOf(p.Status.ContainerStatuses, agentContainer).State.Terminated == nil
}

// replaces says whether Kubernetes will start another agent in the place of one.
func (v view) replaces(m driver.Member, done bool) bool {
	switch {
	case m.State.Alive() || done || v.stop || v.ended() || v.job.Spec.Parallelism == 0 || v.job.Metadata.Labels[labelRemove] != "":
		return false
	case m.State == driver.Ended:
		return m.Code == fault.ExitLater
	}
	return true
}

// unstarted is the member of an index without a pod.
func (v view) unstarted(completed, failed bool) driver.Member {
	switch {
	case v.gaveUp() != "":
		return v.neverUp()
	case isStarting(v.job) && !v.stop && v.job.Metadata.Labels[labelRemove] == "":
		return driver.Member{State: driver.Waiting, Reason: "what its pods need is being sent"}
	case v.stop || v.job.Spec.Parallelism == 0 || v.job.Metadata.Labels[labelRemove] != "":
		return driver.Member{State: driver.Ended, Reason: "stopped before it began"}
	case completed:
		return driver.Member{State: driver.Ended, Reason: "ended; its pod is gone"}
	case failed:
		return driver.Member{State: driver.Lost, Reason: "failed; its pod is gone"}
	case v.job.Spec.Suspend:
		return driver.Member{State: driver.Waiting, Reason: v.suspended()}
	}
	w := v.refusedPods()
	return driver.Member{State: driver.Waiting, Reason: w.reason, Hint: w.hint}
}

// suspended says why a Job is suspended: Kueue holds it back until its queue has room.
func (v view) suspended() string {
	for _, e := range slices.Backward(v.events) {
		if strings.HasPrefix(e.About.Name, "job-"+v.job.Metadata.Name+"-") {
			return "Kueue holds the Job back in queue " + v.job.Metadata.Labels[labelQueue] + ": " + words.OneLine(e.Message)
		}
	}
	if c, ok := api.Find(v.job.Status.Conditions, "Suspended"); ok && c.Message != "" {
		return "the Job is suspended: " + words.OneLine(c.Message)
	}
	return "the Job is suspended"
}

// refusedPods says why the Job has no pods: the newest event that tells.
func (v view) refusedPods() wait {
	for _, e := range slices.Backward(v.events) {
		if e.Reason == "FailedCreate" {
			return stuck(e.Message)
		}
	}
	return wait{}
}

// enter is kubectl's own command, with the context and the namespace of the job.
func (v view) enter(h driver.Handle, p api.Pod, m driver.Member, number int) []string {
	if m.State != driver.Running {
		return nil
	}
	s, err := parseSite(h.Detail)
	if err != nil {
		return nil
	}
	line := []string{"kubectl"}
	if s.context != "" && s.context != inCluster {
		line = append(line, "--context", s.context)
	}
	line = append(line, "--namespace", s.namespace, "exec", "-i")
	if terminal() {
		line[len(line)-1] = "-it"
	}
	return append(append(line, p.Metadata.Name, "-c", agentContainer, "--"), h.Enter(pod.Program, number)...)
}
