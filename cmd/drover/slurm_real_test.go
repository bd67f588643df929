//go:build linux

package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/slurm/slurmd"
	"github.com/drover-run/drover/store/s3/s3test"
)

// withSlurm is a home with a drover that finds the tests' cluster, and uses it.
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

// counter counts to its first argument, a fifth of a second each, in a checkpoint. A
// process that began at 0 stays at the second argument until the third, a file, exists, so
// that what the test does to it meanwhile may take as long as it does.
const counter = `
import pathlib, signal, sys, time
kept = pathlib.Path("/opt/ml/checkpoints/n")
had = int(kept.read_text()) if kept.exists() else 0
n = had
signal.signal(signal.SIGTERM, lambda *a: (print("asked at", n, flush=True), sys.exit(3)))
print("begins at", n, flush=True)
while n < int(sys.argv[1]):
    while not had and n == int(sys.argv[2]) and not pathlib.Path(sys.argv[3]).exists():
        time.sleep(0.05)
    n += 1
    whole = kept.with_suffix(".new")
    whole.write_text(str(n))
    whole.replace(kept)
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

// keeps waits until each of a job's nodes has stored something of what it has counted: an
// agent that has had no time for that goes on from nothing, which is right.
func (h home) keeps(t *testing.T, task string, nodes ...string) {
	t.Helper()
	drivertest.Until(t, "checkpoints are saved", func() bool {
		out, _ := h.drover(t, 0, "events", task)
		for _, node := range nodes {
			if !strings.Contains(out, node+" saved checkpoint") {
				return false
			}
		}
		return strings.Contains(out, "saved checkpoint")
	})
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
	const items = 600
	put(t, filepath.Join(h.work, "waiting.sh"), []byte(waiting))
	gate := h.runs("go")
	c, said := h.heardOf(t, "map", "--workers", "4", "--from", "1-"+strconv.Itoa(items), "--", "sh", "waiting.sh", gate, strconv.Itoa(items/2), "{}")
	drivertest.Until(t, "four tasks run", func() bool { return strings.Count(queue(t, "--states=RUNNING"), "\n") == 4 })
	drivertest.Until(t, "items have ended", func() bool { return strings.Contains(said(), " succeeded") })
	tasks := strings.Fields(queue(t, "--states=RUNNING", "--format=%F_%K"))
	if len(tasks) != 4 {
		t.Fatalf("there is work for four tasks, and %v run\n%s", tasks, said())
	}
	drivertest.Until(t, "four agents are there", func() bool {
		return !slices.ContainsFunc(tasks, func(task string) bool { return len(h.agentsOf(task)) == 0 })
	})
	if out, err := exec.Command("scontrol", "requeue", tasks[0]).CombinedOutput(); err != nil {
		t.Fatalf("scontrol: %v: %s", err, out)
	}
	for _, pid := range h.agentsOf(tasks[1]) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	put(t, gate, nil)
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said())
	}
	if v := h.verified(t); v.State != "SUCCEEDED" || v.Tally.Items != items || v.Tally.Succeeded != items {
		t.Errorf("it ended %+v\n%s", v, said())
	}
}

// waiting is an item that takes a tenth of a second. Those above the second argument wait
// until the first, a file, is there: the map is not over before what is to befall it has.
const waiting = `sleep 0.1
until [ -e "$1" ] || [ "$3" -le "$2" ]; do sleep 0.1; done
`

// agentsOf are the processes of a task's agent: the child of what Slurm started.
func (h home) agentsOf(task string) (pids []int) {
	_, index, _ := strings.Cut(task, "_")
	for pid := range processesOf(filepath.Dir(h.work)) {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if strings.Contains(string(line), "agent\x00--store") && strings.Contains(string(line), "--index\x00"+index+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestRealSlurmWaitsAndSaysWhy(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(counter))
	h.drover(t, 0, "run", "--detach", "--slurm-arg", "--begin=now+1hour", "-t", "later", "count.py", "3", "1", "never")
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
	c, said := h.begins(t, "step 5\n", "run", "-t", "counts", "count.py", "30", "5", "never")
	h.keeps(t, "counts")
	if out, err := exec.Command("scancel", strings.TrimSpace(queue(t, "--format=%A"))).CombinedOutput(); err != nil {
		t.Fatalf("scancel: %v: %s", err, out)
	}
	if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != 130 {
		t.Errorf("it ended with %v:\n%s", err, said)
	}
	drivertest.Until(t, "it is interrupted", func() bool { // Slurm has it a little longer than its agent
		out, _ := h.drover(t, 0, "status", "counts")
		return strings.Contains(out, "INTERRUPTED") && strings.Contains(out, "0 failures")
	})
	out, _ := h.drover(t, 0, "resume", "counts")
	if strings.Contains(out, "begins at 0") || !strings.Contains(out, "step 30") {
		t.Errorf("it goes on with\n%s", out)
	}
}

// A script that keeps its checkpoint beside itself goes on from it, too.
func TestRealSlurmGoesOnFromFilesBesideTheScript(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(strings.ReplaceAll(counter, "/opt/ml/checkpoints/n", "n")))
	c, said := h.begins(t, "step 7\n", "run", "-t", "beside", "count.py", "9", "7", "never")
	drivertest.Until(t, "files are saved", func() bool {
		out, _ := h.drover(t, 0, "events", "beside")
		return strings.Contains(out, "saved files of the working folder")
	})
	if out, err := exec.Command("scancel", strings.TrimSpace(queue(t, "--format=%A"))).CombinedOutput(); err != nil {
		t.Fatalf("scancel: %v: %s", err, out)
	}
	if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != 130 {
		t.Errorf("it ended with %v:\n%s", err, said)
	}
	if out, _ := h.drover(t, 0, "resume", "beside"); !strings.Contains(out, "begins at 7") || !strings.Contains(out, "step 9") {
		t.Errorf("it goes on with\n%s", out)
	}
}

// The same with nothing left of it: command line, agent, supervisor and program were killed.
func TestRealSlurmGoesOnFromFilesBesideTheScriptAfterAllIsKilled(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(strings.ReplaceAll(counter, "/opt/ml/checkpoints/n", "n")))
	c, _ := h.begins(t, "step 7\n", "run", "-t", "killed", "count.py", "9", "7", "never")
	drivertest.Until(t, "files are saved", func() bool {
		out, _ := h.drover(t, 0, "events", "killed")
		return strings.Contains(out, "saved files of the working folder")
	})
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	killed := ""
	for pid, command := range processesOf(filepath.Dir(h.work)) {
		if strings.Contains(command, "slurmstepd") {
			continue // Slurm's own, as slurmd is
		}
		killed += command + "\n"
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have gone with another
	}
	if !strings.Contains(killed, " agent ") || !strings.Contains(killed, "count.py") {
		t.Fatalf("these were killed:\n%s", killed)
	}
	drivertest.Until(t, "it is interrupted", func() bool {
		out, _ := h.drover(t, 0, "status", "killed")
		return strings.Contains(out, "INTERRUPTED")
	})
	if out, _ := h.drover(t, 0, "resume", "killed"); !strings.Contains(out, "begins at 7") || !strings.Contains(out, "step 9") {
		t.Errorf("it goes on with\n%s", out)
	}
}

func TestRealSlurmSettlesWithTheCommandLineGone(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(counter))
	c, _ := h.begins(t, "step 2\n", "run", "-t", "alone", "count.py", "20", "2", "never")
	h.keeps(t, "alone")
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
		if time.Since(begin) > 4*patience { // Slurm waits before it starts again
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
	c, said := h.begins(t, "step 1\n", "run", "-t", "left", "count.py", "15", "1", h.runs("go"))
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); c.ProcessState.ExitCode() != 130 || !strings.Contains(said.String(), " is still running") {
		t.Errorf("it ended with %v and said\n%s", err, said)
	}
	out, _ := h.drover(t, 7, "attach", "left", "--", "sh", "-c", `echo "$SM_CURRENT_HOST in $(pwd)"; test -f count.py && exit 7`)
	if !strings.Contains(out, "algo-1 in /opt/ml/code\n") {
		t.Errorf("beside it is\n%s", out)
	}
	put(t, h.runs("go"), nil)
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
		nodes int // that print it: a node that has not begun lets the others wait for a minute
		args  []string
	}{
		"one":   {"step 1\n", 1, []string{"run", "-t", "one", "count.py", "1000", "1", "never"}},
		"two":   {"step 1\n", 2, []string{"run", "-t", "two", "--nodes", "2", "count.py", "1000", "1", "never"}},
		"deaf":  {"begins\n", 1, []string{"run", "-t", "deaf", "--grace", "3s", "deaf.sh"}},
		"items": {"", 0, []string{"map", "-t", "items", "--workers", "3", "--from", "1-300", "--", "sleep", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			cli, said := h.pressTwice(t, c.until, c.nodes, c.args...)
			if cli.ProcessState.ExitCode() != 130 || !strings.Contains(said, "Cancelling ") || !strings.Contains(said, " cancelled\n") {
				t.Errorf("it ended with %v and said\n%s", cli.ProcessState, said)
			}
			drivertest.Until(t, "Slurm has nothing of it left", func() bool { return queue(t) == "" })
			if out, _ := h.drover(t, 0, "status", name); !strings.Contains(out, "CANCELLED") {
				t.Errorf("its state is\n%s", out)
			}
			for _, name := range leftovers(filepath.Dir(h.work), patience) {
				t.Errorf("process %s is left", name)
			}
		})
	}
}

// pressTwice types a command, and Ctrl-C twice once its nodes print those words, or it has
// three tasks where it is to print nothing. Where two seconds went by between the two, the job goes on, as
// it should, and so does the same command.
func (h home) pressTwice(t *testing.T, words string, nodes int, args ...string) (*exec.Cmd, string) {
	t.Helper()
	for {
		cli, said := h.heardOf(t, args...)
		drivertest.Until(t, "it works", func() bool {
			return words != "" && strings.Count(said(), words) == nodes || words == "" && strings.Count(queue(t, "--states=RUNNING"), "\n") == 3
		})
		for range 2 { // from "timeout -s INT" one Ctrl-C comes twice, which cancels nothing
			if err := cli.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
		// The first is heard before the second is sent: signals do not add up.
		drivertest.Until(t, "it is heard", func() bool { return strings.Contains(said(), "Ctrl-C again cancels it") })
		_ = cli.Process.Signal(syscall.SIGINT) // or it has ended, which is seen now
		_ = cli.Wait()
		if cli.ProcessState.ExitCode() != 130 || strings.Contains(said(), "Cancelling ") {
			return cli, said()
		}
		t.Logf("more than two seconds went by between the two:\n%s", said())
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
// elsewhere, without a command, and nothing has failed.
func TestRealSlurmMapGoesOnWhenItIsPreempted(t *testing.T) {
	h := withSlurm(t)
	const items = 1500
	put(t, filepath.Join(h.work, "waiting.sh"), []byte(waiting))
	for _, partition := range []string{"spot", "cheap"} { // Slurm looks twice a minute which grace is over
		began := h.runs(partition)
		c, said := h.heardOf(t, "map", "-t", partition, "--on", "slurm/"+partition, "--slurm-arg", "--exclusive", "--workers", "4", "-j", "4", "--from", "1-"+strconv.Itoa(items), "--", "sh", "waiting.sh", began, strconv.Itoa(items/2), "{}")
		drivertest.Until(t, "four tasks run", func() bool { return strings.Count(queue(t, "--states=RUNNING"), "\n") == 4 })
		drivertest.Until(t, "four agents have items", func() bool {
			nodes := map[string]bool{}
			for pid, name := range processesOf(filepath.Dir(h.work)) {
				if strings.HasPrefix(name, "sh waiting.sh ") {
					nodes[variable(pid, "SLURMD_NODENAME")] = true
				}
			}
			return len(nodes) == 4
		})
		first, err := exec.Command("sbatch", "--parsable", "--exclusive", "--nodes=2", "--output=/dev/null", "--wrap=touch "+began+"; sleep 10").Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, said())
		}
		out, err := exec.Command("squeue", "--noheader", "--states=all", "--jobs="+strings.TrimSpace(string(first)), "--format=%T").CombinedOutput()
		if state := string(out); state != "COMPLETED\n" && state != "COMPLETING\n" && state != "RUNNING\n" {
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

// variable is a variable of a process; "" if there is none, or no process.
func variable(pid int, name string) string {
	environ, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	for kv := range strings.SplitSeq(string(environ), "\x00") {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// A run on one node and on two goes on from its checkpoint when its machines are free
// again, and what became of it was an interruption.
func TestRealSlurmRunGoesOnWhenItIsPreempted(t *testing.T) {
	h := withSlurm(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(counter))
	for partition, nodes := range map[string][]string{"spot": {""}, "cheap": {"node 0", "node 1"}} {
		n := len(nodes)
		c, said := h.heardOf(t, "run", "-t", partition, "--on", "slurm/"+partition, "--nodes", strconv.Itoa(n), "count.py", "30", "3", "never")
		drivertest.Until(t, "it works", func() bool { return strings.Count(said(), "step 3\n") == n })
		h.keeps(t, partition, nodes...)
		if out, err := exec.Command("sbatch", "--parsable", "--exclusive", "--nodes=4", "--output=/dev/null", "--wrap=sleep 3").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", partition, err, said())
		}
		if text := said(); !strings.Contains(text, "asked at ") || strings.Count(text, "begins at 0\n") != n {
			t.Errorf("%s: it says\n%s", partition, text)
		}
		if out, _ := h.drover(t, 0, "status", partition); !strings.Contains(out, "(1 interruption, 0 failures)") {
			t.Errorf("%s: its state is\n%s", partition, out)
		}
	}
}
