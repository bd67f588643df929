package gcpbatch

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/cloud/google/secretmanager"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/gcpbatch/batchapi"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

func TestATaskIsAnAgent(t *testing.T) {
	name := "drover-" + jobID + "-1"
	for _, row := range []struct {
		job, index, retry string
		want              remote.Claimant
		err               string
	}{
		{name, "0", "0", remote.Claimant{ID: name, Index: 0, Attempt: 1}, ""},
		{name + "-2", "7", "3", remote.Claimant{ID: name + "-2", Index: mostTasks + 7, Attempt: 4}, ""},
		{name, "4", "", remote.Claimant{ID: name, Index: 4, Attempt: 1}, ""},
		{name, "", "", remote.Claimant{}, `adopt agent: BATCH_TASK_INDEX="" of job "` + name + `" is no task of drover's`},
		{"another", "1", "", remote.Claimant{}, `adopt agent: BATCH_TASK_INDEX="1" of job "another" is no task of drover's`},
	} {
		t.Setenv("BATCH_TASK_INDEX", row.index)
		t.Setenv("BATCH_TASK_RETRY_ATTEMPT", row.retry)
		got, err := claimant(row.job)
		if row.err != "" {
			if err == nil || err.Error() != row.err || fault.Hint(err) != "Unset "+variableJob+"." {
				t.Error(err)
			}
			continue
		}
		if diff := cmp.Diff(row.want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// The metadata server says that a machine goes; one that does not answer is asked again.
func TestAMachineThatIsPreemptedIsAnnounced(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if r.URL.Path != "/computeMetadata/v1/instance/preempted" || r.Header.Get("Metadata-Flavor") != "Google" {
			t.Errorf("it asks for %s", r.URL)
		}
		w.Header().Set("ETag", "1")
		_, _ = w.Write([]byte("TRUE")) // the test would see it missing
	}))
	defer server.Close()
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(server.URL, "http://"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := <-notices(ctx)
	if diff := cmp.Diff(driver.Notice{Why: "Google takes its machine away: spot capacity", Left: 30 * time.Second}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsDeniedIsSaid(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	caller := &rest.Caller{Over: google.Transport(), Wait: patience, At: l.At, Tokens: google.NewTokens(nil, func(context.Context) (google.Token, error) { return google.Token{Value: "another"}, nil })}
	c := &batchapi.Client{Caller: caller, Project: "demo-project", Region: "europe-west1"}
	mine := l.engine.secrets(site{"europe-west1", "demo-project"})
	if err := mine.Store(t.Context(), "there", map[string]string{"A": "b"}, time.Now(), ""); err != nil {
		t.Fatal(err)
	}
	others := secretmanager.Manager{Caller: caller, Project: "demo-project"}
	const signed, permitted = ": the server says 401: Request had invalid authentication credentials", ": the server says 403: Permission 'secretmanager.versions.access' denied on resource (or it may not exist)"
	for want, do := range map[string]func() error{
		"look at the job in Google Batch" + signed:                          func() error { _, err := c.Get(t.Context(), "it"); return err },
		"list tasks of Google Batch" + signed:                               func() error { _, err := c.Tasks(t.Context(), "it"); return err },
		"list jobs of Google Batch" + signed:                                func() error { _, err := c.List(t.Context(), ""); return err },
		"cancel the job in Google Batch" + signed:                           func() error { return c.Cancel(t.Context(), "it") },
		"delete the job in Google Batch" + signed:                           func() error { return c.Delete(t.Context(), "it") },
		"make a secret in Secret Manager" + signed:                          func() error { return others.Store(t.Context(), "new", nil, time.Now(), "") },
		"delete the secret in Secret Manager" + signed:                      func() error { return others.Remove(t.Context(), "there") },
		"read the job's secret in Secret Manager" + permitted:               func() error { _, err := mine.Read(t.Context(), "there"); return err },
		"store a secret in Secret Manager: the server says 503: it is busy": func() error { return l.refusedAt(":addVersion") },
		"let the agents read their secret: the server says 503: it is busy": func() error { return l.refusedAt(":setIamPolicy") },
		"read the job's secret in Secret Manager: it is not drover's":       func() error { return l.damaged(t) },
	} {
		if err := do(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// refusedAt is the error of storing a secret of which one request is never taken.
func (l located) refusedAt(verb string) error {
	m := l.engine.secrets(site{"europe-west1", "demo-project"})
	own := *m.Caller
	own.Wait, own.Over = time.Millisecond, refusing{own.Over, verb}
	m.Caller = &own
	return m.Store(context.Background(), "refused", nil, time.Now(), "a@b.iam.gserviceaccount.com")
}

// refusing answers requests for a verb by itself.
type refusing struct {
	http.RoundTripper
	verb string
}

func (r refusing) RoundTrip(q *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(q.URL.Path, r.verb) {
		return r.RoundTripper.RoundTrip(q)
	}
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.WriteString(`{"error": {"message": "it is busy"}}`)
	return w.Result(), nil
}

// damaged is the error of reading a secret that is not drover's.
func (l located) damaged(t *testing.T) error {
	m := l.engine.secrets(site{"europe-west1", "demo-project"})
	own := *m.Caller
	own.Over = answering(`{"payload": {"data": "bm9uZQ=="}}`)
	m.Caller = &own
	_, err := m.Read(t.Context(), "it")
	return err
}

// answering answers each request with the same.
type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	_, _ = w.WriteString(string(a))
	return w.Result(), nil
}
