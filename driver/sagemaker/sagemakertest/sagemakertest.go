// Package sagemakertest is a fake of SageMaker's training and processing jobs, with CloudFormation, Secrets Manager and ECR beside them: one
// region of one account. It refuses members that it does not know, and names, values and sizes that SageMaker's API reference
// excludes. Containers are processes of this machine with the container's variables and command; a folder of each stands for its /opt/ml.
//
// What SageMaker does was taken from its documentation and never seen here; what this server does is no claim about AWS.
package sagemakertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/cloud/amazon/quota/quotatest"
	"github.com/drover-run/drover/cloud/amazon/registry/registrytest"
	"github.com/drover-run/drover/cloud/amazon/secret/secrettest"
	"github.com/drover-run/drover/driver/stack/stacktest"
)

// Region is that of the fake.
const Region = "eu-west-1"

// rolePath is where containers get the credentials of their role.
const rolePath = "/role"

// stopTime is what a container has between SIGTERM and SIGKILL.
const stopTime = 120 * time.Second

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

	mu       sync.Mutex
	jobs     map[string]*job // by their ARNs
	order    []string        // ARNs of jobs, oldest first
	requests map[string]int
	sent     map[string]string // the newest body of each operation
	secrets  secrettest.Secrets
	role     [2]string // the key and the secret that containers get
	page     int       // jobs on a page of a list
	knobs    knobs
}

// knobs are how the server misbehaves.
type knobs struct {
	lose     bool   // jobs are created, and the answers are lost
	throttle int    // so many requests are refused as too many
	held     bool   // jobs stay Starting
	most     int    // jobs that may go on at once; 0: any number
	denied   string // an operation that the user may not do
}

// New starts a fake without jobs; it ends with the test.
func New(t *testing.T) *Server {
	s := &Server{Stacks: stacktest.New(), Images: registrytest.New(t), Quotas: quotatest.New(nil, func(string) string { return "sagemaker" }), page: 2, dir: t.TempDir(), container: process, role: [2]string{"ASIAROLE", "of the role"}, jobs: map[string]*job{}, requests: map[string]int{}, sent: map[string]string{}, secrets: secrettest.Secrets{}}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.mu.Lock()
		for _, j := range s.jobs {
			j.signal(syscall.SIGKILL)
		}
		s.mu.Unlock()
		s.all.Wait()
		s.http.Close()
	})
	return s
}

// URL is the fake's address, for each of its services.
func (s *Server) URL() string { return s.http.URL }

// Environ are the variables with which this machine reaches the fake.
func (s *Server) Environ() map[string]string {
	return map[string]string{"AWS_ENDPOINT_URL_SAGEMAKER": s.http.URL, "AWS_ENDPOINT_URL_SECRETS_MANAGER": s.http.URL, "AWS_ENDPOINT_URL_CLOUDFORMATION": s.http.URL, "AWS_ENDPOINT_URL_ECR": s.http.URL, "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": s.http.URL, "AWS_ENDPOINT_URL_SERVICE_QUOTAS": s.http.URL,
		"AWS_REGION": Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest", "AWS_EC2_METADATA_DISABLED": "true"}
}

func (s *Server) turn(change func(*knobs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.knobs)
}

// LoseCreate has jobs be created, and the answers be lost.
func (s *Server) LoseCreate(lose bool) { s.turn(func(k *knobs) { k.lose = lose }) }

// Throttle refuses so many requests as too many.
func (s *Server) Throttle(n int) { s.turn(func(k *knobs) { k.throttle = n }) }

// Hold has jobs find no machines.
func (s *Server) Hold() { s.turn(func(k *knobs) { k.held = true }) }

// Page is how many jobs a list has on a page, of which most are asked for at once: 2, where nothing is said.
func (s *Server) Page(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.page = n
}

// Allow is the quota of jobs that go on at once; 0: there is none.
func (s *Server) Allow(n int) { s.turn(func(k *knobs) { k.most = n }) }

// Deny has SageMaker refuse an operation to this user; "": none.
func (s *Server) Deny(operation string) { s.turn(func(k *knobs) { k.denied = operation }) }

// Requests is how often an operation was asked for.
func (s *Server) Requests(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[operation]
}

// Sent is the newest request for an operation.
func (s *Server) Sent(operation string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[operation]
}

// Jobs are the names of all jobs, oldest first.
func (s *Server) Jobs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, arn := range s.order {
		names = append(names, s.jobs[arn].in.TrainingJobName)
	}
	return names
}

// Alive is how many jobs have not ended.
func (s *Server) Alive() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.status == "InProgress" || j.status == "Stopping" {
			n++
		}
	}
	return n
}

// named is the newest job of a name, of either kind.
func (s *Server) named(name string) *job {
	if j := s.jobs[arn(name, true)]; j != nil {
		return j
	}
	return s.jobs[arn(name, false)]
}

// Secrets is how many secrets there are.
func (s *Server) Secrets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.secrets)
}

// refusal is an answer that refuses a request.
type refusal struct{ code, text string }

func (r refusal) Error() string { return r.code + ": " + r.text }

func refuse(code, format string, args ...any) error {
	return refusal{code, fmt.Sprintf(format, args...)}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is cut off is no JSON
	target := r.Header.Get("X-Amz-Target")
	if r.URL.Path == rolePath {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]string{"AccessKeyId": s.role[0], "SecretAccessKey": s.role[1], "Token": "", "Expiration": "2099-01-01T00:00:00Z"}) // the client sees a short answer
		return
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		s.Stacks.Answer(w, body)
		return
	}
	if strings.HasPrefix(target, registrytest.Service) {
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.Images.ServeHTTP(w, r)
		return
	}
	if operation, is := strings.CutPrefix(target, "Logs_20140328."); is {
		s.answerLogs(w, operation, body)
		return
	}
	if quotatest.Asks(r) {
		s.Quotas.Answer(w, body, false)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if operation := secrettest.Operation(r); operation != "" {
		s.secrets.Answer(w, operation, body)
		return
	}
	_, operation, _ := strings.Cut(target, "SageMaker.")
	s.requests[operation]++
	s.sent[operation] = string(body)
	out, err := s.answer(operation, body, r.Header.Get("Authorization") != "")
	var no refusal
	switch {
	case strings.HasPrefix(operation, "Create") && s.knobs.lose:
		panic(http.ErrAbortHandler) // the connection ends without an answer
	case errors.As(err, &no):
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": no.code, "Message": no.text}) // the client sees a short answer
	default:
		_ = json.NewEncoder(w).Encode(out) // as above
	}
}

func (s *Server) answer(operation string, body []byte, signed bool) (any, error) {
	switch {
	case s.knobs.throttle > 0:
		s.knobs.throttle--
		return nil, refuse("ThrottlingException", "Rate exceeded")
	case !signed:
		return nil, refuse("MissingAuthenticationTokenException", "Missing Authentication Token")
	case operation == s.knobs.denied:
		return nil, refuse("AccessDeniedException", "User: arn:aws:iam::123456789012:user/ann is not authorized to perform: sagemaker:%s", operation)
	}
	switch operation {
	case "CreateTrainingJob":
		return s.createTraining(body)
	case "CreateProcessingJob":
		return s.createProcessing(body)
	case "DescribeTrainingJob", "DescribeProcessingJob":
		j, err := s.find(body)
		if err != nil {
			return nil, err
		}
		return j.described(), nil
	case "StopTrainingJob", "StopProcessingJob":
		j, err := s.find(body)
		if err != nil {
			return nil, err
		}
		return struct{}{}, j.stop()
	case "UpdateTrainingJob":
		return s.update(body)
	case "ListTags":
		return s.listTags(body)
	case "ListTrainingJobs":
		return s.list(body, false)
	case "ListProcessingJobs":
		return s.list(body, true)
	}
	return nil, refuse("UnknownOperationException", "%s is not of this fake", operation)
}

func decode(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return refuse("SerializationException", "%v", err)
	}
	return nil
}

// creation is a request for a job.
type creation struct {
	TrainingJobName        string
	AlgorithmSpecification struct {
		TrainingImage, TrainingInputMode        string
		ContainerEntrypoint, ContainerArguments []string
		MetricDefinitions                       []struct{ Name, Regex string }
		EnableSageMakerMetricsTimeSeries        bool
	}
	RoleArn          string
	OutputDataConfig struct{ S3OutputPath string }
	ResourceConfig   struct {
		InstanceType                  string
		InstanceCount, VolumeSizeInGB int
		KeepAlivePeriodInSeconds      int `json:",omitempty"`
	}
	StoppingCondition         struct{ MaxRuntimeInSeconds, MaxWaitTimeInSeconds int }
	EnableManagedSpotTraining bool
	Environment               map[string]string
	HyperParameters           map[string]string
	Tags                      []struct{ Key, Value string }
}

// Forms that SageMaker documents.
var (
	nameForm     = regexp.MustCompile(`^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$`)
	variableForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	tagForm      = regexp.MustCompile(`^[\pL\pN _.:/=+@-]*$`)
)

func (in creation) check() error {
	bad := func(format string, args ...any) error {
		return refuse("ValidationException", "1 validation error detected: "+format, args...)
	}
	c := in.StoppingCondition
	switch {
	case !nameForm.MatchString(in.TrainingJobName):
		return bad("Value '%s' at 'trainingJobName' failed to satisfy constraint", in.TrainingJobName)
	case !strings.HasPrefix(in.RoleArn, "arn:aws:iam::"), !strings.HasPrefix(in.OutputDataConfig.S3OutputPath, "s3://"), in.AlgorithmSpecification.TrainingInputMode != "File":
		return bad("a member is missing or of another form")
	case !strings.Contains(in.AlgorithmSpecification.TrainingImage, ".dkr.ecr.") || len(in.AlgorithmSpecification.TrainingImage) > 255:
		return bad("TrainingImage %q", in.AlgorithmSpecification.TrainingImage)
	case !strings.HasPrefix(in.ResourceConfig.InstanceType, "ml."), in.ResourceConfig.InstanceCount < 1, in.ResourceConfig.VolumeSizeInGB < 1:
		return bad("ResourceConfig %+v", in.ResourceConfig)
	case c.MaxRuntimeInSeconds < 1, c.MaxRuntimeInSeconds > 2_419_200, in.EnableManagedSpotTraining != (c.MaxWaitTimeInSeconds > 0), c.MaxWaitTimeInSeconds > 0 && c.MaxWaitTimeInSeconds < c.MaxRuntimeInSeconds:
		return bad("StoppingCondition %+v", c)
	case len(in.HyperParameters) > 100, len(in.AlgorithmSpecification.MetricDefinitions) > 40, in.ResourceConfig.KeepAlivePeriodInSeconds > 21600:
		return bad("too many members, or too large ones")
	case in.ResourceConfig.KeepAlivePeriodInSeconds > 0 && in.EnableManagedSpotTraining:
		return bad("KeepAlivePeriodInSeconds with EnableManagedSpotTraining")
	case len(in.Environment) > 100, len(in.Tags) > 50, len(in.AlgorithmSpecification.ContainerEntrypoint) > 100, len(in.AlgorithmSpecification.ContainerArguments) > 100:
		return bad("too many members")
	}
	for _, text := range slices.Concat(in.AlgorithmSpecification.ContainerEntrypoint, in.AlgorithmSpecification.ContainerArguments) {
		if len([]rune(text)) > 256 || strings.ContainsAny(text, "\r\n") {
			return bad("Value at 'algorithmSpecification.containerArguments' failed to satisfy constraint: Member must have length less than or equal to 256 and satisfy regular expression pattern: .*")
		}
	}
	for name, value := range in.HyperParameters {
		if len(name) > 256 || len([]rune(value)) > 2500 {
			return bad("hyperparameter %s", name)
		}
	}
	for _, m := range in.AlgorithmSpecification.MetricDefinitions {
		if m.Name == "" || len(m.Name) > 255 || m.Regex == "" || len(m.Regex) > 500 {
			return bad("metric %s", m.Name)
		}
	}
	for name, value := range in.Environment {
		if !variableForm.MatchString(name) || len(name) > 512 || len([]rune(value)) > 512 {
			return bad("variable %s", name)
		}
	}
	for _, tag := range in.Tags {
		if !tagForm.MatchString(tag.Key) || !tagForm.MatchString(tag.Value) || len(tag.Key) > 128 || len(tag.Value) > 256 {
			return bad("tag %v", tag)
		}
	}
	return nil
}

func (s *Server) createTraining(body []byte) (any, error) {
	var in creation
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	return s.create(in, nil)
}

// create makes a job; asked is the request of a processing job, nil: it is a training job.
func (s *Server) create(in creation, asked *processingCreation) (any, error) {
	id, kind := arn(in.TrainingJobName, asked != nil), "training"
	if asked != nil {
		kind = "processing"
	}
	if s.jobs[id] != nil {
		return nil, refuse("ResourceInUse", "Job names must be unique within an AWS account and region, and a %s job with this name already exists (%s)", kind, id)
	}
	alive := 0
	for _, j := range s.jobs {
		if j.status == "InProgress" || j.status == "Stopping" {
			alive += j.in.ResourceConfig.InstanceCount
		}
	}
	if s.knobs.most > 0 && alive+in.ResourceConfig.InstanceCount > s.knobs.most {
		use := kind + " job usage"
		if in.EnableManagedSpotTraining {
			use = "spot training job usage"
		}
		return nil, refuse("ResourceLimitExceeded", "The account-level service limit '%s for %s' is %d Instances, with current utilization of %d Instances and a request delta of %d Instances. Please use AWS Service Quotas to request an increase for this quota.",
			in.ResourceConfig.InstanceType, use, s.knobs.most, alive, in.ResourceConfig.InstanceCount)
	}
	j := &job{s: s, in: in, asked: asked, created: time.Now(), status: "InProgress"}
	s.jobs[id] = j
	s.order = append(s.order, id)
	j.start()
	if asked != nil {
		return map[string]string{"ProcessingJobArn": id}, nil
	}
	return map[string]string{"TrainingJobArn": id}, nil
}

func arn(job string, processing bool) string {
	kind := "training-job/"
	if processing {
		kind = "processing-job/"
	}
	return "arn:aws:sagemaker:" + Region + ":123456789012:" + kind + job
}

func (s *Server) find(body []byte) (*job, error) {
	var in struct{ TrainingJobName, ProcessingJobName string }
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	j := s.jobs[arn(in.TrainingJobName+in.ProcessingJobName, in.ProcessingJobName != "")]
	if j == nil {
		return nil, refuse("ValidationException", "Requested resource not found.")
	}
	return j, nil
}

// listTags gives the tags of a job, by its ARN.
func (s *Server) listTags(body []byte) (any, error) {
	var in struct{ ResourceArn string }
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	j := s.jobs[in.ResourceArn]
	if j == nil {
		return nil, refuse("ValidationException", "Requested resource not found.")
	}
	return map[string]any{"Tags": j.in.Tags}, nil
}

// list gives jobs of a kind on pages.
func (s *Server) list(body []byte, processing bool) (any, error) {
	var in struct {
		NameContains, SortBy, SortOrder, StatusEquals, WarmPoolStatusEquals, NextToken string
		MaxResults                                                                     int
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	prefix := "TrainingJob"
	if processing {
		prefix = "ProcessingJob"
	}
	found := []map[string]any{}
	for _, id := range s.order {
		j := s.jobs[id]
		if name := j.in.TrainingJobName; (j.asked != nil) == processing && strings.Contains(name, in.NameContains) && (in.StatusEquals == "" || in.StatusEquals == j.status) && (in.WarmPoolStatusEquals == "" || j.warm) {
			one := map[string]any{prefix + "Name": name, prefix + "Arn": id, prefix + "Status": j.status, "CreationTime": j.created.Unix()}
			if !processing {
				one["SecondaryStatus"] = j.secondary
			}
			found = append(found, one)
		}
	}
	from := 0
	if in.NextToken != "" {
		_, _ = fmt.Sscan(in.NextToken, &from) // the fake's own
	}
	to := from + min(s.page, in.MaxResults)
	out := map[string]any{prefix + "Summaries": found[min(from, len(found)):min(to, len(found))]}
	if to < len(found) {
		out["NextToken"] = fmt.Sprint(to)
	}
	return out, nil
}

// Container is what an instance of a training job runs.
type Container struct {
	Name    string // one like it never was before
	Image   string
	Command []string
	Env     []string
	ML      string // the folder that stands for its /opt/ml, with what SageMaker writes there
}

// UseContainers has containers be processes that run gives, with the key and secret of their role.
func (s *Server) UseContainers(run func(Container) *exec.Cmd, key, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.container, s.role = run, [2]string{key, secret}
}

// process runs a container as a process of this machine.
func process(c Container) *exec.Cmd {
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "SAGEMAKER_BASE_DIR=" + c.ML, "TMPDIR=" + filepath.Dir(c.ML)}, c.Env...)
	return cmd
}

// layOut makes a container's folder, with what SageMaker writes for it.
func layOut(dir string, host int, in creation, asked *processingCreation) (ml string, err error) {
	ml = filepath.Join(dir, "ml")
	config := filepath.Join(ml, "input", "config")
	if asked != nil {
		config = filepath.Join(ml, "config")
	}
	if err := os.MkdirAll(config, 0o755); err != nil {
		return "", err
	}
	var hosts []string
	for n := range in.ResourceConfig.InstanceCount {
		hosts = append(hosts, fmt.Sprintf("algo-%d", n+1))
	}
	text, err := json.Marshal(map[string]any{"current_host": hosts[host], "hosts": hosts, "current_instance_type": in.ResourceConfig.InstanceType, "network_interface_name": "eth0"})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(config, "resourceconfig.json"), text, 0o644); err != nil || asked == nil {
		return ml, err
	}
	text, err = json.Marshal(asked)
	if err != nil {
		return "", err
	}
	return ml, os.WriteFile(filepath.Join(config, "processingjobconfig.json"), text, 0o644)
}
