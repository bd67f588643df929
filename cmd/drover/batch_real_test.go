//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver/batch/batchtest"
	"github.com/drover-run/drover/driver/docker/dockerd"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/store/s3/s3test"
)

// containerPrefix begins the names of the containers of these tests.
const containerPrefix = "drover-batch-test-"

// dockerAt runs commands of Docker, and gives what they print.
func dockerAt(t *testing.T, host string) func(args ...string) string {
	return func(args ...string) string {
		c := exec.Command("docker", args...)
		c.Env = append(c.Environ(), "DOCKER_HOST="+host)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Logf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
}

// batchInContainers is an account of which AWS Batch is a fake and the containers of jobs are real ones, and a home
// with a store that their agents open by their role.
func batchInContainers(t *testing.T) (fake *batchtest.Server, h home, docker func(args ...string) string) {
	onlyReal(t)
	host := dockerd.Use(t)
	docker = dockerAt(t, host)
	fake = batchtest.New(t)
	t.Cleanup(func() {
		for _, id := range strings.Fields(docker("ps", "-aq", "--filter", "name="+containerPrefix)) {
			docker("rm", "-f", id)
		}
	})
	fake.UseContainers(func(c batchtest.Container) *exec.Cmd {
		words := []string{"run", "--rm", "--name", containerPrefix + c.Name, "--network", "host", "--user", "0"}
		for _, v := range c.Env {
			words = append(words, "-e", v)
		}
		cmd := exec.Command("docker", append(append(words, c.Image), c.Command...)...)
		cmd.Env = append(cmd.Environ(), "DOCKER_HOST="+host)
		return cmd
	}, "test", "testtest")
	h = newHome(t)
	h.finds(fake.Environ())
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/batch?region=us-east-1&endpoint="+s3test.Real(t), "DROVER_ON=batch", "CANARY=canaryvalue")
	return fake, h, docker
}

// jobOfContainer is the job, or the child of an array, that a container is of.
func jobOfContainer(name string) string {
	job, _, _ := strings.Cut(strings.TrimPrefix(name, containerPrefix), ".")
	i := strings.LastIndex(job, "-")
	return job[:i] + ":" + job[i+1:]
}

// While no command is attached three of six hosts are taken away: AWS Batch starts their agents again, the map ends, no retry
// is spent, and nothing is asked of AWS Batch meanwhile.
func TestRealAgentsOfBatchGoOnByThemselves(t *testing.T) {
	fake, h, docker := batchInContainers(t)
	h.drover(t, 0, "map", "--detach", "--image", dockerd.Debian, "--cpus", "0.5", "--workers", "6", "--slots", "1", "--from", "1-90", "--", "sh", "-c", "sleep 0.5", "x", "{}")
	running := func() []string {
		return strings.Fields(docker("ps", "--format", "{{.Names}}", "--filter", "name="+containerPrefix))
	}
	drivertest.Until(t, "six containers run", func() bool { return len(running()) == 6 })
	asked := func() (n int) {
		for _, operation := range []string{"describejobqueues", "describejobs", "listjobs", "submitjob", "terminatejob"} {
			n += fake.Requests(operation)
		}
		return n
	}
	before := asked()
	for _, name := range running()[:3] {
		fake.NoteTaken(jobOfContainer(name))
		docker("kill", name)
	}
	drivertest.Until(t, "no container is left", func() bool { return len(running()) == 0 })
	if n := asked() - before; n > 0 {
		t.Errorf("%d requests were sent while no command was attached", n)
	}
	if v := h.verified(t); v.State != "SUCCEEDED" || v.Tally.Succeeded != 90 || v.Extra.Retries != 0 {
		t.Errorf("%+v", v)
	}
	h.drover(t, 0, "down", "batch", "--yes")
}

// The containers of jobs are real ones, in which agents fetch drover's program by their role; AWS Batch
// itself is a fake. One host is taken away, and one container killed: no item is lost, and none fails.
// Nodes of a run reach each other.
func TestRealAgentsOfBatchRunInContainers(t *testing.T) {
	fake, h, docker := batchInContainers(t)
	c := exec.Command(filepath.Join(built.dir, "drover"), "map", "--image", dockerd.Debian, "--cpus", "0.5", "--workers", "3", "--slots", "1", "--secret", "TOKEN=env:CANARY",
		"--from", "1-60", "--", "sh", "-c", `sleep 0.5; echo "item $1, token of ${#TOKEN} letters"`, "x", "{}")
	var said bytes.Buffer
	c.Dir, c.Env, c.Stdout, c.Stderr = h.work, h.environ, &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	goesOn := func() bool { // and what is waited for is still to come
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v\n%s", err, said.Bytes())
		default:
		}
		return true
	}
	running := func() []string {
		return strings.Fields(docker("ps", "--format", "{{.Names}}", "--filter", "name="+containerPrefix))
	}
	succeeded := func() (n int) {
		var st struct{ Items struct{ Succeeded int } }
		out, _ := h.drover(t, 0, "status", "last", "--json")
		if err := json.Unmarshal([]byte(out), &st); err != nil {
			t.Fatal(err)
		}
		return st.Items.Succeeded
	}
	drivertest.Until(t, "three containers run", func() bool { return goesOn() && len(running()) == 3 })
	drivertest.Until(t, "items have ended", func() bool { return goesOn() && succeeded() > 3 })
	names := running()
	fake.NoteTaken(jobOfContainer(names[0]))
	docker("kill", names[0])
	docker("kill", names[1])
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, said.Bytes())
	}
	if v := h.verified(t); v.State != "SUCCEEDED" || v.Tally.Succeeded != 60 || v.Extra.Retries != 0 {
		t.Errorf("%+v\n%s", v, said.Bytes())
	}
	out, _ := h.drover(t, 0, "logs", "last", "--item", "7")
	if out != "item 7, token of 11 letters\n" {
		t.Errorf("item 7 printed %q", out)
	}
	put(t, filepath.Join(h.work, "meet.py"), []byte(meetProgram))
	if out, said := h.drover(t, 0, "run", "--image", dockerd.Debian, "--nodes", "2", "meet.py"); !strings.Contains(out, "heard from algo-2\n") {
		t.Errorf("nodes did not meet:\n%s%s", out, said)
	}
	h.drover(t, 0, "down", "batch", "--yes")
	if left := running(); len(left) > 0 || fake.Secrets() > 0 {
		t.Errorf("after down there run %q, with %d secrets", left, fake.Secrets())
	}
	if all := strings.Join(fake.Definitions(), "\n") + fake.Sent("submitjob"); strings.Contains(all, "canaryvalue") {
		t.Error("a request holds the secret")
	}
}
