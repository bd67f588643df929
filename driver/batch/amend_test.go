package batch

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// The definition of an article from the time before drover, as its author wrote it for AWS's own tool.
const articleDefinition = `{"jobDefinitionName":"TrainModel","type":"container","containerProperties":{"image":"drover.test/python:1","vcpus":4,"memory":1024,
  "command":["sh","-c","echo run $RUN_SCRIPT"],"jobRoleArn":"arn:aws:iam::123456789012:role/jobRole",
  "volumes":[{"host":{"sourcePath":"/var/lib/nvidia-docker/volumes/nvidia_driver/latest"},"name":"nvidia"}],"mountPoints":[{"containerPath":"/usr/local/nvidia","sourceVolume":"nvidia"}],
  "privileged":true},"retryStrategy":{"attempts":1}}`

// articleJob is its job.
const articleJob = `{"jobName":"TrainModel","jobQueue":"TrainModelQueue","jobDefinition":"TrainModel","containerOverrides":{"command":["ls"],"environment":[{"name":"MODEL_DIR","value":"s3://drover-t/model"}]},"schedulingPriorityOverride":7}`

// Files for AWS's own tool amend what drover asks for; what it has to decide itself stays its own.
func TestTheUsersFilesAmendRequests(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Hold()
	r := a.request(t, 2)
	r.Needs.Args = []string{"register-job-definition=" + articleDefinition, "submit-job=" + articleJob}
	if _, err := a.driver(t).Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	var d struct {
		JobDefinitionName   string
		ContainerProperties struct {
			Image, JobRoleArn    string
			Command              []string
			Privileged           bool
			Vcpus                *int
			MountPoints          []struct{ ContainerPath string }
			ResourceRequirements []struct{ Type, Value string }
		}
		RetryStrategy struct {
			Attempts       int
			EvaluateOnExit []any
		}
	}
	if err := json.Unmarshal([]byte(a.Sent("registerjobdefinition")), &d); err != nil {
		t.Fatal(err)
	}
	c := d.ContainerProperties
	if !strings.HasPrefix(d.JobDefinitionName, "drover-") || c.Command != nil || c.Image != "drover.test/python:1" || c.JobRoleArn != "arn:aws:iam::123456789012:role/jobRole" || !c.Privileged || c.Vcpus != nil ||
		len(c.MountPoints) != 1 || c.ResourceRequirements[0].Value != "4" || c.ResourceRequirements[1].Value != "1024" || d.RetryStrategy.Attempts != 1 || len(d.RetryStrategy.EvaluateOnExit) != 5 {
		t.Errorf("%+v", d)
	}
	if o, err := a.driver(t).Offer(t.Context(), r.Needs); err != nil || o.Identity != "the role arn:aws:iam::123456789012:role/jobRole" {
		t.Errorf("the offer has %q, %v", o.Identity, err)
	}
	sent := a.Sent("submitjob")
	for _, want := range []string{`"jobName":"drover-7fk2abcd7fk2abcd-1"`, `job-queue/train"`, `{"name":"MODEL_DIR","value":"s3://drover-t/model"}`, `{"name":"DROVER_BATCH_CPUS","value":"4"}`, `"schedulingPriorityOverride":7`, `"size":2`} {
		if !strings.Contains(sent, want) {
			t.Errorf("the job has no %s: %s", want, sent)
		}
	}
	if strings.Contains(sent, `"ls"`) {
		t.Errorf("the job has the file's command: %s", sent)
	}
	r = a.request(t, 1)
	r.Placement, r.Needs.Place.Image = 2, "ghcr.io/me/train:1"
	r.Needs.Args = []string{"register-job-definition=" + articleDefinition, "submit-job={\"containerOverrides\": null}"}
	if _, err := a.driver(t).Start(t.Context(), r); err != nil || !strings.Contains(a.Sent("registerjobdefinition"), `"image":"ghcr.io/me/train:1"`) {
		t.Errorf("%v; an image that was named is not used: %s", err, a.Sent("registerjobdefinition"))
	}
}

func TestAFileThatAmendsWronglyIsRefused(t *testing.T) {
	t.Parallel()
	d := newAccount(t).driver(t)
	for text, want := range map[string][2]string{
		`register-job-definition={"containerProperties":{"imag":"x"}}`:                                             {`read --target-arg register-job-definition: json: unknown field "imag"`, "Do you mean image?"},
		`submit-job={"jobQueue":3}`:                                                                                {"read --target-arg submit-job: json: cannot unmarshal number into Go struct field SubmitJobInput.JobQueue of type string", "Give it as AWS's own tool takes it: --target-arg submit-job=@FILE."},
		`register-job-definition={"type":"multinode"}`:                                                             {"read --target-arg register-job-definition: it is not a definition of one container", "Use a definition of type container with containerProperties."},
		`register-job-definition={"containerProperties":{"readonlyRootFilesystem":true}}`:                          {"read --target-arg register-job-definition: the agent writes to its container's file system", "Leave readonlyRootFilesystem out."},
		`register-job-definition={"containerProperties":{"resourceRequirements":[{"type":"VCPU","value":"two"}]}}`: {`read --target-arg register-job-definition: VCPU is "two"`, "Write it as a number."},
	} {
		o, err := d.Offer(t.Context(), driver.Needs{Agents: 1, Detail: "train", Args: []string{text}})
		reason, hint := o.Reason, o.Hint
		if err != nil {
			reason, hint = err.Error(), fault.Hint(err)
		}
		if reason != want[0] || strings.ReplaceAll(hint, "`", "") != want[1] {
			t.Errorf("%s: %s\n%s", text, reason, hint)
		}
	}
}
