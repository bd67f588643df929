package kube

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
)

// podOf is a pod with a status as Kubernetes shows it.
func podOf(t *testing.T, status string) (p api.Pod) {
	t.Helper()
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"drover-x-1-0-abcde"},"spec":{"nodeName":"node-1"},"status":`+status+`}`), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	taken      = `"conditions":[{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI","message":"Eviction API: evicting"}]`
	terminated = `{"phase":"Failed","containerStatuses":[{"name":"agent","state":{"terminated":`
)

// The words are those of Kubernetes 1.36; that of a pod's own disk limit is from its source.
func TestWhatKubernetesSaysOfAPodIsWhatItsAgentIs(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		stop   bool
		want   driver.Member
	}{
		"no node": {`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available."}]}`, false,
			driver.Member{State: driver.Waiting, Reason: "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available.", Hint: "Ask for fewer: --cpus; drover offers kube shows what nodes have."}},
		"not looked at": {`{"phase":"Pending"}`, false, driver.Member{State: driver.Waiting, Reason: "its pod starts on node-1"}},
		"image": {`{"phase":"Pending","initContainerStatuses":[{"name":"prepare","state":{"waiting":{"reason":"ErrImagePull","message":"failed to pull and unpack image \"x.test/a:1\": no such host"}}}]}`, false,
			driver.Member{State: driver.Waiting, Reason: `the image cannot be pulled: failed to pull and unpack image "x.test/a:1": no such host`, Hint: "Check --image, and whether the cluster may pull it: --target-arg pull-secret=NAME."}},
		"image again": {`{"phase":"Pending","initContainerStatuses":[{"name":"prepare","state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image \"x.test/a:1\": ErrImagePull: failed to pull and unpack image \"x.test/a:1\": no such host"}}}]}`, false,
			driver.Member{State: driver.Waiting, Reason: `the image cannot be pulled: failed to pull and unpack image "x.test/a:1": no such host`, Hint: "Check --image, and whether the cluster may pull it: --target-arg pull-secret=NAME."}},
		"root": {`{"phase":"Pending","containerStatuses":[{"name":"agent","state":{"waiting":{"reason":"CreateContainerConfigError","message":"container has runAsNonRoot and image will run as root (pod: x)"}}}]}`, false,
			driver.Member{State: driver.Waiting, Reason: "CreateContainerConfigError: container has runAsNonRoot and image will run as root (pod: x)", Hint: "Name a user: --target-arg user=UID, or user=image for an image with a number."}},
		"runs":           {`{"phase":"Running","containerStatuses":[{"name":"agent","state":{"running":{}}}]}`, false, driver.Member{State: driver.Running}},
		"ended":          {terminated + `{"exitCode":0,"message":"{\"code\":0,\"reason\":\"exit status 0\"}"}}}]}`, false, driver.Member{State: driver.Ended, Code: 0, Reason: "exit status 0"}},
		"ended badly":    {terminated + `{"exitCode":1,"message":"{\"code\":1,\"reason\":\"exit status 1\",\"tail\":\"no disk\"}"}}}]}`, false, driver.Member{State: driver.Ended, Code: 1, Reason: "exit status 1", Tail: "no disk"}},
		"stopped":        {terminated + `{"exitCode":0,"message":"{\"code\":5,\"reason\":\"exit status 5\",\"stopped\":true}"}}}]}`, true, driver.Member{State: driver.Ended, Code: 5, Reason: "stopped: exit status 5"}},
		"stop came":      {terminated + `{"exitCode":0,"message":"{\"code\":-1,\"reason\":\"stopped before it began\",\"stopped\":true,\"unbegun\":true}"}}}]}`, true, driver.Member{State: driver.Ended, Code: -1, Reason: "stopped before it began"}},
		"evicted":        {`{"phase":"Failed",` + taken + `,"containerStatuses":[{"name":"agent","state":{"terminated":{"exitCode":75,"message":"{\"code\":75,\"reason\":\"left\",\"warned\":true}"}}}]}`, false, driver.Member{State: driver.Taken, Reason: "Kubernetes took it: it was evicted: Eviction API: evicting"}},
		"deleted":        {terminated + `{"exitCode":75,"message":"{\"code\":75,\"reason\":\"left\",\"warned\":true}"}}}]}`, false, driver.Member{State: driver.Taken, Code: 75, Reason: "its pod was deleted"}},
		"memory":         {terminated + `{"exitCode":137,"reason":"OOMKilled"}}}]}`, false, driver.Member{State: driver.Lost, Reason: "the pod needed more memory than its limit", Hint: "Ask for more: --memory."}},
		"process 1":      {terminated + `{"exitCode":137,"reason":"Error"}}}]}`, false, driver.Member{State: driver.Lost, Reason: "it died without reporting why, or was killed: exit status 137"}},
		"the agent":      {terminated + `{"exitCode":137,"message":"{\"code\":137,\"reason\":\"signal: killed\",\"lost\":true}"}}}]}`, false, driver.Member{State: driver.Lost, Reason: "its agent died without reporting why, or was killed: signal: killed"}},
		"another's":      {terminated + `{"exitCode":3,"message":"panic"}}}]}`, false, driver.Member{State: driver.Ended, Code: 3, Reason: "exit status 3", Tail: "panic"}},
		"cannot start":   {terminated + `{"exitCode":128,"reason":"StartError","message":"exec: \"nope\": executable file not found in $PATH: unknown"}}}]}`, false, driver.Member{State: driver.Ended, Reason: `never came up: exec: "nope": executable file not found in $PATH: unknown`, Tail: `exec: "nope": executable file not found in $PATH: unknown`}},
		"not prepared":   {`{"phase":"Failed","initContainerStatuses":[{"name":"prepare","state":{"terminated":{"exitCode":127,"message":"gzip: not found"}}}]}`, false, driver.Member{State: driver.Ended, Code: 127, Reason: "never came up: its pod could not be prepared: exit status 127: gzip: not found", Tail: "gzip: not found"}},
		"taken early":    {`{"phase":"Failed",` + strings.Replace(taken, "EvictionByEvictionAPI", "PreemptionByScheduler", 1) + `}`, false, driver.Member{State: driver.Taken, Reason: "Kubernetes took it: a pod of higher priority took its place: Eviction API: evicting"}},
		"its disk":       {`{"phase":"Failed","reason":"Evicted","message":"Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "}`, false, driver.Member{State: driver.Lost, Reason: "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.", Hint: "Ask for more: --disk."}},
		"no words":       {`{"phase":"Failed"}`, false, driver.Member{State: driver.Lost, Reason: "its pod ended before the agent had started"}},
		"a stop early":   {`{"phase":"Failed"}`, true, driver.Member{State: driver.Ended, Reason: "stopped before it began"}},
		"waits, to stop": {`{"phase":"Pending"}`, true, driver.Member{State: driver.Ended, Reason: "stopped before it began"}},
	} {
		if c.want.State != driver.Ended && c.want.Code == 0 || strings.HasPrefix(c.want.Reason, "stopped before") || strings.HasPrefix(c.want.Reason, "never came up: exec") {
			c.want.Code = -1
		}
		c.want.Where = "node-1"
		if diff := cmp.Diff(c.want, view{stop: c.stop}.judge(podOf(t, c.status))); diff != "" {
			t.Errorf("%s: difference:\n%s", name, diff)
		}
	}
}

func TestTheReasonsOfDisruptionsAreSaid(t *testing.T) {
	for reason, want := range map[string]string{
		"DeletionByTaintManager": "Kubernetes took it: its node was tainted", "TerminationByKubelet": "Kubernetes took it: its node ended it",
		"DeletionByPodGC": "Kubernetes took it: its node is gone", "Other": "Kubernetes took it: Other",
	} {
		if got := takenWords(api.Condition{Reason: reason}); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

func TestAPodOfASilentNodeIsTaken(t *testing.T) {
	p := podOf(t, `{"phase":"Running","containerStatuses":[{"name":"agent","state":{"running":{}}}]}`)
	p.Metadata.DeletionTimestamp = time.Date(2026, 11, 27, 10, 31, 0, 0, time.Local)
	if m := (view{}).judge(p); m.State != driver.Taken || m.Reason != "node node-1 is silent since 10:31" {
		t.Errorf("%+v", m)
	}
	v := attempts(t, [3]string{"0", "", running})
	v.pods[0].Metadata.DeletionTimestamp = p.Metadata.DeletionTimestamp
	if all := v.members(driver.Handle{}); len(all) != 1 || all[0].State != driver.Taken {
		t.Errorf("Kubernetes starts no other before the Node is deleted: %+v", all)
	}
	p.Metadata.DeletionTimestamp = time.Now().Add(time.Hour)
	if m := (view{}).judge(p); m.State != driver.Running || m.Reason != "its pod is to go" {
		t.Errorf("%+v", m)
	}
	p = podOf(t, `{"phase":"Pending"}`)
	p.Spec.NodeName = ""
	if m := (view{}).judge(p); m.Reason != "its pod has no node yet" || m.Where != "drover-x-1-0-abcde" {
		t.Errorf("%+v", m)
	}
}

// attempts is a placement of one agent with these pods, each with its counters and its status.
func attempts(t *testing.T, pods ...[3]string) (v view) {
	t.Helper()
	v.job.Spec.Completions, v.job.Spec.Parallelism = 1, 1
	for i, row := range pods {
		p := podOf(t, row[2])
		p.Metadata.Annotations = map[string]string{annotationIndex: "0", annotationFailed: row[0], annotationIgnored: row[1]}
		p.Metadata.CreationTimestamp = time.Unix(int64(i), 0)
		v.pods = append(v.pods, p)
	}
	return v
}

const running = `{"phase":"Running","containerStatuses":[{"name":"agent","state":{"running":{}}}]}`

func TestEachPodOfAnIndexIsAnAgentOfItsOwn(t *testing.T) {
	h := driver.Handle{Target: Name, Detail: "train@prod@https://10.0.0.1", Job: "abcd2345abcd2345", Placement: 1}
	lost := terminated + `{"exitCode":137,"reason":"Error"}}}]}`
	gone := func(n int, s driver.State, why string) driver.Member {
		return driver.Member{Index: n, State: s, Code: -1, Reason: why}
	}
	known := driver.Member{Index: 0, State: driver.Lost, Code: -1, Reason: "it died without reporting why, or was killed: exit status 137", Where: "node-1"}
	for name, c := range map[string]struct {
		view view
		want []driver.Member
	}{
		"replaced": {attempts(t, [3]string{"0", "", lost}, [3]string{"1", "", running}),
			[]driver.Member{known, {Index: 1, State: driver.Running, Code: -1, Where: "node-1"}}},
		"to be replaced": {attempts(t, [3]string{"0", "", lost}), []driver.Member{known, gone(1, driver.Waiting, "Kubernetes starts another pod in its place")}},
		"pods are gone": {attempts(t, [3]string{"1", "1", running}),
			[]driver.Member{gone(0, driver.Taken, "Kubernetes took its machine away, or it left"), gone(1, driver.Lost, "its pod is gone"), {Index: 2, State: driver.Running, Code: -1, Where: "node-1"}}},
		"suspended and resumed": {attempts(t, [3]string{"0", "", lost}, [3]string{"0", "", running}), []driver.Member{{Index: 0, State: driver.Running, Code: -1, Where: "node-1"}}},
		"no pod yet":            {attempts(t), []driver.Member{gone(0, driver.Waiting, "")}},
	} {
		got := c.view.members(h)
		for i := range got {
			if got[i].State == driver.Running && strings.Join(got[i].Enter, " ") != "kubectl --context prod --namespace train exec -i drover-x-1-0-abcde -c agent -- /drover/drover enter abcd2345abcd2345 1 "+string(rune('0'+got[i].Index))+" --" {
				t.Errorf("%s: the way in is %q", name, got[i].Enter)
			}
			got[i].Enter = nil
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: difference:\n%s", name, diff)
		}
	}
}

func TestAnIndexWithoutAPodIsWhatItsJobSays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*view)
		state  driver.State
		reason string
	}{
		"stopped":   {func(v *view) { v.stop = true }, driver.Ended, "stopped before it began"},
		"completed": {func(v *view) { v.job.Status.CompletedIndexes = "0" }, driver.Ended, "ended; its pod is gone"},
		"failed":    {func(v *view) { v.job.Status.FailedIndexes = "0-3" }, driver.Lost, "failed; its pod is gone"},
		"suspended": {func(v *view) { v.job.Spec.Suspend = true }, driver.Waiting, "the Job is suspended"},
		"held back": {func(v *view) {
			v.job.Spec.Suspend = true
			v.job.Status.Conditions = []api.Condition{{Type: "Suspended", Status: "True", Message: "Job\nsuspended"}}
		}, driver.Waiting, "the Job is suspended: Job suspended"},
		"suspended by Kueue": {func(v *view) {
			v.job.Spec.Suspend, v.job.Metadata.Name, v.job.Metadata.Labels = true, "drover-x-1", map[string]string{labelQueue: "gpus"}
			v.events = make([]api.Event, 2)
			v.events[0].About.Name, v.events[0].Message = "job-drover-x-1-e32cb", "insufficient unused quota for cpu in flavor default,\n200m more needed" // words of Kueue 0.14.0
			v.events[1].About.Name, v.events[1].Message = "job-drover-y-1-0bdde", "of another Job"
		}, driver.Waiting, "Kueue holds the Job back in queue gpus: insufficient unused quota for cpu in flavor default, 200m more needed"},
		"given up": {func(v *view) {
			v.job.Spec.Parallelism, v.job.Metadata.Annotations = 0, map[string]string{annotationGaveUp: "no PriorityClass with name nope was found"}
		}, driver.Ended, "never came up: no PriorityClass with name nope was found"},
		"refused": {func(v *view) {
			v.events = []api.Event{{Reason: "FailedCreate", Message: "no PriorityClass with name nope was found"}}
		}, driver.Waiting, "no PriorityClass with name nope was found"},
	} {
		v := attempts(t)
		c.change(&v)
		if m := v.members(driver.Handle{})[0]; m.State != c.state || m.Reason != c.reason {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// For ten minutes nothing happens but that Kubernetes tries again what only a person can mend.
func TestAPlacementThatNeverComesUpIsGivenUp(t *testing.T) {
	const (
		noImage  = `"initContainerStatuses":[{"name":"prepare","state":{"waiting":{"reason":"ImagePullBackOff","message":"x"}}}]`
		starting = `"initContainerStatuses":[{"name":"prepare","state":{"waiting":{"reason":"PodInitializing"}}}]`
	)
	now := time.Now()
	pending := func(minutes int, rest string) string {
		return `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"` + now.Add(-time.Duration(minutes)*time.Minute).UTC().Format(time.RFC3339) + `"}],` + rest + `}`
	}
	mount := []api.Event{{Reason: "FailedMount", Message: `persistentvolumeclaim "nope" not found`}}
	mount[0].About.Name = "drover-x-1-0-abcde"
	pulling := append(slices.Clone(mount), api.Event{Reason: "Pulling", Message: "Pulling image", Last: now}) // that list may be in any order
	pulling[1].About.Name = mount[0].About.Name
	slices.Reverse(pulling)
	refusal := func(text string) []api.Event { return []api.Event{{Reason: "FailedCreate", Message: text}} }
	for name, c := range map[string]struct {
		view   view
		events []api.Event
		want   string
	}{
		"no image":                       {view: attempts(t, [3]string{"0", "", pending(11, noImage)}), want: "the image cannot be pulled: x"},
		"soon":                           {view: attempts(t, [3]string{"0", "", pending(9, noImage)})},
		"another one runs":               {view: attempts(t, [3]string{"0", "", pending(11, noImage)}, [3]string{"0", "", running})},
		"one ran":                        {view: attempts(t, [3]string{"1", "", pending(11, noImage)})},
		"no node":                        {view: attempts(t, [3]string{"0", "", `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","message":"0/1 nodes"}]}`})},
		"a slow image":                   {view: attempts(t, [3]string{"0", "", pending(11, starting)})},
		"a mount":                        {view: attempts(t, [3]string{"0", "", pending(11, starting)}), events: mount, want: `persistentvolumeclaim "nope" not found`},
		"a mount, and then a slow image": {view: attempts(t, [3]string{"0", "", pending(11, starting)}), events: pulling},
		"no image, and a slow one":       {view: attempts(t, [3]string{"0", "", pending(11, noImage)}, [3]string{"0", "", pending(11, starting)}), events: pulling},
		"no pod":                         {view: attempts(t), events: refusal("no PriorityClass with name nope was found"), want: "no PriorityClass with name nope was found"},
		"a quota is exhausted":           {view: attempts(t), events: refusal("exceeded quota: compute")},
	} {
		c.view.events, c.view.job.Status.StartTime = c.events, now.Add(-11*time.Minute)
		if got := c.view.hopeless(now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
