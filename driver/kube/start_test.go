package kube

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"encoding/base64"
	"encoding/json"

	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/driver/kube/kubetest"
	"github.com/drover-run/drover/driver/kube/nodes"
	"github.com/drover-run/drover/driver/kube/pod"
	"github.com/drover-run/drover/driver/kube/program"
	"github.com/drover-run/drover/driver/kube/words"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

var update = flag.Bool("update", false, "write the golden files")

const jobID = "abcd2345abcd2345"

// trial is a fake cluster with a driver on it.
type trial struct {
	*Driver
	*testing.T
	fake    *kubetest.Server
	program string
}

func newTrial(t *testing.T) trial {
	t.Helper()
	fake := kubetest.New(t)
	d := New(t.TempDir())
	d.kubeconfig = fake.Kubeconfig(t)
	program := filepath.Join(t.TempDir(), "drover")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return trial{d, t, fake, program}
}

// request is one for two agents with an image of the agent.
func (x trial) request() driver.Request {
	return driver.Request{Job: jobID, Placement: 1, Agents: 2,
		Needs: driver.Needs{Agents: 2, Args: []string{"agent-image=" + x.program}, Place: driver.Place{Image: "busybox:1"}},
		Run:   driver.Boot{Binary: x.program, Store: "s3://bucket/x", Job: "p/t/" + jobID, Env: []string{"A=$(B)"}}}
}

func (x trial) check(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

// asked counts requests by what they do.
func (x trial) asked() func() []string {
	var mu sync.Mutex
	var all []string
	x.fake.Watch(func(method, resource, _ string) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, method+" "+resource)
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func TestAStartAsksForFewThings(t *testing.T) {
	x := newTrial(t)
	x.fake.Hold()
	asked := x.asked()
	h, err := x.Start(t.Context(), x.request())
	x.check(err)
	if got, want := strings.Join(asked(), ", "), "POST jobs, POST configmaps, POST secrets, PATCH jobs"; got != want {
		t.Errorf("it asks %s; want %s", got, want)
	}
	asked = x.asked()
	x.check(x.Stop(t.Context(), h, time.Second, false))
	if got, want := strings.Join(asked(), ", "), "GET configmaps, PATCH configmaps, GET pods, PATCH jobs"; got != want {
		t.Errorf("a Stop of agents that have not begun asks %s; want %s", got, want)
	}
}

func TestTheProgramIsStoredOnceForANamespace(t *testing.T) {
	x := newTrial(t)
	x.fake.Hold()
	r := x.request()
	r.Needs.Args = nil
	_, err := x.Start(t.Context(), r)
	x.check(err)
	asked := x.asked()
	r.Placement = 2
	_, err = x.Start(t.Context(), r)
	x.check(err)
	if got, want := strings.Join(asked(), ", "), "GET configmaps, POST jobs, PATCH configmaps, POST configmaps, POST secrets, PATCH jobs"; got != want {
		t.Errorf("the second Start asks %s; want %s", got, want)
	}
	for p := 1; p <= 2; p++ {
		x.check(x.Stop(t.Context(), driver.Handle{Target: Name, Detail: "train@fake@" + x.fake.URL(), Job: jobID, Placement: p}, 0, true))
	}
	for _, resource := range []string{"jobs", "pods", "configmaps", "secrets"} {
		if left := x.fake.Objects(resource); len(left) > 0 {
			t.Errorf("of the %s there are left: %v", resource, left)
		}
	}
}

// Kubernetes keeps the pod that it took until the next one is there, and so its agent is told all the time.
func TestATakenAgentStaysTaken(t *testing.T) {
	x := newTrial(t)
	x.fake.BackOff(300 * time.Millisecond)
	x.check(os.WriteFile(x.program, []byte("#!/bin/sh\nif [ $DROVER_KUBE_ROLE = prepare ]; then exec cp $0 $"+pod.Root+"/drover/drover; fi\nexec sleep 60\n"), 0o755))
	h, err := x.Start(t.Context(), x.request())
	x.check(err)
	waiting := time.NewTicker(5 * time.Millisecond)
	defer waiting.Stop()
	look := func(of int) driver.Member {
		<-waiting.C
		x.forget(h)
		members, err := x.Status(t.Context(), h)
		x.check(err)
		if of >= len(members) {
			return driver.Member{State: driver.Waiting}
		}
		return members[of]
	}
	for look(0).State != driver.Running {
	}
	if no := x.fake.Evict(objectName(h), 0); no != nil {
		t.Fatal(no)
	}
	for look(0).State == driver.Running {
	}
	for look(2).State != driver.Running { // number 2 is the second agent of the first index
		if m := look(0); m.State != driver.Taken {
			t.Fatalf("the agent is %+v, and was taken", m)
		}
	}
}

// The command line dies after any request of a Start, and the command is typed again.
func TestAStartThatWasCutOffIsCompleted(t *testing.T) {
	for n := range 8 {
		x := newTrial(t)
		r := x.request()
		if n%2 == 0 {
			r.Needs.Args = nil
		}
		var asked atomic.Int64
		x.fake.Hold()
		x.fake.Refuse(func(string, string) *kubetest.Refusal {
			if asked.Add(1) > int64(n) {
				return &kubetest.Refusal{Code: 500, Message: "the network is gone"}
			}
			return nil
		})
		_, first := x.Start(t.Context(), r)
		x.fake.Refuse(nil)
		h, err := x.Start(t.Context(), r)
		if err != nil {
			t.Fatalf("cut off after %d requests (%v): %v", n, first, err)
		}
		if jobs := x.fake.Objects("jobs"); len(jobs) != 1 || len(x.fake.Objects("secrets")) != 1 || len(x.fake.Objects("pods")) != 2 {
			t.Errorf("cut off after %d requests: %d Jobs, %d pods", n, len(jobs), len(x.fake.Objects("pods")))
		}
		x.check(x.Stop(t.Context(), h, 0, true))
		if left := x.fake.Objects("configmaps"); len(left) > 0 {
			t.Errorf("cut off after %d requests, and stopped: %v", n, left)
		}
	}
}

// The command line dies in the middle of a removal, before or after any of its requests is carried out,
// and the command is typed again.
func TestARemovalThatWasCutOffIsCompleted(t *testing.T) {
	for n := range 14 {
		x := newTrial(t)
		x.fake.Hold()
		r := x.request()
		r.Needs.Args = nil
		h, err := x.Start(t.Context(), r)
		x.check(err)
		var asked atomic.Int64
		late := func() bool { return asked.Add(1) > int64(n/2) }
		if n%2 == 0 {
			x.fake.Refuse(func(string, string) *kubetest.Refusal {
				if late() {
					return &kubetest.Refusal{Code: 500, Message: "the network is gone"}
				}
				return nil
			})
		} else {
			x.fake.LoseAnswers(func(string, string) bool { return late() })
		}
		first := x.Stop(t.Context(), h, time.Minute, true)
		x.fake.Refuse(nil)
		x.fake.LoseAnswers(nil)
		x.check(x.Stop(t.Context(), h, time.Minute, true))
		for _, resource := range []string{"jobs", "pods", "configmaps", "secrets"} {
			if all := x.fake.Objects(resource); len(all) > 0 {
				t.Errorf("cut off at request %d (%v): of the %s there are left: %v", n/2, first, resource, all)
			}
		}
	}
}

func TestTwoLaptopsAtOnceMakeOneJob(t *testing.T) {
	x := newTrial(t)
	x.fake.Hold()
	other := New(t.TempDir())
	other.kubeconfig = x.kubeconfig
	r := x.request()
	r.Needs.Args = nil
	at := func(do func(*Driver) error) {
		t.Helper()
		all := errgroup.Group{}
		for _, d := range []*Driver{x.Driver, other} {
			all.Go(func() error { return do(d) })
		}
		x.check(all.Wait())
	}
	for p := range 10 {
		r.Placement = p + 1
		at(func(d *Driver) error { _, err := d.Start(t.Context(), r); return err })
		if jobs, pods := x.fake.Objects("jobs"), x.fake.Objects("pods"); len(jobs) != 1 || len(pods) != 2 {
			t.Fatalf("there are %d Jobs with %d pods", len(jobs), len(pods))
		}
		h := driver.Handle{Target: Name, Detail: "train@fake@" + x.fake.URL(), Job: jobID, Placement: r.Placement}
		at(func(d *Driver) error { return d.Stop(t.Context(), h, 0, true) })
		for _, resource := range []string{"jobs", "pods", "configmaps", "secrets"} {
			if all := x.fake.Objects(resource); len(all) > 0 {
				t.Fatalf("of the %s there are left: %v", resource, all)
			}
		}
	}
}

// A user deletes the Job of agents that this process has seen at work.
func TestADeletedJobsAgentsHaveEnded(t *testing.T) {
	x := newTrial(t)
	x.fake.Hold()
	h, err := x.Start(t.Context(), x.request())
	x.check(err)
	if members, err := x.Status(t.Context(), h); err != nil || len(members) != 2 || members[0].State != driver.Waiting {
		t.Fatalf("%+v, %v", members, err)
	}
	x.fake.Remove("jobs", "train", objectName(h))
	for range 2 {
		x.views[h] = aged(x.views[h])
		members, err := x.Status(t.Context(), h)
		if err != nil || len(members) != 2 || members[1].State != driver.Ended || members[1].Reason != "deleted in Kubernetes" {
			t.Errorf("%+v, %v", members, err)
		}
	}
	x.check(x.Stop(t.Context(), h, 0, true))
	if members, err := x.Status(t.Context(), h); err != nil || len(members) != 0 {
		t.Errorf("after a removal: %+v, %v", members, err)
	}
}

// A laptop of one kind, and nodes of another: the agents' program is that of the nodes.
func TestAgentsAreForTheNodesProcessor(t *testing.T) {
	x := newTrial(t)
	x.fake.Hold()
	node := func(name, arch string) {
		x.fake.Put("nodes", "", kubetest.Object{"metadata": kubetest.Object{"name": name, "labels": kubetest.Object{"kubernetes.io/arch": arch}}, "status": kubetest.Object{"allocatable": kubetest.Object{"cpu": "8", "memory": "32Gi"}}})
	}
	x.fake.Remove("nodes", "", "node-1")
	node("a", "s390x")
	node("b", "riscv64")
	node("c", "riscv64")
	needs := driver.Needs{Agents: 1, Place: driver.Place{Image: "busybox:1"}}
	o, err := x.Offer(t.Context(), needs)
	if x.check(err); !o.Fits || o.System != "linux/riscv64" {
		t.Errorf("%+v", o)
	}
	r := x.request()
	r.Needs.Args = nil
	_, err = x.Start(t.Context(), r)
	refusedWith(t, err, fault.Missing, "start agents: there is no program for linux/riscv64 here", "Push an image of the agent with drover image agent REGISTRY, and name it: --target-arg agent-image=REF.")
	var asked string
	r.Run.ProgramFile = func(system string) (string, error) { asked = system; return x.program, nil }
	other := New(x.state) // a process that has made no offer asks for the nodes itself
	other.kubeconfig = x.kubeconfig
	_, err = other.Start(t.Context(), r)
	x.check(err)
	text, err := json.Marshal(x.fake.Objects("pods"))
	if x.check(err); asked != "linux/riscv64" || !bytes.Contains(text, []byte(`"kubernetes.io/arch":"riscv64"`)) {
		t.Errorf("asked for %q: %s", asked, text)
	}
	if o, err := x.Offer(t.Context(), driver.Needs{Agents: 1, Args: []string{"agent-image=a:1"}, Place: needs.Place}); err != nil || o.System != "" {
		t.Errorf("with an image of the agent: %+v, %v", o, err)
	}
	node("d", runtime.GOARCH)
	if o, err := x.Offer(t.Context(), needs); err != nil || o.System != "" {
		t.Errorf("with a node like this machine: %+v, %v", o, err)
	}
}

func TestTheShorterOfTwoStopsStands(t *testing.T) {
	x := newTrial(t)
	x.fake.Hold()
	h, err := x.Start(t.Context(), x.request())
	x.check(err)
	for _, grace := range []time.Duration{time.Hour, time.Second, time.Minute} {
		x.check(x.Stop(t.Context(), h, grace, false))
	}
	text, err := json.Marshal(x.fake.Objects("configmaps"))
	if x.check(err); !bytes.Contains(text, []byte(`"stop":"1s"`)) {
		t.Errorf("%s", text)
	}
}

// aged is a view that is too old to be used again.
func aged(v view) view {
	v.at = v.at.Add(-time.Hour)
	return v
}

// What never came up is given up: nothing is started any more, and every process says why.
func TestWhatIsGivenUpSaysWhy(t *testing.T) {
	x := newTrial(t)
	x.fake.Hold()
	h, err := x.Start(t.Context(), x.request())
	x.check(err)
	_, err = x.Status(t.Context(), h)
	x.check(err)
	v := x.views[h]
	old := time.Now().Add(-time.Hour)
	for i := range v.pods {
		v.pods[i].Status.Phase = "Pending"
		v.pods[i].Status.Conditions = []api.Condition{{Type: "PodScheduled", Status: "True", LastTransitionTime: old}}
		v.pods[i].Status.InitContainerStatuses = podOf(t, `{"initContainerStatuses":[{"name":"prepare","state":{"waiting":{"reason":"InvalidImageName","message":"A"}}}]}`).Status.InitContainerStatuses
	}
	x.views[h] = v
	want := "never came up: InvalidImageName: A"
	for range 2 {
		members, err := x.Status(t.Context(), h)
		if err != nil || len(members) != 2 || members[0].State != driver.Ended || members[0].Reason != want || members[0].Hint != words.CheckImage {
			t.Errorf("%+v, %v", members, err)
		}
	}
	if pods := x.fake.Objects("pods"); len(pods) > 0 {
		t.Errorf("%d pods are left", len(pods))
	}
}

// While nothing changes, looks ask for nothing; a change is seen by the next one.
func TestALookAtWhatDoesNotChangeAsksForNothing(t *testing.T) {
	x := newTrial(t)
	x.fake.Hold()
	h, err := x.Start(t.Context(), x.request())
	x.check(err)
	look := func() []driver.Member {
		x.mu.Lock()
		if v, ok := x.views[h]; ok {
			x.views[h] = aged(v)
		}
		x.mu.Unlock()
		members, err := x.Status(t.Context(), h)
		x.check(err)
		return members
	}
	run := func(phase string) {
		for _, p := range x.fake.Objects("pods") {
			state := map[string]kubetest.Object{"Running": {"running": kubetest.Object{}}, "Failed": {"terminated": kubetest.Object{"exitCode": 137}}}[phase]
			p["status"] = kubetest.Object{"phase": phase, "containerStatuses": []any{kubetest.Object{"name": agentContainer, "state": state}}}
			x.fake.Put("pods", "train", p)
		}
	}
	run("Running")
	look()
	watching := func() bool { x.mu.Lock(); defer x.mu.Unlock(); w := x.watches[h]; return w != nil && w.quiet() }
	for !watching() {
		look()
	}
	asked := x.asked()
	for range 1000 {
		look()
	}
	if n := len(asked()); n > 1 { // the watch itself
		t.Errorf("1000 looks ask %d times, the last time for %s", n, asked()[n-1])
	}
	run("Failed")
	for watching() {
		<-time.After(time.Millisecond)
	}
	x.fake.Refuse(func(_, resource string) *kubetest.Refusal { return &kubetest.Refusal{Code: 500} })
	x.views[h] = aged(x.views[h])
	if m, err := x.Status(t.Context(), h); err == nil {
		t.Errorf("of a server that fails: %+v", m)
	}
	x.fake.Refuse(nil)
	if m := look(); m[0].State != driver.Lost {
		t.Errorf("after a change that could not be looked at: %+v", m)
	}
	if !x.views[h].waits || aged(x.views[h]).good(x.watches[h]) {
		t.Error("an agent is to be started again, and a view stands for ever in which only the Job tells that it is not")
	}
	x.fake.Expire()
	for !x.watches[h].mayBeginAnew() {
		<-time.After(time.Millisecond)
	}
	asked = x.asked()
	look()
	if len(asked()) < 3 {
		t.Errorf("without a watch a look asks %s", asked())
	}
}

func TestAPlaceThatDoesNotAnswerIsNamed(t *testing.T) {
	x := newTrial(t)
	x.fake.Hold()
	h, err := x.Start(t.Context(), x.request())
	x.check(err)
	x.check(folder.NotePlace(x.state, site{"train", "gone", "https://10.0.0.9"}.String()))
	held, err := x.List(t.Context())
	if len(held) != 1 || held[0] != h || err == nil || !strings.HasPrefix(err.Error(), "list agents in train@gone@https://10.0.0.9: find the cluster of the job: no context leads to https://10.0.0.9") {
		t.Errorf("%v, %v", held, err)
	}
	x.fake.Refuse(func(string, string) *kubetest.Refusal {
		return &kubetest.Refusal{Code: 403, Reason: "Forbidden", Message: "no"}
	})
	if held, err := x.List(t.Context()); len(held) != 0 || err == nil || !strings.Contains(err.Error(), "list agents: Kubernetes says: no") {
		t.Errorf("%v, %v", held, err)
	}
}

func TestANewerCredentialIsHandedOver(t *testing.T) {
	x := newTrial(t)
	x.fake.Hold()
	r := x.request()
	for _, credential := range []string{"first", "second"} {
		r.Run.Pass = func(context.Context) ([]byte, error) { return []byte(credential), nil }
		_, err := x.Start(t.Context(), r)
		x.check(err)
		text, err := json.Marshal(x.fake.Objects("secrets"))
		if x.check(err); !bytes.Contains(text, []byte(`"credential":"`+base64.StdEncoding.EncodeToString([]byte(credential)))) {
			t.Errorf("the Secret is %s; want %s", text, credential)
		}
	}
}

func TestAPlacementIsMadeAsRecorded(t *testing.T) {
	x := newTrial(t)
	r := x.request()
	expr, err := where.Parse("type =~ m5.* and zone != b")
	x.check(err)
	r.Needs = driver.Needs{Agents: 2, CPUs: 2, Memory: 4 << 30, GPUs: 1, Disk: 10 << 30, Grace: time.Minute, Spot: job.SpotFirst, Where: expr,
		Labels: map[string]string{"team": "Ünïcode, and a comma"}, Place: driver.Place{Image: "train:1", Nodes: 2, Shm: 1 << 30},
		Args: []string{"service-account=s", "queue=q", "priority=p", "pull-secret=a", "node=disk=ssd", "tolerate=dedicated=gpu", "volume=pvc/data:/data", "volume=hostPath/srv:/srv"}}
	p := placed{request: r, handle: driver.Handle{Target: Name, Detail: "train@fake@x", Job: jobID, Placement: 1}, image: "train:1",
		program: program.Program{Digest: strings.Repeat("ab", 32), System: "linux/arm64", Parts: 2}}
	p.options, err = parseOptions(r.Needs.Args)
	x.check(err)
	var m nodes.Cluster
	text, err := json.Marshal(map[string]any{"listed": x.fake.Objects("nodes")})
	x.check(err)
	var held struct{ Listed []api.Node }
	x.check(json.Unmarshal(text, &held))
	m.Listed, m.All = true, held.Listed
	m.All[0].Metadata.Labels["topology.kubernetes.io/zone"] = "a"
	p.on, err = m.Select(r.Needs, p.options.nodes)
	x.check(err)
	got, err := json.MarshalIndent(p.job(), "", "  ")
	x.check(err)
	golden := filepath.Join("testdata", "job.golden")
	if *update {
		x.check(os.WriteFile(golden, append(got, '\n'), 0o644))
	}
	want, err := os.ReadFile(golden)
	if x.check(err); string(want) != string(got)+"\n" {
		t.Errorf("the Job differs from %s (-update writes it):\n%s", golden, got)
	}
}

func TestWhatIsNotDroversIsLeft(t *testing.T) {
	x := newTrial(t)
	name := "drover-" + jobID + "-1"
	x.fake.Put("jobs", "train", kubetest.Object{"metadata": kubetest.Object{"name": name}, "spec": kubetest.Object{"completions": 0, "parallelism": 0}})
	_, err := x.Start(t.Context(), x.request())
	refusedWith(t, err, fault.Invalid, "start agents: the Job "+name+" is not drover's", "Rename or delete it: kubectl delete job "+name+".")
	h := driver.Handle{Target: Name, Detail: "train@fake@" + x.fake.URL(), Job: jobID, Placement: 1}
	if members, err := x.Status(t.Context(), h); err != nil || len(members) != 0 {
		t.Errorf("Status gives %v, %v", members, err)
	}
	x.check(x.Stop(t.Context(), h, 0, true))
	if len(x.fake.Objects("jobs")) != 1 {
		t.Error("a Stop took it away")
	}
	if held, err := x.List(t.Context()); err != nil || len(held) != 0 {
		t.Errorf("List gives %v, %v", held, err)
	}

	p, err := program.Find(x.program, thisSystem, labelManaged, managedBy)
	x.check(err)
	name = strings.TrimSuffix(p.PartName(0), "-000")
	x.fake.Put("configmaps", "train", kubetest.Object{"metadata": kubetest.Object{"name": name}, "data": kubetest.Object{"parts": "1"}})
	r := x.request()
	r.Placement, r.Needs.Args = 2, nil
	_, err = x.Start(t.Context(), r)
	refusedWith(t, err, fault.Invalid, "start agents: the ConfigMap "+name+" is not drover's", "Delete it: kubectl delete configmap "+name+".")
	x.fake.Put("configmaps", "train", kubetest.Object{"metadata": kubetest.Object{"name": name, "labels": kubetest.Object{labelManaged: managedBy}}, "data": kubetest.Object{"parts": "7"}})
	_, err = x.Start(t.Context(), r)
	refusedWith(t, err, fault.Invalid, "start agents: the ConfigMap "+name+" speaks of 7 parts, and there are 1", "Delete it: kubectl delete configmap "+name+".")
}

func TestAStartThatCannotBeIsRefused(t *testing.T) {
	x := newTrial(t)
	r := x.request()
	r.Run.Pass = func(context.Context) ([]byte, error) { return make([]byte, 2<<20), nil }
	_, err := x.Start(t.Context(), r)
	refusedWith(t, err, fault.Invalid, "start agents: the job's secrets are larger than 1 MiB", "Keep large ones in files of a volume: --target-arg volume=pvc/NAME:/path.")
	r = x.request()
	r.Agents = 100_001
	_, err = x.Start(t.Context(), r)
	refusedWith(t, err, fault.Invalid, "start agents: 100001 is not a number of agents", "Ask for fewer: Kubernetes runs up to 100,000 in one Job.")
	x.fake.Put("jobs", "train", kubetest.Object{"metadata": kubetest.Object{"name": "drover-" + jobID + "-1", "deletionTimestamp": "2026-11-28T00:00:00Z",
		"labels": kubetest.Object{labelManaged: managedBy, labelJob: jobID, labelPlacement: "1"}}, "spec": kubetest.Object{"completions": 0, "parallelism": 0}})
	_, err = x.Start(t.Context(), x.request())
	refusedWith(t, err, fault.Full, "start agents: the Job drover-"+jobID+"-1 is just being removed", "Type the command again in a moment.")
	if len(x.fake.Objects("pods"))+len(x.fake.Objects("secrets")) > 0 {
		t.Error("something was started")
	}
}

func TestAnOfferSaysWhatTheClusterWouldRefuse(t *testing.T) {
	parse := func(text string) where.Expr {
		e, err := where.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	forbidden := func(resource string) func(*kubetest.Server) {
		return func(s *kubetest.Server) {
			s.Refuse(func(_, r string) *kubetest.Refusal {
				if r == resource {
					return &kubetest.Refusal{Code: 403, Reason: "Forbidden", Message: r + " is forbidden"}
				}
				return nil
			})
		}
	}
	for name, c := range map[string]struct {
		fake         func(*kubetest.Server)
		needs        driver.Needs
		reason, hint string
		machine      string
	}{
		"fits":            {machine: "kube, namespace train of fake, one node, 8 cores, 32 GB"},
		"many agents":     {needs: driver.Needs{Agents: 101}, reason: "101 agents need an image of the agent: without one each node reads the program from the API server", hint: "Push an image of the agent with drover image agent REGISTRY, and name it: --target-arg agent-image=REF."},
		"too many":        {needs: driver.Needs{Agents: 100_001}, reason: "a Job has no more than 100,000 agents", hint: "Ask for at most 100,000."},
		"no such machine": {needs: driver.Needs{Agents: 1, CPUs: 1e6}, reason: "no machine has so much", hint: "Ask for less."},
		"two nodes": {fake: func(s *kubetest.Server) {
			s.Put("nodes", "", kubetest.Object{"metadata": kubetest.Object{"name": "node-2"}, "status": kubetest.Object{"allocatable": kubetest.Object{"cpu": "16", "memory": "8Gi", "nvidia.com/gpu": "4"}}})
		}, machine: "kube, namespace train of fake, 2 nodes of up to 16 cores, 8 GB, 4 GPUs"},
		"no such node":     {needs: driver.Needs{Agents: 1, GPUs: 2}, reason: "no node is large enough, and nothing here adds nodes: the largest node has 8 cores, 32 GB", hint: "Ask for less: --cpus, --memory, --gpus."},
		"no spot":          {needs: driver.Needs{Agents: 1, Spot: job.SpotOnly}, reason: "no node of the cluster is spot capacity", hint: "Leave --spot out."},
		"where":            {needs: driver.Needs{Agents: 1, Where: parse("type == p3.2xlarge")}, reason: "no node is what --where says: type == p3.2xlarge", hint: "Ask for less with --where, or see the nodes: drover offers kube."},
		"nodes not listed": {fake: forbidden("nodes"), machine: "kube, namespace train of fake, nodes not listed"},
		"a pattern": {fake: forbidden("nodes"), needs: driver.Needs{Agents: 1, Where: parse("type =~ p3.*")}, reason: "match --where: type =~ p3.* is a pattern, and this user may not list the cluster's nodes",
			hint: "Name them without a star, or ask for the right to list nodes."},
		"a size": {fake: forbidden("nodes"), needs: driver.Needs{Agents: 1, Where: parse("cpus >= 4")}, reason: "match --where: this user may not list the cluster's nodes, and so cannot tell which have cpus >= 4",
			hint: "Ask for types of machines instead: --machine TYPE."},
		"policy": {fake: func(s *kubetest.Server) { s.Warn(`would violate PodSecurity "restricted:latest": runAsUser=0`) }, reason: `would violate PodSecurity "restricted:latest": runAsUser=0`},
		"old":    {fake: func(s *kubetest.Server) { s.Age() }, reason: "the cluster of context fake does not know how to start agents of a Job again (backoffLimitPerIndex)", hint: "Use a cluster of Kubernetes 1.29 or newer."},
		"quota": {fake: func(s *kubetest.Server) {
			s.Put("resourcequotas", "train", kubetest.Object{"metadata": kubetest.Object{"name": "compute"}, "status": kubetest.Object{"hard": kubetest.Object{"requests.cpu": "3", "pods": "100"}}})
		}, needs: driver.Needs{Agents: 2, CPUs: 2}, reason: "the quota compute allows 3 of requests.cpu in all, and 2 agents need 4", hint: "Ask for fewer agents, or for less of each."},
		"limits": {fake: func(s *kubetest.Server) {
			s.Put("limitranges", "train", kubetest.Object{"metadata": kubetest.Object{"name": "l"}, "spec": kubetest.Object{"limits": []any{kubetest.Object{"type": "Container", "max": kubetest.Object{"cpu": "1"}}}}})
		}, needs: driver.Needs{Agents: 2, CPUs: 2}, reason: "the limits of namespace train allow 1 of cpu for one container", hint: "Ask for less."},
		"a folder of this machine": {needs: driver.Needs{Agents: 1, Place: driver.Place{Mounts: []job.Mount{{Source: "/data", Target: "/data"}}}}, reason: "pods see no folder of this machine: --mount /data:/data",
			hint: "Give it as an input: -i FOLDER; or name a volume of the cluster: --target-arg volume=pvc/NAME:/path."},
		"no Kueue": {needs: driver.Needs{Agents: 1, Args: []string{"queue=gpus"}}, reason: "the cluster of context fake has no Kueue, and so no queue gpus", hint: "Leave --target-arg queue out."},
		"no queue": {fake: func(s *kubetest.Server) {
			s.Put("localqueues", "train", kubetest.Object{"metadata": kubetest.Object{"name": "cpus"}})
		}, needs: driver.Needs{Agents: 1, Args: []string{"queue=gpus"}}, reason: "namespace train has no LocalQueue gpus", hint: "See them: kubectl --context fake --namespace train get localqueues."},
		"a queue": {fake: func(s *kubetest.Server) {
			s.Put("localqueues", "train", kubetest.Object{"metadata": kubetest.Object{"name": "gpus"}})
		}, needs: driver.Needs{Agents: 1, Args: []string{"queue=gpus"}}},
		"rights":   {fake: forbidden("jobs"), reason: "ask Kubernetes: Kubernetes says: jobs is forbidden", hint: "Ask for the right to create jobs in namespace train: docs/how-to/kube.md has all that drover needs."},
		"no nodes": {fake: func(s *kubetest.Server) { s.Remove("nodes", "", "node-1") }, reason: "no node is large enough, and nothing here adds nodes: the cluster has no nodes", hint: "Ask for less: --cpus, --memory, --gpus.", machine: "kube, namespace train of fake, no nodes"},
	} {
		x := newTrial(t)
		if c.fake != nil {
			c.fake(x.fake)
		}
		if c.needs.Agents == 0 {
			c.needs.Agents = 1
		}
		c.needs.Place.Image = "busybox:1"
		o, err := x.Offer(t.Context(), c.needs)
		if err != nil || o.Fits != (c.reason == "") || o.Reason != c.reason || c.hint != "" && o.Hint != c.hint && fault.Hint(fault.New(fault.Invalid, o.Hint, "x")) != c.hint || c.machine != "" && o.Machine != c.machine {
			t.Errorf("%s: %+v, %v\nwant %q, %q", name, o, err, c.reason, c.hint)
		}
	}
	x := newTrial(t)
	o, err := x.Offer(t.Context(), driver.Needs{Agents: 2, Place: driver.Place{Nodes: 2}})
	x.check(err)
	want := []string{"each agent has 1 core and 1 GB of memory: --cpus and --memory ask for more", "nodes begin one by one, as there is room: with Kueue, --target-arg queue=NAME starts all or none"}
	if !slices.Equal(o.Notes, want) {
		t.Errorf("the notes are %q", o.Notes)
	}
	if _, err := x.Offer(t.Context(), driver.Needs{Agents: 1, Args: []string{"queu=x"}}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("of an option that is unknown: %v", err)
	}
	x.fake.Refuse(func(string, string) *kubetest.Refusal { return &kubetest.Refusal{Code: 500} })
	if _, err := x.Offer(t.Context(), driver.Needs{Agents: 1}); fault.KindOf(err) != fault.Lost {
		t.Errorf("of a server that fails: %v", err)
	}
	if _, err := (&Driver{}).Offer(canceled(t), driver.Needs{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestTheKindsOfNodesAreOffered(t *testing.T) {
	x := newTrial(t)
	for needs, want := range map[float64]driver.Choice{2: {Machine: "m5.2xlarge: 1 with 8 cores, 32 GB", All: 4}, 20: {Machine: "m5.2xlarge: 1 with 8 cores, 32 GB", Reason: "they do not fit"}} {
		o, err := x.Offer(t.Context(), driver.Needs{CPUs: needs})
		if x.check(err); len(o.Choices) != 1 || o.Choices[0] != want {
			t.Errorf("%+v, want %+v", o.Choices, want)
		}
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
