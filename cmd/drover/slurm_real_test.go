//go:build linux

package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/slurm/slurmd"
	"github.com/drover-run/drover/store/s3/s3test"
)

// withSlurm is a home whose drover finds the tests' cluster, and uses it.
func withSlurm(t *testing.T) home {
	t.Helper()
	onlyReal(t)
	conf := slurmd.Use(t)
	h := newHome(t)
	h.environ = append(h.environ, "SLURM_CONF="+conf, "DROVER_ON=slurm")
	t.Cleanup(func() { // what a test has left would hold the cluster's machines
		for _, job := range strings.Fields(queue(t, "--format=%A")) {
			_ = exec.Command("scancel", "--signal=KILL", job).Run()
		}
	})
	return h
}

// queue is what squeue says of drover's jobs.
func queue(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("squeue", append([]string{"--noheader", "--array"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("squeue: %v: %s", err, out)
	}
	return string(out)
}

// counter counts to its first argument, a fifth of a second each, in a checkpoint.
const counter = `
import pathlib, signal, sys, time
kept = pathlib.Path("/opt/ml/checkpoints/n")
n = int(kept.read_text()) if kept.exists() else 0
print("begins at", n, flush=True)
signal.signal(signal.SIGTERM, lambda *a: (print("asked at", n, flush=True), sys.exit(3)))
while n < int(sys.argv[1]):
    n += 1
    kept.write_text(str(n))
    print("step", n, flush=True)
    time.sleep(0.2)
`

// begins starts drover and waits until its program has printed something.
func (h home) begins(t *testing.T, until string, args ...string) (c *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	said = &bytes.Buffer{}
	c = exec.Command(filepath.Join(built.dir, "drover"), args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = h.work, h.environ, f, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	drivertest.Until(t, "it prints "+until, func() bool {
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), until)
	})
	return c, said
}

func TestRealSlurmRunsAScript(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "hello.py"), []byte("import os\nprint('hello from', os.environ['SLURMD_NODENAME'])\nopen('/opt/ml/model/m', 'w').write('w')\n"))
	out, said := h.drover(t, 0, "run", "--cpus", "2", "--memory", "512M", "-o", "out", "hello.py")
	if !strings.HasPrefix(out, "hello from n") {
		t.Errorf("it prints %q, and says\n%s", out, said)
	}
	if text, err := os.ReadFile(filepath.Join(h.work, "out", "model", "m")); err != nil || string(text) != "w" {
		t.Errorf("the model is %q, %v", text, err)
	}
	drivertest.Until(t, "Slurm has nothing of it left", func() bool { return queue(t, "--states=PENDING,RUNNING") == "" })
}

func TestRealSlurmTwoNodesTrain(t *testing.T) {
	h := withSlurm(t)
	h.bring(t, "digits")
	out, said := h.drover(t, 0, "run", "--nodes", "2", "-o", "out", "digits/train.py", "--epochs", "2")
	for _, want := range []string{"[0] epoch=2 ", "[1] epoch=2 "} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %q:\n%s%s", want, out, said)
		}
	}
}

func TestRealSlurmMPIOverTwoNodes(t *testing.T) {
	h := withSlurm(t)
	h.bring(t, "mpi")
	together := h.train(t, 2, "mpi/train.py", "--nodes", "2", "--procs-per-node", "2", "--launcher", "mpi")
	fourRanks(t, together[0])
}

func TestRealSlurmOpenMPIOverTwoNodes(t *testing.T) {
	h := withSlurm(t)
	h.bring(t, "mpi")
	h.environ = append(h.environ, "DROVER_PYTHON="+debian)
	if err := os.Remove(filepath.Join(h.work, "mpi", "requirements.txt")); err != nil {
		t.Fatal(err)
	}
	together := h.train(t, 2, "mpi/train.py", "--nodes", "2", "--procs-per-node", "2", "--launcher", "mpi")
	fourRanks(t, together[0])
}

func TestRealSlurmMapLosesNothingWhenTasksAreRequeuedAndKilled(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "items.txt"), []byte(strings.Repeat("x\n", 1200)))
	c := exec.Command(filepath.Join(built.dir, "drover"), "map", "--workers", "4", "--from", "items.txt", "--", "sleep", "0.1")
	var said bytes.Buffer
	c.Dir, c.Env, c.Stderr = h.work, h.environ, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "four tasks run", func() bool { return strings.Count(queue(t, "--states=RUNNING"), "\n") == 4 })
	drivertest.Until(t, "items have ended", func() bool { return strings.Contains(said.String(), " succeeded") })
	tasks := strings.Fields(queue(t, "--states=RUNNING", "--format=%F_%K"))
	if out, err := exec.Command("scontrol", "requeue", tasks[0]).CombinedOutput(); err != nil {
		t.Fatalf("scontrol: %v: %s", err, out)
	}
	h.killAnAgent(t, tasks[1])
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	if v := h.verified(t); v.State != "SUCCEEDED" || v.Tally.Items != 1200 || v.Tally.Succeeded != 1200 {
		t.Errorf("it ended %+v\n%s", v, &said)
	}
}

// killAnAgent ends the agent of a task with kill -9: the child of what Slurm started.
func (h home) killAnAgent(t *testing.T, task string) {
	t.Helper()
	_, index, _ := strings.Cut(task, "_")
	for pid := range processesOf(filepath.Dir(h.work)) {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if strings.Contains(string(line), "agent\x00--store") && strings.Contains(string(line), "--index\x00"+index+"\x00") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("there is no agent of task %s", task)
}

func TestRealSlurmWaitsAndSaysWhy(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(counter))
	h.drover(t, 0, "run", "--detach", "--slurm-arg", "--begin=now+1hour", "-t", "later", "count.py", "3")
	drivertest.Until(t, "why says what it waits for", func() bool {
		out, _ := h.drover(t, 0, "why", "later")
		return strings.Contains(out, "(BeginTime)")
	})
	h.drover(t, 0, "cancel", "later")
	if out, _ := h.drover(t, 0, "status", "later"); !strings.Contains(out, "CANCELLED") {
		t.Errorf("its state is\n%s", out)
	}
	drivertest.Until(t, "Slurm has nothing of it left", func() bool { return queue(t, "--states=PENDING,RUNNING") == "" })
}

func TestRealSlurmGoesOnAfterScancelByHand(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(counter))
	c, said := h.begins(t, "step 5\n", "run", "-t", "counts", "count.py", "30")
	if out, err := exec.Command("scancel", strings.TrimSpace(queue(t, "--format=%A"))).CombinedOutput(); err != nil {
		t.Fatalf("scancel: %v: %s", err, out)
	}
	if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != 130 {
		t.Errorf("it ended with %v:\n%s", err, said)
	}
	if out, _ := h.drover(t, 0, "status", "counts"); !strings.Contains(out, "INTERRUPTED") || !strings.Contains(out, "0 failures") {
		t.Errorf("its state is\n%s", out)
	}
	out, _ := h.drover(t, 0, "resume", "counts")
	if strings.Contains(out, "begins at 0") || !strings.Contains(out, "step 30") {
		t.Errorf("it goes on with\n%s", out)
	}
}

func TestRealSlurmSettlesWithTheCommandLineGone(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(counter))
	c, _ := h.begins(t, "step 2\n", "run", "-t", "alone", "count.py", "20")
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	// A requeued task is started by Slurm, too, and it is an interruption.
	if out, err := exec.Command("scontrol", "requeue", strings.TrimSpace(queue(t, "--format=%A"))).CombinedOutput(); err != nil {
		t.Fatalf("scontrol: %v: %s", err, out)
	}
	for begin := time.Now(); ; {
		out, _ := h.drover(t, 0, "status", "alone") // attends to nothing
		if strings.Contains(out, "SUCCEEDED") {
			if !strings.Contains(out, "(1 interruption, 0 failures)") {
				t.Errorf("it ended\n%s", out)
			}
			return
		}
		if time.Since(begin) > 3*time.Minute { // Slurm waits before it starts again
			t.Fatalf("it stands at\n%s\n%s", out, queue(t))
		}
		select {
		case <-t.Context().Done():
		case <-time.After(time.Second):
		}
	}
}

func TestRealSlurmDetachesAtCtrlC(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(counter))
	c, said := h.begins(t, "step 1\n", "run", "-t", "left", "count.py", "15")
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); c.ProcessState.ExitCode() != 130 || !strings.Contains(said.String(), "goes on") {
		t.Errorf("it ended with %v and said\n%s", err, said)
	}
	out, _ := h.drover(t, 7, "attach", "left", "--", "sh", "-c", `echo "$SM_CURRENT_HOST in $(pwd)"; test -f count.py && exit 7`)
	if !strings.Contains(out, "algo-1 in /opt/ml/code\n") {
		t.Errorf("beside it is\n%s", out)
	}
	out, _ = h.drover(t, 0, "logs", "-f", "left")
	if !strings.Contains(out, "step 15\n") {
		t.Errorf("its output is\n%s", out)
	}
}

// The keys are in the environment of the command line alone: Slurm is given none, and
// agents have what they open the store with in a file of their user's.
func TestRealSlurmOnABucket(t *testing.T) {
	h := withSlurm(t).withKeys()
	h.environ = append(h.environ, "AWS_ENDPOINT_URL="+s3test.MinIO(t))
	const place = "s3://facts/slurm"
	put(t, filepath.Join(h.work, "items.txt"), []byte(strings.Repeat("x\n", 300)))
	put(t, filepath.Join(h.work, "train.py"), []byte("import os\nassert 'AWS_SECRET_ACCESS_KEY' not in os.environ\nprint('trained')\n"))
	out, said := h.drover(t, 0, "run", "--store", place, "train.py")
	if out != "trained\n" || !strings.Contains(said, "  rights   agents are given ") {
		t.Errorf("it prints %q, and says\n%s", out, said)
	}
	h.drover(t, 0, "map", "-t", "many", "--store", place, "--workers", "4", "--from", "items.txt", "--", "true", "{}")
	if out, _ := h.drover(t, 0, "verify", "--store", place, "many"); !strings.Contains(out, "300") {
		t.Errorf("verify says\n%s", out)
	}
	conf := slurmd.Use(t)
	if out, err := exec.Command("grep", "-rlF", canary, filepath.Dir(conf)).CombinedOutput(); err == nil || len(out) > 0 {
		t.Errorf("the key is in Slurm's own files: %s", out)
	}
}

// A second Ctrl-C within two seconds cancels: nothing of the job is left in Slurm, be
// it a program that hears of it or one that is deaf.
func TestRealSlurmASecondCtrlCCancels(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(counter))
	put(t, filepath.Join(h.work, "deaf.sh"), []byte("#!/bin/sh\ntrap '' TERM\necho begins\nwhile :; do sleep 1; done\n"))
	for name, c := range map[string]struct {
		until string
		args  []string
	}{
		"one":   {"step 1\n", []string{"run", "-t", "one", "count.py", "1000"}},
		"two":   {"step 1\n", []string{"run", "-t", "two", "--nodes", "2", "count.py", "1000"}},
		"deaf":  {"begins\n", []string{"run", "-t", "deaf", "--grace", "3s", "deaf.sh"}},
		"items": {"", []string{"map", "-t", "items", "--workers", "3", "--from", "1-300", "--", "sleep", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			cli, said := h.heardOf(t, c.args...)
			drivertest.Until(t, "it works", func() bool {
				return c.until != "" && strings.Contains(said(), c.until) || c.until == "" && strings.Count(queue(t, "--states=RUNNING"), "\n") == 3
			})
			for range 2 { // the first is heard before the second is sent: signals do not add up
				if err := cli.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
				drivertest.Until(t, "it is heard", func() bool { return strings.Contains(said(), "Ctrl-C again: cancel it") })
			}
			if err := cli.Wait(); cli.ProcessState.ExitCode() != 130 || !strings.Contains(said(), "Cancelling ") || !strings.Contains(said(), " cancelled\n") {
				t.Errorf("it ended with %v and said\n%s", err, said())
			}
			drivertest.Until(t, "Slurm has nothing of it left", func() bool { return queue(t) == "" })
			if out, _ := h.drover(t, 0, "status", name); !strings.Contains(out, "CANCELLED") {
				t.Errorf("its state is\n%s", out)
			}
			for pid, name := range processesOf(filepath.Dir(h.work)) {
				t.Errorf("process %d is left: %s", pid, name)
			}
		})
	}
}

// heardOf starts drover, and gives what it has said so far, to whomever.
func (h home) heardOf(t *testing.T, args ...string) (c *exec.Cmd, said func() string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c = exec.Command(filepath.Join(built.dir, "drover"), args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = h.work, h.environ, f, f
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	return c, func() string {
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// A job that comes before a map takes two of its four machines: its items go on
// elsewhere. Nobody types anything; nothing has failed.
func TestRealSlurmMapGoesOnWhenItIsPreempted(t *testing.T) {
	h := withSlurm(t)
	h.compiled(t)
	put(t, filepath.Join(h.work, "slow.sh"), []byte("./teller $RUNS $1 && sleep 0.1\n"))
	for partition, items := range map[string]int{"spot": 1500, "cheap": 7000} { // Slurm looks twice a minute which grace is over
		c, said := h.heardOf(t, "map", "-t", partition, "--on", "slurm/"+partition, "--slurm-arg", "--exclusive", "--workers", "4", "-j", "4", "--env", "RUNS="+h.runs(partition), "--from", "1-"+strconv.Itoa(items), "--", "sh", "slow.sh", "{}")
		drivertest.Until(t, "four tasks run", func() bool { return strings.Count(queue(t, "--states=RUNNING"), "\n") == 4 })
		h.whenRan(t, partition, 150)
		first, err := exec.Command("sbatch", "--parsable", "--exclusive", "--nodes=2", "--output=/dev/null", "--wrap=sleep 10").Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, said())
		}
		out, err := exec.Command("squeue", "--noheader", "--states=all", "--jobs="+strings.TrimSpace(string(first)), "--format=%T").CombinedOutput()
		if string(out) != "COMPLETED\n" && string(out) != "RUNNING\n" {
			t.Errorf("the job before it is %s, %v", out, err)
		}
		v := h.verified(t)
		if v.State != "SUCCEEDED" || v.Tally.Items != items || v.Tally.Succeeded != items || v.Extra.Retries != 0 || v.Extra.Unexplained != 0 {
			t.Errorf("%s: it ended %+v\n%s", partition, v, said())
		}
		if events, _ := h.drover(t, 0, "events", partition); strings.Count(events, "leaving: preempted in Slurm for another job") != 2 {
			t.Errorf("%s: two agents were to leave for it\n%s", partition, events)
		}
	}
}

// A run on one node and on two goes on from its checkpoint when its machines are free
// again, and what became of it was an interruption.
func TestRealSlurmRunGoesOnWhenItIsPreempted(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(counter))
	for partition, nodes := range map[string]string{"spot": "1", "cheap": "2"} {
		c, said := h.heardOf(t, "run", "-t", partition, "--on", "slurm/"+partition, "--nodes", nodes, "count.py", "30")
		drivertest.Until(t, "it works", func() bool { return strings.Contains(said(), "step 3\n") })
		if out, err := exec.Command("sbatch", "--parsable", "--exclusive", "--nodes=4", "--output=/dev/null", "--wrap=sleep 3").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", partition, err, said())
		}
		if text := said(); !strings.Contains(text, "asked at ") || strconv.Itoa(strings.Count(text, "begins at 0\n")) != nodes {
			t.Errorf("%s: it says\n%s", partition, text)
		}
		if out, _ := h.drover(t, 0, "status", partition); !strings.Contains(out, "(1 interruption, 0 failures)") {
			t.Errorf("%s: its state is\n%s", partition, out)
		}
	}
}
