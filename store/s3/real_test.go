package s3_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/s3/s3test"
	"github.com/drover-run/drover/store/storetest"
)

// versitygw is the real server, once it is up.
func versitygw(t *testing.T) (endpoint string) {
	t.Helper()
	return up(t, s3test.Real(t))
}

// minio is the other one.
func minio(t *testing.T) (endpoint string) {
	t.Helper()
	return up(t, s3test.MinIO(t))
}

func up(t *testing.T, endpoint string) string {
	t.Helper()
	// A store that has never answered is waited for as long as it takes to start.
	s := store.New(open(t, "s3://facts", s3.Options{Endpoint: endpoint}), store.Options{})
	if _, err := s.Get(t.Context(), "up"); err == nil || !strings.Contains(err.Error(), store.ErrNotExist.Error()) {
		t.Fatalf("the server does not come up: %v", err)
	}
	return endpoint
}

// apart is a prefix that no other test has.
func apart(t *testing.T) string {
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return "s3://facts/t" + n.String()
}

func TestRealS3BucketKeepsEveryPromise(t *testing.T) {
	o := s3.Options{Endpoint: versitygw(t)}
	handles := func(t *testing.T) (first, second store.Bucket) {
		place := apart(t)
		return open(t, place, o), open(t, place, o)
	}
	storetest.Run(t, handles)
	storetest.RunPieces(t, handles)
	storetest.RunResumes(t, handles, 1<<20, storetest.MostResumed)
}

func TestRealMinIOBucketKeepsEveryPromise(t *testing.T) {
	o := s3.Options{Endpoint: minio(t)}
	handles := func(t *testing.T) (first, second store.Bucket) {
		place := apart(t)
		return open(t, place, o), open(t, place, o)
	}
	storetest.Run(t, handles)
	storetest.RunPieces(t, handles)
	storetest.RunResumes(t, handles, 1<<20, storetest.MostResumed)
}

func TestRealMinIORaceHasOneWinner(t *testing.T) {
	o := s3.Options{Endpoint: minio(t)}
	place := apart(t)
	for key, n := range race(t, 100, 32, func() *store.Store { return store.New(open(t, place, o), store.Options{}) }) {
		if n != 1 {
			t.Errorf("key %d has %d winners", key, n)
		}
	}
}

// rclone serve s3 lets every writer win.
func TestRealRcloneIsRefusedByTheProbe(t *testing.T) {
	endpoint := up(t, s3test.Rclone(t))
	err := store.New(open(t, "s3://facts/jobs", s3.Options{Endpoint: endpoint}), store.Options{}).Probe(t.Context())
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "s3://facts/jobs?endpoint="+endpoint+": create-if-absent replaced an object") ||
		!strings.Contains(fault.Hint(err), "If-None-Match") {
		t.Errorf("%v: %s", err, fault.Hint(err))
	}
}

func TestRealS3RaceHasOneWinner(t *testing.T) {
	o := s3.Options{Endpoint: versitygw(t)}
	place := apart(t)
	for key, n := range race(t, 200, 64, func() *store.Store { return store.New(open(t, place, o), store.Options{}) }) {
		if n != 1 {
			t.Errorf("key %d has %d winners", key, n)
		}
	}
}

func TestRealS3BehindAHostileNet(t *testing.T) {
	target, err := url.Parse(versitygw(t))
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
	h := behind(t, "everything", 3)
	h.Next = forward
	server := httptest.NewServer(h)
	defer server.Close()
	o := s3.Options{Endpoint: server.URL, Clock: &storetest.Clock{}}
	t.Run("suite", func(t *testing.T) {
		storetest.RunStore(t, func(t *testing.T) (first, second store.Bucket) {
			place := apart(t)
			return open(t, place, o), open(t, place, o)
		})
	})
	place := apart(t)
	for key, n := range race(t, 50, 16, func() *store.Store {
		return store.New(open(t, place, o), store.Options{Clock: &storetest.Clock{}})
	}) {
		if n != 1 {
			t.Errorf("key %d has %d winners", key, n)
		}
	}
	// Parts are lost too, and a long read breaks.
	body := make([]byte, 60<<20)
	_, _ = rand.Read(body)
	s := store.New(open(t, apart(t), o), store.Options{Clock: &storetest.Clock{}})
	d, _, err := s.PutBlob(t.Context(), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.OpenBlob(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, body) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	t.Logf("met %v", h.Met())
}

// A container with a role signs the requests itself, with what the role's address gives; a machine
// without one reads a signed address.
func TestRealS3SaysHowToDownload(t *testing.T) {
	b := open(t, apart(t), s3.Options{Endpoint: versitygw(t)})
	const ofMachine = "/latest/meta-data/iam/security-credentials/"
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.Header.Get("X-aws-ec2-metadata-token") == "token"
		switch {
		case r.URL.Path == "/latest/api/token" && r.Method == http.MethodPut && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "":
			fmt.Fprint(w, "token")
			return
		case r.URL.Path == ofMachine && asked:
			fmt.Fprint(w, "agents")
			return
		case r.URL.Path != "/" && (r.URL.Path != ofMachine+"agents" || !asked):
			http.Error(w, "", http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"RoleArn":"arn:aws:iam::123456789012:role/agents","AccessKeyId":%q,"SecretAccessKey":%q,"Token":"","Expiration":"2030-01-01T00:00:00Z"}`,
			os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"))
	}))
	t.Cleanup(role.Close)
	ran := storetest.RunDownloads(t, b, append(os.Environ(), "AWS_CONTAINER_CREDENTIALS_FULL_URI="+role.URL, "AWS_EC2_METADATA_SERVICE_ENDPOINT="+role.URL))
	if count := func(tool string) (n int) {
		for _, r := range ran {
			if r == tool {
				n++
			}
		}
		return n
	}; count("python3") != 3 || count("curl") < 3 && count("curl") > 0 {
		t.Errorf("%q ran", ran)
	}
	ways, err := b.Downloads(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if tool := ways[2].Command; !strings.HasPrefix(tool, "aws s3 cp --only-show-errors 's3://facts/") || !strings.Contains(tool, " - --region 'us-east-1'") {
		t.Errorf("Amazon's own tool is called by %s", tool)
	}
	for _, w := range ways {
		if signed := strings.Contains(w.Command, "X-Amz-Signature="); signed != w.Secret {
			t.Errorf("a way by %s: signed %t, secret %t", w.Tool, signed, w.Secret)
		}
		if strings.Contains(w.Command, os.Getenv("AWS_SECRET_ACCESS_KEY")) {
			t.Errorf("a way by %s holds the key", w.Tool)
		}
	}
	// Without a role they end at once, and the next way is tried.
	for _, w := range ways[:2] {
		if out, err := exec.Command("sh", "-c", w.Command).CombinedOutput(); err == nil || !strings.Contains(string(out), "no role of a container") {
			t.Errorf("without a role %s says %q, %v", w.Tool, out, err)
		}
	}
}
