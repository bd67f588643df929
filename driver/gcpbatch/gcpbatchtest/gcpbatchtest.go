// Package gcpbatchtest is a fake of one project of Google Cloud: Google Batch with jobs, tasks with their events, retries by lifecycle policies, and
// machines that are taken; and of Secret Manager, Cloud Logging, IAM and the others what drover asks. Tasks are processes, which begin with the script of
// their job; a container is the process that its image would begin.
//
// Each request and each answer is held to Google's discovery documents (package discovery). What these do not say is by recorded facts: a job
// fails as soon as a task has failed for good; a task that ends well has no exit code in its events (nextflow#6977); a quota that is used up is told by an event
// of the job alone, which waits (dsub#303); what has lost its machine ends with 50001 and the like (cromwell#7783). Nothing of it was seen at Google.
package gcpbatchtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/driver/gcpbatch/batchapi"
	"github.com/drover-run/drover/driver/gcpbatch/gcpbatchtest/discovery"
)

// The project and the region that there are.
const (
	Project = "demo-project"
	Region  = "europe-west1"
)

// Account is the service account that jobs may use.
const Account = "agents@demo-project.iam.gserviceaccount.com"

// The tokens of a user, and of machines.
const (
	userToken    = "ya29.user"
	machineToken = "ya29.machine"
)

// Server is the fake.
type Server struct {
	IAM *IAM

	t    testing.TB
	http *httptest.Server
	apis map[string]*discovery.Document // by service
	dir  string
	all  sync.WaitGroup // processes
	// docker is the socket of a Docker that runs containers; "": they are processes of this machine.
	docker string

	mu        sync.Mutex
	jobs      map[string]*job // by id
	order     []string        // ids, as they were created
	secrets   map[string][]byte
	quotas    map[string]float64 // of the region
	requests  map[string]int     // by method
	calls     []string
	served    int
	forbidden []string // permissions that the user does not have
	knobs     knobs
}

// knobs are how the server misbehaves.
type knobs struct {
	held     string // jobs stay queued, with this event; "": they do not
	heldSpot bool   // those of spot capacity alone
	lose     bool   // no answer to a create
	loseAt   int    // no answer to the request of this number, from 1; 0: to none
	throttle int    // requests that are refused
	denied   string // what requests are refused with
	deniedOf string // which: those of a service, as batch
	isolated bool   // machines have no network
}

// New makes a fake, which ends with the test: so does all that it has started.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, apis: map[string]*discovery.Document{}, dir: t.TempDir(), jobs: map[string]*job{}, secrets: map[string][]byte{}, quotas: map[string]float64{}, requests: map[string]int{}}
	s.IAM = newIAM(&s.mu)
	for _, service := range services {
		api, err := discovery.Read(service)
		if err != nil {
			t.Fatal(err)
		}
		s.apis[service] = api
	}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.mu.Lock()
		for _, j := range s.jobs {
			j.deleted = true
			j.kill()
		}
		s.mu.Unlock()
		s.all.Wait()
		s.http.Close()
	})
	return s
}

// UseDocker has containers be those of a real Docker at a socket, so that agents have files of their own.
func (s *Server) UseDocker(socket string) { s.docker = socket }

// At is the address of a service.
func (s *Server) At(service string) string { return s.http.URL + "/" + service }

// Token is a user's.
func (s *Server) Token() string { return userToken }

// Environ has a command find the project and the region.
func (s *Server) Environ() map[string]string {
	all := map[string]string{"GCE_METADATA_HOST": strings.TrimPrefix(s.http.URL, "http://"), "GOOGLE_CLOUD_PROJECT": Project, "CLOUDSDK_COMPUTE_REGION": Region}
	for _, service := range services {
		all["CLOUDSDK_API_ENDPOINT_OVERRIDES_"+strings.ToUpper(service)] = s.At(service)
	}
	return all
}

// refusal is an answer that refuses.
type refusal struct {
	code          int
	status, words string
}

func (r *refusal) Error() string { return r.words }

func refuse(code int, status, words string, args ...any) error {
	return &refusal{code, status, fmt.Sprintf(words, args...)}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	service, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	r.URL.Path = "/" + rest
	var out any
	switch service {
	case "computeMetadata":
		serveToken(w, r, userToken)
		return
	default:
		out, err = s.answer(service, r, body)
	}
	s.mu.Lock()
	s.served++
	lost := s.served == s.knobs.loseAt || s.knobs.lose && err == nil && r.Method == http.MethodPost && strings.HasSuffix(rest, "/jobs")
	s.mu.Unlock()
	if lost {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if refused, ok := err.(*refusal); ok {
		w.WriteHeader(refused.code)
		out = map[string]any{"error": map[string]any{"code": refused.code, "message": refused.words, "status": refused.status}}
	}
	_ = json.NewEncoder(w).Encode(out) // the client may be gone
}

// serveToken is the part of a metadata server that gives tokens.
func serveToken(w http.ResponseWriter, r *http.Request, token string) {
	w.Header().Set("Metadata-Flavor", "Google")
	switch {
	case r.Header.Get("Metadata-Flavor") != "Google" && strings.Trim(r.URL.Path, "/") != "":
		w.WriteHeader(http.StatusForbidden)
	case strings.HasSuffix(r.URL.Path, "/service-accounts/default/token"):
		fmt.Fprintf(w, `{"access_token": %q, "expires_in": 3000, "token_type": "Bearer"}`, token)
	case strings.HasSuffix(r.URL.Path, "/project/project-id"):
		fmt.Fprint(w, Project)
	case strings.Trim(r.URL.Path, "/") != "":
		w.WriteHeader(http.StatusNotFound)
	}
}

var (
	jobsPath   = regexp.MustCompile(`^/v1/projects/([^/]+)/locations/([^/]+)/jobs(?:/([^/:]+))?(:cancel|/taskGroups/group0/tasks)?$`)
	filterForm = regexp.MustCompile(`^labels\.([a-z_]+)="([a-z0-9_-]*)"$`)
)

// batch serves Google Batch. The caller holds mu.
func (s *Server) batch(r *http.Request, body []byte) (any, error) {
	at := jobsPath.FindStringSubmatch(r.URL.Path)
	switch {
	case at == nil:
		return nil, refuse(404, "NOT_FOUND", "the fake has no %s", r.URL.Path)
	case at[1] != Project:
		return nil, refuse(403, "PERMISSION_DENIED", "Permission 'batch.jobs.list' denied on 'projects/%s/locations/%s' (or it may not exist).", at[1], at[2])
	case at[2] != Region:
		return nil, refuse(404, "NOT_FOUND", "Location %s is not found or access is unauthorized.", at[2])
	}
	for _, j := range s.jobs {
		j.age()
	}
	id, verb := at[3], at[4]
	switch {
	case r.Method == http.MethodPost && id == "":
		return s.create(r.URL.Query().Get("jobId"), r.URL.Query().Get("requestId"), body)
	case id == "":
		return s.list(r.URL.Query().Get("filter"))
	}
	j := s.jobs[id]
	if j == nil {
		return nil, refuse(404, "NOT_FOUND", "Resource 'projects/%s/locations/%s/jobs/%s' was not found", Project, Region, id)
	}
	switch {
	case verb == ":cancel":
		j.cancel()
		return map[string]any{"name": "operations/cancel-" + id, "done": false}, nil
	case r.Method == http.MethodDelete:
		j.delete()
		return map[string]any{"name": "operations/delete-" + id, "done": false}, nil
	case verb != "":
		return j.list(r.URL.Query().Get("pageToken"))
	}
	return j.show(), nil
}

// create creates a job, and begins it.
func (s *Server) create(id, request string, body []byte) (any, error) {
	if !regexp.MustCompile(`^[a-z][a-z0-9-]{0,61}[a-z0-9]$`).MatchString(id) {
		return nil, refuse(400, "INVALID_ARGUMENT", "job id %q is not valid", id)
	}
	if there := s.jobs[id]; there != nil {
		if there.request == request {
			return there.show(), nil
		}
		return nil, refuse(409, "ALREADY_EXISTS", "Resource 'projects/%s/locations/%s/jobs/%s' already exists", Project, Region, id)
	}
	j := &job{s: s, id: id, request: request, state: batchapi.JobQueued, created: time.Now(), changed: time.Now()}
	if err := json.Unmarshal(body, &j.in); err != nil {
		return nil, refuse(400, "INVALID_ARGUMENT", "%v", err)
	}
	if err := j.check(); err != nil {
		return nil, err
	}
	s.jobs[id] = j
	s.order = append(slices.DeleteFunc(s.order, func(o string) bool { return o == id }), id)
	j.note("Job state is set from UNSPECIFIED to QUEUED for job " + j.name() + ".")
	if s.knobs.held != "" && (!s.knobs.heldSpot || j.in.AllocationPolicy.Instances[0].Policy.ProvisioningModel == "SPOT") {
		j.note(s.knobs.held)
		return j.show(), nil
	}
	j.begin()
	return j.show(), nil
}

// list gives the jobs with a label.
func (s *Server) list(filter string) (any, error) {
	label := filterForm.FindStringSubmatch(filter)
	if filter != "" && label == nil {
		return nil, refuse(400, "INVALID_ARGUMENT", "Invalid filter %s", filter)
	}
	all := []batchapi.Job{}
	for _, id := range s.order {
		if j := s.jobs[id]; j != nil && (label == nil || j.in.Labels[label[1]] == label[2]) {
			all = append(all, j.show())
		}
	}
	return map[string]any{"jobs": all}, nil
}

var secretsPath = regexp.MustCompile(`^/v1/projects/` + Project + `/secrets(?:/([A-Za-z0-9_-]+))?(:addVersion|:setIamPolicy|/versions/latest:access)?$`)

// secret serves Secret Manager: machines alone may read what users alone may write. The caller holds mu.
func (s *Server) secret(r *http.Request, body []byte) (any, error) {
	at := secretsPath.FindStringSubmatch(r.URL.Path)
	if at == nil {
		return nil, refuse(404, "NOT_FOUND", "the fake has no %s", r.URL.Path)
	}
	name := at[1]
	_, there := s.secrets[name]
	reads := at[2] == "/versions/latest:access"
	switch {
	case name == "":
		id := r.URL.Query().Get("secretId")
		if _, there := s.secrets[id]; there {
			return nil, refuse(409, "ALREADY_EXISTS", "Secret [projects/1/secrets/%s] already exists.", id)
		}
		s.secrets[id] = nil
		return map[string]any{"name": "projects/1/secrets/" + id}, nil
	case !there:
		return nil, refuse(404, "NOT_FOUND", "Secret [projects/1/secrets/%s] not found.", name)
	case r.Method == http.MethodDelete:
		delete(s.secrets, name)
	case at[2] == ":addVersion":
		var in struct{ Payload struct{ Data []byte } }
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, refuse(400, "INVALID_ARGUMENT", "%v", err)
		}
		s.secrets[name] = in.Payload.Data
	case reads:
		return map[string]any{"payload": map[string]any{"data": s.secrets[name]}}, nil
	}
	return map[string]any{}, nil
}

// turn changes how the server misbehaves.
func (s *Server) turn(change func(*knobs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.knobs)
}

// Hold has jobs stay queued from now on, with an event in Google's words.
func (s *Server) Hold(event string) { s.turn(func(k *knobs) { k.held = event }) }

// HoldSpot is Hold for jobs of spot capacity alone.
func (s *Server) HoldSpot(event string) { s.turn(func(k *knobs) { k.held, k.heldSpot = event, true }) }

// Release has them begin.
func (s *Server) Release() {
	s.turn(func(k *knobs) { k.held = "" })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.order {
		if j := s.jobs[id]; j != nil && j.state == batchapi.JobQueued {
			j.begin()
		}
	}
}

// LoseCreate loses the answers to requests that create jobs.
func (s *Server) LoseCreate(lose bool) { s.turn(func(k *knobs) { k.lose = lose }) }

// LoseAnswer loses the answer to the n-th request, which is done.
func (s *Server) LoseAnswer(n int) { s.turn(func(k *knobs) { k.loseAt = n }) }

// Throttle refuses the next n requests.
func (s *Server) Throttle(n int) { s.turn(func(k *knobs) { k.throttle = n }) }

// Deny refuses all requests of a service, as batch, with words; "": none.
func (s *Server) Deny(service, words string) {
	s.turn(func(k *knobs) { k.deniedOf, k.denied = service, words })
}

// Isolate has machines that begin from now on have no network at all, as those without an external address and without Private Google Access; it needs root.
func (s *Server) Isolate(all bool) { s.turn(func(k *knobs) { k.isolated = all }) }

// Jobs are the ids of jobs that there are.
func (s *Server) Jobs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.order), func(id string) bool { return s.jobs[id] == nil })
}

// State is that of a job; "": there is none.
func (s *Server) State(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil {
		return j.state
	}
	return ""
}

// Secrets is how many secrets there are.
func (s *Server) Secrets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.secrets)
}

// Asked is what a job was asked for with.
func (s *Server) Asked(id string) (in batchapi.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil {
		in = j.in
	}
	return in
}

// Occupy has a job of another maker be there.
func (s *Server) Occupy(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := &job{s: s, id: id, request: "another", state: batchapi.JobQueued, created: time.Now(), changed: time.Now()}
	j.in.TaskGroups = []batchapi.TaskGroup{{TaskCount: 1, TaskSpec: batchapi.TaskSpec{Runnables: []batchapi.Runnable{}}}}
	s.jobs[id] = j
	s.order = append(s.order, id)
}
