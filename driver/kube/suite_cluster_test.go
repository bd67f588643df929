package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/kube/pod"
)

// TestMain runs the tests or, in a pod that they have started, the agent.
func TestMain(m *testing.M) {
	if os.Getenv(pod.Role) == pod.Prepare || os.Getenv(pod.Role) == pod.Supervise {
		pod.Adopt(driver.AgentProcess{}) // it does not return
	}
	drivertest.Main(m, pod.Adopt)
}

// TestKubeCluster is what is seen on a real cluster: one, as it takes a minute to come up.
func TestKubeCluster(t *testing.T) {
	c := realCluster(t)
	t.Run("a Job has only fields that Kubernetes knows", c.knowsGoldenJob)
	t.Run("a user's promises", func(t *testing.T) { newShell(t, c).keepsPromises(t) })
	t.Run("a driver", c.isADriver)
}

// knowsGoldenJob has the API server check the Job of the golden file by its own types.
func (c cluster) knowsGoldenJob(t *testing.T) {
	text, err := os.ReadFile("testdata/job.golden")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "job.json")
	known := strings.Replace(string(text), `"priorityClassName": "p"`, `"priorityClassName": "system-node-critical"`, 1) // "p" is not there
	if known == string(text) {
		t.Fatal("the golden Job has no priority class")
	}
	if err := os.WriteFile(file, []byte(known), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, "--namespace", "kube-system", "create", "--dry-run=server", "--validate=strict", "-f", file)
}

func (c cluster) isADriver(t *testing.T) {
	drivertest.Run(t, drivertest.Place{
		Open: func(t *testing.T) func() driver.Driver {
			state := t.TempDir()
			return func() driver.Driver { return New(state) }
		},
		Marks: c.marks,
		Needs: func(n *driver.Needs) {
			n.Args, n.Place.Image = []string{"volume=pvc/marks:" + c.marks}, "drover.test/busybox:1"
			if n.CPUs == 0 {
				n.CPUs = 0.02
			}
			if n.Memory == 0 {
				n.Memory = 64 << 20
			}
		},
		Kill:  func(t *testing.T, _ driver.Driver, h driver.Handle, m driver.Member) { c.kill(t, h, m) },
		Take:  func(t *testing.T, _ driver.Driver, h driver.Handle, m driver.Member) { c.evict(t, h, m) },
		Warn:  func(t *testing.T, _ driver.Driver, h driver.Handle, m driver.Member) { c.evict(t, h, m) },
		Looks: 12_000,
	})
}

// podOf is the name of the pod of an agent of the first try.
func (c cluster) podOf(t *testing.T, h driver.Handle, m driver.Member) string {
	t.Helper()
	return strings.TrimSpace(c.kubectl(t, "--namespace", "train", "get", "pods", "-l", fmt.Sprintf("%s=%s,%s=%d,%s=%d", labelJob, h.Job, labelPlacement, h.Placement, annotationIndex, m.Index),
		"-o", "jsonpath={.items[0].metadata.name}"))
}

// kill ends process 1 of an agent's container, from outside.
func (c cluster) kill(t *testing.T, h driver.Handle, m driver.Member) {
	t.Helper()
	host := fmt.Sprintf("HOSTNAME=%s-%d\x00", objectName(h), m.Index)
	procs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range procs {
		env, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(env), host) || !strings.Contains(string(env), pod.Role+"="+pod.Supervise+"\x00") {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		if p, err := os.FindProcess(pid); err == nil && p.Kill() == nil {
			return
		}
	}
	t.Fatalf("no process with %s", host)
}

// evict asks the API server to evict an agent's pod, as draining a node does.
func (c cluster) evict(t *testing.T, h driver.Handle, m driver.Member) {
	t.Helper()
	c.evictPod(t, c.podOf(t, h, m))
}

func (c cluster) evictPod(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join(c.dir, "eviction-"+name+".json") // kubectl wants no comma in it, as the names of tests have
	text := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":"train"}}`, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, "create", "--raw", "/api/v1/namespaces/train/pods/"+name+"/eviction", "-f", file)
}
