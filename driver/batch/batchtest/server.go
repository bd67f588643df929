// Package batchtest is a fake of AWS Batch, and of CloudFormation, Secrets Manager and CloudWatch Logs beside it:
// one region of one account, which answers the requests that packages batch and stack send. It refuses members that it does not know, and some names, values and sizes that
// AWS documents as refused. It is not held to the vendor's service models.
// Containers are processes of this machine with the container's variables and command.
//
// What AWS does was taken from its documentation and never seen here; what this server does is no claim
// about AWS.
package batchtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/drover-run/drover/cloud/amazon/quota/quotatest"
	"github.com/drover-run/drover/cloud/amazon/registry/registrytest"
	"github.com/drover-run/drover/cloud/amazon/secret/secrettest"
	"github.com/drover-run/drover/driver/stack/stacktest"
)

// The account and region of the fake.
const (
	Account = "123456789012"
	Region  = "eu-west-1"
)

// Queue is the job queue that there is from the start.
const Queue = "train"

// Server is the fake.
type Server struct {
	Stacks *stacktest.Stacks    // of CloudFormation
	Images *registrytest.Server // of ECR
	Quotas *quotatest.Quotas
	http   *httptest.Server
	dir    string
	all    sync.WaitGroup // processes
	// container gives the process of a container
	container func(Container) *exec.Cmd

	mu           sync.Mutex
	definitions  definitions
	jobs         map[string]*job // by id: those without children, and children
	arrays       map[string]*array
	order        []string // ids of what was submitted
	queues       catalogue
	environments catalogue
	knobs        knobs
	requests     map[string]int    // by operation
	sent         map[string]string // the newest body of each
	secrets      secrettest.Secrets
	role         [2]string // the key and the secret that containers get
}

// object is a part of an answer.
type object = map[string]any

// knobs are how the server misbehaves.
type knobs struct {
	loseSubmit bool   // the next SubmitJob happens, and its answer is lost
	throttle   int    // so many requests are refused as too many
	hidden     int    // ListJobs does not show a new job for so many calls
	held       bool   // jobs stay RUNNABLE
	reason     string // with this reason
	denied     string // an operation that the user may not do
	broken     string // an operation that fails in AWS itself
}

// New starts a fake with a queue; it ends with the test.
func New(t *testing.T) *Server {
	s := &Server{dir: t.TempDir(), container: process, role: [2]string{"ASIAROLE", "of the role"},
		definitions: definitions{}, jobs: map[string]*job{}, arrays: map[string]*array{}, requests: map[string]int{}, sent: map[string]string{}, secrets: secrettest.Secrets{}}
	s.Quotas = newQuotas()
	s.Images = registrytest.New(t)
	s.Stacks = newStacks(s)
	s.queues = catalogue{Queue: {"jobQueueName": Queue, "jobQueueArn": arn("job-queue/" + Queue), "state": "ENABLED", "status": "VALID", "statusReason": "JobQueue Healthy", "priority": 1,
		"tags":                    object{"drover-job-role": "arn:aws:iam::" + Account + ":role/train"},
		"computeEnvironmentOrder": []object{{"order": 1, "computeEnvironment": arn("compute-environment/machines")}}}}
	s.environments = catalogue{"machines": {"computeEnvironmentName": "machines", "computeEnvironmentArn": arn("compute-environment/machines"), "type": "MANAGED", "state": "ENABLED", "status": "VALID",
		"computeResources": object{"type": "EC2", "minvCpus": 0, "maxvCpus": 256, "instanceTypes": []string{"default_x86_64"}, "subnets": []string{"subnet-1"}}}}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.close)
	return s
}

func arn(what string) string { return "arn:aws:batch:" + Region + ":" + Account + ":" + what }

// rolePath is where containers get the credentials of their role.
const rolePath = "/role"

// URL is the fake's address, for each of its services.
func (s *Server) URL() string { return s.http.URL }

// Environ are the variables with which this machine reaches the fake.
func (s *Server) Environ() map[string]string {
	return map[string]string{"AWS_ENDPOINT_URL_BATCH": s.http.URL, "AWS_ENDPOINT_URL_SECRETS_MANAGER": s.http.URL, "AWS_ENDPOINT_URL_CLOUDFORMATION": s.http.URL, "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": s.http.URL, "AWS_ENDPOINT_URL_ECR": s.http.URL, "AWS_ENDPOINT_URL_SERVICE_QUOTAS": s.http.URL, "AWS_REGION": Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest", "AWS_EC2_METADATA_DISABLED": "true"}
}

func (s *Server) close() {
	s.mu.Lock()
	for _, j := range s.jobs {
		j.kill()
	}
	s.mu.Unlock()
	s.all.Wait()
	s.http.Close()
}

// refusal is an answer of the kind ClientException.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

func refuse(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

// operations are what the fake answers, by the path of the request.
var operations = map[string]func(*Server, []byte) (any, error){
	"/v1/describejobqueues":           (*Server).describeQueues,
	"/v1/describecomputeenvironments": (*Server).describeEnvironments,
	"/v1/describejobdefinitions":      func(s *Server, body []byte) (any, error) { return s.definitions.describe(body) },
	"/v1/registerjobdefinition":       func(s *Server, body []byte) (any, error) { return s.definitions.register(body) },
	"/v1/deregisterjobdefinition":     func(s *Server, body []byte) (any, error) { return s.definitions.deregister(body) },
	"/v1/submitjob":                   (*Server).submit,
	"/v1/listjobs":                    (*Server).list,
	"/v1/describejobs":                (*Server).describe,
	"/v1/terminatejob":                (*Server).terminate,
	"/v1/getjobqueuesnapshot":         (*Server).snapshot,
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is cut off is no JSON
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == rolePath {
		_ = json.NewEncoder(w).Encode(object{"RoleArn": "arn:aws:iam::" + Account + ":role/train", "AccessKeyId": s.role[0], "SecretAccessKey": s.role[1], "Token": "", "Expiration": "2099-01-01T00:00:00Z"})
		return
	}
	s.requests[r.URL.Path]++
	s.sent[r.URL.Path] = string(body)
	w.Header().Set("Content-Type", "application/json")
	if s.knobs.throttle > 0 {
		s.knobs.throttle--
		fail(w, http.StatusTooManyRequests, "TooManyRequestsException", "Too Many Requests")
		return
	}
	if r.Header.Get("Authorization") == "" {
		fail(w, http.StatusForbidden, "MissingAuthenticationTokenException", "Missing Authentication Token")
		return
	}
	if denied := s.knobs.denied; denied != "" && (denied == secrettest.Operation(r) || "/v1/"+denied == r.URL.Path) {
		fail(w, http.StatusForbidden, "AccessDeniedException", "User: arn:aws:iam::"+Account+":user/ann is not authorized to perform: "+denied)
		return
	}
	if broken := s.knobs.broken; broken != "" && (broken == secrettest.Operation(r) || "/v1/"+broken == r.URL.Path) {
		fail(w, http.StatusInternalServerError, "InternalServiceError", "An error occurred on the server side.")
		return
	}
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetLogEvents") {
		answerLogs(w, body, s.dir, s.knobs.denied == "GetLogEvents")
		return
	}
	if quotatest.Asks(r) {
		s.Quotas.Answer(w, body, s.knobs.denied == "ListServiceQuotas")
		return
	}
	if strings.HasPrefix(r.Header.Get("X-Amz-Target"), registrytest.Service) {
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.Images.ServeHTTP(w, r)
		return
	}
	if operation := secrettest.Operation(r); operation != "" {
		s.secrets.Answer(w, operation, body)
		return
	}
	if r.URL.Path == "/" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		s.Stacks.Answer(w, body)
		return
	}
	answer, known := operations[r.URL.Path]
	if !known || r.Method != http.MethodPost {
		fail(w, http.StatusForbidden, "AccessDeniedException", r.Method+" "+r.URL.Path+" is not of this fake")
		return
	}
	out, err := answer(s, body)
	if err != nil {
		fail(w, http.StatusBadRequest, "ClientException", err.Error())
		return
	}
	if r.URL.Path == "/v1/submitjob" && s.knobs.loseSubmit {
		s.knobs.loseSubmit = false
		panic(http.ErrAbortHandler) // the connection ends without an answer
	}
	_ = json.NewEncoder(w).Encode(out) // the client sees a short answer
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Amzn-Errortype", code)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"message": message})
}

// decode reads a request, which has no members but those of v.
func decode(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return refuse("%v", err)
	}
	return nil
}

// UseContainers has each container run as the process that run gives, instead of one of this machine;
// key and secret are the role's. It is called before the first job.
func (s *Server) UseContainers(run func(Container) *exec.Cmd, key, secret string) {
	s.container, s.role = run, [2]string{key, secret}
}

// turn changes the knobs.
func (s *Server) turn(change func(*knobs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.knobs)
}

// LoseSubmit has the next SubmitJob happen without an answer.
func (s *Server) LoseSubmit() { s.turn(func(k *knobs) { k.loseSubmit = true }) }

// Throttle refuses the next n requests as too many.
func (s *Server) Throttle(n int) { s.turn(func(k *knobs) { k.throttle = n }) }

// HideNew has ListJobs leave new jobs out of so many answers.
func (s *Server) HideNew(answers int) { s.turn(func(k *knobs) { k.hidden = answers }) }

// Hold keeps jobs RUNNABLE, with AWS's reason for it.
func (s *Server) Hold() {
	s.HoldFor("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement (vCPU/memory/GPU) is higher than that can be met by the CE(s) attached to the job queue.")
}

// HoldFor keeps jobs RUNNABLE, with a reason of the caller's; "": with none, as those that are not at the head of their
// queue.
func (s *Server) HoldFor(reason string) { s.turn(func(k *knobs) { k.held, k.reason = true, reason }) }

// Deny takes the right to an operation away, such as submitjob, or CreateSecret of Secrets Manager.
func (s *Server) Deny(operation string) { s.turn(func(k *knobs) { k.denied = operation }) }

// Break has an operation fail in AWS itself.
func (s *Server) Break(operation string) { s.turn(func(k *knobs) { k.broken = operation }) }

// AddQueue adds a queue that is only listed.
func (s *Server) AddQueue(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[name] = object{"jobQueueName": name, "jobQueueArn": arn("job-queue/" + name), "state": "ENABLED", "status": "VALID"}
}

// RemoveQueue removes a queue.
func (s *Server) RemoveQueue(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queues, name)
}

// SetQueue changes fields of the queue's description.
func (s *Server) SetQueue(fields map[string]any) { s.set(s.queues[Queue], fields) }

// SetResources changes fields of the compute environment's resources.
func (s *Server) SetResources(fields map[string]any) {
	s.set(s.environments["machines"]["computeResources"].(object), fields)
}

// SetEnvironment changes fields of the compute environment's description.
func (s *Server) SetEnvironment(fields map[string]any) { s.set(s.environments["machines"], fields) }

func (s *Server) set(o object, fields map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, value := range fields {
		o[name] = value
	}
}

// Requests is how often an operation was asked for, such as submitjob.
func (s *Server) Requests(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests["/v1/"+operation]
}

// Sent is the body of the newest request for an operation.
func (s *Server) Sent(operation string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent["/v1/"+operation]
}

// Secrets is how many secrets there are.
func (s *Server) Secrets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.secrets)
}

// Submitted is how many jobs and arrays were submitted.
func (s *Server) Submitted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

// Definitions are the registered definitions, as they were sent.
func (s *Server) Definitions() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.definitions {
		text, _ := json.Marshal(d)
		all = append(all, string(text))
	}
	return all
}
