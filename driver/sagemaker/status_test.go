package sagemaker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// What SageMaker says of a job is how its newest start is. Words and states are those of its API reference.
func TestWhatSageMakerSaysOfAJobIsHowItsAgentIs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status, secondary, reason string
		want                      driver.State
		code                      int
		says                      string
		hint                      string
	}{
		{inProgress, "Starting", "", driver.Waiting, -1, "its training job is Starting: words", ""},
		{inProgress, "Pending", "", driver.Waiting, -1, "its training job is Pending: words", ""},
		{inProgress, "Downloading", "", driver.Waiting, -1, "its training job is Downloading: words", ""},
		{inProgress, "Training", "", driver.Running, -1, "", ""},
		{inProgress, "Uploading", "", driver.Running, -1, "", ""},
		{stopping, "Stopping", "", driver.Running, -1, "", ""},
		{completed, "Completed", "", driver.Ended, 0, "", ""},
		{failed, "Failed", "AlgorithmError: no reason, exit code: 3", driver.Ended, 3, "AlgorithmError: no reason, exit code: 3", ""},
		{failed, "Failed", "AlgorithmError: , exit code: 75", driver.Taken, 75, "AlgorithmError: , exit code: 75", ""},
		{failed, "Failed", "AlgorithmError: , exit code: 137", driver.Lost, 137, "AlgorithmError: , exit code: 137", ""},
		{failed, "Failed", "AlgorithmError: it has ended", driver.Lost, -1, "AlgorithmError: it has ended", ""},
		{failed, "Failed", "ClientError: no such image", driver.Ended, -1, "ClientError: no such image", ""},
		{failed, "Failed", "CapacityError: no machines", driver.Taken, -1, "CapacityError: no machines", "Name several types: --machine g5.xlarge,g4dn.xlarge."},
		{failed, "Failed", "InternalServerError: again", driver.Taken, -1, "InternalServerError: again", "Name several types: --machine g5.xlarge,g4dn.xlarge."},
		{stopped, "MaxRuntimeExceeded", "", driver.Taken, -1, "its time limit at SageMaker is over", "Give it longer: --timeout."},
		{stopped, "MaxWaitTimeExceeded", "", driver.Taken, -1, "there was no spot capacity for it in its time", "Wait longer, --target-arg wait=48h, or use --on-demand."},
		{stopped, "Stopped", "", driver.Ended, -1, "stopped in SageMaker", ""},
	} {
		all := processesOf("drover-x-1", -1, training, description{Status: test.status, Secondary: test.secondary, Reason: test.reason, Transitions: []transition{{test.secondary, "words."}}})
		if len(all) != 1 || all[0].State != test.want || all[0].Code != test.code || all[0].Reason != test.says || all[0].Hint != test.hint {
			t.Errorf("%s %s %s: %+v", test.status, test.secondary, test.reason, all)
		}
	}
}

// A job that was interrupted twice has had three starts.
func TestEachStartOfAJobIsAProcess(t *testing.T) {
	t.Parallel()
	j := description{Status: inProgress, Secondary: "Training", Resources: resources{InstanceType: "ml.m5.large", InstanceCount: 2}}
	for _, s := range []string{"Starting", "Training", "Interrupted", "Starting", "Training", "Interrupted", "Starting", "Training"} {
		j.Transitions = append(j.Transitions, transition{Status: s})
	}
	all := processesOf("drover-x-1", -1, training, j)
	if len(all) != 6 || all[2].State != driver.Running || all[2].Attempt != 3 || all[4].Index != 1 || all[4].State != driver.Taken || all[4].Attempt != 2 {
		t.Errorf("%+v", all)
	}
	// SageMaker starts it again: its successor waits, and a Stop ends it.
	j = description{Status: inProgress, Secondary: "Interrupted", Resources: resources{InstanceCount: 1}, Transitions: []transition{{Status: "Training"}, {Status: "Interrupted", StatusMessage: "words."}}}
	if all := processesOf("drover-x-1", -1, training, j); len(all) != 2 || all[0].State != driver.Taken || all[0].Reason != "SageMaker has taken its machine away: spot capacity" || all[1].State != driver.Waiting || all[1].Attempt != 2 {
		t.Errorf("%+v", all)
	}
	if all := processesOf("drover-x-1", -1, processing, description{Status: inProgress}); len(all) != 1 || all[0].State != driver.Running || all[0].Reason != "its processing job is in progress" {
		t.Errorf("%+v", all)
	}
	if all := processesOf("drover-x-1-7", 7, training, description{Status: completed, Resources: resources{InstanceCount: 1}}); len(all) != 1 || all[0].Index != 7 {
		t.Errorf("%+v", all)
	}
}

// What a container cannot know of itself is said.
func TestAContainerThatIsNoJobOfDroversIsSaid(t *testing.T) {
	t.Setenv(variableGPUs, "0")
	_, err := claimant(t.Context())
	if fault.KindOf(err) != fault.Invalid || err.Error() != `adopt agent: TRAINING_JOB_NAME="" names no job of drover's` || fault.Hint(err) != "Unset DROVER_SAGEMAKER_GPUS." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
	base := t.TempDir()
	t.Setenv("SAGEMAKER_BASE_DIR", base)
	config := filepath.Join(base, "config", "processingjobconfig.json")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := claimant(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "adopt agent: read which processing job this is: ") {
		t.Error(err)
	}
	t.Setenv("TRAINING_JOB_NAME", "drover-7fk2abcd7fk2abcd-1")
	if _, err := claimant(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "adopt agent: read which of the job's machines this is: ") {
		t.Error(err)
	}
	file := filepath.Join(base, "input", "config", "resourceconfig.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"current_host": "algo-2", "hosts": ["algo-10", "algo-2", "algo-1"]}`: "",
		`{"current_host": "algo-3", "hosts": ["algo-1"]}`:                      `adopt agent: ` + file + ` does not name its own host "algo-3"`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := claimant(t.Context())
		if want == "" && (err != nil || c.Index != 1 || c.Attempt != 1) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

// A SIGTERM is an interruption, unless a user has stopped the job: SageMaker is asked.
func TestASignalMeansThatTheContainerEnds(t *testing.T) {
	interruption := driver.Notice{Left: termTime, Why: "SageMaker ends its container: its spot capacity is taken, or its time is over"}
	stopped := driver.Notice{Left: termTime, Why: "its job was stopped in SageMaker", Asked: true}
	now := float64(time.Now().Unix())
	for _, test := range []struct {
		answer string
		want   driver.Notice
	}{
		{`{"TrainingJobStatus": "InProgress", "SecondaryStatus": "Interrupted"}`, interruption},
		{fmt.Sprintf(`{"TrainingJobStatus": "Stopping", "TrainingStartTime": %f, "StoppingCondition": {"MaxRuntimeInSeconds": 3600}}`, now-60), stopped},
		{fmt.Sprintf(`{"TrainingJobStatus": "Stopping", "TrainingStartTime": %f, "StoppingCondition": {"MaxRuntimeInSeconds": 3600}}`, now-3700), interruption},
		{fmt.Sprintf(`{"TrainingJobStatus": "Stopping", "CreationTime": %f, "TrainingStartTime": %f, "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 3600}}`, now-3700, now-600), interruption},
		{`no JSON`, interruption},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(test.answer)) }))
		t.Setenv("AWS_ENDPOINT_URL_SAGEMAKER", server.URL)
		t.Setenv("TRAINING_JOB_NAME", "drover-7fk2abcd7fk2abcd-1")
		if n := termNotice(); n != test.want {
			t.Errorf("%s: %+v", test.answer, n)
		}
		server.Close()
	}
	t.Setenv("TRAINING_JOB_NAME", "")
	t.Setenv("SAGEMAKER_BASE_DIR", t.TempDir())
	if n := termNotice(); n != interruption {
		t.Errorf("%+v", n)
	}
	if p := Target.Properties(driver.Config{}); p.Identity != "the training job's role" || !p.Apart || !p.Pulls || p.Opens("gs") {
		t.Errorf("%+v", p)
	}
}

// Of a placement of which nothing goes on no worker waits for a quota: others are placed in their place, unless it is stopped.
func TestWorkersWithoutAJob(t *testing.T) {
	t.Parallel()
	e := &engine{wanting: map[driver.Handle]wanting{}}
	c := &client{region: "eu-west-1"}
	for stopped, want := range map[bool]string{false: "taken: Ask for fewer workers, or ask AWS for more in the console of Service Quotas.", true: "ended: "} {
		all := e.waiting(c, training, driver.Handle{}, []string{"drover-7fk2abcd7fk2abcd-1-3"}, description{}, stopped)
		if len(all) != 1 || string(all[0].State)+": "+all[0].Hint != want || all[0].Terminated != stopped {
			t.Errorf("%+v", all)
		}
	}
}
