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

// The containers of jobs are real ones, in which agents fetch drover's program by their role; AWS Batch
// itself is a fake. One host is taken away, and one container killed: no item is lost, and none fails.
func TestRealAgentsOfBatchRunInContainers(t *testing.T) {
	onlyReal(t)
	host := dockerd.Use(t)
	docker := func(args ...string) string {
		c := exec.Command("docker", args...)
		c.Env = append(c.Environ(), "DOCKER_HOST="+host)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Logf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	fake := batchtest.New(t)
	const prefix = "drover-batch-test-"
	t.Cleanup(func() {
		for _, id := range strings.Fields(docker("ps", "-aq", "--filter", "name="+prefix)) {
			docker("rm", "-f", id)
		}
	})
	fake.UseContainers(func(c batchtest.Container) *exec.Cmd {
		words := []string{"run", "--rm", "--name", prefix + c.Name, "--network", "host", "--user", "0"}
		for _, v := range c.Env {
			words = append(words, "-e", v)
		}
		cmd := exec.Command("docker", append(append(words, c.Image), c.Command...)...)
		cmd.Env = append(cmd.Environ(), "DOCKER_HOST="+host)
		return cmd
	}, "test", "testtest")
	h := newHome(t)
	for name, value := range fake.Environ() {
		h.environ = append(h.environ, name+"="+value)
	}
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/batch?region=us-east-1&endpoint="+s3test.Real(t), "DROVER_ON=batch", "CANARY=canaryvalue")

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
		return strings.Fields(docker("ps", "--format", "{{.Names}}", "--filter", "name="+prefix))
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
	job, _, _ := strings.Cut(strings.TrimPrefix(names[0], prefix), ".")
	i := strings.LastIndex(job, "-")
	fake.NoteTaken(job[:i] + ":" + job[i+1:])
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
	h.drover(t, 0, "down", "batch", "--yes")
	if left := running(); len(left) > 0 || fake.Secrets() > 0 {
		t.Errorf("after down there run %q, with %d secrets", left, fake.Secrets())
	}
	if all := strings.Join(fake.Definitions(), "\n") + fake.Sent("submitjob"); strings.Contains(all, "canaryvalue") {
		t.Error("a request holds the secret")
	}
}
