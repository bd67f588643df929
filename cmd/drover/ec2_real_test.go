//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/driver/docker/dockerd"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/ec2/ec2test"
	"github.com/drover-run/drover/store/s3/s3test"
)

// ec2InContainers is an account of which EC2 and Auto Scaling are a fake, and the machines run their real user data: they fetch drover's program
// from a store that checks signatures, by their role, and run agents in containers of a real Docker. running are the names of these.
func ec2InContainers(t *testing.T) (fake *ec2test.Server, h home, running func() []string) {
	t.Helper()
	onlyReal(t)
	t.Parallel() // with others that wait for most of their time
	host := dockerd.Use(t)
	docker := dockerAt(t, host)
	fake = ec2test.New(t)
	fake.UseDocker(t, host, "test", "testtest")
	fake.Stacks.Hurry()
	t.Cleanup(func() {
		for _, id := range fake.Machines() {
			docker("rm", "-f", "drover-agent-"+id)
		}
	})
	h = newHome(t)
	h.finds(fake.Environ())
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/"+t.Name()+"?region=us-east-1&endpoint="+s3test.Real(t), "DROVER_ON=ec2", "CANARY=canaryvalue")
	h.drover(t, 0, "target", "up", "ec2", "--yes")
	return fake, h, func() (names []string) {
		for _, name := range strings.Fields(docker("ps", "--format", "{{.Names}}", "--filter", "name=drover-agent-i-")) {
			if slices.Contains(fake.Machines(), strings.TrimPrefix(name, "drover-agent-")) {
				names = append(names, name)
			}
		}
		return names
	}
}

// nothingIsLeft takes the set-up away, and fails unless the account is empty then.
func nothingIsLeft(t *testing.T, fake *ec2test.Server, h home) {
	t.Helper()
	h.drover(t, 0, "down", "ec2", "--yes")
	if left := slices.Concat(fake.Stacks.Names(), fake.Groups(), fake.Templates(), fake.Machines()); len(left) > 0 || fake.Secrets() > 0 {
		t.Errorf("there are left %s, %d secrets", left, fake.Secrets())
	}
}

// While no command is attached three machines go with a notice and one without: others come in their place, each item is counted once, no retry is
// spent, and no machine is left.
func TestRealMachinesOfEC2GoOnByThemselves(t *testing.T) {
	fake, h, running := ec2InContainers(t)
	h.drover(t, 0, "map", "--detach", "--image", dockerd.Debian, "--cpus", "1", "--workers", "8", "--slots", "2", "--secret", "TOKEN=env:CANARY", "--from", "1-10000", "--", "sh", "-c", `sleep 0.05; [ ${#TOKEN} = 11 ]`, "x", "{}")
	drivertest.Until(t, "eight containers run", func() bool { return len(running()) == 8 })
	first := fake.Machines()
	asked := fake.Requests("DescribeAutoScalingGroups")
	for _, id := range first[:3] {
		fake.Warn(id)
	}
	fake.Take(first[3])
	drivertest.Until(t, "the map has ended", func() bool {
		return len(fake.Machines()) == 0
	})
	if n := fake.Requests("DescribeAutoScalingGroups") - asked; n > 0 {
		t.Errorf("%d requests were sent while no command was attached", n)
	}
	if n := fake.Launched(); n != 12 {
		t.Errorf("%d machines were launched, want eight, and four in the place of those that went", n)
	}
	if v := h.verified(t); v.State != "SUCCEEDED" || v.Tally.Succeeded != 10_000 || v.Extra.Retries != 0 {
		t.Errorf("%+v", v)
	}
	nothingIsLeft(t, fake, h)
}

// All that is ours is killed at once: the command, and both machines' processes; those that AWS puts in their place run nothing. An hour later AWS has
// ended all of them, and drover resume goes on with the job: its nodes meet again on new machines, and the model comes back.
func TestRealNodesOfEC2GoOnAfterAllHasDied(t *testing.T) {
	fake, h, running := ec2InContainers(t)
	put(t, filepath.Join(h.work, "train.py"), []byte(trainProgram))
	c := h.begin(t, "run", "--image", dockerd.Debian, "--nodes", "2", "--retries", "1", "train.py")
	c.says(t, "waits")
	drivertest.Until(t, "two containers run", func() bool { return len(running()) == 2 }) // Docker's list fails now and then while others end
	if len(fake.Groups()) != 1 {
		t.Fatalf("they are of %s", fake.Groups())
	}
	first := fake.Machines()
	_ = c.Process.Kill()
	_ = c.Wait()
	fake.BreakAMI()
	for _, id := range first {
		fake.KillProcesses(id)
	}
	drivertest.Until(t, "others have come in their place", func() bool {
		now := fake.Machines()
		return len(now) == 2 && !slices.Contains(now, first[0]) && !slices.Contains(now, first[1])
	})
	fake.Advance(59 * time.Minute)
	if len(fake.Machines()) != 2 {
		t.Errorf("before the hour is over there are %s", fake.Machines())
	}
	fake.Advance(2 * time.Minute)
	if len(fake.Machines()) > 0 {
		t.Errorf("after an hour there are %s", fake.Machines())
	}
	fake.Advance(-61 * time.Minute) // commands go by the clock of this machine
	fake.MendAMI()
	h.drover(t, 0, "resume", "last")
	var status struct {
		State                   string
		Interruptions, Failures int
	}
	out, _ := h.drover(t, 0, "status", "--json", "last")
	if err := json.Unmarshal([]byte(out), &status); err != nil || status.State != "SUCCEEDED" || status.Interruptions != 1 || status.Failures != 0 {
		t.Errorf("%s, %v", out, err)
	}
	h.drover(t, 0, "get", "last", "-o", "out")
	for _, node := range []string{"algo-1", "algo-2"} {
		if _, err := os.Stat(filepath.Join(h.work, "out", "model", "of-"+node)); err != nil {
			t.Error(err)
		}
	}
	nothingIsLeft(t, fake, h)
}

// savingProgram saves when it is asked to end, and goes on from there.
const savingProgram = `
import os, signal, sys, time
step = "/state/step"
if os.path.exists(step):
    print("went on from", open(step).read(), flush=True)
    open("/opt/ml/model/weights", "w").write("trained")
    sys.exit()
def save(*_):
    open(step, "w").write("7")
    sys.exit(1)
signal.signal(signal.SIGTERM, save)
print("waits", flush=True)
time.sleep(1000)
`

// A machine is told that it goes: its program saves, another machine comes in its place and goes on from there, and the model comes back; it is one
// interruption, and no retry is spent.
func TestRealAProgramOnEC2GoesOnFromWhatItHasSaved(t *testing.T) {
	fake, h, running := ec2InContainers(t)
	put(t, filepath.Join(h.work, "train.py"), []byte(savingProgram))
	c := h.begin(t, "run", "--image", dockerd.Debian, "train.py")
	c.says(t, "waits")
	drivertest.Until(t, "a container runs", func() bool { return len(running()) == 1 })
	fake.Warn(fake.Machines()[0])
	c.says(t, "went on from 7")
	c.sound(t)
	var status struct{ Interruptions, Failures int }
	out, _ := h.drover(t, 0, "status", "--json", "last")
	if err := json.Unmarshal([]byte(out), &status); err != nil || status.Interruptions != 1 || status.Failures != 0 || fake.Launched() != 2 {
		t.Errorf("%s, %v; %d machines were launched", out, err, fake.Launched())
	}
	nothingIsLeft(t, fake, h)
}

// On ec2/ami the agent takes the whole machine for its own: a program finds SageMaker's folders under their names, what it leaves there comes back,
// and a machine that is killed is replaced.
func TestRealAgentsHaveMachinesOfEC2AsTheyAre(t *testing.T) {
	onlyReal(t)
	t.Parallel() // as above
	fake := ec2test.New(t)
	fake.UseOwnFiles(t, "test", "testtest")
	fake.Stacks.Hurry()
	h := newHome(t)
	h.finds(fake.Environ())
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/ami?region=us-east-1&endpoint="+s3test.Real(t), "DROVER_ON=ec2/ami", "CANARY=canaryvalue")
	h.drover(t, 0, "target", "up", "ec2", "--yes")
	c := h.begin(t, "run", "--secret", "TOKEN=env:CANARY", "--", "sh", "-c", `[ ${#TOKEN} = 11 ] && echo trained >/opt/ml/model/weights; if [ $DROVER_ATTEMPT = 1 ]; then echo waits; sleep 1000; fi; echo went on`)
	c.says(t, "waits")
	fake.Take(fake.Machines()[0])
	c.says(t, "went on")
	c.sound(t)
	h.drover(t, 0, "get", "last", "-o", "out")
	if text, err := os.ReadFile(filepath.Join(h.work, "out", "model", "weights")); err != nil || string(text) != "trained\n" {
		t.Errorf("%q, %v", text, err)
	}
	if n := fake.Launched(); n != 2 {
		t.Errorf("%d machines were launched", n)
	}
	nothingIsLeft(t, fake, h)
}

// Nodes on machines of EC2 meet by a launcher: torch's variables, and Open MPI's own remote shells. Each trains the model that one node trains.
func TestRealNodesOfEC2AreLaunched(t *testing.T) {
	onlyReal(t)
	t.Parallel() // as above
	fake := ec2test.New(t)
	fake.UseOwnFiles(t, "test", "testtest")
	fake.Stacks.Hurry()
	alone := withTorch(t)
	h := withTorch(t)
	alone.bring(t, "mpi")
	h.bring(t, "mpi")
	h.finds(fake.Environ())
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/launched?region=us-east-1&endpoint="+s3test.Real(t), "DROVER_ON=ec2/ami")
	h.drover(t, 0, "target", "up", "ec2", "--yes")
	torch := h.train(t, 2, "ddp/train.py", "--nodes", "2", "--launcher", "torch")
	sameLoss(t, alone.train(t, 1, "ddp/train.py")[0], torch...)
	mpi := h.train(t, 2, "mpi/train.py", "--nodes", "2", "--procs-per-node", "2", "--launcher", "mpi")
	fourRanks(t, mpi[0])
	sameLoss(t, alone.train(t, 1, "mpi/train.py")[0], mpi[0])
	if n := fake.Launched(); n != 4 {
		t.Errorf("%d machines were launched", n)
	}
	nothingIsLeft(t, fake, h)
}
