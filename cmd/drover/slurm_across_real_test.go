//go:build linux

package main_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/store/s3/s3test"
)

// cluster is a Slurm of four nodes, each a host of its own as far as networks go, and
// a store beside them.
type cluster struct {
	home
	net   *s3test.Hostile
	hosts []string // network namespaces, of n1, n2, ...
	port  string   // of the store, at gate
	gate  string
}

// newCluster makes them; they are gone at the test's end.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{hosts: hosts(t, 4)}
	var id int
	if _, err := fmt.Sscanf(c.hosts[0], "drover-%d-", &id); err != nil {
		t.Fatal(err)
	}
	c.uplink(t, id)
	c.home = newHome(t)
	c.store(t)
	c.slurm(t, id)
	return c
}

// uplink connects this machine itself with the hosts.
func (c *cluster) uplink(t *testing.T, id int) {
	t.Helper()
	wire, here := fmt.Sprintf("drover-%d-wire", id), fmt.Sprintf("drup%d", id)
	c.gate = fmt.Sprintf("10.77.%d.1", id%250)
	for _, line := range []string{
		"link add " + here + " type veth peer name gate netns " + wire,
		"-n " + wire + " link set gate master br0 up",
		"addr add " + c.gate + "/24 dev " + here,
		"link set " + here + " up",
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", here).Run() })
}

// store is a real S3 server that the hosts reach.
func (c *cluster) store(t *testing.T) {
	t.Helper()
	c.net = &s3test.Hostile{Next: versitygw(t), Rand: rand.New(rand.NewPCG(4711, 1)).IntN}
	server := httptest.NewUnstartedServer(c.net)
	l, err := net.Listen("tcp", c.gate+":0")
	if err != nil {
		t.Fatal(err)
	}
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	_, c.port, _ = net.SplitHostPort(l.Addr().String())
	put(t, filepath.Join(filepath.Dir(c.work), "home", ".aws", "credentials"), []byte("[default]\naws_access_key_id = test\naws_secret_access_key = testtest\n"))
	c.environ = append(c.environ, "AWS_EC2_METADATA_DISABLED=true", "AWS_ENDPOINT_URL="+server.URL)
}

// slurm brings the cluster up, with one core for each node: four workers are on four.
func (c *cluster) slurm(t *testing.T, id int) {
	t.Helper()
	_, self, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(self), "..", "..", "driver", "slurm", "testdata", "slurm.sh")
	up := exec.Command("bash", script, fmt.Sprintf("/tmp/drover-slurm-%d", id), strconv.Itoa(os.Getpid()), "4", "1")
	up.Env = append(os.Environ(), "NODE_PREFIX=nsenter --net=/run/netns/"+strings.TrimSuffix(c.hosts[0], "1")+"%n", "NODE_ADDRESS="+c.gate+"%n", "CTL_ADDRESS="+c.gate)
	up.Stderr = os.Stderr
	conf, err := up.Output()
	if err != nil {
		t.Fatalf("start a Slurm cluster: %v", err)
	}
	c.environ = append(c.environ, "SLURM_CONF="+strings.TrimSpace(string(conf)))
}

// cut takes a host's way to the store away; Slurm still reaches it.
func (c *cluster) cut(t *testing.T, host int) (mend func()) {
	t.Helper()
	rule := func(do string) {
		t.Helper()
		for _, words := range []string{" OUTPUT -p tcp -d " + c.gate + " --dport ", " INPUT -p tcp -s " + c.gate + " --sport "} {
			line := "netns exec " + c.hosts[host] + " iptables " + do + words + c.port + " -j DROP"
			if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
				t.Fatalf("ip %s: %v: %s", line, err, out)
			}
		}
	}
	rule("-I")
	return func() { rule("-D") }
}

// scontrol tells Slurm something.
func (c *cluster) scontrol(t *testing.T, words ...string) string {
	t.Helper()
	cmd := exec.Command("scontrol", words...)
	cmd.Env = c.environ
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("scontrol %s: %v: %s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// tasks are Slurm's jobs that run, by node.
func (c *cluster) tasks(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command("squeue", "-h", "-t", "R", "-o", "%N %i")
	cmd.Env = c.environ
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]string{}
	for line := range strings.Lines(string(out)) {
		node, job, _ := strings.Cut(strings.TrimSpace(line), " ")
		on[node] = job
	}
	return on
}

// agentOn is the agent's process on a host.
func (c *cluster) agentOn(t *testing.T, host int) int {
	t.Helper()
	want, err := os.Stat("/run/netns/" + c.hosts[host])
	if err != nil {
		t.Fatal(err)
	}
	agent := 0
	drivertest.Until(t, fmt.Sprintf("there is an agent on host %d", host+1), func() bool {
		for pid, name := range processesOf(filepath.Dir(c.work)) {
			if at, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid)); err == nil && os.SameFile(at, want) && strings.Contains(name, " agent --store ") { // and not its supervisor
				agent = pid
			}
		}
		return agent != 0
	})
	return agent
}

// full is what make chaos-net says.
var full = flag.Bool("full", false, "maps across hosts in full: 100,000 items, and two minutes without a net")

// A map over four hosts: an administrator drains one, one loses its job to a requeue, one
// its agent to kill -9, and one its way to the store for a while. Without any command of the
// user, nothing is lost, nothing fails, and interruptions are counted apart from failures.
func TestRealSlurmMapAcrossHosts(t *testing.T) {
	onlyReal(t)
	t.Parallel() // it waits, for the net
	items, absence := 30_000, 15*time.Second
	if *full {
		items, absence = 100_000, 2*time.Minute
	}
	c := newCluster(t)
	put(t, filepath.Join(c.work, "work.sh"), []byte("#!/bin/sh\nexec ./teller $RUNS $1\n"))
	if err := os.Chmod(filepath.Join(c.work, "work.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.compiled(t)
	var lines strings.Builder
	for n := range items {
		fmt.Fprintln(&lines, n+1)
	}
	put(t, c.runs("items.txt"), []byte(lines.String()))
	began := time.Now()
	tell := func(what string) { t.Logf("%5.1f s: %s", time.Since(began).Seconds(), what) }
	m := c.begin(t, "map", "--on", "slurm", "--store", "s3://facts/test", "--workers", "4", "-j", "2", "--cpus", "0.5", "--env", "RUNS="+c.runs("runs"), "--from", c.runs("items.txt"), "--", "./work.sh", "{}")
	c.whenRan(t, "runs", items/20)
	var on map[string]string
	drivertest.Until(t, "four agents work on four nodes", func() bool { on = c.tasks(t); return len(on) == 4 })
	c.scontrol(t, "update", "nodename=n2", "state=down", "reason=test")
	tell("n2 is set down")
	c.whenRan(t, "runs", items/8)
	c.scontrol(t, "requeue", on["n3"])
	tell("the job on n3 is requeued")
	c.whenRan(t, "runs", items/4)
	if err := syscall.Kill(c.agentOn(t, 3), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	tell("the agent on n4 is killed")
	c.whenRan(t, "runs", items/3)
	mend := c.cut(t, 0)
	tell("n1 does not reach the store")
	<-time.After(absence) // whatever the others do meanwhile
	mend()
	tell("n1 reaches the store")
	m.sound(t)
	tell("it has ended")
	t.Logf("%s", m.said)
	c.environ = append(c.environ, "DROVER_STORE=s3://facts/test")
	c.allOnce(t, "runs", items)
	if v := c.verified(t); v.Extra.Interrupted == 0 || v.Extra.Retries != 0 || v.Extra.Unexplained != 0 {
		t.Errorf("what was interrupted is not told apart: %+v", v)
	}
	out, _ := c.drover(t, 0, "verify", "last")
	t.Logf("drover verify\n%s", out)
}

// The command line is killed with -9 while no host reaches the store, and the hosts
// reach it again a minute later: the map ends by itself, and nothing is lost.
func TestRealSlurmMapIsLeftAloneWithoutANet(t *testing.T) {
	onlyReal(t)
	t.Parallel() // it waits, for the net
	const items, absence = 20_000, time.Minute
	c := newCluster(t)
	program := c.compiled(t)
	m := c.begin(t, "map", "--on", "slurm", "--store", "s3://facts/test", "--workers", "4", "-j", "2", "--cpus", "0.5", "--from", "1-"+strconv.Itoa(items), "--", program, c.runs("runs"), "{}")
	c.environ = append(c.environ, "DROVER_STORE=s3://facts/test")
	c.whenRan(t, "runs", items/20)
	var mends []func()
	for host := range c.hosts {
		mends = append(mends, c.cut(t, host))
	}
	if err := m.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = m.Wait() // it was killed
	if out, _ := c.drover(t, 0, "status", "last"); !strings.Contains(out, " left\n") {
		t.Fatalf("all was done before anything happened:\n%s", out)
	}
	<-time.After(absence)
	for _, mend := range mends {
		mend()
	}
	for begin := time.Now(); ; {
		out, _ := c.drover(t, 0, "status", "last") // attends to nothing
		if strings.Contains(out, "SUCCEEDED") {
			break
		}
		if time.Since(begin) > 2*patience {
			t.Fatalf("it stands at\n%s%v", out, c.tasks(t))
		}
		select {
		case <-t.Context().Done():
		case <-time.After(time.Second):
		}
	}
	c.allOnce(t, "runs", items)
	for begin := time.Now(); len(c.tasks(t)) > 0; {
		if time.Since(begin) > patience {
			t.Fatalf("agents are left: %v", c.tasks(t))
		}
		select {
		case <-t.Context().Done():
		case <-time.After(time.Second):
		}
	}
}
