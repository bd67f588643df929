package gcpbatch

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/fault"
)

// madeSetup is a set-up with the project that it is for.
type madeSetup struct {
	*Setup
	project
}

func newSetup(t *testing.T) madeSetup {
	p := newProject(t)
	return madeSetup{&Setup{p.driver().engine}, p}
}

func TestItIsASetUp(t *testing.T) {
	t.Parallel()
	drivertest.RunSetup(t, drivertest.SetupPlace{
		Open:   func(t *testing.T) driver.Setup { return newSetup(t) },
		CutOff: func(u driver.Setup, n int) { u.(madeSetup).IAM.CutOff(n) },
		Occupy: func(u driver.Setup, s driver.Scope) {
			u.(madeSetup).IAM.Occupy(setupOf{at: site{"europe-west1", "demo-project"}, project: s.Project, store: s.Store}.email())
		},
	})
}

// rights are what a bucket says that agents of a project must be granted.
const rights = `gcloud storage buckets add-iam-policy-binding gs://facts --member=serviceAccount:NAME@PROJECT.iam.gserviceaccount.com --role=roles/storage.objectViewer --condition='title=drover-read,expression=resource.name.startsWith("projects/_/buckets/facts/objects/team/blobs/")'
gcloud storage buckets add-iam-policy-binding gs://facts --member=serviceAccount:NAME@PROJECT.iam.gserviceaccount.com --role=roles/storage.objectUser --condition=None
`

// A set-up makes an account with its roles and grants, beside what others have, and takes away its own alone; jobs of the project have it.
func TestASetUpGrantsAndTakesBackItsOwn(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	scope := driver.Scope{Store: "gs://facts/team?endpoint=x", Project: "digits", Detail: "", Rights: rights}
	var made []string
	if err := u.Apply(t.Context(), scope, func(p driver.Piece) { made = append(made, p.Kind) }); err != nil {
		t.Fatal(err)
	}
	email := u.IAM.Accounts()[0]
	if want := []string{"service account", "roles in the project", "grants on the bucket"}; !slices.Equal(made, want) || !u.IAM.Enabled("batch.googleapis.com") || !strings.HasPrefix(email, "drover-") {
		t.Errorf("made are %q; the account is %s", made, email)
	}
	want := []string{"roles/owner user:owner@example.com", "roles/storage.objectViewer serviceAccount:" + email + ` if resource.name.startsWith("projects/_/buckets/facts/objects/team/blobs/")`, "roles/storage.objectUser serviceAccount:" + email}
	if got := u.IAM.Granted("facts"); !slices.Equal(got, want) {
		t.Errorf("granted on the bucket are %q, want %q", got, want)
	}
	want = []string{"roles/owner user:owner@example.com", "roles/batch.agentReporter serviceAccount:" + email, "roles/logging.logWriter serviceAccount:" + email, "roles/artifactregistry.reader serviceAccount:" + email}
	if got := u.IAM.Granted("cloudresourcemanager"); !slices.Equal(got, want) {
		t.Errorf("granted in the project are %q, want %q", got, want)
	}

	if all, err := u.Describe(t.Context(), scope); err != nil || !strings.Contains(all[0].Request, "drover agents") || !strings.Contains(all[0].Request, "drover: agents of project digits with gs://facts/team") {
		t.Errorf("%+v, %v", all, err)
	}
	if got := Target.Properties(driver.Config{}).Identity; got != "the service account of its machines" {
		t.Error(got)
	}
	if got, err := u.engine.findAccount(t.Context(), site{"europe-west1", "demo-project"}, "digits", "gs://facts/team"); err != nil || got != email {
		t.Errorf("the project's account is %q, %v", got, err)
	}
	for _, other := range []string{"", "letters"} {
		if got, err := u.engine.findAccount(t.Context(), site{"europe-west1", "demo-project"}, other, "gs://facts/team"); err != nil || got != "" {
			t.Errorf("that of project %q is %q, %v", other, got, err)
		}
	}

	if err := u.Destroy(t.Context(), scope, func(driver.Piece) {}); err != nil {
		t.Fatal(err)
	}
	want = []string{"roles/owner user:owner@example.com"}
	if got := slices.Concat(u.IAM.Granted("facts"), u.IAM.Granted("cloudresourcemanager")); !slices.Equal(got, slices.Concat(want, want)) || len(u.IAM.Accounts()) > 0 || !u.IAM.Enabled("batch.googleapis.com") {
		t.Errorf("left are %q, accounts %s", got, u.IAM.Accounts())
	}
}

// A job without a named account has that of its project's set-up.
func TestAJobHasTheAccountOfItsSetUp(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Hold("held")
	u := &Setup{l.engine}
	if err := u.Apply(t.Context(), driver.Scope{Store: l.facts, Project: "digits"}, func(driver.Piece) {}); err != nil {
		t.Fatal(err)
	}
	r := l.request(t, 1, 1)
	r.Run.Store, r.Run.Secrets = l.facts, map[string]string{"TOKEN": "file:/proc/version"}
	if _, err := l.Driver.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := l.Asked("drover-" + jobID + "-1").AllocationPolicy.ServiceAccount; got == nil || got.Email != l.IAM.Accounts()[0] {
		t.Errorf("its account is %+v, want %s", got, l.IAM.Accounts())
	}
}

func TestASetUpThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	for want, scope := range map[string]driver.Scope{
		"set up Google Batch: its agents open no store in s3://bucket":                                 {Store: "s3://bucket", Project: "p", Rights: `{"Version": "2012-10-17"}`},
		`read --target-arg "acount=x": Google Batch has no such option here`:                           {Store: "gs://facts", Project: "p", Args: []string{"acount=x"}},
		"read target: gcp/Europe names no region of Google Cloud":                                      {Store: "gs://facts", Project: "p", Detail: "Europe"},
		"read the roles of project another-project: the server says 404: the fake has no /v1/projects": {Store: "gs://facts", Project: "p", Detail: "europe-west1@another-project"},
	} {
		if _, err := u.Describe(t.Context(), scope); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	scope := driver.Scope{Store: "gs://facts", Project: "p"}
	email := setupOf{at: site{"europe-west1", "demo-project"}, project: "p", store: "gs://facts"}.email()
	u.IAM.Occupy(email)
	err := u.Apply(t.Context(), scope, func(driver.Piece) {})
	if want := "set up Google Batch: service account " + email + ": drover has not made it: it says of itself somebody else's"; fault.KindOf(err) != fault.Invalid || err.Error() != want || !strings.HasPrefix(fault.Hint(err), "Delete it, or name your own: ") {
		t.Errorf("%v, want %s", err, want)
	}
}

// interfering has another administrator change a policy just before the first change of it arrives.
type interfering struct {
	http.RoundTripper
	once *sync.Once
	do   func()
}

func (i interfering) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Method == http.MethodPut {
		i.once.Do(i.do)
	}
	return i.RoundTripper.RoundTrip(q)
}

func TestAPolicyThatChangesMeanwhileIsReadAgain(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	own := *u.engine.caller()
	own.Over = interfering{own.Over, &sync.Once{}, func() { u.IAM.Interfere("facts") }}
	u.engine.caller = func() *rest.Caller { return &own }
	if err := u.Apply(t.Context(), driver.Scope{Store: "gs://facts/team", Project: "digits", Rights: rights}, func(driver.Piece) {}); err != nil || len(u.IAM.Granted("facts")) != 3 {
		t.Errorf("%v, granted are %q", err, u.IAM.Granted("facts"))
	}
}

func TestWhatASetUpMayNotDoIsSaid(t *testing.T) {
	t.Parallel()
	u := newSetup(t)
	scope := driver.Scope{Store: "gs://facts/team", Project: "digits", Rights: rights}
	const denied = ": the server says 403: no more changes"
	for n, want := range []string{"make the service account" + denied, "change the roles of project demo-project" + denied, "change the grants on gs://facts" + denied} {
		u.IAM.CutOff(min(n, 1))
		if err := u.Apply(t.Context(), scope, func(driver.Piece) {}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	u.IAM.CutOff(-1)
	if err := u.Apply(t.Context(), scope, func(driver.Piece) {}); err != nil {
		t.Error(err)
	}
	u.IAM.CutOff(2)
	if err := u.Destroy(t.Context(), scope, func(driver.Piece) {}); err == nil || err.Error() != "delete the service account"+denied {
		t.Error(err)
	}
	u.Deny("", "no")
	for want, do := range map[string]func() error{
		"look for the service account: the server says 403: no": func() error { _, err := u.Describe(t.Context(), scope); return err },
		"enable Google's interfaces: the server says 403: no": func() error {
			return setupOf{caller: u.engine.caller(), at: site{"europe-west1", "demo-project"}}.enable(t.Context())
		},
		"read the grants on gs://facts: the server says 403: no": func() error {
			o := setupOf{caller: u.engine.caller(), bucket: "facts"}
			_, err := o.readPolicy(t.Context(), o.ofBucket())
			return err
		},
	} {
		if err := do(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
