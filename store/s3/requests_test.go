package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/s3/s3test"
	"github.com/drover-run/drover/store/storetest"
)

// What goes over the wire is what is paid for, and what policies are written for.
func TestRequestsAreTheseAndNoOthers(t *testing.T) {
	server := &s3test.Server{Owner: "123456789012"}
	b := open(t, "s3://facts/team?owner=123456789012", s3.Options{Endpoint: serve(t, server, nil)})
	ctx := t.Context()
	const owner = " X-Amz-Expected-Bucket-Owner: 123456789012"
	for _, row := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"create", func() error { return b.Create(ctx, "log/00000000", strings.NewReader("entry")) },
			[]string{"PUT /facts/team/log/00000000?x-id=PutObject If-None-Match: * X-Amz-Checksum-Crc32c: pjaL3Q==" + owner}},
		{"put", func() error { return b.Put(ctx, "agents/1", strings.NewReader("")) },
			[]string{"PUT /facts/team/agents/1?x-id=PutObject X-Amz-Checksum-Crc32c: AAAAAA==" + owner}},
		{"get", func() error { return drain(b.Get(ctx, "log/00000000", 0, -1)) },
			[]string{"GET /facts/team/log/00000000?x-id=GetObject" + owner}},
		{"get a range", func() error { return drain(b.Get(ctx, "log/00000000", 1, 3)) },
			[]string{"GET /facts/team/log/00000000?x-id=GetObject Range: bytes=1-3" + owner}},
		{"get the rest", func() error { return drain(b.Get(ctx, "log/00000000", 2, -1)) },
			[]string{"GET /facts/team/log/00000000?x-id=GetObject Range: bytes=2-" + owner}},
		{"list", func() error { _, _, err := b.List(ctx, "log/", "log/0", 10); return err },
			[]string{"GET /facts?encoding-type=url&list-type=2&max-keys=10&prefix=team%2Flog%2F&start-after=team%2Flog%2F0" + owner}},
		{"delete", func() error { return b.Delete(ctx, "log/00000000") },
			[]string{"DELETE /facts/team/log/00000000?x-id=DeleteObject" + owner}},
		{"create a large one", func() error { return b.Create(ctx, "big", bytes.NewReader(make([]byte, 20<<20))) }, []string{
			"POST /facts/team/big?uploads= X-Amz-Checksum-Type: FULL_OBJECT" + owner,
			"POST /facts/team/big?uploadId=upload-1 If-None-Match: * X-Amz-Checksum-Crc32c: yZIohg== X-Amz-Checksum-Type: FULL_OBJECT" + owner + " X-Amz-Mp-Object-Size: 20971520",
			"PUT /facts/team/big?partNumber=1&uploadId=upload-1&x-id=UploadPart X-Amz-Checksum-Crc32c: HkU5Ug==" + owner,
			"PUT /facts/team/big?partNumber=2&uploadId=upload-1&x-id=UploadPart X-Amz-Checksum-Crc32c: HkU5Ug==" + owner,
			"PUT /facts/team/big?partNumber=3&uploadId=upload-1&x-id=UploadPart X-Amz-Checksum-Crc32c: vCnjog==" + owner,
		}},
	} {
		if err := row.do(); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		got := server.Requests()
		if len(got) > 2 { // parts come in any order
			slices.Sort(got[1:])
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: %s", row.name, diff)
		}
	}
}

func drain(r io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

func TestARefusalSaysWhoMustActAndHow(t *testing.T) {
	var said faulttest.Sayings
	for _, row := range []struct {
		status     int
		code       string
		kind       fault.Kind
		hint, text string
	}{
		{404, "NoSuchBucket", fault.Missing, "aws s3 mb s3://facts", "NoSuchBucket"},
		{403, "AccessDenied", fault.Denied, "s3:PutObject", "AccessDenied"},
		{403, "SignatureDoesNotMatch", fault.Denied, "aws configure list", "SignatureDoesNotMatch"},
		{403, "RequestTimeTooSkewed", fault.Denied, "date -u", "RequestTimeTooSkewed"},
		{403, "InvalidAccessKeyId", fault.Denied, "aws configure list", "InvalidAccessKeyId"},
		{404, "XAdminUserNotFound", fault.Denied, "aws configure list", "XAdminUserNotFound"},
		{400, "InvalidBucketName", fault.Invalid, "aws s3 ls", "InvalidBucketName"},
		{400, "ExpiredToken", fault.Denied, "aws sso login", "ExpiredToken"},
		{501, "NotImplemented", fault.Invalid, "--store-endpoint", "NotImplemented"},
		{507, "QuotaExceeded", fault.Full, "Free space", "QuotaExceeded"},
		{405, "MethodNotAllowed", fault.Invalid, "Is it an S3 server?", "MethodNotAllowed"},
		{301, "PermanentRedirect", fault.Invalid, "?region=", "PermanentRedirect"},
	} {
		t.Run(row.code, func(t *testing.T) {
			server := &s3test.Server{Before: func(w http.ResponseWriter, _ *http.Request) bool {
				s3test.Refuse(w, row.status, row.code, "The reason.")
				return true
			}}
			endpoint := serve(t, server, nil)
			said.Hide(endpoint, "http://server")
			b := open(t, "s3://facts", s3.Options{Endpoint: endpoint})
			_, getting := b.Get(t.Context(), "k", 0, -1)
			_, _, listing := b.List(t.Context(), "", "", 1)
			for doing, err := range map[string]error{
				"create": b.Create(t.Context(), "k", strings.NewReader("x")), "get": getting, "list": listing, "delete": b.Delete(t.Context(), "k"),
			} {
				said.Error(row.code+" "+doing, err)
				if fault.KindOf(err) != row.kind || !strings.Contains(fault.Hint(err), row.hint) || !strings.HasPrefix(err.Error(), doing+" ") || !strings.Contains(err.Error(), row.text) {
					t.Errorf("%s: %v (%v): %s", doing, err, fault.KindOf(err), fault.Hint(err))
				}
				for _, again := range []error{store.ErrBusy, store.ErrUnclear, store.ErrExists, store.ErrNotExist} {
					if errors.Is(err, again) {
						t.Errorf("%s: %v is %v", doing, err, again)
					}
				}
			}
		})
	}
	said.Compare(t, "refusals")
}

// Whatever does not say that a write was refused leaves it open whether it was done: only
// what the key holds settles that (L1).
func TestAnAnswerThatSettlesNothingIsUnclear(t *testing.T) {
	refuse := func(status int, code string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { s3test.Refuse(w, status, code, "The reason.") }
	}
	for name, answer := range map[string]func(http.ResponseWriter){
		"none": func(w http.ResponseWriter) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		},
		"another write is under way": refuse(409, "ConditionalRequestConflict"),
		"an operation was aborted":   refuse(409, "OperationAborted"),
		"an error of the server":     refuse(500, "InternalError"),
		"a gateway gave up":          refuse(504, "GatewayTimeout"),
	} {
		t.Run(name, func(t *testing.T) {
			server := &s3test.Server{Before: func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut {
					answer(w)
				}
				return r.Method == http.MethodPut
			}}
			b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil)})
			for doing, err := range map[string]error{
				"create": b.Create(t.Context(), "k", strings.NewReader("x")), "put": b.Put(t.Context(), "k", strings.NewReader("x")),
			} {
				if !errors.Is(err, store.ErrUnclear) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrExists) {
					t.Errorf("%s: %v", doing, err)
				}
			}
		})
	}
}

// A server of one's own that has let us write and denies it is asked again, twice.
func TestADenialAfterAWriteIsAskedAgain(t *testing.T) {
	denials := 0
	server := &s3test.Server{Before: func(w http.ResponseWriter, r *http.Request) bool {
		if denials == 0 {
			return false
		}
		denials--
		s3test.Refuse(w, http.StatusForbidden, "AccessDenied", "Access Denied.")
		return true
	}}
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil)})
	create := func(key string) error { return b.Create(t.Context(), key, strings.NewReader("x")) }
	denials = 1
	if err := create("first"); fault.KindOf(err) != fault.Denied {
		t.Errorf("who has never written is told %v", err)
	}
	if err := create("a"); err != nil {
		t.Fatal(err)
	}
	denials = 2
	if err := create("b"); err != nil || denials != 0 {
		t.Errorf("after two denials, %d left: %v", denials, err)
	}
	denials = 5
	if err := create("c"); fault.KindOf(err) != fault.Denied || denials != 2 {
		t.Errorf("of five denials %d are left: %v", denials, err)
	}
}

func TestWhatIsNoS3ServerIsSaidSoInTheEnd(t *testing.T) {
	server := &s3test.Server{Before: func(w http.ResponseWriter, r *http.Request) bool {
		http.NotFound(w, r)
		return true
	}}
	s := store.New(open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil)}), store.Options{Clock: &storetest.Clock{}})
	if _, err := s.Get(t.Context(), "k"); fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "Is it an S3 server?") {
		t.Errorf("%v: %s", err, fault.Hint(err))
	}
}

func TestAServerThatNeverAnswersIsGivenUp(t *testing.T) {
	clock := &storetest.Clock{}
	b := open(t, "s3://facts", s3.Options{Endpoint: "http://127.0.0.1:1", Clock: clock})
	s := store.New(b, store.Options{Clock: clock})
	_, err := s.Get(t.Context(), "k")
	if fault.KindOf(err) != fault.Lost || !strings.Contains(fault.Hint(err), "curl -i http://127.0.0.1:1") || clock.Boot() < 20e9 {
		t.Errorf("after %v: %v: %s", clock.Boot(), err, fault.Hint(err))
	}
}

// What a mistyped endpoint leads to never answers in S3's words, and is given up too.
func TestAnEndpointThatCannotBeIsGivenUp(t *testing.T) {
	var said faulttest.Sayings
	plain := serve(t, &s3test.Server{}, nil)
	strange := httptest.NewUnstartedServer(http.NotFoundHandler())
	strange.Config.ErrorLog = log.New(io.Discard, "", 0)
	strange.StartTLS()
	t.Cleanup(strange.Close)
	mute := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(mute.Close)
	for as, at := range map[string]string{"server": plain, "strange": strange.URL, "mute": mute.URL} {
		_, at, _ = strings.Cut(at, "://")
		said.Hide(at, as)
	}
	for _, row := range []struct{ endpoint, text, hint string }{
		{strings.Replace(plain, "http:", "https:", 1), "the server speaks http, not https", "Write http://"},
		{strange.URL, "certificate", "SSL_CERT_FILE"},
		{mute.URL, "closed the connection without an answer", "curl -i " + mute.URL},
	} {
		clock := &storetest.Clock{}
		s := store.New(open(t, "s3://facts", s3.Options{Endpoint: row.endpoint, Clock: clock}), store.Options{Clock: clock})
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := s.Get(ctx, "k")
		stop()
		said.Error(row.text, err)
		if fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), row.text) || !strings.Contains(fault.Hint(err), row.hint) || clock.Boot() < 20e9 {
			t.Errorf("after %v: %v: %s", clock.Boot(), err, fault.Hint(err))
		}
		if strings.Contains(err.Error(), "StatusCode") {
			t.Errorf("it says what the SDK says: %v", err)
		}
	}
	said.Compare(t, "endpoints")
}

// Objects are found all the same, so nothing else would tell.
func TestAnEndpointWithTheBucketInItIsSaid(t *testing.T) {
	server := &s3test.Server{Before: func(w http.ResponseWriter, r *http.Request) bool {
		s3test.Refuse(w, http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
		return true
	}}
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil) + "/facts"})
	_, _, err := b.List(t.Context(), "", "", 1)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "Leave the bucket's name out") || errors.Is(err, store.ErrNotExist) {
		t.Errorf("%v: %s", err, fault.Hint(err))
	}
}

func TestACarelessServerIsRefusedByTheProbe(t *testing.T) {
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, &s3test.Server{Careless: true}, nil)})
	err := store.New(b, store.Options{}).Probe(t.Context())
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "s3://facts") ||
		!strings.Contains(err.Error(), "replaced an object") || !strings.Contains(fault.Hint(err), "If-None-Match") {
		t.Errorf("%v: %s", err, fault.Hint(err))
	}
}

func TestTheRegionIsFoundOnce(t *testing.T) {
	server := &s3test.Server{Region: "eu-central-1"}
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil)})
	for range 3 {
		if err := b.Put(t.Context(), "k", strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	if got := server.Requests(); len(got) != 4 {
		t.Errorf("asked %d times: %v", len(got), got)
	}
}

func TestCredentialsThatEndedAreFetchedAnew(t *testing.T) {
	folder := t.TempDir()
	process := func(token string) {
		text := `{"Version":1,"AccessKeyId":"test","SecretAccessKey":"s","SessionToken":"` + token + `","Expiration":"2126-01-01T00:00:00Z"}`
		if err := os.WriteFile(filepath.Join(folder, "creds"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "config"), []byte("[profile role]\ncredential_process = cat "+filepath.Join(folder, "creds")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(folder, "config"))
	process("first")
	server := &s3test.Server{}
	server.Expire("first")
	b := open(t, "s3://facts?profile=role", s3.Options{Endpoint: serve(t, server, nil)})
	if err := b.Create(t.Context(), "a", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	server.Expire("second")
	if err := b.Create(t.Context(), "b", strings.NewReader("x")); fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), "aws sso login --profile role") {
		t.Errorf("nothing newer is there: %v (%s)", err, fault.Hint(err))
	}
	process("second")
	if err := b.Create(t.Context(), "b", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	if _, err := s3.Open(t.Context(), "s3://facts?profile=none", s3.Options{}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), `"none"`) {
		t.Errorf("a profile that is not there: %v", err)
	}
}

func TestNoCredentialsAreSaidAndPublicBucketsNeedNone(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	server := &s3test.Server{Public: true, Owner: "123456789012"}
	server.Set("data/x", "public")
	o := s3.Options{Endpoint: serve(t, server, nil)}
	_, err := open(t, "s3://facts", o).Get(t.Context(), "data/x", 0, -1)
	if fault.KindOf(err) != fault.Denied || !strings.Contains(err.Error(), "find credentials: the environment and profiles hold none, and this machine has no role (EC2 IMDS: ") || !strings.Contains(fault.Hint(err), "anonymous=true") {
		t.Errorf("%v (%s)", err, fault.Hint(err))
	}
	if len(server.Requests()) != 0 {
		t.Error("it was asked without credentials")
	}
	public := open(t, "s3://facts?anonymous=true", o)
	if err := drain(public.Get(t.Context(), "data/x", 0, -1)); err != nil {
		t.Error(err)
	}
	if err := public.Put(t.Context(), "data/x", strings.NewReader("")); fault.KindOf(err) != fault.Denied {
		t.Errorf("written: %v", err)
	}
	_, err = open(t, "s3://facts?anonymous=true&owner=999999999999", o).Get(t.Context(), "data/x", 0, -1)
	if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), "999999999999") {
		t.Errorf("another's bucket: %v (%s)", err, fault.Hint(err))
	}
}

func TestTheEndpointComesFromTheEnvironmentToo(t *testing.T) {
	server := &s3test.Server{}
	endpoint := serve(t, server, nil)
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	t.Setenv("AWS_ENDPOINT_URL_S3", endpoint)
	b := open(t, "s3://facts/x", s3.Options{})
	if err := b.Put(t.Context(), "k", strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	if want := "s3://facts/x?endpoint=" + endpoint; b.String() != want {
		t.Errorf("called %s, want %s", b, want)
	}
	t.Setenv("AWS_ENDPOINT_URL_S3", "")
	t.Setenv("AWS_ENDPOINT_URL", "")
	again := open(t, b.String(), s3.Options{})
	if err := drain(again.Get(t.Context(), "k", 0, -1)); err != nil || again.String() != b.String() {
		t.Errorf("its name leads to %s: %v", again, err)
	}
}

func TestAnUploadThatFailsLeavesNoParts(t *testing.T) {
	server := &s3test.Server{}
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil)})
	body := make([]byte, 20<<20)
	if err := b.Create(t.Context(), "k", &gone{bytes.NewReader(body), 10 << 20}); !errors.Is(err, errGone) {
		t.Errorf("the body breaks: %v", err)
	}
	server.Set("k", "other")
	if err := b.Create(t.Context(), "k", bytes.NewReader(body)); !errors.Is(err, store.ErrExists) {
		t.Errorf("it exists: %v", err)
	}
	if server.Uploads() != 0 {
		t.Errorf("%d uploads are left", server.Uploads())
	}
}

var errGone = errors.New("disk gone")

type gone struct {
	*bytes.Reader
	after int
}

func (g *gone) Read(p []byte) (int, error) {
	if g.after <= 0 {
		return 0, errGone
	}
	n, err := g.Reader.Read(p[:min(len(p), g.after)])
	g.after -= n
	return n, err
}

func TestForeignKeysAreLeftOut(t *testing.T) {
	server := &s3test.Server{Pages: 2}
	for _, key := range []string{"p/", "p/a b", "p/a+b%", "p/é", "p/.x", "p/y//z", "q", "p0", "p/k/1", "p/a<&>"} {
		server.Set(key, "x")
	}
	b := open(t, "s3://facts/p", s3.Options{Endpoint: serve(t, server, nil)})
	objects, more, err := b.List(t.Context(), "", "", 10)
	if err != nil || more || len(objects) != 1 || objects[0].Key != "k/1" {
		t.Errorf("listed %v, more is %v, %v", objects, more, err)
	}
}

func TestAReadThatBreaksGoesOnWithTheSameObject(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 400_000) // 6.4 MB
	server := &s3test.Server{}
	h := &s3test.Hostile{Evils: s3test.Evils{Truncate: 1}, Rand: func(int) int { return 0 }}
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, h), Clock: &storetest.Clock{}})
	server.Set("k", string(body))
	r, err := b.Get(t.Context(), "k", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	some := make([]byte, 1<<20)
	if _, err := io.ReadFull(r, some); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r) // each answer is half of the rest, until it is small
	if err != nil && !errors.Is(err, store.ErrBusy) || !bytes.HasPrefix(body, append(some, got...)) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if asked := len(server.Requests()); asked < 5 {
		t.Errorf("asked %d times", asked)
	}
	r, err = b.Get(t.Context(), "k", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	server.Set("k", "another")
	if _, err := io.ReadAll(r); !errors.Is(err, store.ErrBusy) {
		t.Errorf("it is another now: %v", err)
	}
}

func TestARottenAnswerIsNotBelieved(t *testing.T) {
	for _, size := range []int{100, 3 << 20} {
		server := &s3test.Server{}
		b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil), Clock: &storetest.Clock{}})
		if err := b.Create(t.Context(), "k", strings.NewReader(strings.Repeat("x", size))); err != nil {
			t.Fatal(err)
		}
		server.Rot("k", strings.Repeat("x", size-1)+"y")
		if err := drain(b.Get(t.Context(), "k", 0, -1)); !errors.Is(err, store.ErrBusy) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	server := &s3test.Server{}
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil), Clock: &storetest.Clock{}})
	if err := b.Create(t.Context(), "k", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	server.Rot("k", "y")
	if _, err := store.New(b, store.Options{Clock: &storetest.Clock{}}).Get(t.Context(), "k"); fault.KindOf(err) != fault.Lost || fault.Hint(err) == "" {
		t.Errorf("every time: %v", err)
	}
}

// An upload that is not known any more may have been completed, by a request that lost its
// answer: its end is asked for again then, and what it says of that settles
// nothing (L1).
func TestAnUploadThatIsNotKnownAnyMoreMayHaveLanded(t *testing.T) {
	server := &s3test.Server{Before: func(w http.ResponseWriter, r *http.Request) bool {
		ends := r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
		if ends {
			s3test.Refuse(w, http.StatusNotFound, "NoSuchUpload", "The specified upload does not exist.")
		}
		return ends
	}}
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil)})
	err := b.Create(t.Context(), "big", bytes.NewReader(make([]byte, 9<<20)))
	if !errors.Is(err, store.ErrUnclear) {
		t.Errorf("it says of the object that it was certainly not written: %v", err)
	}
}
