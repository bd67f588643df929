//go:build linux

package main_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver/docker/dockerd"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/gcs"
	"github.com/drover-run/drover/store/gcs/gcstest"
	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/s3/s3test"
)

// gateway is this machine's address in the network of containers, and listens there.
func gateway(t *testing.T) net.Listener {
	t.Helper()
	dockerd.Use(t)
	out, err := exec.Command("docker", "network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(strings.TrimSpace(string(out)), "0"))
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// seen is a server as containers see it: at the machine's address in their network.
func seen(t *testing.T, endpoint string) string {
	t.Helper()
	listener := gateway(t)
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }, // it is signed
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// canary is the caller's secret key, in all of these tests.
const canary = "testtest"

// withKeys is a home with the keys of a server in the caller's environment.
func (h home) withKeys() home {
	h.environ = append(h.environ, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY="+canary, "AWS_EC2_METADATA_DISABLED=true")
	return h
}

const slowly = `
import os, time
for name in os.environ:
    assert not name.startswith("AWS_"), name
open("/marks/began", "w").close()
while not os.path.exists("/marks/go"):
    time.sleep(0.05)
os.makedirs(os.environ["SM_MODEL_DIR"], exist_ok=True)
open(os.environ["SM_MODEL_DIR"] + "/weights", "w").write("a model")
print("trained")
`

// The keys are in the environment of the command line alone. An agent in a
// container is given a session of them, and while it works they are nowhere else.
func TestRealDockerOnABucketGivesAgentsASession(t *testing.T) {
	onlyReal(t)
	place := "s3://facts/team?endpoint=" + seen(t, s3test.MinIO(t)) // it outlives the agents, which would wait for it
	h := withDocker(t).withKeys()
	marks := h.runs("marks")
	if err := os.Mkdir(marks, 0o777); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(h.work, "train.py"), []byte(slowly))
	var out, words bytes.Buffer
	c := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), "run", "--on", "docker", "--image", dockerd.Debian, "--store", place, "--mount", marks+":/marks", "-o", h.runs("out"), "train.py")
	c.Dir, c.Env, c.Stdout, c.Stderr = h.work, h.environ, &out, &words
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "the program runs", func() bool { _, err := os.Stat(filepath.Join(marks, "began")); return err == nil })
	passes := nowhere(t, filepath.Dir(h.work), place, canary)
	if len(passes) != 1 || bytes.Contains(passes[0], []byte(canary)) || !bytes.Contains(passes[0], []byte(`"token"`)) {
		t.Errorf("there are %d passes", len(passes))
	}
	put(t, filepath.Join(marks, "go"), nil)
	if err := c.Wait(); err != nil || !strings.Contains(out.String(), "trained\n") {
		t.Fatalf("%v\n%s\n%s", err, &out, &words)
	}
	if !strings.Contains(words.String(), "\n  rights   agents are given a session for this task alone, until ") {
		t.Errorf("the plan does not say so:\n%s", &words)
	}
	if text, err := os.ReadFile(h.runs("out/model/weights")); err != nil || string(text) != "a model" {
		t.Errorf("the model is %q, %v", text, err)
	}
	h.drover(t, 0, "map", "-t", "many", "--on", "docker", "--image", dockerd.Debian, "--store", place, "--workers", "2", "--from", "1-300", "--out", "r-{}.txt", "--", "sh", "-c", `echo "$1" >"$2"`, "sh", "{}", "{out}")
	h.drover(t, 0, "verify", "--store", place, "many")
	notStored(t, place, canary)
}

// A server that has no sessions leaves the caller's own key, in that one file; the
// plan says so, and what to do.
func TestRealDockerOnABucketWithoutSessionsSaysSo(t *testing.T) {
	onlyReal(t)
	place := "s3://facts/team?endpoint=" + seen(t, s3test.Real(t)) // it outlives the agents, which would wait for it
	h := withDocker(t).withKeys()
	put(t, filepath.Join(h.work, "train.py"), []byte("print('trained')\n"))
	out, words := h.drover(t, 0, "run", "--on", "docker", "--image", dockerd.Debian, "--store", place, "train.py")
	if !strings.Contains(out, "trained\n") || strings.Count(words, "agents are given your own key, as nothing narrower is to be had (") != 1 {
		t.Errorf("it says:\n%s\n%s", out, words)
	}
	nowhere(t, filepath.Dir(h.work), place, canary)
	notStored(t, place, canary)
}

// A user of the server with exactly the printed policy is enough for agents: of a
// run with state and checkpoints, of its next job, and of a map.
func TestRealAgentsNeedNoMoreThanThePrintedPolicy(t *testing.T) {
	onlyReal(t)
	h := newHome(t).withKeys()
	endpoint := s3test.Real(t)
	place := "s3://facts/team?endpoint=" + endpoint
	h.environ = append(h.environ, "DROVER_STORE="+place)
	put(t, filepath.Join(h.work, "train.py"), []byte(`
import os
print("count", len(os.listdir("/state")))
open("/state/%d" % len(os.listdir("/state")), "w").close()
open("/opt/ml/checkpoints/c", "w").write("x" * (20 << 20))
open(os.environ["SM_MODEL_DIR"] + "/weights", "w").write("y" * (9 << 20))
`))
	h.drover(t, 0, "doctor")
	s3test.AddUser(t, endpoint, "agent", "agentagent")
	policy, _ := h.drover(t, 0, "doctor", "--policy", "agents", "-p", "demo")
	s3test.Grant(t, endpoint, policy, "agent")
	aws := filepath.Join(filepath.Dir(h.work), "home", ".aws")
	if err := os.MkdirAll(aws, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(aws, "credentials"), []byte("[agents]\naws_access_key_id = agent\naws_secret_access_key = agentagent\n"))
	h.environ = append(h.environ, "DROVER_AGENT_PROFILE=agents")
	h.drover(t, 0, "run", "-p", "demo", "-t", "train", "--force", "train.py")
	out, _ := h.drover(t, 0, "run", "-p", "demo", "-t", "train", "--force", "train.py")
	if !strings.Contains(out, "count 1\n") {
		t.Errorf("state was not kept:\n%s", out)
	}
	h.drover(t, 0, "map", "-p", "demo", "-t", "many", "--workers", "3", "--from", "1-300", "--out", "r-{}.txt", "--", "sh", "-c", `echo "$1" >"$2"`, "sh", "{}", "{out}")
	h.drover(t, 0, "verify", "-p", "demo", "many")
	// Of another project they may write nothing: that is the policy, not the caller's key.
	if _, words := h.drover(t, 125, "run", "-p", "elsewhere", "train.py"); !strings.Contains(words, "AccessDenied") {
		t.Errorf("in another project it says:\n%s", words)
	}
}

// nowhere says that a text is in no file below dir except files called pass, and in no
// argument and no variable of an agent that has place as its store. It returns the contents
// of the files called pass.
func nowhere(t *testing.T, dir, place, text string) (passes [][]byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // it went while we looked
		}
		b, _ := os.ReadFile(path)
		if e.Name() == "pass" {
			if info, err := e.Info(); err == nil && info.Mode().Perm() != 0o600 {
				t.Errorf("%s is %v", path, info.Mode())
			}
			passes = append(passes, b)
		} else if bytes.Contains(b, []byte(text)) {
			t.Errorf("%s holds the caller's key", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range lines {
		line, _ := os.ReadFile(p)
		if !bytes.Contains(line, []byte("\x00agent\x00--store\x00"+place+"\x00")) {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(p), "environ"))
		if bytes.Contains(line, []byte(text)) || bytes.Contains(environ, []byte(text)) {
			t.Errorf("%s shows the caller's key", filepath.Dir(p))
		}
	}
	return passes
}

// notStored says that no object of a store of these tests' S3 server holds a text.
func notStored(t *testing.T, place, text string) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", canary)
	b, err := s3.Open(t.Context(), place, s3.Options{})
	if err != nil {
		t.Fatal(err)
	}
	notIn(t, b, text)
}

// notIn says that no object of a bucket holds a text.
func notIn(t *testing.T, b store.Bucket, text string) {
	t.Helper()
	s := store.New(b, store.Options{})
	n := 0
	for o, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Get(t.Context(), o.Key, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		if n++; bytes.Contains(body, []byte(text)) {
			t.Errorf("%s holds the caller's key", o.Key)
		}
	}
	if n < 10 {
		t.Errorf("the store has %d objects", n)
	}
}

// lasting is a person's lasting secret, which must not leave that person's machine.
const lasting = "1//the-lasting-secret"

// withGoogle is a home with a caller signed in to Google, and with a bucket facts. The
// bucket's server is a real one, which checks no token; the proxy before it and the server
// that gives out tokens are a fake of ours, reached by addresses beside Google's.
func (h home) withGoogle(t *testing.T, g *gcstest.Google, addresses ...net.IP) (with home, bucket *gcs.Bucket, cert tls.Certificate, roots string) {
	t.Helper()
	endpoint := gcstest.Real(t)
	gcstest.Make(t, endpoint, "facts")
	behind, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	g.Refresh = lasting
	g.Next = &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(behind); r.Out.Header.Del("Authorization") },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	cert, roots = gcstest.Certificate(t, addresses...)
	h.environ = append(h.environ, "HTTPS_PROXY="+g.Proxy(t, cert), "SSL_CERT_FILE="+roots, "GOOGLE_APPLICATION_CREDENTIALS="+g.SignIn(t))
	for _, a := range addresses {
		h.environ = append(h.environ, "NO_PROXY="+a.String())
	}
	bucket, err = gcs.Open(t.Context(), "gs://facts/team", gcs.Options{Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	return h, bucket, cert, roots
}

// inside says that agents have asked the bucket, and what a run of slowly has left.
func (h home) inside(t *testing.T, g *gcstest.Google, b *gcs.Bucket) {
	t.Helper()
	if text, err := os.ReadFile(h.runs("out/model/weights")); err != nil || string(text) != "a model" {
		t.Errorf("the model is %q, %v", text, err)
	}
	narrow := 0
	for name, n := range g.Seen() {
		if strings.HasSuffix(name, "-narrow") {
			narrow += n
		}
	}
	if narrow < 20 {
		t.Errorf("agents have asked the bucket %d times inside their boundary", narrow)
	}
	notIn(t, b, lasting)
}

// slowlyOn runs the script slowly, with its marks in a folder that the script sees as there,
// and searches for the lasting secret while it runs.
func (h home) slowlyOn(t *testing.T, place, there string, flags ...string) {
	t.Helper()
	if err := os.Mkdir(h.runs("marks"), 0o777); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(h.work, "train.py"), []byte(strings.NewReplacer("AWS_", "GOOGLE_", "/marks", there).Replace(slowly)))
	var out, words bytes.Buffer
	c := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), append(append([]string{"run", "--store", place, "-o", h.runs("out")}, flags...), "train.py")...)
	c.Dir, c.Env, c.Stdout, c.Stderr = h.work, h.environ, &out, &words
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "the program runs", func() bool { _, err := os.Stat(h.runs("marks/began")); return err == nil })
	passes := nowhere(t, filepath.Dir(h.work), place, lasting)
	if len(passes) != 1 || bytes.Contains(passes[0], []byte(lasting)) || !bytes.Contains(passes[0], []byte("-narrow")) {
		t.Errorf("there are %d passes", len(passes))
	}
	put(t, h.runs("marks/go"), nil)
	if err := c.Wait(); err != nil || !strings.Contains(out.String(), "trained\n") {
		t.Fatalf("%v\n%s\n%s", err, &out, &words)
	}
	if !strings.Contains(words.String(), "\n  rights   agents are given a session for this task alone, until ") || !strings.Contains(words.String(), "; it is renewed while a command is attached") {
		t.Errorf("the plan does not say so:\n%s", &words)
	}
}

// Agents on the nodes of a cluster are given a token for their task, and all that
// they do is inside its boundary.
func TestRealSlurmOnAGoogleBucketGivesAgentsASession(t *testing.T) {
	g := &gcstest.Google{}
	h, b, _, _ := withSlurm(t).withGoogle(t, g)
	const place = "gs://facts/team"
	h.slowlyOn(t, place, h.runs("marks"))
	h.drover(t, 0, "map", "--store", place, "-t", "many", "--workers", "2", "--from", "1-300", "--out", "r-{}.txt", "--", "sh", "-c", `echo "$1" >"$2"`, "sh", "{}", "{out}")
	h.drover(t, 0, "verify", "--store", place, "many")
	h.inside(t, g, b)
}

// The same in a container, which sees Google at another address.
func TestRealDockerOnAGoogleBucketGivesAgentsASession(t *testing.T) {
	onlyReal(t)
	h := withDocker(t)
	g := &gcstest.Google{}
	listener := gateway(t)
	h, b, cert, roots := h.withGoogle(t, g, listener.Addr().(*net.TCPAddr).IP)
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: g}, TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}
	s.StartTLS()
	t.Cleanup(s.Close)
	h.slowlyOn(t, "gs://facts/team?endpoint="+s.URL, "/marks", "--on", "docker", "--image", dockerd.Debian,
		"--mount", h.runs("marks")+":/marks", "--mount", roots+":/etc/ssl/certs/ca-certificates.crt:ro")
	h.inside(t, g, b)
}
