//go:build linux

package main_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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

	"github.com/drover-run/drover/driver/sagemaker/sagemakertest"
	"github.com/drover-run/drover/store/s3/s3test"
)

//go:embed testdata/tool/requests.json
var recorded []byte

//go:embed testdata/tool/lines.json
var recordedLines []byte

// toolRequest is what simple-sagemaker, or the SDK's estimator, asks SageMaker for: testdata/tool/record.py has recorded it.
type toolRequest struct {
	Args      []string       `json:"args"`
	Operation string         `json:"operation"`
	Request   map[string]any `json:"request"`
}

// asDrover is the command line of drover that means the same.
func (r toolRequest) asDrover() []string {
	if r.Args[0] != "estimator" {
		return append([]string{"ssm"}, r.Args...)
	}
	return []string{"run", "--store", "s3://bucket", "--detach", "--framework", "pytorch:" + r.Args[2], "--machine", r.Args[4], "--nodes", r.Args[5], r.Args[1]}
}

// asker notes the requests for jobs of a command line. The job is made, and the command ends.
type asker struct {
	next http.Handler

	mu      sync.Mutex
	command *exec.Cmd
	sent    []byte
}

func (a *asker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Target"), "SageMaker.Create") {
		a.next.ServeHTTP(w, r)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent, _ = io.ReadAll(r.Body) // what is cut off is no JSON
	_ = a.command.Process.Kill()   // that it has ended is as well
	panic(http.ErrAbortHandler)
}

// ask runs a command line until it asks for a job, and gives the request.
func (a *asker) ask(t *testing.T, h home, args ...string) (request map[string]any) {
	t.Helper()
	a.sent, a.command = nil, exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), args...)
	a.command.Dir, a.command.Env = h.work, h.environ
	out, _ := a.command.CombinedOutput() // it is killed
	if err := json.Unmarshal(a.sent, &request); err != nil {
		t.Fatalf("drover %s asks for nothing: %v\n%s", args, err, out)
	}
	return request
}

// fields are the values of a request by their paths. Members of lists that have names go by these, and what says no more than that nothing was
// said is left out.
func fields(prefix string, value any, all map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			fields(strings.TrimPrefix(prefix+"."+name, "."), member, all)
		}
	case []any:
		for i, member := range v {
			name, of := fmt.Sprint(i), member
			if m, ok := member.(map[string]any); ok {
				for _, key := range []string{"Key", "Name", "OutputName", "ChannelName"} {
					if text, ok := m[key].(string); ok {
						name = text
					}
				}
				if m["Key"] != nil {
					of = m["Value"]
				}
			}
			fields(prefix+"."+name, of, all)
		}
	case bool:
		if v {
			all[prefix] = "true"
		}
	default:
		all[prefix] = fmt.Sprint(v)
	}
}

// rows are the fields that a table of docs/coming-from-ssm.md names, each by what its path begins with.
func rows(t *testing.T, heading string) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/coming-from-ssm.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n### "+heading+"\n")
	if !ok {
		t.Fatalf("no part of the page is %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n##")
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			all = append(all, strings.Trim(name, "`"))
		}
	}
	return all
}

// droversNames are the names of its jobs.
var droversNames = regexp.MustCompile(`drover-[a-z0-9]{16}-1`)

// What drover asks SageMaker for differs from what simple-sagemaker and the SDK's estimator ask for in the fields that the page lists, with reasons, and
// in no other; and each field that is listed does differ.
func TestRequestsDifferFromTheToolsWhereThePageSaysSo(t *testing.T) {
	t.Parallel()
	var all []toolRequest
	if err := json.Unmarshal(recorded, &all); err != nil || len(all) < 13 {
		t.Fatal(err, len(all))
	}
	var lines [][]string
	if err := json.Unmarshal(recordedLines, &lines); err != nil || len(lines) != len(all) {
		t.Fatal(err, len(lines))
	}
	fake := sagemakertest.New(t)
	fake.Stacks.Hurry()
	a := &asker{next: fake}
	server := httptest.NewServer(a)
	defer server.Close()
	objects := &s3test.Server{Bucket: "bucket"}
	objects.Set("public/persons.json", "{}")
	bucket := httptest.NewServer(objects)
	defer bucket.Close()
	h := newHome(t)
	for name, value := range fake.Environ() {
		h.environ = append(h.environ, name+"="+strings.ReplaceAll(value, fake.URL(), server.URL))
	}
	h.environ = append(h.environ, "AWS_ENDPOINT_URL_S3="+bucket.URL, "DROVER_ON=sagemaker")
	for _, name := range []string{"worker.py", "code/worker.py", "data/a"} {
		put(t, filepath.Join(h.work, name), []byte("print(1)\n"))
	}
	for _, project := range [][2]string{{"ssm-ex", ""}, {"train-1", ""}, {filepath.Base(h.work), ""}, {"ssm-ex", "/team"}} {
		h.drover(t, 0, "target", "up", "sagemaker", "--yes", "--store", "s3://bucket"+project[1], "-p", project[0])
	}

	listed := map[string]map[string]bool{"Beside simple-sagemaker": {}, "Beside the SDK's estimator": {}} // whether the field was seen to differ
	for heading := range listed {
		for _, field := range rows(t, heading) {
			listed[heading][field] = false
		}
	}
	for i, one := range all {
		if !slices.Equal(one.Args, lines[i]) {
			t.Fatalf("line %d was not recorded: %s", i+1, lines[i])
		}
		request := a.ask(t, h, one.asDrover()...)
		kind := strings.TrimPrefix(one.Operation, "Create")
		named := request[kind+"Name"]
		text, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		request = nil
		if err := json.Unmarshal(droversNames.ReplaceAll(text, []byte("JOB")), &request); err != nil {
			t.Fatal(err)
		}
		request[kind+"Name"] = named
		heading := "Beside simple-sagemaker"
		if one.Args[0] == "estimator" {
			heading = "Beside the SDK's estimator"
		}
		theirs, ours := map[string]string{}, map[string]string{}
		fields("", one.Request, theirs)
		fields("", request, ours)
		both := maps.Clone(theirs)
		maps.Copy(both, ours)
		for _, field := range slices.Sorted(maps.Keys(both)) {
			if theirs[field] == ours[field] {
				continue
			}
			row := ""
			for name := range listed[heading] {
				if field == name || strings.HasPrefix(field, name+".") || strings.HasSuffix(name, "*") && strings.HasPrefix(field, strings.TrimSuffix(name, "*")) {
					row = name
				}
			}
			if row == "" {
				t.Errorf("%s: %s is %q there and %q here", strings.Join(one.Args, " "), field, theirs[field], ours[field][:min(len(ours[field]), 80)])
				continue
			}
			listed[heading][row] = true
		}
	}
	for heading, fields := range listed {
		for field, differs := range fields {
			if !differs {
				t.Errorf("%s: %s is listed, and does not differ", heading, field)
			}
		}
	}
}
