package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/store/s3/s3test"
)

// counted is a bucket that counts what the command line and its agents ask.
type counted struct {
	facts s3test.Server
	url   string
	home  string

	mu    sync.Mutex
	asked map[string]int // by method, place and status
	n     int
}

func newCounted(t *testing.T) *counted {
	c := &counted{facts: s3test.Server{Bucket: "facts"}, home: t.TempDir(), asked: map[string]int{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	if err := os.Mkdir(filepath.Join(c.home, "code"), 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

// What differs from run to run in a key.
var (
	jobIDs  = regexp.MustCompile(`/[0-9a-z]{16}/`)
	randoms = regexp.MustCompile(`[0-9a-f]{16,}`)
	shorts  = regexp.MustCompile(`ids/.*`)
)

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seen := &answered{w, http.StatusOK}
	c.facts.ServeHTTP(seen, r)
	what := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/facts/")
	if prefix := r.URL.Query().Get("prefix"); prefix != "" {
		what = "LIST " + prefix
	}
	what = randoms.ReplaceAllString(jobIDs.ReplaceAllString(shorts.ReplaceAllString(what, "ids/ID"), "/JOB/"), "*")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[fmt.Sprintf("%s %d", what, seen.status)]++
	c.n++
}

// answered remembers the status.
type answered struct {
	http.ResponseWriter
	status int
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// run is one command and what it cost, which is written down as a table.
func (c *counted) run(t *testing.T, args ...string) (requests int, took time.Duration) {
	t.Helper()
	c.mu.Lock()
	c.n, c.asked = 0, map[string]int{}
	c.mu.Unlock()
	cmd := exec.Command(filepath.Join(built.dir, "drover"), args...)
	cmd.Dir = filepath.Join(c.home, "code")
	cmd.Env = append(os.Environ(), "HOME="+c.home, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=testtest",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_ENDPOINT_URL="+c.url, "DROVER_STORE=", "XDG_CACHE_HOME=", "XDG_STATE_HOME=", "XDG_CONFIG_HOME=")
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	took = time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for what, n := range c.asked {
		lines = append(lines, fmt.Sprintf("%5d  %s", n, what))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	t.Logf("%s: %d requests in %v\n%s", strings.Join(args, " "), c.n, took.Round(10*time.Millisecond), strings.Join(lines, "\n"))
	return c.n, took
}

// write makes a file beside the command.
func (c *counted) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.home, "code", name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// within says whether n requests are within most for a command of 5 s, and one for
// each second more: on a machine that is slow, agents beat and look meanwhile.
func within(n, most int, took time.Duration) bool {
	return n <= most+int(max(0, took-5*time.Second)/time.Second)
}

// A script of a few seconds costs 40 requests, the command line's and the agent's
// together. The first command of a day tries the store too; a task's past is read. Output that comes in two parts is two objects, each with two reads.
func TestAScriptCostsFewRequests(t *testing.T) {
	c := newCounted(t)
	for i, most := range []int{40, 36, 36} {
		name := fmt.Sprintf("hello%d.py", i)
		c.write(t, name, "print('hello', flush=True)\n")
		if n, took := c.run(t, "run", "--store", "s3://facts/jobs", name); !within(n, most, took) {
			t.Errorf("the script %s cost %d requests in %v, want %d at most", name, n, took, most)
		}
	}
	c.write(t, "leaves.py", "import os\nopen(os.environ['SM_MODEL_DIR'] + '/w', 'w').write('w')\n")
	if n, took := c.run(t, "run", "--store", "s3://facts/jobs", "leaves.py"); !within(n, 55, took) {
		t.Errorf("a script that leaves a model cost %d requests in %v, want 55 at most", n, took)
	}
}

// A map costs three or four requests a chunk and what a script costs: its items cost none.
func TestAMapCostsFewRequests(t *testing.T) {
	c := newCounted(t)
	c.run(t, "run", "--store", "s3://facts/jobs", "true") // pays the trial
	if n, took := c.run(t, "map", "-q", "--store", "s3://facts/jobs", "--from", "1-1000", "--", "true"); !within(n, 120, took) {
		t.Errorf("1,000 items in 8 chunks cost %d requests in %v, want 120 at most", n, took)
	}
}
