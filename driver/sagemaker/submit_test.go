package sagemaker

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
	"github.com/drover-run/drover/store"
)

//go:embed testdata/request.golden
var goldenRequest string

// request is one for agents in an account of a test, of which none begins.
func (a fakeAccount) request(t *testing.T, agents, nodes int) driver.Request {
	t.Helper()
	return driver.Request{Job: "7fk2abcd7fk2abcd", Placement: 1, Agents: agents,
		Needs: driver.Needs{Agents: agents, Detail: "eu-west-1/123456789012", Labels: map[string]string{"project": "p"}, Place: driver.Place{Image: image, Nodes: nodes}, Args: []string{ownRole, ownOutput}},
		Run: driver.Boot{Store: a.facts, Job: "p/t/7fk2abcd7fk2abcd", Programs: func(context.Context, string) (driver.Program, error) {
			return driver.Program{SHA256: strings.Repeat("0", 64), Downloads: []store.Download{{Tool: "curl", Command: "curl by the role"}}}, nil
		}}}
}

// The request for the nodes of a run, as it is sent: its members are those of SageMaker's API reference.
func TestTheNodesOfARunAreOneTrainingJob(t *testing.T) {
	a := newAccount(t)
	a.Hold()
	t.Setenv("CANARY", "canary")
	r := a.request(t, 3, 3)
	r.Needs.CPUs, r.Needs.GPUs, r.Needs.Time, r.Needs.Disk, r.Needs.Labels["tag owner"] = 8, 1, time.Hour, 100<<30, "Ann & <Bob>"
	r.Run.Env, r.Run.Secrets = []string{"LEVEL=3", "LONG=it's " + strings.Repeat("x", 600)}, map[string]string{"TOKEN": "env:CANARY"}
	r.Needs.Console = driver.Console{Hyperparameters: map[string]string{"lr": "0.1", "text": "two\nlines", strings.Repeat("x", 257): "no"},
		Metrics: []job.Metric{{Name: "loss", Regex: "loss=([0-9.]+)"}, {Regex: "auto"}, {Name: "two", Regex: "(a)(b)"}}}
	if _, err := a.driver(t).Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	sent := a.Sent("CreateTrainingJob")
	if strings.Contains(sent, "canary") {
		t.Errorf("the request holds a secret: %s", sent)
	}
	body, script := parts(t, sent, "AlgorithmSpecification")
	if !strings.Contains(script, "export LONG='it'\\''s xxx") || !strings.Contains(script, "try 'curl' 'curl by the role'") || !strings.HasSuffix(script, "exec '"+programFile+"' 'agent' '--store' '"+a.facts+"' '--placement' '1' '--index' '0' 'p/t/7fk2abcd7fk2abcd'") {
		t.Errorf("the script is\n%s", script)
	}
	compare(t, "testdata/request.golden", goldenRequest, "CreateTrainingJob\n"+body+"\n")
}

// parts are a request without its script, and the script.
func parts(t *testing.T, sent, of string) (request, script string) {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(sent), &body); err != nil {
		t.Fatal(err)
	}
	spec := body[of].(map[string]any)
	for _, part := range spec["ContainerArguments"].([]any) {
		script += part.(string)
	}
	script = strings.ReplaceAll(script, spec["ContainerEntrypoint"].([]any)[3].(string), "\n")
	spec["ContainerArguments"] = []any{"SCRIPT"}
	text, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text), script
}

//go:embed testdata/processing.golden
var goldenProcessing string

// The request for a processing job has no spot capacity, metrics or hyperparameters.
func TestAProcessingJobIsAskedForInItsOwnWords(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Hold()
	r := a.request(t, 2, 2)
	r.Needs.Detail, r.Needs.Time, r.Run.Env = "processing/eu-west-1/123456789012", time.Hour, []string{"LEVEL=3"}
	h, err := a.driver(t).Start(t.Context(), r)
	if err != nil || h.String() != "sagemaker/processing/eu-west-1/123456789012:v1:7fk2abcd7fk2abcd:1" {
		t.Fatal(h, err)
	}
	body, _ := parts(t, a.Sent("CreateProcessingJob"), "AppSpecification")
	compare(t, "testdata/processing.golden", goldenProcessing, "CreateProcessingJob\n"+body+"\n")
	all, err := a.driver(t).List(t.Context())
	if err != nil || len(all) != 1 || all[0] != h {
		t.Errorf("%v, %v", all, err)
	}
}

// Each worker of a map is a training job: SageMaker starts a whole job again when one of its machines goes.
func TestWorkersAreTrainingJobsOfTheirOwn(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Hold()
	d := a.driver(t)
	h, err := d.Start(t.Context(), a.request(t, 3, 1))
	if want := []string{"drover-7fk2abcd7fk2abcd-1-0", "drover-7fk2abcd7fk2abcd-1-1", "drover-7fk2abcd7fk2abcd-1-2"}; err != nil || !slices.Equal(a.Jobs(), want) {
		t.Fatalf("%v, %s", err, a.Jobs())
	}
	all, err := d.Status(t.Context(), h)
	for i, m := range all {
		if m.Index != i || m.State != driver.Waiting || m.Reason != "its training job is Starting: Launching requested ML instances" {
			t.Errorf("%+v", m)
		}
	}
	if err != nil || len(all) != 3 {
		t.Errorf("%d members, %v", len(all), err)
	}
	if _, err := a.driver(t).Start(t.Context(), a.request(t, 3, 1)); err != nil || len(a.Jobs()) != 3 {
		t.Errorf("again: %v, %s", err, a.Jobs())
	}
	if err := d.Stop(t.Context(), h, 0, true); err != nil || a.Requests("StopTrainingJob") != 3 {
		t.Errorf("%v, %d were stopped", err, a.Requests("StopTrainingJob"))
	}
}

// Of eight workers a quota lets five work. The others wait, and a process that looks for long enough asks for their jobs again: they are like the others.
func TestAQuotaHasSomeWorkersWait(t *testing.T) {
	t.Parallel()
	for _, detail := range []string{"eu-west-1/123456789012", "processing/eu-west-1/123456789012"} {
		a := newAccount(t)
		a.Hold()
		a.Allow(5)
		d := a.driver(t)
		r := a.request(t, 8, 1)
		r.Needs.Detail = detail
		h, err := d.Start(t.Context(), r)
		if err != nil || len(a.Jobs()) != 5 {
			t.Fatalf("%v, %s", err, a.Jobs())
		}
		all, err := d.Status(t.Context(), h)
		if err != nil || len(all) != 8 {
			t.Fatalf("%d members, %v", len(all), err)
		}
		for _, m := range all[5:] {
			if m.State != driver.Waiting || !strings.HasPrefix(m.Reason, "SageMaker has made no job for it: a quota of SageMaker's is used up: The account-level service limit 'ml.m5.large for ") ||
				!strings.HasPrefix(m.Hint, "Ask for fewer workers, or ask AWS for more: aws service-quotas request-service-quota-increase --region eu-west-1 --service-code sagemaker ") || !strings.Contains(m.Hint, " --desired-value NUMBER --quota-code $(aws service-quotas list-service-quotas --region eu-west-1 --service-code sagemaker --query \"Quotas[?QuotaName=='ml.m5.large for ") {
				t.Errorf("%+v", m)
			}
		}
		r = a.request(t, 1, 1)
		r.Placement, r.Needs.Detail = 2, detail
		_, err = d.Start(t.Context(), r)
		if fault.KindOf(err) != fault.Full || !strings.HasPrefix(err.Error(), "start agents: a quota of SageMaker's is used up: The account-level service limit 'ml.m5.large for ") ||
			!strings.HasPrefix(fault.Hint(err), "Ask AWS for more in the console of Service Quotas") {
			t.Errorf("%v\n%s", err, fault.Hint(err))
		}
		other := a.driver(t)
		all, err = other.Status(t.Context(), h)
		if err != nil || all[7].Reason != "SageMaker has made no job for it: a quota is used up" || len(a.Jobs()) != 5 {
			t.Errorf("a look, once: %v, %+v, %s", err, all[7], a.Jobs())
		}
		a.Allow(7)
		other.engine.again = 0
		drivertest.Until(t, "two more jobs are made", func() bool {
			if _, err := other.Status(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			return len(a.Jobs()) == 7
		})
		kind := parseDetail(t, detail).kind().noun
		first, last := a.described(t, kind, a.Jobs()[0]), a.described(t, kind, a.Jobs()[6])
		if !strings.HasSuffix(a.Jobs()[6], "-6") || strings.ReplaceAll(first, a.Jobs()[0], "JOB") != strings.ReplaceAll(last, a.Jobs()[6], "JOB") {
			t.Errorf("the seventh is %s, and not like %s", last, first)
		}
		a.Allow(8)
		if err := other.Stop(t.Context(), h, 0, false); err != nil {
			t.Error(err)
		}
		drivertest.Until(t, "none waits for an end", func() bool {
			all, err := other.Status(t.Context(), h)
			if n := len(all); n == 8 && (all[7].State != driver.Ended || all[7].Hint != "") {
				t.Errorf("%+v", all[7])
			}
			return err == nil && !slices.ContainsFunc(all, func(m driver.Member) bool { return m.State.Alive() })
		})
		if len(a.Jobs()) != 7 {
			t.Errorf("after the order to stop there are %d jobs", len(a.Jobs()))
		}
	}
}

func parseDetail(t *testing.T, detail string) site {
	t.Helper()
	at, err := parseSite(detail)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// described is a job as the fake shows it, without times.
func (a fakeAccount) described(t *testing.T, kind, name string) string {
	t.Helper()
	var out map[string]any
	if err := mustClient(t, a.driver(t)).api.Call(t.Context(), "Describe"+kind, map[string]string{kind + "Name": name}, &out); err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"CreationTime", "SecondaryStatusTransitions"} {
		delete(out, member)
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A look at many workers asks for their list, and not for each of them.
func TestAHundredWorkersAreLookedAtByTheirList(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Hold()
	a.Page(100)
	d := a.driver(t)
	h, err := d.Start(t.Context(), a.request(t, 100, 1))
	if err != nil {
		t.Fatal(err)
	}
	all, err := d.Status(t.Context(), h)
	if err != nil || len(all) != 100 || all[99].State != driver.Waiting || all[99].Reason != "its training job is Starting: Launching requested ML instances" || all[99].Where != "ml.m5.large" {
		t.Fatalf("%d members, %v, %+v", len(all), err, all[len(all)-1])
	}
	sum := func() int {
		return a.Requests("CreateTrainingJob") + a.Requests("DescribeTrainingJob") + a.Requests("ListTrainingJobs")
	}
	if n := sum(); n > 110 {
		t.Errorf("%d requests until it waits; 110 are allowed", n)
	}
	before := sum()
	for range 6 { // a minute
		if _, err := a.driver(t).Status(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	if n := sum() - before; n > 20 {
		t.Errorf("%d requests in a minute; 20 are allowed", n)
	}
}

// Of workers that the list tells enough of, none is asked for; one that was interrupted is, and has a successor.
func TestAListSaysHowWorkersAre(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		summary summary
		claimed int
		enough  bool
		starts  int
	}{
		{summary{TrainingJobStatus: inProgress, SecondaryStatus: "Starting"}, 0, true, 1}, {summary{TrainingJobStatus: inProgress, SecondaryStatus: "Starting"}, 1, false, 0},
		{summary{TrainingJobStatus: inProgress, SecondaryStatus: "Training"}, 2, true, 2}, {summary{TrainingJobStatus: inProgress, SecondaryStatus: "Interrupted"}, 0, false, 0},
		{summary{TrainingJobStatus: completed, SecondaryStatus: "Completed"}, 3, true, 3}, {summary{ProcessingJobStatus: inProgress}, 1, true, 1}, {summary{ProcessingJobStatus: failed}, 1, false, 0}, {summary{TrainingJobStatus: failed, SecondaryStatus: "Failed"}, 1, false, 0}, {summary{TrainingJobStatus: stopping}, 1, false, 0},
	} {
		if enough := test.summary.saysAll(test.claimed); enough != test.enough {
			t.Errorf("%+v, %d: %v", test.summary, test.claimed, enough)
		}
		if test.enough {
			if all := processesOf("drover-x-1-4", 4, training, test.summary.describe(description{}, test.claimed)); len(all) != test.starts || all[len(all)-1].Attempt != test.starts {
				t.Errorf("%+v: %+v", test.summary, all)
			}
		}
	}
}

// Members that AWS's own tool takes are added to requests; those that drover decides are refused.
func TestMembersOfRequestsAreAdded(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Hold()
	r := a.request(t, 1, 1)
	r.Needs.Args = append(r.Needs.Args, `create-training-job={"HyperParameters": {"a": "1"}, "StoppingCondition": {"MaxWaitTimeInSeconds": 1000000}, "Tags": [{"Key": "k", "Value": "v"}]}`, `create-processing-job={"Environment": {"A": "b"}}`)
	if _, err := a.driver(t).Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"HyperParameters":{"a":"1"}`, `"MaxRuntimeInSeconds":432000`, `"MaxWaitTimeInSeconds":1000000`, `{"Key":"managed-by","Value":"drover"}`, `{"Key":"k","Value":"v"}`} {
		if sent := a.Sent("CreateTrainingJob"); !strings.Contains(sent, want) || strings.Contains(sent, `"A":"b"`) {
			t.Errorf("no %s in %s", want, sent)
		}
	}
	for text, want := range map[string][2]string{
		`create-training-job=[]`:                                                    {"read --target-arg create-training-job: it is no JSON object: ", "Give it as AWS's own tool takes it: --target-arg create-training-job=@FILE."},
		`create-training-job={"EnableNetworkIsolation":true}`:                       {"read --target-arg create-training-job: EnableNetworkIsolation is not to be set there", "Leave it out: agents need the store."},
		`create-processing-job={"AppSpecification":{"ImageUri":"x"}}`:               {"read --target-arg create-processing-job: AppSpecification.ImageUri is not to be set there", "Use --image."},
		`create-training-job={"TrainingJobName":"x"}`:                               {"read --target-arg create-training-job: TrainingJobName is not", "Leave it out: drover names jobs."},
		`create-training-job={"RoleArn":"x"}`:                                       {"read --target-arg create-training-job: RoleArn is not", "Use --target-arg role=ARN."},
		`create-training-job={"AlgorithmSpecification":{"ContainerEntrypoint":[]}}`: {"read --target-arg create-training-job: AlgorithmSpecification.ContainerEntrypoint is not", "Type the program: it begins the agent."},
		`create-training-job={"ResourceConfig":{"InstanceCount":2}}`:                {"read --target-arg create-training-job: ResourceConfig.InstanceCount is not", "Use --nodes or --workers."},
		`create-training-job={"InputDataConfig":[]}`:                                {"read --target-arg create-training-job: InputDataConfig is not", "Use -i: agents bring inputs."},
		`create-training-job={"CheckpointConfig":{}}`:                               {"read --target-arg create-training-job: CheckpointConfig is not", "Leave it out: /state and /opt/ml/checkpoints are saved."},
	} {
		if _, err := parseOptions([]string{text}); err == nil || !strings.HasPrefix(err.Error(), want[0]) || strings.ReplaceAll(fault.Hint(err), "`", "") != want[1] {
			t.Errorf("%v\n%s", err, fault.Hint(err))
		}
	}
}

// Nodes of a run are told apart by SageMaker's own file, and an interruption is one of all of them, after which their successors have numbers of their own.
func TestAnInterruptionOfNodesIsOneOfAll(t *testing.T) {
	a := newAccount(t)
	self := drivertest.Program(t)
	d := located{a.driver(t), a, ""}
	r := a.request(t, 2, 2)
	s := drivertest.Script{Stay: true, Marks: t.TempDir()}
	r.Run.Env = s.Environ()
	r.Run.Programs = func(context.Context, string) (driver.Program, error) { return self, nil }
	h, err := d.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	has := func(state driver.State, numbers ...int) func() bool {
		return func() bool {
			all, err := d.Status(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, m := range all {
				if m.State == state {
					got = append(got, m.Index)
				}
			}
			return slices.Equal(got, numbers)
		}
	}
	drivertest.Until(t, "two nodes run", has(driver.Running, 0, 1))
	a.Interrupt("drover-7fk2abcd7fk2abcd-1")
	drivertest.Until(t, "their successors run", has(driver.Running, 2, 3))
	if !has(driver.Taken, 0, 1)() || len(a.Jobs()) != 1 {
		all, _ := d.Status(t.Context(), h)
		t.Errorf("%+v, %s", all, a.Jobs())
	}
	if err := d.Stop(t.Context(), h, 0, true); err != nil {
		t.Error(err)
	}
}

// Why an agent never came up is at the end of what its container printed.
func TestAnAgentThatNeverCameUpSaysWhy(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	d := a.driver(t)
	h, err := d.Start(t.Context(), a.request(t, 1, 1)) // its program cannot be fetched
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "it has ended, and says why", func() bool {
		all, err := d.Status(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		m := all[0]
		return m.State == driver.Ended && strings.HasPrefix(m.Reason, "it never came up: ") && strings.Contains(m.Tail, "the program could not be fetched")
	})
}

// One of twenty workers is interrupted, and has a successor; another one's time is over; the others go on, as they are jobs of their own.
func TestAnInterruptionOfAWorkerIsOneOfItAlone(t *testing.T) {
	a := newAccount(t)
	self := drivertest.Program(t)
	d := located{a.driver(t), a, ""}
	const workers = 20
	r := a.request(t, workers, 1)
	s := drivertest.Script{Stay: true, Marks: t.TempDir()}
	r.Run.Env = s.Environ()
	r.Run.Programs = func(context.Context, string) (driver.Program, error) { return self, nil }
	h, err := d.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	members := func() map[int]driver.Member {
		all, err := d.Status(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		by := map[int]driver.Member{}
		for _, m := range all {
			by[m.Index] = m
		}
		return by
	}
	run := func(numbers ...int) func() bool {
		return func() bool {
			by := members()
			return !slices.ContainsFunc(numbers, func(n int) bool { return by[n].State != driver.Running })
		}
	}
	var all []int
	for n := range workers {
		all = append(all, n)
	}
	drivertest.Until(t, "all run", run(all...))
	a.Interrupt("drover-7fk2abcd7fk2abcd-1-7")
	drivertest.Until(t, "its successor runs", run(workers+7))
	a.Expire("drover-7fk2abcd7fk2abcd-1-3")
	drivertest.Until(t, "the time of another one is over", func() bool { return !members()[3].State.Alive() })
	others := slices.DeleteFunc(all, func(n int) bool { return n == 3 || n == 7 })
	by := members()
	if !run(others...)() || by[7].State != driver.Taken || len(a.Jobs()) != workers || a.Requests("CreateTrainingJob") != workers {
		t.Errorf("%+v, %d jobs", by, len(a.Jobs()))
	}
	if err := d.Stop(t.Context(), h, 0, true); err != nil {
		t.Error(err)
	}
}

func TestWhatSageMakerDoesNotTakeIsRefused(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	d := a.driver(t)
	for _, test := range []struct {
		change func(*driver.Request)
		want   string
		hint   string
	}{
		{func(r *driver.Request) {
			for n := range 100 {
				r.Run.Env = append(r.Run.Env, fmt.Sprintf("V%d=x", n))
			}
		}, "start agents: there are 102 variables, and SageMaker takes 100", "Give fewer: --env."},
		{func(r *driver.Request) { r.Run.Store = "/" + strings.Repeat("x", 30_000) }, "start agents: the script that begins a container has ", "Give long variables in a file, as an input: -i FILE."},
		{func(r *driver.Request) { r.Needs.Args = nil }, "start agents: the project has no role for training jobs", "Have one made: drover target up sagemaker; or name one: --target-arg role=arn:aws:iam::ACCOUNT:role/NAME."},
	} {
		r := a.request(t, 1, 1)
		test.change(&r)
		_, err := d.Start(t.Context(), r)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.ReplaceAll(fault.Hint(err), "`", "") != test.hint || len(a.Jobs()) > 0 {
			t.Errorf("%v\n%s", err, fault.Hint(err))
		}
	}
}

func TestANameIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	h := driver.Handle{Target: Name, Job: "7fk2abcd7fk2abcd", Placement: 12}
	for name, worker := range map[string]int{"drover-7fk2abcd7fk2abcd-12": -1, "drover-7fk2abcd7fk2abcd-12-0": 0, "drover-7fk2abcd7fk2abcd-12-31": 31} {
		if of, n, ok := parseJobName(name); !ok || of != h || n != worker {
			t.Errorf("%s: %v %d %v", name, of, n, ok)
		}
	}
	for _, name := range []string{"", "drover-x", "other-7fk2-1", "drover-7fk2-01", "drover-7fk2-1-", "drover-7fk2-1-2-3", "drover-7FK2-1"} {
		if _, _, ok := parseJobName(name); ok {
			t.Errorf("%q is a name", name)
		}
	}
	if s, err := parseSite("eu-west-1/123456789012"); err != nil || s.String() != "eu-west-1/123456789012" {
		t.Errorf("%v, %v", s, err)
	}
}

// asked are needs with a condition.
func asked(condition string) driver.Needs {
	e, err := where.Parse(condition)
	if err != nil {
		panic(err)
	}
	return driver.Needs{Where: e}
}

// A type of machines is chosen by what is asked for, or named with or without SageMaker's prefix.
func TestAMachineIsChosenByWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		needs driver.Needs
		want  string // a type, or the beginning of a refusal
	}{
		{driver.Needs{}, "ml.m5.large"}, {driver.Needs{CPUs: 3}, "ml.c5.xlarge"}, {driver.Needs{CPUs: 4, Memory: 30 << 30}, "ml.r5.xlarge"}, {driver.Needs{Slots: 16}, "ml.c5.4xlarge"},
		{driver.Needs{GPUs: 1}, "ml.g4dn.xlarge"}, {driver.Needs{GPUs: 8}, "ml.p3.16xlarge"}, {driver.Needs{Machine: []string{"g5.*"}}, "ml.g5.xlarge"}, {driver.Needs{Machine: []string{"g5.*"}, GPUs: 4}, "ml.g5.12xlarge"},
		{driver.Needs{Machine: []string{"ml.trn1.2xlarge"}, CPUs: 8}, "ml.trn1.2xlarge"}, {driver.Needs{Machine: []string{"m5.large", "m5.xlarge"}, CPUs: 4}, "ml.m5.xlarge"},
		{asked(`attribute:ecs.instance-type =~ p3.*`), "ml.p3.2xlarge"}, {asked(`gpu.name == "a10g" && gpu.count >= 4`), "ml.g5.12xlarge"}, {asked(`gpu.memory >= 40GB`), "ml.p4d.24xlarge"}, {asked(`cpus >= 16`), "ml.c5.4xlarge"},
		{driver.Needs{Machine: []string{"zz*"}}, "no type of machines of SageMaker's that drover knows is zz*"},
		{driver.Needs{GPUs: 16}, "no machine of SageMaker's has what an agent needs: 16 GPUs"},
		{driver.Needs{CPUs: 999, Memory: 1 << 30}, "no machine of SageMaker's has what an agent needs: 999 cores, 1 GB of memory"},
	} {
		m, err := chooseMachine(test.needs, "eu-west-1", true)
		if got := m.name; err != nil && err.Error() != test.want || err == nil && got != test.want {
			t.Errorf("%+v: %s, %v; want %s", test.needs, got, err, test.want)
		}
	}
}

// A later placement has the next of the types that are named, as there may have been none of the one before.
func TestALaterPlacementHasAnotherType(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		machines []string
		want     []string
	}{
		{[]string{"g5.xlarge", "g4dn.xlarge", "m5.large"}, []string{"ml.g5.xlarge", "ml.g4dn.xlarge", "ml.g5.xlarge"}}, // one image is for all: none without a GPU
		{[]string{"g5.*"}, []string{"ml.g5.xlarge", "ml.g5.xlarge", "ml.g5.xlarge"}},
	} {
		for i, want := range test.want {
			if m, err := machineOf(driver.Needs{Machine: test.machines}, "eu-west-1", true, i+1); err != nil || m.name != want {
				t.Errorf("%s, placement %d: %s, %v", test.machines, i+1, m.name, err)
			}
		}
	}
}

// What the plan says of a job, or why it is refused.
func TestAnOfferSaysWhatAJobGets(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	d := a.driver(t)
	ask := func(change func(*driver.Needs)) driver.Offer {
		n := driver.Needs{Agents: 2, Place: driver.Place{Image: image, Nodes: 2}, Args: []string{ownRole}}
		change(&n)
		o, err := d.Offer(t.Context(), n)
		if err != nil {
			o.Reason, o.Hint = err.Error(), fault.Hint(err)
		}
		return o
	}
	o := ask(func(*driver.Needs) {})
	if !o.Fits || o.Detail != "eu-west-1/123456789012" || o.Machine != "SageMaker in eu-west-1, ml.m5.large: 2 cores, 8 GB" || !o.Spot || o.Cores != 4 || o.Identity != "the role arn:aws:iam::123456789012:role/train" || len(o.Notes) != 3 ||
		o.Notes[0] != "each agent has a machine alone, ml.m5.large: 2 cores, 8 GB, with a disk of 30 GB" || o.Notes[1] != "spot capacity is waited for 24 hours at most: --target-arg wait= and --on-demand say otherwise" || o.Notes[2] != "SageMaker ends it after 5 days: --timeout says otherwise" {
		t.Errorf("%+v", o)
	}
	if o := ask(func(n *driver.Needs) {
		n.Spot, n.Time, n.Console.Metrics = job.SpotNever, time.Hour, []job.Metric{{Name: "two", Regex: "(a)(b)"}, {Name: "one", Regex: "(a)"}}
	}); !o.Fits || o.Spot || len(o.Notes) != 2 || o.Notes[1] != "SageMaker's console shows no metric two" {
		t.Errorf("%+v", o)
	}
	if o := ask(func(n *driver.Needs) { n.Args = append(n.Args, "wait=0s") }); o.Notes[1] != "spot capacity has to come within the job's own time limit" {
		t.Errorf("%+v", o)
	}
	if o := ask(func(n *driver.Needs) { n.Keep, n.Time = 10*time.Minute, time.Hour }); !o.Fits || o.Spot || len(o.Notes) != 2 || o.Notes[1] != "its machines stay for 10m0s when it has ended, and cost what they cost then too: drover down sagemaker ends that" {
		t.Errorf("%+v", o)
	}
	for _, test := range []struct {
		change func(*driver.Needs)
		want   string
		hint   string
	}{
		{func(n *driver.Needs) { n.Args = nil }, "the project has no role for training jobs", "Have one made: drover target up sagemaker; or name one: --target-arg role=arn:aws:iam::ACCOUNT:role/NAME."},
		{func(n *driver.Needs) { n.Args = []string{"role=train"} }, `read --target-arg "role=train": its value is not of this form`, "Write it as --target-arg role=arn:aws:iam::123456789012:role/train."},
		{func(n *driver.Needs) { n.Args = append(n.Args, "wait=never") }, `read --target-arg "wait=never": its value is not of this form`, "Write it as --target-arg wait=48h."},
		{func(n *driver.Needs) { n.Place.Image = "" }, "a training job needs an image", "Name one: --framework pytorch:2.8.0, --image of ECR, or a --dockerfile."},
		{func(n *driver.Needs) { n.Place.Image = "python:3.12" }, "SageMaker runs images of ECR alone, not python:3.12", "Copy it there: drover image copy python:3.12 ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME."},
		{func(n *driver.Needs) { n.Place.Mounts = []job.Mount{{Source: "/data"}} }, "containers on SageMaker see no folder of this machine: --mount /data", "Give it as an input: -i FOLDER."},
		{func(n *driver.Needs) { n.Spot = job.SpotFirst }, "SageMaker has spot capacity or on-demand machines for a job, and not one after the other", "Use --spot or --on-demand."},
		{func(n *driver.Needs) { n.Keep, n.Spot = time.Hour, job.SpotOnly }, "SageMaker keeps no spot capacity", "Use --on-demand, or leave out --keep-warm."},
		{func(n *driver.Needs) { n.Keep = 7 * time.Hour }, "SageMaker keeps machines for 6 hours at most", "Use --keep-warm 6h at most."},
		{func(n *driver.Needs) { n.Keep, n.Detail = time.Hour, "processing" }, "SageMaker keeps no machines of processing jobs", "Leave out --keep-warm."},
		{func(n *driver.Needs) { n.Time = 30 * 24 * time.Hour }, "a training job ends after 28 days", "Give it less: --timeout."},
		{func(n *driver.Needs) { n.GPUs = 99 }, "no machine of SageMaker's has what an agent needs: 99 GPUs", "Ask for less, with --cpus, --memory or --gpus, or name another type with --machine."},
		{func(n *driver.Needs) { n.Detail = "eu-west-1/999999999999" }, "the job is in account 999999999999, and the role is of account 123456789012", "Use credentials of account 999999999999: AWS_PROFILE."},
	} {
		if o := ask(test.change); o.Fits || o.Reason != test.want || strings.ReplaceAll(o.Hint, "`", "") != test.hint {
			t.Errorf("%q\n%q", o.Reason, o.Hint)
		}
	}
	a.Throttle(1000)
	if err := mustClient(t, d).create(t.Context(), training, "x", createTrainingJob{}); fault.KindOf(err) != fault.Full || fault.Hint(err) != "Try again in a minute." {
		t.Errorf("%v", err)
	}
}

// The account's quota of a type of machines is held against what is asked for, and kept for the next plan.
func TestAQuotaThatIsTooSmallIsSaidInThePlan(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	d := a.driver(t)
	ask := func(change func(*driver.Needs)) driver.Offer {
		n := driver.Needs{Place: driver.Place{Image: image}, Args: []string{ownRole}}
		change(&n)
		o, err := d.Offer(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	a.Quotas.Set("ml.m5.large for spot training job usage", 4)
	a.Quotas.Set("ml.g5.xlarge for training job usage", 0)
	for _, test := range []struct {
		change             func(*driver.Needs)
		reason, hint, note string
	}{
		{func(n *driver.Needs) { n.Agents, n.Place.Nodes = 20, 20 }, `the account's quota "ml.m5.large for spot training job usage" is 4 in eu-west-1, and the job needs 20`,
			"Name another type with --machine, or ask AWS for more: aws service-quotas request-service-quota-increase --region eu-west-1 --service-code sagemaker --quota-code L-34B43A08 --desired-value 20.", ""},
		{func(n *driver.Needs) { n.Agents, n.Place.Nodes = 20, 1 }, "", "", `the account's quota "ml.m5.large for spot training job usage" is 4 in eu-west-1: at most so many of 20 workers run at once`},
		{func(n *driver.Needs) {
			n.Machine, n.Spot, n.Agents, n.Place.Nodes = []string{"g5.xlarge"}, job.SpotNever, 1, 1
		}, `the account's quota "ml.g5.xlarge for training job usage" is 0 in eu-west-1, and the job needs 1`, "", ""},
	} {
		o := ask(test.change)
		if o.Fits != (test.reason == "") || o.Reason != test.reason || test.hint != "" && strings.ReplaceAll(o.Hint, "`", "") != test.hint || test.note != "" && !slices.Contains(o.Notes, test.note) {
			t.Errorf("%+v", o)
		}
	}
	a.Quotas.Set("ml.m5.large for spot training job usage", 0)
	if o := ask(func(n *driver.Needs) { n.Agents = 1 }); !o.Fits {
		t.Errorf("a quota is asked for again: %+v", o)
	}
}

func mustClient(t *testing.T, d *Driver) *client {
	t.Helper()
	c, err := d.engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Machines that are kept for another project stay.
func TestOnlyAProjectsOwnMachinesAreLetGo(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Hold()
	for n, project := range []string{"p", "q"} {
		r := a.request(t, 1, 1)
		r.Placement, r.Needs.Labels = n+1, map[string]string{"project": project}
		if _, err := a.driver(t).Start(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range a.Jobs() {
		a.KeepWarm(name)
	}
	c := mustClient(t, a.driver(t))
	var gone []string
	if err := c.endWarmPools(t.Context(), "p", func(p driver.Piece) { gone = append(gone, p.Name) }); err != nil || !slices.Equal(gone, []string{"drover-7fk2abcd7fk2abcd-1"}) {
		t.Errorf("%v, %s", err, gone)
	}
	if left, err := c.warmPools(t.Context(), "q"); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if left, err := c.warmPools(t.Context(), "p"); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// Each request that the user may not make is named.
func TestARightThatIsLackingIsNamed(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Hold()
	if _, err := a.driver(t).Start(t.Context(), a.request(t, 1, 1)); err != nil {
		t.Fatal(err)
	}
	c := mustClient(t, a.driver(t))
	for operation, test := range map[string]struct {
		do   func() error
		want string
	}{
		"CreateTrainingJob": {func() error {
			return c.create(t.Context(), training, "drover-x-1", createTrainingJob{TrainingJobName: "drover-x-1"})
		}, "create training job drover-x-1: the server says 400 AccessDeniedException"},
		"DescribeTrainingJob": {func() error { _, _, err := c.describe(t.Context(), training, "drover-x-1"); return err }, "describe training job drover-x-1: the server says 400 AccessDeniedException"},
		"StopTrainingJob":     {func() error { return c.stop(t.Context(), training, "drover-x-1") }, "stop training job drover-x-1: the server says 400 AccessDeniedException"},
		"UpdateTrainingJob": {func() error {
			a.KeepWarm("drover-7fk2abcd7fk2abcd-1")
			return c.endWarmPools(t.Context(), "p", func(driver.Piece) {})
		}, "end warm pool of drover-7fk2abcd7fk2abcd-1: the server says 400 AccessDeniedException"},
		"ListTags":         {func() error { _, err := c.tagsOf(t.Context(), "arn"); return err }, "list tags of jobs: the server says 400 AccessDeniedException"},
		"ListTrainingJobs": {func() error { _, err := c.list(t.Context(), training, "drover-", true); return err }, "list training jobs: the server says 400 AccessDeniedException"},
	} {
		a.Deny(operation)
		if err := test.do(); fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v", operation, err)
		}
	}
}

func TestARefusedStartLeavesNoSecret(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Deny("CreateTrainingJob")
	r := a.request(t, 1, 1)
	r.Run.Secrets = map[string]string{"TOKEN": "file:/proc/version"}
	if _, err := a.driver(t).Start(t.Context(), r); fault.KindOf(err) != fault.Denied || a.Secrets() != 0 {
		t.Errorf("%v, %d secrets", err, a.Secrets())
	}
}

func TestWithoutARegionNoneIsAsked(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	_, _, err := openClient(t.Context(), "")
	if fault.KindOf(err) != fault.Invalid || err.Error() != "ask SageMaker: there is no region" || fault.Hint(err) != "Say where: --on sagemaker/REGION, or export AWS_REGION=REGION." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}

// Whatever letters a script has, sh runs it as it is.
func TestAScriptInPiecesRunsAsItIs(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"echo one\necho 'two  three'\n", "echo '~^@%#'\necho \"it's\t\\\\\"\n", "cat <<'E'\n" + strings.Repeat("long ü ", 200) + "\nE\n"} {
		entry, parts, err := split(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range append(entry, parts...) {
			if strings.Contains(part, "\n") || len([]rune(part)) > mostArgument {
				t.Errorf("%q", part)
			}
		}
		got, err := exec.Command(entry[0], append(entry[1:], parts...)...).Output()
		want, _ := exec.Command("/bin/sh", "-c", script).Output()
		if err != nil || len(want) == 0 || string(got) != string(want) {
			t.Errorf("%q: %q, %v, want %q", script, got, err, want)
		}
	}
	if _, _, err := split(lineEnds); err == nil || err.Error() != "start agents: the script that begins a container has every letter" {
		t.Error(err)
	}
}
