//go:build linux

package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/local"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store/dir"
)

// Two nodes in network namespaces of their own are two hosts as far as addresses
// go: nothing of one is on the other's loopback.

// made counts the sets of hosts.
var made atomic.Int32

// hosts makes n of them on one bridge, and gives their names. They are gone at
// the test's end.
func hosts(t *testing.T, n int) (names []string) {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it")
	}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	id := os.Getpid()%10000*10 + int(made.Add(1)) // the kernel takes its time to let a name go
	space := func(name string) {
		t.Helper()
		ip("netns", "add", name)
		t.Cleanup(func() { ip("netns", "del", name) })
	}
	// The bridge has a namespace too: docker, where it runs, has the machine's own
	// forward nothing for strangers.
	wire := fmt.Sprintf("drover-%d-wire", id)
	space(wire)
	ip("-n", wire, "link", "add", "br0", "type", "bridge")
	ip("-n", wire, "link", "set", "br0", "up")
	for i := range n {
		name, plug := fmt.Sprintf("drover-%d-%d", id, i+1), fmt.Sprintf("plug%d", i)
		space(name)
		ip("-n", wire, "link", "add", plug, "type", "veth", "peer", "name", "eth0", "netns", name)
		ip("-n", wire, "link", "set", plug, "master", "br0", "up")
		ip("-n", name, "addr", "add", fmt.Sprintf("10.77.%d.%d/24", id%250, 11+i), "dev", "eth0")
		ip("-n", name, "link", "set", "lo", "up")
		ip("-n", name, "link", "set", "eth0", "up")
		names = append(names, name)
	}
	return names
}

// apart runs a job with its agent i on host i, and gives what its nodes printed.
func apart(t *testing.T, names []string, spec job.Spec) (status drover.Status, printed string) {
	t.Helper()
	box := t.TempDir()
	agent := filepath.Join(box, "drover")
	script := "#!/bin/sh\nfor last; do [ \"$before\" = --index ] && host=$last; before=$last; done\n" +
		"case $host in\n"
	for i, name := range names {
		script += fmt.Sprintf("%d) exec ip netns exec %s %s/drover \"$@\" ;;\n", i, name, built.dir)
	}
	if err := os.WriteFile(agent, []byte(script+"esac\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(box, "home")
	t.Setenv("HOME", home)
	for _, name := range []string{"XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
	}
	bucket, err := dir.Open(filepath.Join(box, "store"), dir.OS)
	if err != nil {
		t.Fatal(err)
	}
	c, err := drover.Open(t.Context(), drover.Options{Bucket: bucket, Binary: agent, Folder: box, Cache: filepath.Join(home, ".cache", "drover"), Near: true,
		Drivers: map[string]driver.Opened{local.Name: local.Target.Open(driver.Config{State: filepath.Join(home, ".local", "state", "drover", "local")})}})
	if err != nil {
		t.Fatal(err)
	}
	spec.Project, spec.Task, spec.Nodes = "demo", "apart", len(names)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience) // Python, MPI and all, on a machine that has much to do
	defer cancel()
	p, err := c.Plan(ctx, spec, drover.PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := p.Submit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if status, err = j.Wait(ctx); err != nil {
		_, _ = j.Stop(context.WithoutCancel(ctx), "the test gives up")
		t.Errorf("wait: %v", err)
	}
	for o, err := range j.Logs(t.Context(), drover.LogOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		printed += string(o.Data)
	}
	return status, printed
}

func TestRealNodesOnHostsOfTheirOwn(t *testing.T) {
	names := hosts(t, 2)
	script := filepath.Join(t.TempDir(), "meet.py")
	write(t, script, `import json, os, socket, time
rank = int(os.environ["DROVER_RANK"])
hosts = json.loads(os.environ["SM_HOSTS"])
def say(text): # in one write: both nodes' output is read as one
    os.write(1, (text + "\n").encode())
say(f"node {rank} at {socket.gethostbyname(os.environ['SM_CURRENT_HOST'])} by {os.environ['SM_NETWORK_INTERFACE_NAME']}")
master = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(master) as server:
        peer, address = server.accept()
        say(f"heard {peer.recv(100).decode()} from {address[0]}")
else:
    while True:
        try:
            peer = socket.create_connection((hosts[0], master[1]), timeout=60)
            break
        except OSError: # refused until it listens
            time.sleep(0.05)
    peer.sendall(b"hello")
    peer.close()
`)
	status, printed := apart(t, names, job.Spec{Program: script})
	at := map[string]string{} // node -> address: the first to come is node 0
	for _, m := range regexp.MustCompile(`node (\d) at (10\.77\.\d+\.1[12]) by eth0`).FindAllStringSubmatch(printed, -1) {
		at[m[1]] = m[2]
	}
	if at["0"] == "" || at["1"] == "" || at["0"] == at["1"] || !strings.Contains(printed, "heard hello from "+at["1"]+"\n") {
		t.Errorf("they did not meet from two addresses:\n%s", printed)
	}
	if status.State != job.Succeeded {
		t.Errorf("it ended %s: %s", status.State, status.Reason)
	}
}

// TestRealMPICHOnHostsOfTheirOwn is the example, with the MPICH that its
// requirements bring.
func TestRealMPICHOnHostsOfTheirOwn(t *testing.T) {
	names := hosts(t, 2)
	example, err := filepath.Abs(filepath.Join("..", "..", "examples", "mpi"))
	if err != nil {
		t.Fatal(err)
	}
	venv := filepath.Join(t.TempDir(), "venv") // the hosts reach each other, and no package index
	for _, line := range [][]string{
		{filepath.Join(built.python, "python3"), "-m", "venv", venv},
		{filepath.Join(venv, "bin", "python"), "-m", "pip", "install", "-q", "-r", filepath.Join(example, "requirements.txt")},
	} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(line, " "), err, out)
		}
	}
	status, printed := apart(t, names, job.Spec{Program: filepath.Join(example, "train.py"), Args: []string{"--epochs", "2"},
		Launcher: job.MPI, Procs: 2, Python: filepath.Join(venv, "bin", "python"), NoEnv: true})
	for rank := range 4 {
		if want := fmt.Sprintf("rank %d of 4 on algo-%d\n", rank, rank/2+1); !strings.Contains(printed, want) {
			t.Errorf("%q is not in what they printed:\n%s", want, printed)
		}
	}
	if status.State != job.Succeeded || !strings.Contains(printed, "epoch=2 ") {
		t.Errorf("it ended %s: %s\n%s", status.State, status.Reason, printed)
	}
}

// TestRealOpenMPIOnHostsOfTheirOwn is Debian's Open MPI, with drover rsh as its remote
// shell.
func TestRealOpenMPIOnHostsOfTheirOwn(t *testing.T) {
	names := hosts(t, 2)
	script := filepath.Join(t.TempDir(), "ranks.py")
	write(t, script, `import os
from mpi4py import MPI
c = MPI.COMM_WORLD
e = os.environ
line = f"rank {c.rank} of {c.size} on {MPI.Get_processor_name()}, {e['SM_CURRENT_HOST']}, node {e['DROVER_RANK']}, sum {c.allreduce(c.rank)}"
print(*c.gather(line) or [], sep="\n", end="\n", flush=True)
`)
	status, printed := apart(t, names, job.Spec{Program: script, Launcher: job.MPI, Procs: 2, Python: "/usr/bin/python3"})
	for rank := range 4 {
		node := rank / 2
		want := fmt.Sprintf("rank %d of 4 on algo-%d, algo-%d, node %d, sum 6\n", rank, node+1, node+1, node)
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in what they printed:\n%s", want, printed)
		}
	}
	if status.State != job.Succeeded {
		t.Errorf("it ended %s: %s", status.State, status.Reason)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
