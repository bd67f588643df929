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
	self := drivertest.Program(t)
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
	r.Needs.Spot = job.SpotNever
	r.Needs.Time, r.Needs.Machine, r.Needs.GPUs, r.Needs.Place.Nodes, r.Needs.Place.Shm, r.Needs.Disk = 2*time.Hour, []string{"g2-*"}, 2, 2, 1<<30, 100e9
	r.Needs.Place.Image = "europe-docker.pkg.dev/demo-project/train/image:1"
	r.Needs.Args = []string{"network=team", "subnetwork=team-west", "no-external-ip=yes", "zones=europe-west1-b", "reservation=projects/demo-project/reservations/night", "wait=12h",
		"volume=gs://corpus/texts/:/data", "volume=gs://scratch:/scratch:rw", "volume=nfs://10.0.0.2/share:/share:ro", "volume=disk/europe-west1-b/corpus:/corpus"}
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

// A patch is merged into the request, which Google's document takes.
func TestARequestIsAmended(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Hold("held")
	r := l.request(t, 1, 1)
	r.Needs.Args = []string{"collocated=yes", "volume=disk/europe-west1-b/corpus:/corpus", `job={"priority": "50", "labels": {"cost": "night"}, "allocationPolicy": {"tags": ["web"], "instances": [{"policy": {"minCpuPlatform": "Intel Ice Lake", "disks": [{"deviceName": "scratch", "newDisk": {"type": "local-ssd", "sizeGb": "375"}}]}, "blockProjectSshKeys": true}]}, "taskGroups": [{"taskSpec": {"maxRunDuration": "60s"}}]}`}
	if _, err := l.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	in := l.Asked("drover-" + jobID + "-1")
	if in.Labels["cost"] != "night" || in.Labels["drover"] != "agents" || in.TaskGroups[0].TaskSpec.MaxRunDuration != "60s" || len(in.TaskGroups[0].TaskSpec.Runnables) != 2 || in.AllocationPolicy.Instances[0].Policy.ProvisioningModel != "SPOT" ||
		in.AllocationPolicy.Placement == nil || len(in.AllocationPolicy.Instances[0].Policy.Disks) != 2 {
		t.Errorf("%+v", in)
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
	l.Forbid("batch.jobs.create")
	all, err := l.Status(t.Context(), h)
	if err != nil || count(all, driver.Waiting) != mostTasks+2 || !strings.Contains(all[mostTasks+1].Reason, "; create the job in Google Batch: the server says 403") {
		t.Errorf("of a user that may only look: %d members, %v", len(all), err)
	}
	l.Forbid("")
	drivertest.Until(t, "it is made", func() bool {
		all, err = l.Status(t.Context(), h)
		return len(l.Jobs()) == 2
	})
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
		forbid string
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
		"a secret of which the account may not be told": {forbid: "secretmanager.secrets.setIamPolicy", kind: fault.Denied, want: "let the agents read their secret: the server says 403: Permission 'secretmanager.secrets.setIamPolicy' denied on resource (or it may not exist)"},
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
		l.Forbid(row.forbid)
		_, err := l.Start(t.Context(), r)
		if err == nil || fault.KindOf(err) != row.kind || err.Error() != row.want || fault.Hint(err) != row.hint {
			t.Errorf("%s: %v (%s), hint %q", name, err, fault.KindOf(err), fault.Hint(err))
		}
		if left := l.Jobs(); len(left) > 0 || l.Secrets() > 0 {
			t.Errorf("%s leaves %s, %d secrets", name, left, l.Secrets())
		}
	}
}

// A user without rights in Secret Manager starts what has no secrets, and takes it away.
func TestAUserWithoutSecretManagerTakesPlacementsAway(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Deny("secretmanager", "Secret Manager API has not been used in project demo-project before or it is disabled.")
	h, err := l.Start(t.Context(), l.request(t, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	l.remove(t, h)
	if left := l.Jobs(); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
}

// A place that does not answer any more hides none of what is elsewhere.
func TestAPlaceThatIsGoneHidesNothing(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Hold("held")
	h, err := l.Start(t.Context(), l.request(t, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []site{{"us-east1", "deleted-project"}, {"asia-east1", "another-one"}} {
		if err := l.engine.notePlace(at); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := l.engine.Held(t.Context()); fault.KindOf(err) != fault.Denied || !slices.Equal(all, []driver.Handle{h}) {
		t.Errorf("held are %s, %v", all, err)
	}
	if all, err := l.List(t.Context()); fault.KindOf(err) != fault.Denied || !slices.Equal(all, []driver.Handle{h}) {
		t.Errorf("listed are %s, %v", all, err)
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
	if got, _, ok := parseJobName(onDemandName(jobName(h))); !ok || got != h {
		t.Errorf("%s is %+v, %t", onDemandName(jobName(h)), got, ok)
	}
	if id, before := placeOf(onDemandName("drover-a-1")); id != "drover-a-1" || before != 11 {
		t.Errorf("its starts are claimed under %s after %d", id, before)
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
		driver.Submitters: {"--member=user:YOU --role=roles/batch.jobsEditor", "# jobs of the agents' service account", "# the secrets of jobs: helps", "# what agents printed that never came up: helps", "# quotas in the plan: helps"},
	} {
		text, err := writePolicy(driver.Config{}, whose, driver.Scope{})
		for _, want := range all {
			if err != nil || !strings.Contains(text, want) {
				t.Errorf("%s: %s, %v", whose, text, err)
			}
		}
	}
}

// A life of a job asks for what the roles of rights.go grant, and for no more; its machines ask for their secret alone. It costs few requests.
func TestAJobAsksForNoMoreThanItsRoles(t *testing.T) {
	t.Setenv("CANARY", "canaryvalue")
	l := newLocated(t)
	if o, err := l.Offer(t.Context(), driver.Needs{Agents: 1}); err != nil || !o.Fits {
		t.Fatalf("%+v, %v", o, err)
	}
	r := l.request(t, 1, 2)
	r.Run.Secrets = map[string]string{"TOKEN": "env:CANARY"}
	before := l.Requests("")
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if n := l.Requests("") - before; n > 4 {
		t.Errorf("a start with a secret takes %d requests", n)
	}
	drivertest.Until(t, "both run", func() bool {
		all, err := l.Status(t.Context(), h)
		return err == nil && runs(all, 0) && runs(all, 1)
	})
	if _, err := l.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.remove(t, h)
	granted := map[string]bool{"": true}
	for _, a := range asked {
		granted[a.permission] = slices.ContainsFunc(roles[driver.Submitters], func(r struct{ role, why string }) bool { return r.role == a.role })
	}
	calls := l.Calls()
	for _, call := range calls {
		who, method, _ := strings.Cut(call, " ")
		permission := gcpbatchtest.Permission(method)
		if who == "user" && !granted[permission] || who == "machine" && permission != "secretmanager.versions.access" || who == "" {
			t.Errorf("%s needs %q", call, permission)
		}
	}
	for _, want := range []string{"user batch.projects.locations.jobs.create", "user batch.projects.locations.jobs.delete", "machine secretmanager.projects.secrets.versions.access"} {
		if !slices.Contains(calls, want) {
			t.Errorf("%s was not asked for: %s", want, calls)
		}
	}
}

// The answer to each request of a placement's life is lost once: it is sent again, agents start once, and nothing is left.
func TestEachAnswerMayBeLost(t *testing.T) {
	t.Setenv("CANARY", "canaryvalue")
	var all sync.WaitGroup
	for n := 1; n <= 14; n++ {
		all.Go(func() {
			l := newLocated(t)
			l.LoseAnswer(n)
			r := l.request(t, 1, 2)
			r.Run.Secrets = map[string]string{"TOKEN": "env:CANARY"}
			h, err := l.Start(t.Context(), r)
			if err != nil {
				t.Errorf("answer %d: %v", n, err)
				return
			}
			drivertest.Until(t, "both run", func() bool {
				all, err := l.Status(t.Context(), h)
				return err == nil && len(all) == 2 && runs(all, 0) && runs(all, 1)
			})
			if err := l.Stop(t.Context(), h, 0, true); err != nil {
				t.Errorf("answer %d: %v", n, err)
			}
			drivertest.Until(t, "it is gone", func() bool {
				all, err := l.Status(t.Context(), h)
				return err == nil && len(all) == 0
			})
			if jobs := l.Jobs(); len(jobs) > 0 || l.Secrets() > 0 {
				t.Errorf("answer %d: left are %s, %d secrets", n, jobs, l.Secrets())
			}
		})
	}
	all.Wait()
}

// While a job counts as many tasks in each state as before they are not listed again; what changes is.
func TestTasksAreListedWhenTheirJobChanges(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.engine.list = time.Hour
	h, err := l.Start(t.Context(), l.request(t, 1, 2))
	if err != nil {
		t.Fatal(err)
	}
	bothRun := func(number int) func() bool {
		return func() bool {
			all, err := l.Status(t.Context(), h)
			return err == nil && runs(all, number) && runs(all, 1)
		}
	}
	drivertest.Until(t, "both run", bothRun(0))
	listed, looked := l.Requests("tasks.list"), l.Requests("jobs.get")
	drivertest.Until(t, "it was looked at", func() bool { return bothRun(0)() && l.Requests("jobs.get") > looked+3 })
	if n := l.Requests("tasks.list") - listed; n > 0 {
		t.Errorf("%d requests list what has not changed", n)
	}
	l.Take("drover-"+jobID+"-1", 0)
	drivertest.Until(t, "its successor runs", bothRun(2))
	l.remove(t, h)
}
