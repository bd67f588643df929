package gcs

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/gcs/gcstest"
	"github.com/drover-run/drover/store/storetest"
)

// refusedWith fails the test unless err has this kind, these words and this hint.
func refusedWith(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || !strings.Contains(err.Error(), text) || fault.Hint(err) != hint {
		t.Errorf("got %v, %s, %q; want %s, %s, %q", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}

func TestAPlaceThatCannotBeOpenedSaysWhatToWrite(t *testing.T) {
	opened := func(place string, o Options) error {
		_, err := Open(t.Context(), place, o)
		return err
	}
	refusedWith(t, opened("gs://b-1?account=me", Options{}), fault.Invalid, `open store gs://b-1: "me" is not a Google account`,
		"Write it as ?account=NAME@PROJECT.iam.gserviceaccount.com, without anonymous.")
	refusedWith(t, opened("gs://b-1", Options{Endpoint: "ftp://h"}), fault.Invalid, `open store: "ftp://h" is not an endpoint`,
		"Write it as http://HOST:PORT: export STORAGE_EMULATOR_HOST=http://127.0.0.1:4443.")
	refusedWith(t, opened("gs://b-1", Options{PassFile: keep(t, []byte("{"))}), fault.Invalid, "open store gs://b-1: read the credential: read ", "Go on with the job: drover resume makes it anew.")

	path := keep(t, []byte(`{"token":"sesame"}`))
	_, err := tokenOf(google.FileSource{Path: path, Clock: store.System})(t.Context())
	refusedWith(t, err, fault.Denied, "read the credential: read "+path+": it holds no credential", "Go on with the job: drover resume makes it anew.")

	const account = "agents@project.iam.gserviceaccount.com"
	dir := t.TempDir()
	t.Setenv("CLOUDSDK_CONFIG", dir)
	if err := os.MkdirAll(filepath.Dir(accountFile(dir, account)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(accountFile(dir, account), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = google.Source{Account: account}.Token(t.Context(), google.Objects)
	refusedWith(t, err, fault.Denied, "find credentials for Google Cloud: read those of "+account+": it is not JSON",
		"Sign this machine in as it: gcloud auth login "+account+", or gcloud auth activate-service-account "+account+" --key-file=FILE.")
}

func TestWhatGoogleRefusesHasANextStep(t *testing.T) {
	for _, c := range []struct {
		status          int
		reason, message string
		kind            fault.Kind
		text, hint      string
	}{
		{403, "forbidden", "person does not have storage.objects.create access", fault.Denied, ": person does not have storage.objects.create access",
			"Let an owner run gcloud storage buckets add-iam-policy-binding gs://b-1 --member=user:YOU --role=roles/storage.objectUser, or name another store with --store."},
		{404, "notFound", "The specified bucket does not exist.", fault.Missing, ": there is no bucket b-1",
			"Make it with gcloud storage buckets create gs://b-1, or name another with --store."},
		{400, "userProjectMissing", "Bucket is a requester pays bucket", fault.Invalid, ": Bucket is a requester pays bucket",
			"Name the project that pays: export GOOGLE_CLOUD_QUOTA_PROJECT=PROJECT."},
	} {
		f := newFake()
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.refuse(w, c.status, c.reason, c.message) })
		err := at(t, serve(t, h), "gs://b-1").Create(t.Context(), "k", strings.NewReader("x"))
		refusedWith(t, err, c.kind, c.text, c.hint)
	}

	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()
	b, err := Open(t.Context(), "gs://b-1", Options{Endpoint: server.URL, Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	refusedWith(t, b.Delete(t.Context(), "k"), fault.Denied, "trust "+server.URL+": ",
		"Look at it with curl -v "+server.URL+"/, and at HTTPS_PROXY and this machine's clock.")
}

// What a server says that stored something else, or nothing.
func TestAnUploadThatWentElsewhereIsRefused(t *testing.T) {
	const another = "Name another store with --store."
	b := at(t, serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), "gs://b-1")
	u := &upload{conn: b.conn, doing: "create k", query: map[string][]string{}, size: 100}
	refusedWith(t, u.beginSession(t.Context()), fault.Invalid, "create k: "+b.endpoint+" began no upload", another)

	_, err := u.parseKept("bytes=0-100")
	refusedWith(t, err, fault.Lost, `create k: the server says it has "bytes=0-100" of 100 bytes`, "")

	answer := &http.Response{Body: io.NopCloser(strings.NewReader(`{"size":"3","crc32c":"AAAAAA=="}`))}
	err = b.conn.confirmStored("create k", answer, kept{Size: "4", CRC32C: "BBBBBB=="})
	refusedWith(t, err, fault.Lost, "create k: the server has 3 bytes with CRC32C AAAAAA==, and 4 with BBBBBB== were sent",
		"Look at what stands between here and "+b.endpoint+", or name another store with --store.")
	if !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("%v is not corruption", err)
	}
}

func TestACredentialThatCannotBeMadeSaysWhy(t *testing.T) {
	const machine = "let agents use the identity of their machine: drover config set agent_profile machine."
	pass := func(g *gcstest.Google, account string) error {
		_, over := fakeGoogle(t, g)
		_, err := reaches(t, over, "gs://b-1", Options{Clock: &storetest.Clock{}}).Pass(t.Context(), agents, account)
		return err
	}
	refusedWith(t, pass(&gcstest.Google{}, "me"), fault.Invalid, `make a credential for gs://b-1: "me" is not a Google account that can be used`,
		"Name a service account: drover config set agent_role NAME@PROJECT.iam.gserviceaccount.com.")
	refusedWith(t, pass(&gcstest.Google{Away: true}, ""), fault.Lost, "make a credential for gs://b-1: ", "Try again, or "+machine)
	refusedWith(t, pass(&gcstest.Google{Uneven: true}, ""), fault.Denied, "make a credential for gs://b-1: try it: ",
		"Boundaries want uniform access to the bucket: gcloud storage buckets update gs://b-1 --uniform-bucket-level-access. Or "+machine)

	g := &gcstest.Google{}
	_, over := fakeGoogle(t, g)
	b := reaches(t, over, "gs://b-1", Options{})
	b.conn.source.Over = func() *http.Transport {
		way := &http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
		way.RegisterProtocol("https", empty{})
		return way
	}
	_, err := b.Pass(t.Context(), agents, "")
	refusedWith(t, err, fault.Lost, "narrow the token: the server has answered, and given none", "Try again, or "+machine)
	_, err = b.conn.source.Narrow(t.Context(), google.Token{Value: "ya29.person"}, nil, "")
	refusedWith(t, err, fault.Bug, "narrow the token: ", "")
}

// empty is a server that gives tokens, and narrows none.
type empty struct{}

func (empty) RoundTrip(r *http.Request) (*http.Response, error) {
	token := "ya29.person"
	if strings.HasPrefix(r.URL.Host, "sts.") {
		token = ""
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"access_token":"` + token + `","expires_in":3600,"token_type":"Bearer"}`))}, nil
}
