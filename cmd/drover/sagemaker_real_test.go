//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver/docker/dockerd"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/sagemaker/sagemakertest"
	"github.com/drover-run/drover/fault"
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

// realContainers is a fake of SageMaker that runs its containers by the Docker at host, laid out as SageMaker's own tools do: each folder of
// SageMaker's is mounted by itself. images are names of an image that there is.
func realContainers(t *testing.T, host string, docker func(words ...string) string, images ...string) (*sagemakertest.Server, func() []string) {
	t.Helper()
	prefix := "drover-sagemaker-" + strings.ToLower(t.Name()) + "-"
	for _, image := range images {
		docker("tag", dockerd.Debian, image)
	}
	fake := sagemakertest.New(t)
	t.Cleanup(func() {
		for _, id := range strings.Fields(docker("ps", "-aq", "--filter", "name="+prefix)) {
			docker("rm", "-f", id)
		}
	})
	fake.UseContainers(func(c sagemakertest.Container) *exec.Cmd {
		words := []string{"run", "--rm", "--name", prefix + c.Name, "--network", "host"}
		folders := []string{"input", "model", "output"}
		if _, err := os.Stat(filepath.Join(c.ML, "config")); err == nil {
			folders = []string{"config", "processing/output", "output"}
		}
		for _, folder := range folders {
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
	return fake, func() []string {
		return strings.Fields(docker("ps", "--format", "{{.Names}}", "--filter", "name="+prefix))
	}
}

// ecrImage is the name of an image of the account's.
const ecrImage = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/debian:1"

// The containers of training jobs are real ones, in which agents fetch drover's program by their role; SageMaker itself is a fake. The command
// line is killed, and all of the job is interrupted once: its nodes meet again, no retry is spent, and the model comes back.
func TestRealTrainingJobsRunInContainers(t *testing.T) {
	onlyReal(t)
	t.Parallel() // with each other: they wait for most of their time
	host := dockerd.Use(t)
	docker := dockerAt(t, host)
	fake, running := realContainers(t, host, docker, ecrImage)
	h := newHome(t)
	h.finds(fake.Environ())
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/sagemaker?region=us-east-1&endpoint="+s3test.Real(t), "DROVER_ON=sagemaker")
	h.drover(t, 0, "target", "up", "sagemaker", "--yes")
	put(t, filepath.Join(h.work, "train.py"), []byte(trainProgram))
	c := h.begin(t, "run", "--image", ecrImage, "--nodes", "2", "--retries", "1", "train.py")
	c.says(t, "waits")
	names := running()
	if len(names) != 2 || len(fake.Jobs()) != 1 {
		t.Fatalf("there run %s, of %s", names, fake.Jobs())
	}
	_ = c.Process.Kill() // no command is attached from here on
	_ = c.Wait()
	fake.NoteInterrupted(fake.Jobs()[0])
	for _, name := range names {
		docker("kill", name)
	}
	var status struct {
		State                   string
		Interruptions, Failures int
	}
	look := func() bool {
		out, _ := h.drover(t, 0, "status", "--json", "last")
		return json.Unmarshal([]byte(out), &status) == nil
	}
	drivertest.Until(t, "the job was interrupted, which its agents' silence says", func() bool { return look() && status.Interruptions == 1 })
	drivertest.Until(t, "the job has ended", func() bool { return look() && status.State == "SUCCEEDED" })
	if status.Interruptions != 1 || status.Failures != 0 {
		t.Errorf("%+v", status)
	}
	h.drover(t, 0, "get", "last", "-o", "out")
	for _, node := range []string{"algo-1", "algo-2"} {
		if _, err := os.Stat(filepath.Join(h.work, "out", "model", "of-"+node)); err != nil {
			t.Error(err)
		}
	}
	h.drover(t, 0, "down", "sagemaker", "--yes")
	if left := fake.Stacks.Names(); len(left) > 0 || len(fake.Jobs()) != 1 {
		t.Errorf("there are left stacks %s, of jobs %s", left, fake.Jobs())
	}
}

// Of three workers of a map a quota lets two work, in containers of their own. One of them is interrupted: the other goes on, and the map ends with all
// items done.
func TestRealWorkersAreTrainingJobsInContainers(t *testing.T) {
	onlyReal(t)
	t.Parallel() // as above
	host := dockerd.Use(t)
	docker := dockerAt(t, host)
	fake, running := realContainers(t, host, docker, ecrImage)
	fake.Allow(2)
	h := newHome(t)
	h.finds(fake.Environ())
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/workers?region=us-east-1&endpoint="+s3test.Real(t), "DROVER_ON=sagemaker")
	h.drover(t, 0, "target", "up", "sagemaker", "--yes")
	c := h.begin(t, "map", "--image", ecrImage, "--workers", "3", "-j", "1", "--from", "1-40", "--shell", "echo item {}; sleep 1")
	c.says(t, "a quota of SageMaker's is used up: The account-level service limit 'ml.m5.large for spot training job usage' is 2 Instances")
	c.says(t, "item")
	if out, _ := h.drover(t, 0, "why", "last"); !strings.Contains(out, "some agents wait: SageMaker has made no job for it: a quota is used up") || !strings.Contains(out, "aws service-quotas request-service-quota-increase") {
		t.Errorf("why says %s", out)
	}
	var names []string
	drivertest.Until(t, "two workers run", func() bool {
		names = running()
		return len(names) == 2
	})
	if len(fake.Jobs()) != 2 {
		t.Fatalf("there are jobs %s", fake.Jobs())
	}
	fake.NoteInterrupted(fake.Jobs()[1])
	for _, name := range names {
		if strings.Contains(name, fake.Jobs()[1]+".") {
			docker("kill", name)
		}
	}
	c.sound(t)
	out, _ := h.drover(t, 0, "verify", "--json", "last")
	if !strings.Contains(out, `"succeeded": 40`) && !strings.Contains(out, `"succeeded":40`) {
		t.Errorf("verify says %s", out)
	}
}

// toolImages are the images of simple-sagemaker's jobs for which none is named.
var toolImages = []string{"763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:1.6.0-cpu-py3", "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:1.6.0-gpu-py3",
	"141502667606.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-scikit-learn:0.20.0-cpu-py3"}

// The tool's own example scripts pass on SageMaker as they pass on a laptop.
func TestRealSSMsOwnExamplesRunOnSageMaker(t *testing.T) {
	onlyReal(t)
	t.Parallel() // as above
	host := dockerd.Use(t)
	fake, _ := realContainers(t, host, dockerAt(t, host), toolImages...)
	vars := []string{"DROVER_STORE=s3://facts/own?region=us-east-1&endpoint=" + s3test.Real(t), "DROVER_ON=sagemaker"}
	for name, value := range fake.Environ() {
		vars = append(vars, name+"="+value)
	}
	real(t, "ssm_the_tools_own_examples_on_sagemaker", vars...)
}

// ssmProgram is a program of simple-sagemaker's: it leaves a model, and says where.
const ssmProgram = `
import os
open(os.path.join(os.environ["SM_MODEL_DIR"], "of-" + os.environ["SM_CURRENT_HOST"]), "w").write("trained")
print("trained on", os.environ["SM_CURRENT_HOST"], "of", os.environ["SM_HOSTS"])
`

// Command lines of simple-sagemaker run on SageMaker as on a laptop, with the tool's default images: logs come back, what is completed is skipped,
// models and outputs stay for SageMaker to store, and SageMaker's console says what has failed, and why.
func TestRealSSMRunsOnSageMaker(t *testing.T) {
	onlyReal(t)
	host := dockerd.Use(t)
	docker := dockerAt(t, host)
	fake, running := realContainers(t, host, docker, toolImages...)
	ended := func() {
		t.Helper()
		drivertest.Until(t, "all containers have ended", func() bool { return len(running()) == 0 })
	}
	h := newHome(t)
	h.finds(fake.Environ())
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/ssm?region=us-east-1&endpoint="+s3test.Real(t), "DROVER_ON=sagemaker")
	h.drover(t, 0, "target", "up", "sagemaker", "--yes", "-p", "ssm-ex")
	put(t, filepath.Join(h.work, "ssm_ex2.py"), []byte(ssmProgram))
	put(t, filepath.Join(h.work, "process.py"), []byte(`import os; open(os.environ["SSM_OUTPUT"] + "/made", "w").write("made"); print("processed")`))
	read := func(name, want string) {
		t.Helper()
		if text, err := os.ReadFile(filepath.Join(h.work, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}

	first := []string{"ssm", "shell", "-p", "ssm-ex", "-t", "ex1", "-o", "./out1", "--it", "ml.p3.2xlarge", "--cmd_line", "cat /proc/cpuinfo && uname -a"}
	h.drover(t, 0, first...)
	read("out1/logs/logs0", "Linux")
	second := []string{"ssm", "run", "-p", "ssm-ex", "-t", "ex2", "-e", "ssm_ex2.py", "-o", "./out2", "--it", "ml.p3.2xlarge", "--ic", "2"}
	h.drover(t, 0, second...)
	read("out2/logs/logs1", "trained on algo-2 of [\"algo-1\",\"algo-2\"]")
	for _, words := range [][]string{first, second} {
		if out, _ := h.drover(t, 0, words...); !strings.Contains(out, "is already completed") {
			t.Errorf("%s, again: %s", words, out)
		}
	}
	jobs := fake.Jobs()
	if len(jobs) != 2 {
		t.Fatalf("jobs are %s", jobs)
	}
	ended()
	var models []string // SageMaker stores those of all hosts as one; which node runs on which of them is not said
	for host := range 2 {
		found, err := filepath.Glob(filepath.Join(fake.Folder(jobs[1], host), "model", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			models = append(models, filepath.Base(file))
		}
	}
	if slices.Sort(models); !slices.Equal(models, []string{"of-algo-1", "of-algo-2"}) {
		t.Errorf("SageMaker finds the models %s", models)
	}

	h.drover(t, 0, "ssm", "process", "-p", "ssm-ex", "-t", "ex3", "--code", "process.py", "-o", "./out3", "--download_output")
	read("out3/logs/logs0", "processed")
	read("out3/output/made", "made")
	if jobs = fake.Jobs(); !strings.Contains(fake.Sent("CreateProcessingJob"), jobs[2]) {
		t.Errorf("the third is no processing job: %s", jobs)
	}
	ended()
	if _, err := os.Stat(filepath.Join(fake.Folder(jobs[2], 0), "processing", "output", "made")); err != nil {
		t.Errorf("SageMaker finds no output: %v", err)
	}

	h.drover(t, 1, "ssm", "shell", "-p", "ssm-ex", "-t", "ex4", "--cmd_line", "echo this way; exit 3")
	if why := fake.Failure(fake.Jobs()[3]); why != "AlgorithmError: exit status 3, exit code: 1" {
		t.Errorf("SageMaker says %q", why)
	}
	c := h.begin(t, "ssm", "shell", "-p", "ssm-ex", "-t", "ex5", "--cmd_line", "echo begun; sleep 1000")
	c.says(t, "begun")
	if err := fake.StopByUser(fake.Jobs()[4]); err != nil {
		t.Fatal(err)
	}
	if _ = c.Wait(); c.ProcessState.ExitCode() != fault.ExitInterrupted || len(fake.Jobs()) != 5 {
		t.Errorf("stopped by a user in SageMaker: %v, jobs %s\n%s", c.ProcessState, fake.Jobs(), c.said)
	}
	h.drover(t, 0, "down", "sagemaker", "--yes", "-p", "ssm-ex")
	if left := fake.Stacks.Names(); len(left) > 0 {
		t.Errorf("there are left stacks %s", left)
	}
}
