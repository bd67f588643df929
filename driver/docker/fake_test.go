package docker

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

var update = flag.Bool("update", false, "write the golden requests anew")

// daemon is a fake that answers what it was told to and keeps what it was asked:
// for the requests alone. What docker does is proved by a real one.
type daemon struct {
	mu      sync.Mutex
	answers map[string]string // by "METHOD /path", the longest beginning counts: "status body"
	asked   []string          // "METHOD /path?query" and the body, in order
}

var version = regexp.MustCompile(`^/v1\.\d+`)

func (f *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := version.ReplaceAllString(r.URL.Path, "")
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("API-Version", "1.41")
	if path == "/_ping" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	line := r.Method + " " + path
	if r.Method != http.MethodGet {
		if r.URL.RawQuery != "" {
			line += "?" + r.URL.RawQuery
		}
		f.asked = append(f.asked, line+"\n"+string(body))
	}
	best := ""
	for key := range f.answers {
		if strings.HasPrefix(r.Method+" "+path, key) && len(key) > len(best) {
			best = key
		}
	}
	status, text := 404, `{"message":"no such thing"}`
	if best != "" {
		code, rest, _ := strings.Cut(f.answers[best], " ")
		fmt.Sscan(code, &status)
		text = rest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// fake starts one, and points this process at it.
func fake(t *testing.T, answers map[string]string) *daemon {
	t.Helper()
	f := &daemon{answers: map[string]string{
		"GET /info":               `200 {"NCPU":8,"MemTotal":34359738368,"DockerRootDir":"/tmp","OSType":"linux","SecurityOptions":["name=seccomp,profile=default"]}`,
		"GET /images/":            `200 {"Id":"sha256:0123456789abcdef0123","Config":{"Env":["PATH=/opt/conda/bin:/bin","LANG=C.UTF-8"]}}`,
		"GET /networks":           `200 []`,
		"POST /networks/create":   `201 {"Id":"n1"}`,
		"POST /containers/create": `201 {"Id":"c1"}`,
		"POST /containers/":       `204 `,
		"DELETE /containers/":     `204 `,
	}}
	for k, v := range answers {
		f.answers[k] = v
	}
	path := filepath.Join(t.TempDir(), "docker.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(f)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	t.Setenv("DOCKER_HOST", "unix://"+path)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("DOCKER_API_VERSION", "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	return f
}

// wanted is a request that uses all there is.
func wanted(t *testing.T, dir string) driver.Request {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"drover", "uv", "store", "data", "items"} {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return driver.Request{Job: "abcd2345", Placement: 1, Agents: 1,
		Needs: driver.Needs{Agents: 1, CPUs: 1.5, Memory: 2 << 30, Place: driver.Place{
			Image:  "example.com/team/train:2",
			Mounts: []job.Mount{{Source: files["data"], Target: "/data", ReadOnly: true}},
			Seen:   []string{files["items"], files["store"]},
		}},
		Run: driver.Boot{Binary: files["drover"], Store: files["store"], Job: "p/t/abcd2345", Env: []string{"COLOR=red"},
			Folders: []string{files["store"]}, Tools: []string{files["uv"]}}}
}

func TestRequestsAreAsTheyAreWritten(t *testing.T) {
	root := caller{name: "root"}
	for name, c := range map[string]struct {
		who   caller
		spoil func(*driver.Request)
	}{
		"root":  {root, func(*driver.Request) {}},
		"plain": {caller{uid: 1000, gid: 1000, groups: []int{1000, 27, 998}, name: "mia"}, func(r *driver.Request) { r.Needs.Memory = 0 }},
		"gpus": {root, func(r *driver.Request) {
			r.Needs = driver.Needs{Agents: 2, GPUs: 2, Place: driver.Place{Python: "3.12.4", Nodes: 2, Shm: 1 << 30}}
			r.Agents = 2
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := fake(t, nil)
			dir := t.TempDir()
			d := New(filepath.Join(dir, "placements"), filepath.Join(dir, "claims"))
			d.who = func() caller { return c.who }
			r := wanted(t, dir)
			c.spoil(&r)
			if _, err := d.Start(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if err := d.Stop(t.Context(), driver.Handle{Target: Name, Job: r.Job, Placement: 1}, 0, false); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for _, asked := range f.asked {
				line, body, _ := strings.Cut(asked, "\n")
				fmt.Fprintln(&got, line)
				if body == "" {
					continue
				}
				if err := json.Indent(&got, []byte(body), "", "  "); err != nil {
					t.Fatal(err)
				}
				got.WriteByte('\n')
			}
			text := strings.ReplaceAll(got.String(), dir, "/DIR")
			text = regexp.MustCompile(`"drover.uid": "\d+"`).ReplaceAllString(text, `"drover.uid": "UID"`)
			golden := filepath.Join("testdata", "requests-"+name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Errorf("go test ./driver/docker -update writes them anew (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatDockerRefusesIsAFaultAndLeavesNothing(t *testing.T) {
	pulled := func(words string) map[string]string {
		return map[string]string{"GET /images/": `404 {"message":"No such image"}`, "POST /images/create": words}
	}
	for name, c := range map[string]struct {
		answers map[string]string
		kind    fault.Kind
		hint    string
	}{
		"no such image":   {pulled(`404 {"message":"manifest for x:1 not found: manifest unknown"}`), fault.Invalid, "--image"},
		"a private image": {pulled(`500 {"message":"unauthorized: authentication required"}`), fault.Denied, "docker login"},
		"too many pulls":  {pulled(`500 {"message":"toomanyrequests: You have reached your pull rate limit"}`), fault.Full, "docker login"},
		"no network":      {pulled(`500 {"message":"Get \"https://r/v2/\": dial tcp: lookup r: no such host"}`), fault.Full, "docker pull"},
		"a pull that fails late": {pulled(`200 {"status":"Pulling"}
{"errorDetail":{"message":"write /var/lib/docker/x: no space left on device"},"error":"write: no space left on device"}
`), fault.Full, "docker system prune"},
		"a full disk":        {map[string]string{"POST /containers/create": `500 {"message":"mkdir: no space left on device"}`}, fault.Full, "docker system prune"},
		"nonsense":           {map[string]string{"POST /containers/create": `400 {"message":"invalid mount config"}`}, fault.Invalid, ""},
		"no way to a GPU":    {map[string]string{"POST /containers/drover-abcd2345-1-0/start": `500 {"message":"could not select device driver \"\" with capabilities: [[gpu]]"}`}, fault.Invalid, "nvidia-container-toolkit"},
		"another's name":     {map[string]string{"POST /containers/create": `409 {"message":"Conflict"}`, "GET /containers/drover-": `200 {"Id":"c9","State":{"Status":"running"},"Config":{"Labels":{}}}`}, fault.Denied, "docker inspect"},
		"a file on a folder": {map[string]string{"POST /containers/drover-abcd2345-1-0/start": `500 {"message":"OCI runtime create failed: error mounting /a to rootfs: not a directory"}`}, fault.Invalid, "--mount"},
		"a daemon in pain":   {map[string]string{"POST /containers/create": `500 {"message":"internal"}`}, fault.Lost, "docker info"},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, c.answers)
			dir := t.TempDir()
			d := New(filepath.Join(dir, "placements"), "")
			_, err := d.Start(t.Context(), wanted(t, dir))
			if fault.KindOf(err) != c.kind || !strings.Contains(fault.Hint(err), c.hint) {
				t.Errorf("Start gives %v, kind %s, hint %q; want %s and %q", err, fault.KindOf(err), fault.Hint(err), c.kind, c.hint)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "placements", "*-*")); len(left) != 0 {
				t.Errorf("it leaves %v", left)
			}
		})
	}
}

func TestWithoutADaemonOneSentenceSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	for host, want := range map[string]string{
		"unix://" + dir + "/none.sock": "systemctl start docker",
		"tcp://10.0.0.1:2376":          "Unset DOCKER_HOST",
	} {
		t.Setenv("DOCKER_HOST", host)
		d := New(filepath.Join(dir, "placements"), "")
		_, offer := d.Offer(t.Context(), driver.Needs{Agents: 1})
		_, start := d.Start(t.Context(), wanted(t, dir))
		for _, err := range []error{offer, start} {
			if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), want) {
				t.Errorf("%s: %v, hint %q; want it to say %q", host, err, fault.Hint(err), want)
			}
		}
		if held, err := d.List(t.Context()); err != nil || len(held) != 0 {
			t.Errorf("%s: List gives %v, %v; want nothing, as nothing was started", host, held, err)
		}
	}
}

// A socket that is not there is no placement that is not there.
func TestAStopThatReachesNoDaemonSaysSo(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+t.TempDir()+"/none.sock")
	d := New(t.TempDir(), "")
	h := driver.Handle{Target: Name, Job: "abcd2345", Placement: 1}
	dir, _ := d.placementFolder(h)
	if err := d.publishFolder(dir, request{Agents: 1}); err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(t.Context(), h, 0, true); fault.KindOf(err) != fault.Lost || !strings.Contains(fault.Hint(err), "systemctl start docker") {
		t.Errorf("Stop gives %v, kind %s, hint %q; want what to do", err, fault.KindOf(err), fault.Hint(err))
	}
}

func TestADaemonThatIsSilentIsSaidToBe(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "d.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it accepts no connection
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	d := New(t.TempDir(), "")
	d.daemon.patience = time.Millisecond
	_, err = d.Offer(t.Context(), driver.Needs{Agents: 1})
	if fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), "not answered for 1ms") || !strings.Contains(fault.Hint(err), "docker info") {
		t.Errorf("got %v, kind %s, hint %q", err, fault.KindOf(err), fault.Hint(err))
	}
}

func TestAnOfferAsksTheRegistryOnce(t *testing.T) {
	place := driver.Place{Image: "example.com/x:1"}
	missing := map[string]string{"GET /images/": `404 {"message":"No such image"}`}
	f := fake(t, missing)
	o, err := New(t.TempDir(), "").Offer(t.Context(), driver.Needs{Agents: 1, Place: place})
	if err != nil || o.Fits || !strings.Contains(o.Reason, "example.com/x:1") || !strings.Contains(o.Hint, "--image") {
		t.Errorf("without the image the offer is %+v, %v", o, err)
	}
	f.answers["GET /distribution/"] = `200 {"Descriptor":{"digest":"sha256:1"}}`
	if o, err := New(t.TempDir(), "").Offer(t.Context(), driver.Needs{Agents: 1, Place: place}); err != nil || !o.Fits {
		t.Errorf("with the image at its registry the offer is %+v, %v", o, err)
	}
	if o, err := New(t.TempDir(), "").Offer(t.Context(), driver.Needs{Agents: 1, Disk: 1 << 60, Place: place}); err != nil || o.Fits || !strings.HasPrefix(o.Reason, "docker has a disk of ") {
		t.Errorf("with more disk than there is the offer is %+v, %v", o, err)
	}
	delete(f.answers, "GET /distribution/")
	place.Later = true
	if o, err := New(t.TempDir(), "").Offer(t.Context(), driver.Needs{Agents: 1, Place: place}); err != nil || !o.Fits {
		t.Errorf("with an image that is made later the offer is %+v, %v", o, err)
	}
	if len(f.asked) != 0 {
		t.Errorf("offers have changed something: %q", f.asked)
	}
	delete(f.answers, "GET /images/")
	f.answers["GET /images/"] = `400 {"message":"invalid reference format"}`
	_, err = New(t.TempDir(), "").Offer(t.Context(), driver.Needs{Agents: 1, Place: driver.Place{Image: "tar:/x"}})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "python:3.12-slim") {
		t.Errorf("for a name that docker cannot read the offer is %v", err)
	}
	delete(f.answers, "GET /images/")
	place = driver.Place{Image: "UPPER/:"}
	if o, err := New(t.TempDir(), "").Offer(t.Context(), driver.Needs{Agents: 1, Place: place}); err != nil || o.Fits || !strings.Contains(o.Reason, "UPPER") {
		t.Errorf("for a name that is none the offer is %+v, %v", o, err)
	}
}
