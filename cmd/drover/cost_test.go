//go:build linux

package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/drover-run/drover/internal/price"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store/s3/s3test"
)

// asked counts what a server is asked for as its maker bills it.
type asked struct {
	facts http.Handler

	mu    sync.Mutex
	count report.Requests
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Has("list-type"):
		a.count.Lists++
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		a.count.Reads++
	case r.Method != http.MethodDelete:
		a.count.Writes++
	}
	a.mu.Unlock()
	a.facts.ServeHTTP(w, r)
}

// since is what came since it was asked last.
func (a *asked) since() report.Requests {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.count
	a.count = report.Requests{}
	return r
}

// What --plan says a job asks of its bucket is no more than twice what it asks, nor
// less than half: of requests, and of money.
func TestWhatAPlanSaysOfTheStore(t *testing.T) {
	facts := &asked{facts: &s3test.Server{Bucket: "facts"}}
	server := httptest.NewServer(facts)
	t.Cleanup(server.Close)
	h := newHome(t)
	h.environ = append(h.environ, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=testtest", "AWS_EC2_METADATA_DISABLED=true",
		"DROVER_STORE=s3://facts/x?endpoint="+server.URL)
	for name, command := range map[string][]string{
		"run": {"shell", "true"},
		"map": {"map", "-j", "2", "--from", "1-200", "--", "true", "{}"},
		"two": {"map", "-j", "2", "--workers", "2", "--from", "1-2000", "--", "true", "{}"},
	} {
		out, _ := h.drover(t, 0, append([]string{command[0], "--plan", "--json"}, command[1:]...)...)
		var plan struct {
			Store struct {
				Here  bool   `json:"object_store"`
				Of    string `json:"prices"`
				Whole struct {
					Writes, Lists, Reads int
					Dollars              report.Dollars
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &plan); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		facts.since()
		h.drover(t, 0, command...)
		got := facts.since()
		dollars, said := price.S3().Requests(got.Writes, got.Lists, got.Reads), plan.Store.Whole
		t.Logf("%s: %+v, %v; --plan said %+v", name, got, dollars, said)
		if !plan.Store.Here || plan.Store.Of != "S3" {
			t.Errorf("%s: the plan says nothing of S3: %s", name, out)
		}
		if sum := said.Writes + said.Lists + said.Reads; sum > 2*got.Sum() || got.Sum() > 2*sum || said.Dollars > 2*dollars || dollars > 2*said.Dollars {
			t.Errorf("%s: %+v and %v were asked, and --plan said %+v", name, got, dollars, said)
		}
	}
}
