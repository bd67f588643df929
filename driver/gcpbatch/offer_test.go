package gcpbatch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/gcpbatch/gcpbatchtest"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

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
		"nothing said":                   {machine: "Google Batch in europe-west1, machines of Google's choice"},
		"GPUs":                           {needs: driver.Needs{GPUs: 2}, machine: "Google Batch in europe-west1, g2-standard-24: 24 cores, 96 GB, 2 GPUs"},
		"a GPU":                          {needs: driver.Needs{GPUs: 1}, machine: "Google Batch in europe-west1, g2-standard-4: 4 cores, 16 GB, 1 GPU"},
		"a GPU by its name":              {needs: driver.Needs{Where: expr("gpu.name == a100 and gpu.memory >= 80GB")}, machine: "Google Batch in europe-west1, a2-ultragpu-1g: 12 cores, 170 GB, 1 GPU"},
		"a type":                         {needs: driver.Needs{Machine: []string{"n2-highmem-8"}}, machine: "Google Batch in europe-west1, n2-highmem-8: 8 cores, 64 GB"},
		"a type of no table":             {needs: driver.Needs{Machine: []string{"c4-standard-8"}}, machine: "Google Batch in europe-west1, c4-standard-8"},
		"too much":                       {needs: driver.Needs{CPUs: 1000}, reason: "no machine of Compute Engine's that drover knows has what an agent needs: 1000 cores", hint: "Ask for less, with `--cpus`, `--memory` or `--gpus`, or name a type with `--machine`."},
		"GPUs on a type":                 {needs: driver.Needs{GPUs: 1, Memory: 1 << 30, Machine: []string{"n2-standard-4"}}, reason: "no machine of Compute Engine's that drover knows has what an agent needs: 1 GB of memory, 1 GPU, --machine n2-standard-4", hint: "Ask for less, with `--cpus`, `--memory` or `--gpus`, or name a type with `--machine`."},
		"where":                          {needs: driver.Needs{Where: expr("type =~ p3.*")}, reason: "no machine of Compute Engine's that drover knows has what an agent needs: type =~ p3.*", hint: "Ask for less, with `--cpus`, `--memory` or `--gpus`, or name a type with `--machine`."},
		"spot first of many":             {needs: driver.Needs{Agents: mostTasks + 1, Spot: job.SpotFirst}, reason: "buy on-demand machines in the place of spot capacity: that is for the one job of 5000 agents at most, without --target-arg job", hint: "Use `--spot` or `--on-demand`."},
		"mounts":                         {needs: driver.Needs{Place: driver.Place{Mounts: []job.Mount{{Source: "/data"}}}}, reason: "containers on Google Batch see no folder of this machine: --mount /data", hint: "Give it as an input: `-i FOLDER`; or name a bucket, share or disk: `--target-arg volume=gs://bucket/folder:/data`."},
		"a long time":                    {needs: driver.Needs{Time: 20 * 24 * time.Hour}, reason: "a job of Google Batch ends after 14 days", hint: "Give it less: `--timeout`."},
		"a disk of elsewhere":            {needs: driver.Needs{Args: []string{"volume=disk/us-east1-b/corpus:/data"}}, reason: "mount disk corpus: its zone us-east1-b is none of europe-west1", hint: "Use a disk of europe-west1, or `--on gcp/REGION`."},
		"a disk in one zone":             {needs: driver.Needs{Args: []string{"volume=disk/europe-west1-b/corpus:/data", "zones=europe-west1-b,europe-west1-c"}}, reason: "mount disk corpus: machines may be outside its zone europe-west1-b", hint: "Leave `zones` away, and use disks of one zone."},
		"spot capacity of a reservation": {needs: driver.Needs{Args: []string{"reservation=night"}}, reason: "use reservation night: spot capacity comes from none", hint: "Use `--on-demand`."},
		"near, of a reservation":         {needs: driver.Needs{Spot: job.SpotNever, Args: []string{"reservation=night", "collocated=yes"}}, reason: "use reservation night: collocated machines come from none", hint: "Leave one of them out."},
		"spot first, and no time":        {needs: driver.Needs{Spot: job.SpotFirst, Args: []string{"wait=10m"}}, reason: "buy on-demand machines in the place of spot capacity: that is after 10m0s, and the job waits for 10m0s", hint: "Wait for longer: `--target-arg wait=1h`."},
		"a patch of two jobs":            {needs: driver.Needs{Agents: mostTasks + 1, Args: []string{`job={"priority": "50"}`}}, reason: "read --target-arg job: it is for the one job of 5000 agents at most", hint: "Ask for fewer agents, with `--workers`."},
		"zones of elsewhere":             {needs: driver.Needs{Args: []string{"zones=us-east1-b"}}, reason: "read --target-arg zones=us-east1-b: us-east1-b is no zone of europe-west1", hint: "Name zones of europe-west1, or use `--on gcp/REGION`."},
		"a region of nowhere":            {needs: driver.Needs{Detail: "mars-north1"}, reason: "list jobs of Google Batch: the server says 404: Location mars-north1 is not found or access is unauthorized", hint: "Name one that gcloud compute regions list shows: --on gcp/REGION."},
	} {
		row.needs.Agents = max(row.needs.Agents, 1)
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
	o, err = l.Offer(t.Context(), driver.Needs{Agents: 1, Time: time.Hour, Args: []string{"wait=90m"}})
	if want := []string{"an agent that hangs is ended by Google Batch after 1h15m0s, and started again, 10 times at most", "a command that looks after 1h30m0s cancels what no machine has come for", "Google Batch starts an agent again 10 times: what is taken more often a command that follows the job places anew"}; err != nil || !o.Spot || !slices.Equal(o.Notes, want) || o.Identity != "the default service account of Compute Engine in project demo-project" {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = l.Offer(t.Context(), driver.Needs{Agents: 1, Spot: job.SpotFirst, Time: time.Hour})
	if want := "where no machine has come within 10m0s, a command that looks asks for on-demand ones"; err != nil || !o.Spot || o.Notes[1] != want {
		t.Errorf("%+v, %v", o, err)
	}
	for args, want := range map[string]string{
		"acount=x": `read --target-arg "acount=x": Google Batch has no such option here`,
		`job=[1]`:  "read --target-arg job: it is no JSON object",
		`job={"taskGroups":[{"taskSpec":{"runnables":[]}}]}`:        "read --target-arg job: drover decides taskGroups.taskSpec.runnables",
		`job={"labels":null}`:                                       "read --target-arg job: drover decides labels.drover, and labels would replace it",
		`job={"allocationPolicy":[]}`:                               "read --target-arg job: drover decides allocationPolicy.serviceAccount, and allocationPolicy would replace it",
		`job={"taskGroups":[{"taskSpec":{"environment":null}}]}`:    "read --target-arg job: drover decides taskGroups.taskSpec.environment.variables.DROVER_, and taskGroups.taskSpec.environment would replace it",
		`job={"labels":{"drover_job":"x"}}`:                         "read --target-arg job: drover decides labels.drover_job",
		`job={"allocationPolicy":{"serviceAccount":{"email":"x"}}}`: "read --target-arg job: drover decides allocationPolicy.serviceAccount",
		"volume=/data:/data":                                        `read --target-arg volume=/data:/data: it is no bucket, share or disk with a path of the container`,
		"volume=gs://b-1:/":                                         `read --target-arg volume=gs://b-1:/: it would hide the whole container`,
		"volume=disk/europe-west1-b/corpus:/data:rw":                `read --target-arg volume=disk/europe-west1-b/corpus:/data:rw: Google Batch mounts disks that exist for reading alone`,
		"wait=5d":             `read --target-arg "wait=5d": it is no time between a minute and the two days for which Google Batch keeps a job that waits`,
		"no-external-ip=true": `read --target-arg "no-external-ip=true": its value is not of this form`,
	} {
		_, err := l.Offer(t.Context(), driver.Needs{Agents: 1, Args: []string{args}})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", args, err)
		}
		if hint := fault.Hint(err); args == `job={"labels":null}` && hint != "Give it as an object, with the members that are to change." {
			t.Errorf("%s: %s", args, hint)
		}
		if hint := fault.Hint(err); args == "job=[1]" && hint != `Give it as Google Batch's reference has a job: --target-arg job=@FILE, with {"priority": 50}.` {
			t.Errorf("%s: %s", args, hint)
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

// What a project may have at once is in the plan, also of spot capacity and of GPUs; an agent that it may not have is refused.
func TestOffersKnowQuotas(t *testing.T) {
	t.Parallel()
	const asks = "Ask Google for more at https://console.cloud.google.com/iam-admin/quotas, or use another region: `--on gcp/REGION`."
	for name, row := range map[string]struct {
		quotas map[string]float64
		needs  driver.Needs
		reason string
		notes  []string
	}{
		"enough":             {map[string]float64{"CPUS": 8}, driver.Needs{Agents: 4}, "", nil},
		"not for all":        {map[string]float64{"CPUS": 8}, driver.Needs{Agents: 6, CPUs: 2}, "", []string{"the project's quota CPUS is 8 in europe-west1, and 0 is used: at most 4 of 6 agents run at once"}},
		"of Google's choice": {map[string]float64{"CPUS": 1}, driver.Needs{Agents: 1}, "", []string{"the project's quota CPUS is 1 in europe-west1, and 0 is used: at most 0 of 1 agents run at once"}},
		"none of a type":     {map[string]float64{"CPUS": 100, "N2_CPUS": 4}, driver.Needs{Agents: 1, Machine: []string{"n2-standard-8"}}, "the project's quota N2_CPUS is 4 in europe-west1, and an agent needs 8", nil},
		"spot of a type":     {map[string]float64{"N2_CPUS": 4, "PREEMPTIBLE_CPUS": 64}, driver.Needs{Agents: 9, Machine: []string{"n2-standard-8"}}, "", []string{"the project's quota PREEMPTIBLE_CPUS is 64 in europe-west1, and 0 is used: at most 8 of 9 agents run at once"}},
		"GPUs":               {map[string]float64{"NVIDIA_L4_GPUS": 0}, driver.Needs{Agents: 1, GPUs: 1}, "the project's quota NVIDIA_L4_GPUS is 0 in europe-west1, and an agent needs 1", nil},
		"spot GPUs":          {map[string]float64{"NVIDIA_L4_GPUS": 0, "PREEMPTIBLE_NVIDIA_L4_GPUS": 1}, driver.Needs{Agents: 1, GPUs: 1}, "", nil},
		"GPUs on demand":     {map[string]float64{"NVIDIA_L4_GPUS": 0, "PREEMPTIBLE_NVIDIA_L4_GPUS": 1}, driver.Needs{Agents: 1, GPUs: 1, Spot: job.SpotNever}, "the project's quota NVIDIA_L4_GPUS is 0 in europe-west1, and an agent needs 1", nil},
		"large GPUs":         {map[string]float64{"NVIDIA_A100_GPUS": 9, "NVIDIA_A100_80GB_GPUS": 0}, driver.Needs{Agents: 1, Machine: []string{"a2-ultragpu-1g"}}, "the project's quota NVIDIA_A100_80GB_GPUS is 0 in europe-west1, and an agent needs 1", nil},
		"addresses":          {map[string]float64{"IN_USE_ADDRESSES": 2}, driver.Needs{Agents: 3, Machine: []string{"n2-standard-2"}}, "", []string{"the project's quota IN_USE_ADDRESSES is 2 in europe-west1, and 0 is used: at most 2 of 3 agents run at once"}},
		"no addresses":       {map[string]float64{"IN_USE_ADDRESSES": 2}, driver.Needs{Agents: 3, Machine: []string{"n2-standard-2"}, Args: []string{"no-external-ip=yes"}}, "", nil},
		"a type of a table that Google does not have": {map[string]float64{"CPUS": 1}, driver.Needs{Agents: 1, Machine: []string{"c9-standard-2"}}, "the project's quota CPUS is 1 in europe-west1, and an agent needs 2", nil},
	} {
		l := newLocated(t)
		for metric, limit := range row.quotas {
			l.SetQuota(metric, limit)
		}
		row.needs.Time = time.Hour
		o, err := l.Offer(t.Context(), row.needs)
		notes := slices.DeleteFunc(o.Notes, func(n string) bool { return !strings.Contains(n, "quota") })
		if err != nil || o.Reason != row.reason || o.Fits != (row.reason == "") || row.reason != "" && strings.ReplaceAll(o.Hint, "`", "") != strings.ReplaceAll(asks, "`", "") {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		if diff := cmp.Diff(row.notes, notes, cmp.Transformer("empty", func(s []string) string { return strings.Join(s, "\n") })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A permission that is lacking is named with the command that grants it; those without which jobs run do not stand in the way.
func TestOffersKnowPermissions(t *testing.T) {
	t.Parallel()
	for lacking, row := range map[string]struct {
		reason, role string
	}{
		"batch.jobs.create":            {"you may not batch.jobs.create in project demo-project", "roles/batch.jobsEditor"},
		"batch.tasks.list":             {"you may not batch.tasks.list in project demo-project", "roles/batch.jobsEditor"},
		"secretmanager.secrets.create": {"", "roles/secretmanager.admin"},
		"logging.logEntries.list":      {"", "roles/logging.viewer"},
		"compute.regions.get":          {"", "roles/compute.viewer"},
	} {
		l := newLocated(t)
		l.Forbid(lacking)
		o, err := l.Offer(t.Context(), driver.Needs{Agents: 1})
		want := strings.Replace("Have an owner of the project run gcloud projects add-iam-policy-binding demo-project --member=user:YOU --role=roles/X.", "roles/X", row.role, 1)
		if err != nil || o.Fits != (row.reason == "") || o.Reason != row.reason || strings.ReplaceAll(o.Hint, "`", "") != want || !slices.Equal(o.Missing, []string{lacking}) {
			t.Errorf("%s: %+v, %v", lacking, o, err)
		}
	}
	l := newLocated(t)
	l.Deny("cloudresourcemanager", "Cloud Resource Manager API has not been used in project demo-project before or it is disabled.")
	if o, err := l.Offer(t.Context(), driver.Needs{Agents: 1}); err != nil || !o.Fits || len(o.Missing) > 0 {
		t.Errorf("where Google does not tell: %+v, %v", o, err)
	}
}
