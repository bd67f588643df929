//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver/docker/dockerd"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/sagemaker/sagemakertest"
	"github.com/drover-run/drover/store/s3/s3test"
)

// trainProgram is a program of two nodes that meet. Its first attempt waits to be interrupted.
const trainProgram = meetProgram + `
open("/opt/ml/model/of-" + hosts["current_host"], "w").write("trained")
if os.environ["DROVER_ATTEMPT"] == "1":
    print("waits", flush=True)
    time.sleep(1000)
print("went on", flush=True)
`

// The containers of training jobs are real ones, laid out as SageMaker's own tools do, in which agents fetch drover's program by their role;
// SageMaker itself is a fake. All of a job is interrupted once: its nodes meet again, and the model comes back.
func TestRealTrainingJobsRunInContainers(t *testing.T) {
	onlyReal(t)
	host := dockerd.Use(t)
	docker := dockerAt(t, host)
	const prefix, image = "drover-sagemaker-test-", "123456789012.dkr.ecr.eu-west-1.amazonaws.com/debian:1"
	docker("tag", dockerd.Debian, image)
	fake := sagemakertest.New(t)
	t.Cleanup(func() {
		for _, id := range strings.Fields(docker("ps", "-aq", "--filter", "name="+prefix)) {
			docker("rm", "-f", id)
		}
	})
	fake.UseContainers(func(c sagemakertest.Container) *exec.Cmd {
		words := []string{"run", "--rm", "--name", prefix + c.Name, "--network", "host"}
		for _, folder := range []string{"input", "model", "output"} { // each is mounted by itself
			if err := os.MkdirAll(filepath.Join(c.ML, folder), 0o755); err != nil {
				t.Error(err)
			}
			words = append(words, "-v", filepath.Join(c.ML, folder)+":/opt/ml/"+folder)
		}
		for _, v := range c.Env {
			words = append(words, "-e", v)
		}
		cmd := exec.Command("docker", append(append(words, "--entrypoint", c.Command[0], c.Image), c.Command[1:]...)...)
		cmd.Env = append(cmd.Environ(), "DOCKER_HOST="+host)
		return cmd
	}, "test", "testtest")
	h := newHome(t)
	for name, value := range fake.Environ() {
		h.environ = append(h.environ, name+"="+value)
	}
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/sagemaker?region=us-east-1&endpoint="+s3test.Real(t), "DROVER_ON=sagemaker")
	h.drover(t, 0, "target", "up", "sagemaker", "--yes")
	put(t, filepath.Join(h.work, "train.py"), []byte(trainProgram))
	c := h.begin(t, "run", "--image", image, "--nodes", "2", "-o", "out", "train.py")
	c.says(t, "waits")
	names := strings.Fields(docker("ps", "--format", "{{.Names}}", "--filter", "name="+prefix))
	if len(names) != 2 || len(fake.Jobs()) != 1 {
		t.Fatalf("there run %s, of %s", names, fake.Jobs())
	}
	fake.NoteInterrupted(fake.Jobs()[0])
	for _, name := range names {
		docker("kill", name)
	}
	drivertest.Until(t, "it goes on", func() bool { return strings.Contains(c.said.String(), "went on") })
	c.sound(t)
	for _, node := range []string{"algo-1", "algo-2"} {
		if _, err := os.Stat(filepath.Join(h.work, "out", "model", "of-"+node)); err != nil {
			t.Errorf("%v\n%s", err, c.said)
		}
	}
	h.drover(t, 0, "down", "sagemaker", "--yes")
	if left := fake.Stacks.Names(); len(left) > 0 || len(fake.Jobs()) != 1 {
		t.Errorf("there are left stacks %s, of jobs %s", left, fake.Jobs())
	}
}
