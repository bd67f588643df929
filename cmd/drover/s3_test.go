package main_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/store/s3/s3test"
)

// Scripts with a bucket as their store: of a server in memory, and of a real one.
func TestScriptsOnABucket(t *testing.T) { onBucket(t, &s3test.Server{Bucket: "facts"}) }

func TestRealS3Scripts(t *testing.T) {
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it")
	}
	onBucket(t, versitygw(t))
}

// versitygw is a real S3 server behind a counter of its requests.
func versitygw(t *testing.T) http.Handler { return through(t, s3test.Real(t)) }

// through passes requests on to a server.
func through(t *testing.T, endpoint string) http.Handler {
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		// Not yet up: the client tries again.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
}

func onBucket(t *testing.T, facts http.Handler) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		facts.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	careless := httptest.NewServer(&s3test.Server{Bucket: "facts", Careless: true})
	t.Cleanup(careless.Close)
	begun := time.Now()
	t.Cleanup(func() { t.Logf("%d requests in %v", asked.Load(), time.Since(begun).Round(time.Second)) })
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "bucket"), Cmds: commands, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			for name, value := range map[string]string{
				"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest", "AWS_EC2_METADATA_DISABLED": "true",
				"ENDPOINT": server.URL, "CARELESS": careless.URL,
			} {
				env.Setenv(name, value)
			}
			return setUp(env)
		},
	})
}
