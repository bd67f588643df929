package batch

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/cloud/amazon/secret"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// golden is what it was embedded from: the test's program is run in other folders too.
//
//go:embed testdata/requests.golden
var golden string

var update = flag.Bool("update", false, "write the golden requests anew")

// request is one for n agents that wait until they are stopped.
func (a fakeAccount) request(t *testing.T, n int) driver.Request {
	self := drivertest.Program(t)
	s := drivertest.Script{Marks: t.TempDir(), Stay: true}
	return driver.Request{Job: "7fk2abcd7fk2abcd", Placement: 1, Agents: n, Needs: driver.Needs{Agents: n, Detail: "train@eu-west-1/123456789012"},
		Run: driver.Boot{Store: a.facts, Job: "p/t/7fk2abcd7fk2abcd", Env: s.Environ(), Programs: func(context.Context, string) (driver.Program, error) { return self, nil }}}
}

// The requests for a placement, as they are sent: their fields are those of AWS's own documentation.
func TestAPlacementIsOneArrayOfOneDefinition(t *testing.T) {
	a := newAccount(t)
	a.Hold()
	t.Setenv("CANARY", "canary")
	q := a.request(t, 3)
	q.Needs = driver.Needs{Agents: 3, Detail: q.Needs.Detail, CPUs: 1.5, Memory: 4 << 30, GPUs: 1, Time: time.Hour, Labels: map[string]string{"project": "p", "tag owner": "Ann & <Bob>"},
		Place: driver.Place{Image: "ghcr.io/me/train:1", Shm: 1 << 30},
		Args:  []string{role, "execution-role=arn:aws:iam::123456789012:role/pull", "log-group=/drover"}}
	q.Run.Store, q.Run.Env, q.Run.Secrets = "s3://bucket/prefix", []string{"LEVEL=3"}, map[string]string{"TOKEN": "env:CANARY"}
	q.Run.Programs = func(context.Context, string) (driver.Program, error) {
		return driver.Program{SHA256: strings.Repeat("0", 64), Downloads: []store.Download{{Tool: "curl", Command: "curl by the role"}, {Tool: "wget", Command: "wget 'https://x?X-Amz-Signature=canary'", Secret: true}}}, nil
	}
	if _, err := a.driver(t).Start(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, operation := range []string{"registerjobdefinition", "submitjob"} {
		var body map[string]any
		if err := json.Unmarshal([]byte(a.Sent(operation)), &body); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(a.Sent(operation), "canary") {
			t.Errorf("%s holds a secret: %s", operation, a.Sent(operation))
		}
		if o, ok := body["containerOverrides"].(map[string]any); ok {
			words := o["command"].([]any)
			if script := words[2].(string); !strings.Contains(script, "try 'curl' 'curl by the role'") ||
				!strings.HasSuffix(script, "exec '"+programFile+"' 'agent' '--store' 's3://bucket/prefix' '--placement' '1' '--index' '0' 'p/t/7fk2abcd7fk2abcd'") {
				t.Errorf("the script is\n%s", script)
			}
			words[2] = "SCRIPT"
		}
		if operation == "submitjob" {
			body["jobDefinition"] = "DEFINITION"
		} else {
			body["jobDefinitionName"] = "DEFINITION"
		}
		text, err := json.MarshalIndent(body, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString("POST /v1/" + operation + "\n" + string(text) + "\n")
	}
	if *update {
		if err := os.WriteFile("testdata/requests.golden", []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if golden != got.String() {
		t.Errorf("testdata/requests.golden (-want +got; -update writes it):\n%s", cmp.Diff(strings.Split(golden, "\n"), strings.Split(got.String(), "\n")))
	}
}

// Jobs of one shape share a definition, and another shape has another.
func TestADefinitionIsRegisteredOnceForAShape(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	for i, cpus := range []float64{1, 1, 2} {
		r := a.request(t, 1)
		r.Placement, r.Needs.CPUs = i+1, cpus
		if _, err := a.driver(t).Start(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.Definitions()); n != 2 || a.Requests("registerjobdefinition") != 2 {
		t.Errorf("%d definitions, by %d requests", n, a.Requests("registerjobdefinition"))
	}
}

// A start of many agents takes as many requests as that of one.
func TestAStartTakesFewRequests(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Hold()
	if _, err := a.driver(t).Start(t.Context(), a.request(t, 1000)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, operation := range []string{"describejobqueues", "describecomputeenvironments", "describejobdefinitions", "registerjobdefinition", "submitjob", "listjobs", "describejobs", "terminatejob"} {
		n += a.Requests(operation)
	}
	if n > 8 || a.Requests("submitjob") != 1 {
		t.Errorf("%d requests", n)
	}
}

// What AWS refuses as too many requests is asked again; what it has refused for good was not done.
func TestTooManyRequestsAreAskedAgain(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Throttle(3)
	if _, err := a.driver(t).Start(t.Context(), a.request(t, 1)); err != nil || a.Submitted() != 1 {
		t.Errorf("%v, %d submitted", err, a.Submitted())
	}
	r := a.request(t, 1)
	r.Placement, r.Needs.Detail = 2, "none@eu-west-1/123456789012"
	_, err := a.driver(t).Start(t.Context(), r)
	if k := fault.KindOf(err); k != fault.Invalid && k != fault.Missing || a.Submitted() != 1 {
		t.Errorf("%v, %d submitted", err, a.Submitted())
	}
}

// A submission without an answer is found by the name of its job, also where AWS Batch shows it late.
func TestASubmissionWithoutAnAnswerIsFound(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.LoseSubmit()
	a.HideNew(2)
	d := a.driver(t)
	if _, err := d.Start(t.Context(), a.request(t, 2)); err == nil {
		t.Error("a Start without an answer is no error")
	}
	h, err := d.Start(t.Context(), a.request(t, 2))
	if err != nil || a.Submitted() != 1 {
		t.Fatalf("%v, %d submitted", err, a.Submitted())
	}
	drivertest.Until(t, "both run", func() bool {
		all, err := d.Status(t.Context(), h)
		return err == nil && len(all) == 2 && !slices.ContainsFunc(all, func(m driver.Member) bool { return m.State != driver.Running })
	})
}

// What blocks a queue is said while agents wait.
func TestABlockedQueueIsSaid(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Hold()
	d := a.driver(t)
	h, err := d.Start(t.Context(), a.request(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	all, err := d.Status(t.Context(), h)
	if err != nil || len(all) != 2 || all[1].State != driver.Waiting || !strings.HasPrefix(all[1].Reason, "its job is RUNNABLE: MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - ") || all[1].Hint == "" {
		t.Errorf("%+v, %v", all, err)
	}
}

// Secrets are deleted with their placement.
func TestSecretsGoWithTheirPlacement(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	d := a.driver(t)
	r := a.request(t, 1)
	file := t.TempDir() + "/secret"
	if err := os.WriteFile(file, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Run.Secrets = map[string]string{"TOKEN": "file:" + file}
	h, err := d.Start(t.Context(), r)
	if err != nil || a.Secrets() != 1 {
		t.Fatalf("%v, %d secrets", err, a.Secrets())
	}
	if err := d.Stop(t.Context(), h, 0, true); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "the placement is gone", func() bool {
		all, err := d.Status(t.Context(), h)
		return err == nil && len(all) == 0
	})
	if a.Secrets() != 0 {
		t.Errorf("%d secrets are left", a.Secrets())
	}
	r.Placement = 2
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 40<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Run.Secrets["OTHER"] = "file:" + file
	if _, err := d.Start(t.Context(), r); fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "store secrets: they take ") || !strings.HasSuffix(err.Error(), " bytes, and Secrets Manager takes 64 KiB") ||
		fault.Hint(err) != "Let the program read the large ones by the job role." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}

func TestAnEnvironmentThatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	r := a.request(t, 1)
	r.Run.Env = append(r.Run.Env, "LONG="+strings.Repeat("x", 8192))
	_, err := a.driver(t).Start(t.Context(), r)
	if fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "start agents: what AWS Batch is told of a job takes ") || a.Submitted() != 0 {
		t.Error(err)
	}
}

// No answer of AWS: it is not said that nothing was done.
func TestAnErrorSaysWhetherNothingWasDone(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Throttle(1000)
	c, err := a.driver(t).engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	c.send.Wait = 500 * time.Millisecond
	if _, err := c.queues(t.Context(), nil); fault.KindOf(err) != fault.Full || !strings.HasPrefix(err.Error(), "describe job queues: the server says 429 ") || fault.Hint(err) != "Try again in a minute." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}

func TestSecretsThatCannotBeReachedAreSaid(t *testing.T) {
	a := newAccount(t)
	t.Setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", a.URL())
	if _, err := secret.ReadHere(t.Context(), "drover/none"); fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "read the secrets: the server says 400 ResourceNotFoundException: ") {
		t.Error(err)
	}
	a.Break("DeleteSecret")
	c, err := a.driver(t).engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	c.send.Wait = 500 * time.Millisecond
	var away *cloud.Away
	if err := c.secrets.Remove(t.Context(), secretName(driver.Handle{Target: Name, Job: "x", Placement: 1})); !errors.As(err, &away) || !strings.HasPrefix(err.Error(), "delete the secrets: the server says 500 ") {
		t.Error(err)
	}
}

func TestARefusedStartLeavesNoSecret(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Hold()
	a.Deny("submitjob")
	r := a.request(t, 1)
	r.Run.Secrets = map[string]string{"TOKEN": "file:/proc/version"}
	if _, err := a.driver(t).Start(t.Context(), r); fault.KindOf(err) != fault.Denied || a.Secrets() != 0 {
		t.Errorf("%v, %d secrets", err, a.Secrets())
	}
}

// Each request that the user may not make is named, and has certainly not been made.
func TestARightThatIsLackingIsNamed(t *testing.T) {
	t.Parallel()
	for operation, doing := range map[string]string{
		"describejobdefinitions": "look for the job definition", "registerjobdefinition": "register the job definition", "submitjob": "submit the job", "CreateSecret": "store the secrets",
		"describejobs": "describe jobs", "terminatejob": "terminate the job", "listjobs": "list the jobs of queue train", "describecomputeenvironments": "describe compute environments", "DeleteSecret": "",
	} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			a.Hold()
			a.Deny(operation)
			d := a.driver(t)
			_, err := d.Offer(t.Context(), driver.Needs{Agents: 1, Detail: "train"})
			r := a.request(t, 2)
			file := t.TempDir() + "/secret"
			if werr := os.WriteFile(file, []byte("sesame"), 0o600); werr != nil {
				t.Fatal(werr)
			}
			r.Run.Secrets = map[string]string{"TOKEN": "file:" + file}
			h, serr := d.Start(t.Context(), r)
			if serr == nil {
				serr = d.Stop(t.Context(), h, 0, true)
			}
			_, lerr := d.List(t.Context())
			all := errors.Join(err, serr, lerr)
			offer, _ := d.Offer(t.Context(), driver.Needs{Agents: 1, Detail: "train"})
			switch {
			case doing == "": // without a right to secrets none are deleted
				if all != nil {
					t.Error(all)
				}
			case operation == "describecomputeenvironments":
				if !strings.HasPrefix(offer.Reason, doing+": the server says 403 ") || strings.ReplaceAll(offer.Hint, "`", "") != "Have an administrator allow it." {
					t.Errorf("%+v", offer)
				}
			case all == nil || !strings.Contains(all.Error(), doing+": the server says 403 ") || fault.KindOf(errors.Join(serr, lerr)) != fault.Denied:
				t.Errorf("%v", all)
			}
		})
	}
}

func TestAProcessThatIsNoJobIsSaid(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]remote.Claimant{"ab-1": {ID: "ab-1", Attempt: 1}, "ab-1:7": {ID: "ab-1", Index: 7, Attempt: 1}} {
		if c, err := claimant(func(name string) string { return map[string]string{"AWS_BATCH_JOB_ID": id}[name] }); err != nil || c != want {
			t.Errorf("%s: %+v, %v", id, c, err)
		}
	}
	_, err := claimant(func(string) string { return "" })
	if err == nil || err.Error() != `adopt agent: AWS_BATCH_JOB_ID="" names no job` || fault.Hint(err) != "Unset DROVER_BATCH_CPUS." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
	if c, err := claimant(func(name string) string {
		return map[string]string{"AWS_BATCH_JOB_ID": "ab-1:7", "AWS_BATCH_JOB_ARRAY_INDEX": "7", "AWS_BATCH_JOB_ATTEMPT": "3"}[name]
	}); err != nil || c != (remote.Claimant{ID: "ab-1", Index: 7, Attempt: 3}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// A command that is attached asks often; AWS Batch and the store are asked seldom while nothing changes.
func TestAnAttachedCommandAsksSeldom(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.Hold()
	d := a.driverOf(t, remote.Options{Look: time.Minute})
	h, err := d.Start(t.Context(), a.request(t, 250))
	if err != nil {
		t.Fatal(err)
	}
	for range 200 { // within a minute

		if all, err := d.Status(t.Context(), h); err != nil || len(all) != 250 {
			t.Fatal(err, len(all))
		}
	}
	if n := a.Requests("describejobs"); n > 8 { // the array, and its children by hundreds; each may be sent again where a connection was closed
		t.Errorf("%d requests", n)
	}
}
