package gcs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/gcs/gcstest"
	"github.com/drover-run/drover/store/storetest"
)

var agents = store.Rights{Read: []string{"blobs/", "_gc/", "demo/"}, Create: []string{"blobs/"}, Write: []string{"demo/train/"}}

const lasting = "1//the-lasting-secret"

// fakeGoogle is a fake Google with a bucket b-1; over is the way there.
func fakeGoogle(t *testing.T, g *gcstest.Google) (f *fake, over func() *http.Transport) {
	t.Helper()
	f = newFake()
	g.Next, g.Refresh = unsignedOnly(f), lasting
	cert, roots := gcstest.Certificate(t)
	proxy := g.Proxy(t, cert)
	text, err := os.ReadFile(roots)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	to, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", g.SignIn(t))
	return f, func() *http.Transport {
		way := google.Transport()
		way.Proxy, way.TLSClientConfig = http.ProxyURL(to), &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
		return way
	}
}

// unsignedOnly takes the token from a request that was let in: the bucket behind the
// door wants none.
func unsignedOnly(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Authorization")
		next.ServeHTTP(w, r)
	}
}

// reaches opens place by way of over.
func reaches(t *testing.T, over func() *http.Transport, place string, o Options) *Bucket {
	t.Helper()
	b, err := Open(t.Context(), place, o)
	if err != nil {
		t.Fatal(err)
	}
	b.conn.source.Over = over
	if o.PassFile == "" {
		b.conn.tokens = google.NewTokens(b.conn.clock, b.conn.objectToken)
	}
	way := over()
	b.conn.client = newClient(way)
	t.Cleanup(way.CloseIdleConnections)
	return b
}

func keep(t *testing.T, file []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pass")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAPassIsATokenInABoundary(t *testing.T) {
	g := &gcstest.Google{}
	_, over := fakeGoogle(t, g)
	p, err := reaches(t, over, "gs://b-1/team", Options{}).Pass(t.Context(), agents, "")
	if err != nil || p.Wide || time.Until(p.Until) < 50*time.Minute || time.Until(p.Until) > time.Hour {
		t.Fatalf("%+v, %v", p, err)
	}
	if text := string(p.File); strings.Contains(text, lasting) || strings.Contains(text, "of-the-program") || !strings.Contains(text, "-narrow") {
		t.Errorf("the pass is %s", text)
	}
	const objects = `resource.name.startsWith(\"projects/_/buckets/b-1/objects/team/`
	const listing = `api.getAttribute(\"storage.googleapis.com/objectListPrefix\", \"\").startsWith(\"team/`
	const end = `\")`
	want := `{"accessBoundary":{"accessBoundaryRules":[` +
		`{"availableResource":"//storage.googleapis.com/projects/_/buckets/b-1","availablePermissions":["inRole:roles/storage.objectViewer"],"availabilityCondition":{"expression":"` +
		strings.Join([]string{objects + "blobs/", objects + "_gc/", objects + "demo/", listing + "blobs/", listing + "_gc/", listing + "demo/"}, end+" || ") + end + `","title":"drover-read"}},` +
		`{"availableResource":"//storage.googleapis.com/projects/_/buckets/b-1","availablePermissions":["inRole:roles/storage.objectCreator"],"availabilityCondition":{"expression":"` + objects + "blobs/" + end + `","title":"drover-create"}},` +
		`{"availableResource":"//storage.googleapis.com/projects/_/buckets/b-1","availablePermissions":["inRole:roles/storage.objectUser"],"availabilityCondition":{"expression":"` + objects + "demo/train/" + end + `","title":"drover-write"}}]}}`
	got := strings.NewReplacer(`\u0026`, "&").Replace(g.Boundaries()[0])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the boundary (-want +got):\n%s", diff)
	}
}

// What a pass opens, and what it does not.
func TestAPassOpensWhatItsTaskNeedsAndNothingElse(t *testing.T) {
	g := &gcstest.Google{}
	_, over := fakeGoogle(t, g)
	own := reaches(t, over, "gs://b-1/team", Options{})
	for _, k := range []string{"blobs/b", "_gc/log/0", "demo/train/mine", "demo/other/k", "elsewhere/t/k", "ids/abcd"} {
		if err := own.Put(t.Context(), k, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	p, err := own.Pass(t.Context(), agents, "")
	if err != nil {
		t.Fatal(err)
	}
	// The process that opens the store with it has nothing else.
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none"))
	b := reaches(t, over, "gs://b-1/team", Options{PassFile: keep(t, p.File)})
	get := func(k string) error {
		r, err := b.Get(t.Context(), k, 0, -1)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			r.Close()
		}
		return err
	}
	list := func(prefix string) error { _, _, err := b.List(t.Context(), prefix, "", 10); return err }
	put := func(k string) error { return b.Put(t.Context(), k, strings.NewReader("y")) }
	create := func(k string) error { return b.Create(t.Context(), k, strings.NewReader("y")) }
	big := func(k string) error { return b.Create(t.Context(), k, bytes.NewReader(pattern(9<<20))) }
	for name, err := range map[string]error{
		"read a blob": get("blobs/b"), "read one's own": get("demo/train/mine"), "read of another task": get("demo/other/k"), "read what gc says": get("_gc/log/0"),
		"list one's own": list("demo/train/"), "list the project": list("demo/"), "list blobs": list("blobs/"),
		"create a blob": create("blobs/new"), "create a large blob": big("blobs/large"), "create one's own": create("demo/train/new"), "replace one's own": put("demo/train/mine"),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"read of another project": get("elsewhere/t/k"), "read the name of a job": get("ids/abcd"),
		"list another project": list("elsewhere/"), "list the store": list(""), "list like a project": list("dem"),
		"replace a blob": put("blobs/b"), "delete a blob": b.Delete(t.Context(), "blobs/b"), "delete of another task": b.Delete(t.Context(), "demo/other/k"),
		"delete of another project": b.Delete(t.Context(), "elsewhere/t/k"), "write of another task": put("demo/other/k"), "write of a task named alike": put("demo/train2/k"),
		"write of another project": put("elsewhere/t/k"), "write the name of a job": create("ids/efgh"), "write what gc reads": create("_gc/log/1"), "write beside": create("demo/k"),
	} {
		if fault.KindOf(err) != fault.Denied || errors.Is(err, store.ErrBusy) {
			t.Errorf("%s: %v, want denied", name, err)
		}
	}
	// Google says "forbidden" for an existing blob to a caller that may create and not replace.
	if err := create("blobs/b"); !errors.Is(err, store.ErrExists) {
		t.Errorf("create a blob that is there: %v", err)
	}
	// ... and for what is absent to a caller that may not list all.
	if err := get("demo/train/absent"); !errors.Is(err, store.ErrNotExist) {
		t.Errorf("read what is absent: %v", err)
	}
	if err := get("demo/train/min"); !errors.Is(err, store.ErrNotExist) {
		t.Errorf("read what is absent, and begins another name: %v", err)
	}
	if err := get("elsewhere/absent"); fault.KindOf(err) != fault.Denied || errors.Is(err, store.ErrNotExist) {
		t.Errorf("read what is absent elsewhere: %v", err)
	}
	for name := range g.Seen() {
		if !strings.HasPrefix(name, "ya29.person-") {
			t.Errorf("asked with %s", name)
		}
	}
}

// An account that one may be is taken for as long as its organisation allows.
func TestAPassIsOfAnAccountThatWasNamed(t *testing.T) {
	const account = "agents@project.iam.gserviceaccount.com"
	for longest, want := range map[time.Duration]time.Duration{0: time.Hour, 12 * time.Hour: 12 * time.Hour} {
		g := &gcstest.Google{May: []string{account}, Longest: longest}
		_, over := fakeGoogle(t, g)
		b := reaches(t, over, "gs://b-1", Options{})
		p, err := b.Pass(t.Context(), agents, account)
		if left := time.Until(p.Until); err != nil || left > want || left < want-time.Minute || !bytes.Contains(p.File, []byte("ya29."+account)) {
			t.Errorf("%s for %v, %v", p.File, left, err)
		}
		for name := range g.Seen() {
			if !strings.HasPrefix(name, "ya29."+account) {
				t.Errorf("the bucket was asked with %s", name)
			}
		}
		_, err = b.Pass(t.Context(), agents, "other@project.iam.gserviceaccount.com")
		if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), "add-iam-policy-binding other@project.iam.gserviceaccount.com") {
			t.Errorf("of one that we may not be: %v: %s", err, fault.Hint(err))
		}
		_, err = b.Pass(t.Context(), agents, "arn:aws:iam::123456789012:role/agents")
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "agent_role NAME@") {
			t.Errorf("of Amazon's: %v: %s", err, fault.Hint(err))
		}
	}
}

// Where no narrow token is to be had, one's own is not the pass: it is said what is
// wrong, and what to do.
func TestAPassIsNeverOnesOwnToken(t *testing.T) {
	for name, c := range map[string]struct {
		g          *gcstest.Google
		kind       fault.Kind
		says, hint string
	}{
		"credentials that give none": {&gcstest.Google{Stubborn: true}, fault.Denied, "narrow the token: invalid_request: The subject token cannot be downscoped", "agent_role NAME@PROJECT"},
		"a bucket without uniform access": {&gcstest.Google{Uneven: true}, fault.Denied, "try it: list blobs/ in gs://b-1/team: person does not have storage.objects.list",
			"gcloud storage buckets update gs://b-1 --uniform-bucket-level-access"},
		"a server that is away": {&gcstest.Google{Away: true}, fault.Lost, "fetch a token", "agent_profile machine"},
	} {
		t.Run(name, func(t *testing.T) {
			_, over := fakeGoogle(t, c.g)
			b := reaches(t, over, "gs://b-1/team", Options{Clock: &storetest.Clock{}})
			p, err := b.Pass(t.Context(), agents, "")
			if p.File != nil || fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || !strings.Contains(fault.Hint(err), c.hint) {
				t.Errorf("%s %v: %s", p.File, err, fault.Hint(err))
			}
			if strings.Contains(fmt.Sprint(err), lasting) || strings.Contains(fmt.Sprint(err), "ya29.") {
				t.Errorf("it shows a secret: %v", err)
			}
		})
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none"))
	b, err := Open(t.Context(), "gs://b-1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Pass(t.Context(), agents, ""); fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), "gcloud auth") {
		t.Errorf("without credentials: %v: %s", err, fault.Hint(err))
	}
	if p, err := at(t, "http://127.0.0.1:1", "gs://b-1").Pass(t.Context(), agents, ""); err != nil || p.File != nil {
		t.Errorf("of a server that wants none: %+v, %v", p, err)
	}
}

// A pass that has ended, or that is refused, is waited for and read again; a new one
// is used as soon as it has come, before the old one ends.
func TestAPassIsReadAgain(t *testing.T) {
	f := newFake()
	clock := &storetest.Clock{}
	text := func(token string, left time.Duration) []byte {
		return fmt.Appendf(nil, `{"token":%q,"until":%q}`, token, clock.Now().Add(left).Format(time.RFC3339))
	}
	path := keep(t, text("first", time.Hour))
	b := signed(t, f, nil)
	b.conn.tokens = google.NewTokens(clock, tokenOf(google.FileSource{Path: path, Clock: clock}))
	b.conn.given.PassFile = path
	replace := func(token string, left time.Duration) {
		t.Helper()
		if err := os.WriteFile(path, text(token, left), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put := func() error { return b.Put(t.Context(), "k", strings.NewReader("x")) }
	works := func(when, token string) {
		t.Helper()
		f.token = token
		if err := put(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	works("at first", "first")
	replace("second", 2*time.Hour)
	works("long before its end", "first")
	_ = clock.Sleep(t.Context(), 56*time.Minute)
	works("shortly before its end", "second")
	f.token = "third"
	if err := put(); !errors.Is(err, store.ErrBusy) {
		t.Errorf("refused: %v", err)
	}
	replace("third", time.Minute)
	works("after it was renewed", "third")
	_ = clock.Sleep(t.Context(), time.Hour)
	if err := put(); !errors.Is(err, store.ErrBusy) || strings.Contains(err.Error(), "third") {
		t.Errorf("ended: %v", err)
	}
	replace("fourth", time.Hour)
	works("after it had ended", "fourth")
}

func TestAFileThatIsNoPassIsNotQuoted(t *testing.T) {
	for _, text := range []string{`{"token":"sesame`, `{"token":"sesame"}`, `{"key":"sesame","secret":"s"}`} {
		_, err := Open(t.Context(), "gs://b-1", Options{PassFile: keep(t, []byte(text))})
		if err == nil || strings.Contains(err.Error(), "sesame") || !strings.Contains(fault.Hint(err), "drover resume") {
			t.Errorf("%v: %s", err, fault.Hint(err))
		}
	}
}

// accountFile is where gcloud keeps an account's credentials for other programs, below its folder.
func accountFile(dir, account string) string {
	return filepath.Join(dir, "legacy_credentials", account, "adc.json")
}

// An account of the machine's is found where gcloud keeps it, and else asked of the
// machine itself.
func TestAnAccountIsTheMachinesOwn(t *testing.T) {
	const account = "agents@project.iam.gserviceaccount.com"
	g := &gcstest.Google{}
	f, over := fakeGoogle(t, g)
	dir := t.TempDir()
	t.Setenv("CLOUDSDK_CONFIG", dir)
	text, err := os.ReadFile(os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(dir, "of-somebody-else"))
	if err := os.MkdirAll(filepath.Dir(accountFile(dir, account)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(accountFile(dir, account), text, 0o600); err != nil {
		t.Fatal(err)
	}
	b := reaches(t, over, "gs://b-1?account="+account, Options{})
	if err := b.Put(t.Context(), "k", strings.NewReader("x")); err != nil || len(f.objects) != 1 {
		t.Errorf("with gcloud's: %v", err)
	}
	if err := os.WriteFile(accountFile(dir, account), []byte(`{"refresh_token":"sesame`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = google.Source{Account: account}.Token(t.Context(), google.Objects)
	if fault.KindOf(err) != fault.Denied || strings.Contains(err.Error(), "sesame") {
		t.Errorf("with a file that is none: %v", err)
	}
	t.Setenv("CLOUDSDK_CONFIG", t.TempDir())
	var asked []string
	metadata := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header().Set("Metadata-Flavor", "Google")
		fmt.Fprint(w, `{"access_token":"of-the-machine","expires_in":600,"token_type":"Bearer"}`)
	})
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(serve(t, metadata), "http://"))
	c, err := google.Source{Account: account}.Token(t.Context(), google.Objects)
	if err != nil || c.Value != "of-the-machine" || !slices.ContainsFunc(asked, func(p string) bool { return strings.HasSuffix(p, "/service-accounts/"+account+"/token") }) {
		t.Errorf("of the machine: %q, %v, after %v", c.Value, err, asked)
	}
}

// The commands that a bucket's owner is told name each prefix, and no more.
func TestThePolicyIsOneBindingForEachKindOfRight(t *testing.T) {
	b, err := Open(t.Context(), "gs://my-bucket/team?anonymous=true", Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := store.Rights{Read: []string{"blobs/", "demo/"}, Create: []string{"blobs/"}, Write: []string{"demo/"}, Delete: []string{"demo/"}}
	const before = "gcloud storage buckets add-iam-policy-binding gs://my-bucket --member=serviceAccount:NAME@PROJECT.iam.gserviceaccount.com --role=roles/storage."
	const objects = `resource.name.startsWith("projects/_/buckets/my-bucket/objects/team/`
	want := before + `objectViewer --condition='title=drover-read,expression=` + objects + `blobs/") || ` + objects + `demo/") || resource.name == "projects/_/buckets/my-bucket"'` + "\n" +
		before + `objectCreator --condition='title=drover-create,expression=` + objects + `blobs/")'` + "\n" +
		before + `objectUser --condition='title=drover-write,expression=` + objects + `demo/")'` + "\n"
	if diff := cmp.Diff(want, b.Policy(all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	whole, err := Open(t.Context(), "gs://my-bucket?anonymous=true", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := whole.Policy(store.Rights{Read: []string{""}}); got != before+"objectViewer --condition=None\n" {
		t.Errorf("for all: %s", got)
	}
}
