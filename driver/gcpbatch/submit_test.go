package gcpbatch

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/gcpbatch/gcpbatchtest"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
	"github.com/drover-run/drover/store"
)

const (
	jobID  = "abcdefgh23456777"
	detail = gcpbatchtest.Region + "@" + gcpbatchtest.Project
)

func newLocated(t *testing.T) located {
	t.Helper()
	p := newProject(t)
	return located{p.driver(), p}
}

// request is one for agents that stay.
func (l located) request(t *testing.T, placement, agents int) driver.Request {
	t.Helper()
	self := program(t)
	script := drivertest.Script{Stay: true, Marks: t.TempDir()}
	return driver.Request{Job: jobID, Placement: placement, Agents: agents, Needs: driver.Needs{Agents: agents, Detail: detail, Labels: map[string]string{"project": "digits", "task": "Train", "job": jobID, "team": "Vision & Co"}},
		Run: driver.Boot{Job: "digits/train/" + jobID, Env: script.Environ(), Programs: func(context.Context, string) (driver.Program, error) { return self, nil }}}
}

// remove takes a placement away, and waits for that.
func (l located) remove(t *testing.T, h driver.Handle) {
	t.Helper()
	if err := l.Stop(t.Context(), h, 0, true); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "it is gone", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && len(all) == 0
	})
}

//go:embed testdata/job.golden
var goldenJob string

var update = flag.Bool("update", false, "write testdata/job.golden anew")

func TestTheRequestIsAsItWasLookedAt(t *testing.T) {
	l := newLocated(t)
	l.Hold("held")
	r := l.request(t, 1, 2)
	sum := strings.Repeat("ab", 32)
	r.Needs.Time, r.Needs.Machine, r.Needs.GPUs, r.Needs.Place.Nodes, r.Needs.Place.Shm, r.Needs.Disk = 2*time.Hour, []string{"g2-*"}, 2, 2, 1<<30, 100e9
	r.Needs.Place.Image = "europe-docker.pkg.dev/demo-project/train/image:1"
	r.Needs.Args = []string{"network=team", "subnetwork=team-west", "no-external-ip=yes", "zones=europe-west1-b,europe-west1-c"}
	r.Run.Env = []string{"A=1"}
	r.Run.Programs = func(context.Context, string) (driver.Program, error) {
		return driver.Program{System: "linux/amd64", SHA256: sum, Size: 1, Downloads: store.Fetches("https://storage.googleapis.com/facts/bin/"+sum, `"Authorization: Bearer $(token)"`)}, nil
	}
	if _, err := l.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	in := l.Asked("drover-" + jobID + "-1")
	text, err := json.MarshalIndent(in, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{filepath.Dir(programFile), l.facts} {
		text = bytes.ReplaceAll(text, []byte(folder), []byte("/FOLDER"))
	}
	if *update {
		goldenJob = string(text) + "\n"
		if err := os.WriteFile(filepath.Join("testdata", "job.golden"), []byte(goldenJob), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(goldenJob, string(text)+"\n"); diff != "" {
		t.Errorf("run with -update (-want +got):\n%s", diff)
	}
}

// 5,001 agents are two jobs. While a quota is used up they wait, and say so; nothing is started twice by two commands at once.
func TestManyAgentsAreSeveralJobs(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	const quota = "Quota checking process decided to delay scheduling for the job j due to inadequate quotas [Quota: CPUS, limit: 24, usage: 24, wanted: 8.] CODE_GCE_QUOTA_EXCEEDED."
	l.Hold(quota)
	r := l.request(t, 1, mostTasks+1)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := (located{l.project.driver(), l.project}).Start(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	name := "drover-" + jobID + "-1"
	if got := l.Jobs(); !slices.Equal(got, []string{name, name + "-2"}) {
		t.Errorf("there are the jobs %s", got)
	}
	if a, b := l.Asked(name).TaskGroups[0], l.Asked(name + "-2").TaskGroups[0]; a.TaskCount != mostTasks || b.TaskCount != 1 || b.TaskSpec.Environment.Variables[variableJob] != name+"-2" {
		t.Errorf("they have %d and %d tasks", a.TaskCount, b.TaskCount)
	}
	h := driver.Handle{Target: Name, Job: jobID, Placement: 1, Detail: detail}
	all, err := l.Status(t.Context(), h)
	if err != nil || len(all) != mostTasks+1 || all[mostTasks].Index != mostTasks || all[mostTasks].State != driver.Waiting || !strings.HasPrefix(all[0].Reason, "a quota of the project is used up: Quota checking process") || !strings.HasPrefix(all[0].Hint, "Ask Google for more at ") {
		t.Errorf("%d members, %v; the last is %+v", len(all), err, all[max(len(all)-1, 0)])
	}
	if n := l.Requests("jobs.create"); n != 2 {
		t.Errorf("%d requests create jobs", n)
	}
	l.remove(t, h)
	if left := l.Jobs(); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
}

// A command that dies between two of a placement's jobs has made one of them: the next look makes the other.
func TestAJobThatWasNeverMadeIsMade(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Hold("held")
	h, err := l.Start(t.Context(), l.request(t, 1, mostTasks+2))
	if err != nil {
		t.Fatal(err)
	}
	name := "drover-" + jobID + "-1"
	want := l.Asked(name + "-2")
	if err := l.engine.client(site{"europe-west1", "demo-project"}).Delete(t.Context(), name+"-2"); err != nil { // as if it had never been made
		t.Fatal(err)
	}
	ids, err := l.engine.Find(t.Context(), h)
	if err != nil || !slices.Equal(ids, []string{name, name + "-2"}) {
		t.Errorf("found are %s, %v", ids, err)
	}
	all, err := l.Status(t.Context(), h)
	if err != nil || len(all) != mostTasks+2 || count(all, driver.Waiting) != mostTasks+2 {
		t.Errorf("%d members, %v", len(all), err)
	}
	if diff := cmp.Diff(want, l.Asked(name+"-2")); diff != "" {
		t.Errorf("it is another one (-want +got):\n%s", diff)
	}
	l.remove(t, h)
	if left := l.Jobs(); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
}

func TestWhatGoogleRefusesLeavesNothing(t *testing.T) {
	t.Setenv("CANARY", "canaryvalue")
	for name, row := range map[string]struct {
		change func(*driver.Request)
		deny   string
		kind   fault.Kind
		want   string
		hint   string
	}{
		"a type that is not there": {change: func(r *driver.Request) { r.Needs.Machine = []string{"x9-standard-4"} }, kind: fault.Invalid, want: "create the job in Google Batch: the server says 400: machine type x9-standard-4 is invalid for job"},
		"an account that may not be used": {change: func(r *driver.Request) {
			r.Needs.Args = []string{"service-account=other@demo-project.iam.gserviceaccount.com"}
		}, kind: fault.Denied, want: "create the job in Google Batch: the server says 403: The caller does not have permission to act as service account other@demo-project.iam.gserviceaccount.com"},
		"the interface is off": {deny: "Batch API has not been used in project demo-project before or it is disabled.", kind: fault.Denied, want: "create the job in Google Batch: the server says 403: Batch API has not been used in project demo-project before or it is disabled",
			hint: "Run gcloud services enable batch.googleapis.com compute.googleapis.com logging.googleapis.com secretmanager.googleapis.com."},
		"another region":  {change: func(r *driver.Request) { r.Needs.Detail = "mars-north1@demo-project" }, kind: fault.Missing, want: "create the job in Google Batch: the server says 404: Location mars-north1 is not found or access is unauthorized"},
		"another project": {change: func(r *driver.Request) { r.Needs.Detail = "europe-west1@another-project" }, kind: fault.Denied, want: "create the job in Google Batch: the server says 403: Permission 'batch.jobs.list' denied on 'projects/another-project/locations/europe-west1' (or it may not exist)"},
	} {
		l := newLocated(t)
		r := l.request(t, 1, 1)
		if row.change != nil {
			row.change(&r)
		}
		if name != "another project" && name != "another region" { // the secret would be of another one
			r.Run.Secrets = map[string]string{"TOKEN": "env:CANARY"}
		}
		l.Deny("batch", row.deny)
		_, err := l.Start(t.Context(), r)
		if err == nil || fault.KindOf(err) != row.kind || err.Error() != row.want || fault.Hint(err) != row.hint {
			t.Errorf("%s: %v (%s), hint %q", name, err, fault.KindOf(err), fault.Hint(err))
		}
		if left := l.Jobs(); len(left) > 0 || l.Secrets() > 0 {
			t.Errorf("%s leaves %s, %d secrets", name, left, l.Secrets())
		}
	}
}

func TestAForeignJobIsSpared(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	name := "drover-" + jobID + "-1"
	l.Occupy(name)
	_, err := l.Start(t.Context(), l.request(t, 1, 1))
	if fault.KindOf(err) != fault.Invalid || err.Error() != "start agents: job "+name+" of Google Batch is one that drover did not make" || fault.Hint(err) != "Delete it, or use another region." {
		t.Error(err)
	}
	if !slices.Equal(l.Jobs(), []string{name}) {
		t.Errorf("there are %s", l.Jobs())
	}
}

// A secret is in Secret Manager alone, and goes with its placement.
func TestSecretsAreInSecretManagerAlone(t *testing.T) {
	t.Setenv("CANARY", "canaryvalue")
	l := newLocated(t)
	r := l.request(t, 1, 1)
	r.Run.Secrets = map[string]string{"TOKEN": "env:CANARY"}
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(l.Asked("drover-" + jobID + "-1"))
	if err != nil || bytes.Contains(in, []byte("canaryvalue")) || l.Secrets() != 1 {
		t.Errorf("%v, %d secrets, the request is %s", err, l.Secrets(), in)
	}
	err = filepath.WalkDir(l.facts, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte("canaryvalue")) {
				t.Errorf("%s holds the secret, or cannot be read: %v", path, err)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	l.remove(t, h)
	if l.Secrets() != 0 {
		t.Errorf("%d secrets are left", l.Secrets())
	}
	r.Placement, r.Needs.Args = 2, nil
	if _, err := l.Driver.Start(t.Context(), r); fault.KindOf(err) != fault.Invalid || err.Error() != "hand over secrets: it is not said which service account may read them" || fault.Hint(err) != "Have one made: drover target up gcp; or name it: --target-arg service-account=NAME@PROJECT.iam.gserviceaccount.com." {
		t.Error(err)
	}
}

func TestABusyServiceIsAskedAgain(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Throttle(2)
	h, err := l.Start(t.Context(), l.request(t, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	l.remove(t, h)
}

func TestOffersSayWhatThereIs(t *testing.T) {
	l := newLocated(t)
	expr := func(text string) where.Expr {
		e, err := where.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for name, row := range map[string]struct {
		needs                 driver.Needs
		machine, reason, hint string
	}{
		"nothing said":        {machine: "Google Batch in europe-west1, machines of Google's choice"},
		"GPUs":                {needs: driver.Needs{GPUs: 2}, machine: "Google Batch in europe-west1, g2-standard-24: 24 cores, 96 GB, 2 GPUs"},
		"a GPU":               {needs: driver.Needs{GPUs: 1}, machine: "Google Batch in europe-west1, g2-standard-4: 4 cores, 16 GB, 1 GPU"},
		"a GPU by its name":   {needs: driver.Needs{Where: expr("gpu.name == a100 and gpu.memory >= 80GB")}, machine: "Google Batch in europe-west1, a2-ultragpu-1g: 12 cores, 170 GB, 1 GPU"},
		"a type":              {needs: driver.Needs{Machine: []string{"n2-highmem-8"}}, machine: "Google Batch in europe-west1, n2-highmem-8: 8 cores, 64 GB"},
		"a type of no table":  {needs: driver.Needs{Machine: []string{"c4-standard-8"}}, machine: "Google Batch in europe-west1, c4-standard-8"},
		"too much":            {needs: driver.Needs{CPUs: 1000}, reason: "no machine of Compute Engine's that drover knows has what an agent needs: 1000 cores", hint: "Ask for less, with `--cpus`, `--memory` or `--gpus`, or name a type with `--machine`."},
		"GPUs on a type":      {needs: driver.Needs{GPUs: 1, Memory: 1 << 30, Machine: []string{"n2-standard-4"}}, reason: "no machine of Compute Engine's that drover knows has what an agent needs: 1 GB of memory, 1 GPU, --machine n2-standard-4", hint: "Ask for less, with `--cpus`, `--memory` or `--gpus`, or name a type with `--machine`."},
		"where":               {needs: driver.Needs{Where: expr("type =~ p3.*")}, reason: "no machine of Compute Engine's that drover knows has what an agent needs: type =~ p3.*", hint: "Ask for less, with `--cpus`, `--memory` or `--gpus`, or name a type with `--machine`."},
		"spot first":          {needs: driver.Needs{Spot: job.SpotFirst}, reason: "Google Batch has spot capacity or on-demand machines for a job, and not one after the other", hint: "Use `--spot` or `--on-demand`."},
		"mounts":              {needs: driver.Needs{Place: driver.Place{Mounts: []job.Mount{{Source: "/data"}}}}, reason: "containers on Google Batch see no folder of this machine: --mount /data", hint: "Give it as an input: `-i FOLDER`."},
		"a long time":         {needs: driver.Needs{Time: 20 * 24 * time.Hour}, reason: "a job of Google Batch ends after 14 days", hint: "Give it less: `--timeout`."},
		"zones of elsewhere":  {needs: driver.Needs{Args: []string{"zones=us-east1-b"}}, reason: "read --target-arg zones=us-east1-b: us-east1-b is no zone of europe-west1", hint: "Name zones of europe-west1, or use `--on gcp/REGION`."},
		"a region of nowhere": {needs: driver.Needs{Detail: "mars-north1"}, reason: "list jobs of Google Batch: the server says 404: Location mars-north1 is not found or access is unauthorized"},
	} {
		row.needs.Agents = 1
		o, err := l.Offer(t.Context(), row.needs)
		if err != nil || o.Reason != row.reason || strings.ReplaceAll(o.Hint, "`", "") != strings.ReplaceAll(row.hint, "`", "") || row.machine != "" && (o.Machine != row.machine || !o.Fits || o.Detail != detail) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	o, err := l.Offer(t.Context(), driver.Needs{Agents: 2, Place: driver.Place{Nodes: 2}, Where: expr("arch == arm64"), Spot: job.SpotNever, Args: []string{"service-account=" + gcpbatchtest.Account}})
	want := []string{"each agent has a machine alone", "Google Batch ends it after 14 days: --timeout says otherwise"}
	if err != nil || o.System != "linux/arm64" || o.Spot || o.Identity != "the service account "+gcpbatchtest.Account || !slices.Equal(o.Notes, want) {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = l.Offer(t.Context(), driver.Needs{Agents: 1, Time: time.Hour})
	if want := []string{"Google Batch starts an agent again 10 times: what is taken more often a command that follows the job places anew"}; err != nil || !o.Spot || !slices.Equal(o.Notes, want) || o.Identity != "the default service account of Compute Engine in project demo-project" {
		t.Errorf("%+v, %v", o, err)
	}
	for args, want := range map[string]string{
		"acount=x":            `read --target-arg "acount=x": Google Batch has no such option here`,
		"no-external-ip=true": `read --target-arg "no-external-ip=true": its value is not of this form`,
	} {
		if _, err := l.Offer(t.Context(), driver.Needs{Agents: 1, Args: []string{args}}); err == nil || err.Error() != want {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, err := l.Offer(t.Context(), driver.Needs{Agents: 1, Detail: "Europe"}); err == nil || err.Error() != "read target: gcp/Europe names no region of Google Cloud" {
		t.Error(err)
	}
}

func TestAnOfferNeedsAProjectAndARegion(t *testing.T) {
	l := newLocated(t)
	for _, row := range []struct{ unset, reason string }{
		{"CLOUDSDK_COMPUTE_REGION", "ask Google Batch: there is no region"},
		{"GOOGLE_CLOUD_PROJECT", "ask Google Batch: there is no project"},
		{"GCE_METADATA_HOST", "there are no application default credentials for Google Cloud, and this machine is none of Google's"},
	} {
		t.Setenv("HOME", t.TempDir())
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
		t.Setenv(row.unset, "")
		o, err := l.Offer(t.Context(), driver.Needs{Agents: 1})
		if err != nil || o.Fits || o.Reason != row.reason || o.Hint == "" {
			t.Errorf("%+v, %v", o, err)
		}
	}
	if n := l.Requests("jobs.list"); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestNamesAreReadAsTheyWereMade(t *testing.T) {
	h := driver.Handle{Target: Name, Job: jobID, Placement: 12}
	names := jobNames(h, 2*mostTasks+1)
	if want := []string{jobName(h), jobName(h) + "-2", jobName(h) + "-3"}; !slices.Equal(names, want) {
		t.Errorf("%s, want %s", names, want)
	}
	for k, name := range names {
		if got, first, ok := parseJobName(name); !ok || got != h || first != k*mostTasks {
			t.Errorf("%s is %+v from %d, %t", name, got, first, ok)
		}
	}
	for _, name := range []string{"drover-a-1-1", "drover-a-0", "drover-a", "other-a-1", "drover-a-1-2-3", ""} {
		if _, _, ok := parseJobName(name); ok {
			t.Errorf("%q was read", name)
		}
	}
	if a, b := requestID("p", "r", "a"), requestID("p", "r", "b"); a == b || len(a) != 36 || a[14] != '4' {
		t.Errorf("requests are %s and %s", a, b)
	}
	for _, text := range []string{"europe-west1", "europe-west1@demo-project", "us-central1@example.com:old", ""} {
		if at, err := parseSite(text); err != nil || at.String() != text {
			t.Errorf("%q is %+v, %v", text, at, err)
		}
	}
	got := labels(map[string]string{"project": "Digits", "job": "x", "Größe": strings.Repeat("é", 80), "": "y", "9": "z"})
	want := map[string]string{"drover": "agents", "drover_project": "digits", "drover_job": "x", "gr--e": strings.Repeat("-", 63), "drover_": "y", "drover_9": "z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestWhatThePartiesNeedIsSaid(t *testing.T) {
	for whose, all := range map[driver.Party][]string{
		driver.Agents:     {"--role=roles/batch.agentReporter --condition=None # machines report to Google Batch\n", "# what tasks print goes to Cloud Logging", "# images of Artifact Registry"},
		driver.Submitters: {"--member=user:YOU --role=roles/batch.jobsEditor", "# jobs of the agents' service account", "# the secrets of jobs: helps"},
	} {
		text, err := writePolicy(driver.Config{}, whose, driver.Scope{})
		for _, want := range all {
			if err != nil || !strings.Contains(text, want) {
				t.Errorf("%s: %s, %v", whose, text, err)
			}
		}
	}
}
