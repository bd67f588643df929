package kube

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
)

// TestKubeScale has 10,000 pods on 1,000 nodes that kwok plays, and holds what Status says against
// kubectl. make kube-scale builds kwok and runs it: by hand, as it takes ten minutes of two cores.
func TestKubeScale(t *testing.T) {
	kwok := os.Getenv("DROVER_TEST_KWOK")
	if kwok == "" {
		t.Skip("needs kwok: make kube-scale")
	}
	const agents, port = 10_000, "18443"
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{dir: t.TempDir(), program: filepath.Join(root, "bin", "kube", "hyperkube")}
	t.Setenv("KCM_ARGS", "--node-monitor-grace-period=300s --concurrent-job-syncs=20")
	t.Cleanup(func() { run(t, "testdata/cluster/kube.sh", "down", c.dir) })
	run(t, "testdata/cluster/kube.sh", "up", c.dir, c.program, port)
	run(t, "testdata/cluster/kwok.sh", c.dir, c.program, kwok)
	c.kubectl(t, "create", "namespace", "train")
	t.Setenv("KUBECONFIG", filepath.Join(c.dir, "admin.kubeconfig"))

	d := New(t.TempDir())
	needs := driver.Needs{Agents: agents, CPUs: 0.1, Memory: 64 << 20, Detail: "train", Place: driver.Place{Image: "drover.test/busybox:1"},
		Args: []string{"agent-image=drover.test/agent:1", "tolerate=kwok.x-k8s.io/node", "tolerate=spot"}}
	offer, err := d.Offer(t.Context(), needs)
	if err != nil || !offer.Fits {
		t.Fatalf("%+v, %v", offer, err)
	}
	t.Log(offer.Machine)
	needs.Detail = offer.Detail
	begun := time.Now()
	h, err := d.Start(t.Context(), driver.Request{Job: jobID, Placement: 1, Agents: agents, Needs: needs, Run: driver.Boot{Binary: c.program, Store: "s3://bucket/x", Job: "p/t/" + jobID}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Start: %s", time.Since(begun).Round(time.Millisecond))
	count := func() int {
		return strings.Count(c.kubectl(t, "--namespace", "train", "get", "pods", "--field-selector", "status.phase=Running", "--output", "name"), "pod/")
	}
	look := time.NewTicker(10 * time.Second)
	defer look.Stop()
	for end := time.Now().Add(15 * time.Minute); count() < agents; <-look.C {
		if time.Now().After(end) {
			t.Fatalf("after 15 minutes %d pods run", count())
		}
	}
	t.Logf("all run after %s", time.Since(begun).Round(time.Second))

	var peak atomic.Uint64
	watched := make(chan struct{})
	go func() {
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			select {
			case <-watched:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	for _, which := range []string{"first", "second"} {
		begun = time.Now()
		members, err := d.Status(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		took, running := time.Since(begun), 0
		spot := map[string]bool{}
		for _, m := range members {
			if m.State == driver.Running {
				running++
				spot[m.Where] = true
			}
		}
		if running != agents || len(members) != agents {
			t.Errorf("Status has %d members, of which %d run; kubectl says %d", len(members), running, agents)
		}
		t.Logf("%s Status: %s, on %d nodes, heap %d MB", which, took.Round(time.Millisecond), len(spot), peak.Load()>>20)
	}
	close(watched)
	begun = time.Now()
	if err := d.Stop(t.Context(), h, time.Minute, false); err != nil {
		t.Fatal(err)
	}
	touched := 0
	client, s, err := d.dial(h.Detail, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Stop: %s", time.Since(begun).Round(time.Millisecond))
	pods, err := api.ListAll[api.Pod](t.Context(), client, api.Pods, s.namespace, ofPlacement(h))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		if p.Metadata.Annotations[annotationRead] != "" {
			touched++
		}
	}
	if touched != mostTouched {
		t.Errorf("%d pods were touched", touched)
	}
}
