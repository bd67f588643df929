package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/s3/s3test"
	"github.com/drover-run/drover/store/storetest"
)

// refusedWith fails the test unless err has this kind, these words and this hint.
func refusedWith(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || !strings.Contains(err.Error(), text) || fault.Hint(err) != hint {
		t.Errorf("got %v, %s, %q; want %s, %s, %q", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}

func TestAPlaceThatCannotBeOpenedSaysWhatToLookAt(t *testing.T) {
	opened := func(o s3.Options) error {
		_, err := s3.Open(t.Context(), "s3://facts", o)
		return err
	}
	dir := t.TempDir()
	pass := filepath.Join(dir, "pass")
	for path, text := range map[string]string{filepath.Join(dir, "config"): "[default]\n", pass: `{"key":"k","secret":"s"}`, filepath.Join(dir, "torn"): "{"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "none"))
	refusedWith(t, opened(s3.Options{Profile: "nosuch"}), fault.Invalid, `open store s3://facts: there is no profile "nosuch"`, "Try aws configure list-profiles.")
	refusedWith(t, opened(s3.Options{PassFile: filepath.Join(dir, "torn")}), fault.Invalid,
		"open store s3://facts: read the credential: read "+dir+"/torn: it holds no credential", "Go on with the job: drover resume makes it anew.")

	t.Setenv("AWS_CA_BUNDLE", filepath.Join(dir, "none.pem"))
	refusedWith(t, opened(s3.Options{PassFile: pass}), fault.Invalid, "open store s3://facts: ", "Look at AWS_CA_BUNDLE.")
	t.Setenv("AWS_CA_BUNDLE", "")
	t.Setenv("AWS_ENDPOINT_URL", "127.0.0.1:9000")
	refusedWith(t, opened(s3.Options{}), fault.Invalid, `open store s3://facts: "127.0.0.1:9000" is not the address of a server: `,
		"Write it as http://host:9000 or https://host: AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3, or endpoint_url in ~/.aws/config.")
	t.Setenv("AWS_ENDPOINT_URL", "")
	t.Setenv("AWS_RETRY_MODE", "nonsense")
	refusedWith(t, opened(s3.Options{}), fault.Invalid, "open store s3://facts: read the configuration: ", "Look at ~/.aws/config and the AWS_ variables: env | grep ^AWS_.")
}

func TestWhatAServerRefusesHasANextStep(t *testing.T) {
	refuses := func(status int, code string) *s3.Bucket {
		server := &s3test.Server{Before: func(w http.ResponseWriter, _ *http.Request) bool {
			s3test.Refuse(w, status, code, "The reason.")
			return true
		}}
		return open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil)})
	}
	put := func(b *s3.Bucket) error { return b.Put(t.Context(), "k", strings.NewReader("x")) }
	refusedWith(t, put(refuses(404, "NoSuchBucket")), fault.Missing, "put k ", "Check the name with aws s3 ls, or make it: aws s3 mb s3://facts.")

	b := refuses(400, "BadDigest")
	for range 10 {
		if err := put(b); fault.KindOf(err) == fault.Lost {
			t.Fatalf("at once it is given up: %v", err)
		}
	}
	refusedWith(t, put(b), fault.Lost, "put k ", "Something between here and the server changes what is sent: try without HTTPS_PROXY and HTTP_PROXY.")

	endpoint := serve(t, &s3test.Server{Before: func(w http.ResponseWriter, _ *http.Request) bool {
		s3test.Refuse(w, 404, "NoSuchKey", "The reason.")
		return true
	}}, nil)
	_, _, err := open(t, "s3://facts", s3.Options{Endpoint: endpoint}).List(t.Context(), "", "", 1)
	refusedWith(t, err, fault.Invalid, ": the server takes it for an object's name",
		"Leave the bucket's name out of the endpoint. Try curl -i "+endpoint+", and see that --store-endpoint is right.")

	endpoint = serve(t, &s3test.Server{Owner: "123456789012"}, nil)
	err = open(t, "s3://facts/team", s3.Options{Endpoint: endpoint}).OwnedBy(t.Context(), "999999999999")
	refusedWith(t, err, fault.Denied, ": the bucket belongs to another account than 999999999999, which you are signed in to",
		"If it is the bucket that you mean, name its owner: --store 's3://facts/team?endpoint="+endpoint+"&owner=ACCOUNT'.")
}

func TestACredentialThatCannotBeMadeSaysWhy(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/agents"
	pass := func(status int, code string, r store.Rights, role string) error {
		o := s3.Options{Clock: &storetest.Clock{}, Endpoint: front(t, &s3test.Server{}, func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			fmt.Fprintf(w, "<ErrorResponse><Error><Code>%s</Code><Message>The reason.</Message></Error></ErrorResponse>", code)
			return true
		})}
		_, err := open(t, "s3://facts", o).Pass(t.Context(), r, role)
		return err
	}
	refusedWith(t, pass(http.StatusBadGateway, "", agents, ""), fault.Lost, "make a credential for s3://facts", "Try again, or name a profile for agents: --agent-profile NAME.")
	refusedWith(t, pass(http.StatusForbidden, "AccessDenied", agents, role), fault.Denied, ": take the role "+role+": ",
		"See that its trust policy names you: aws sts assume-role --role-arn "+role+" --role-session-name test.")
	wide := store.Rights{}
	for i := range 60 {
		wide.Read = append(wide.Read, fmt.Sprintf("%s%d/", strings.Repeat("x", 40), i))
	}
	refusedWith(t, pass(http.StatusOK, "", wide, ""), fault.Invalid, "and a session's may have 2048",
		"Name a store with a shorter prefix, or a profile for agents: --agent-profile NAME.")

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	_, err := open(t, "s3://facts", s3.Options{}).Account(t.Context())
	refusedWith(t, err, fault.Denied, "find out which account you are signed in to: ", "aws sts get-caller-identity says more.")

	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	const signIn = "Sign in with aws sso login or aws configure, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket add ?anonymous=true."
	o := s3.Options{Endpoint: serve(t, &s3test.Server{}, nil)}
	refusedWith(t, open(t, "s3://facts", o).Put(t.Context(), "k", strings.NewReader("x")), fault.Denied, ": find credentials: ", signIn)
	_, err = open(t, "s3://facts", o).Pass(t.Context(), agents, "")
	refusedWith(t, err, fault.Denied, "make a credential for s3://facts?endpoint="+o.Endpoint+": find credentials: ", signIn)
}

// Without a credential no address can be signed.
func TestADownloadIsSignedByACredential(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	b, err := s3.Open(t.Context(), "s3://facts/p", s3.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Downloads(t.Context(), "_programs/abc"); fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), "sign the address of _programs/abc in s3://facts/p: ") || fault.Hint(err) == "" {
		t.Errorf("got %v with the hint %q", err, fault.Hint(err))
	}
}
