package batchtest

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// definition is a job definition as it is registered.
type definition struct {
	Name                 string            `json:"jobDefinitionName"`
	Type                 string            `json:"type"`
	ContainerProperties  container         `json:"containerProperties"`
	PlatformCapabilities []string          `json:"platformCapabilities,omitempty"`
	RetryStrategy        retryStrategy     `json:"retryStrategy"`
	PropagateTags        bool              `json:"propagateTags"`
	Tags                 map[string]string `json:"tags,omitempty"`
	Timeout              *timeout          `json:"timeout,omitempty"`
}

type container struct {
	Image                string        `json:"image"`
	Command              []string      `json:"command,omitempty"`
	JobRoleArn           string        `json:"jobRoleArn,omitempty"`
	ExecutionRoleArn     string        `json:"executionRoleArn,omitempty"`
	User                 string        `json:"user,omitempty"`
	ResourceRequirements []requirement `json:"resourceRequirements"`
	LinuxParameters      *struct {
		SharedMemorySize int `json:"sharedMemorySize"`
	} `json:"linuxParameters,omitempty"`
	LogConfiguration *struct {
		LogDriver string            `json:"logDriver"`
		Options   map[string]string `json:"options"`
	} `json:"logConfiguration,omitempty"`
	Environment          []variable `json:"environment,omitempty"`
	Privileged           bool       `json:"privileged,omitempty"`
	Volumes              []object   `json:"volumes,omitempty"`
	MountPoints          []object   `json:"mountPoints,omitempty"`
	NetworkConfiguration *struct {
		AssignPublicIP string `json:"assignPublicIp"`
	} `json:"networkConfiguration,omitempty"`
	EphemeralStorage *struct {
		SizeInGiB int `json:"sizeInGiB"`
	} `json:"ephemeralStorage,omitempty"`
}

type requirement struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type retryStrategy struct {
	Attempts       int            `json:"attempts"`
	EvaluateOnExit []evaluateExit `json:"evaluateOnExit,omitempty"`
}

type evaluateExit struct {
	Action         string `json:"action"`
	OnStatusReason string `json:"onStatusReason,omitempty"`
	OnReason       string `json:"onReason,omitempty"`
	OnExitCode     string `json:"onExitCode,omitempty"`
}

type timeout struct {
	Seconds int `json:"attemptDurationSeconds"`
}

// Forms that AWS documents.
var (
	nameForm     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
	reasonForm   = regexp.MustCompile(`^[A-Za-z0-9.: ]*\*?$`)
	exitCodeForm = regexp.MustCompile(`^[0-9]*\*?$`)
	tagForm      = regexp.MustCompile(`^[\pL\pN _.:/=+@-]*$`)
)

// checkFargate refuses what Fargate has not.
func (c container) checkFargate() error {
	values := map[string]string{}
	for _, need := range c.ResourceRequirements {
		values[need.Type] = need.Value
	}
	memory, err := strconv.Atoi(values["MEMORY"])
	least, most, step := 0, 0, 1
	switch values["VCPU"] {
	case "0.25":
		least, most, step = 512, 2048, 512
		if memory == 1536 {
			err = errors.New("not of these sizes")
		}
	case "0.5":
		least, most, step = 1024, 4096, 1024
	case "1":
		least, most, step = 2048, 8192, 1024
	case "2":
		least, most, step = 4096, 16384, 1024
	case "4":
		least, most, step = 8192, 30720, 1024
	case "8":
		least, most, step = 16384, 61440, 4096
	case "16":
		least, most, step = 32768, 122880, 8192
	}
	switch {
	case err != nil, memory < least, memory > most, (memory-least)%step != 0:
		return refuse("Fargate resource requirements (%s vCPU, %s MiB) not valid.", values["VCPU"], values["MEMORY"])
	case values["GPU"] != "", c.LinuxParameters != nil:
		return refuse("Fargate has neither GPUs nor sharedMemorySize")
	case c.ExecutionRoleArn == "":
		return refuse("executionRoleArn is required for Fargate jobs")
	case c.EphemeralStorage != nil && (c.EphemeralStorage.SizeInGiB < 21 || c.EphemeralStorage.SizeInGiB > 200):
		return refuse("sizeInGiB must be between 21 and 200")
	}
	return nil
}

// definitions are those that are registered, by their names.
type definitions map[string]definition

func (r retryStrategy) check() error {
	if r.Attempts < 1 || r.Attempts > 10 || len(r.EvaluateOnExit) > 5 {
		return refuse("attempts must be between 1 and 10, with at most 5 evaluations")
	}
	for _, e := range r.EvaluateOnExit {
		if e.Action != "RETRY" && e.Action != "EXIT" || !reasonForm.MatchString(e.OnStatusReason) || !reasonForm.MatchString(e.OnReason) || !exitCodeForm.MatchString(e.OnExitCode) {
			return refuse("evaluateOnExit is not valid: %+v", e)
		}
	}
	return nil
}

func (all definitions) register(body []byte) (any, error) {
	var d definition
	if err := decode(body, &d); err != nil {
		return nil, err
	}
	if !nameForm.MatchString(d.Name) || d.Type != "container" || len(d.ContainerProperties.Image) > 255 || len(body) > 24<<10 {
		return nil, refuse("the definition %q is not valid", d.Name)
	}
	if err := d.RetryStrategy.check(); err != nil {
		return nil, err
	}
	if slices.Contains(d.PlatformCapabilities, "FARGATE") {
		if err := d.ContainerProperties.checkFargate(); err != nil {
			return nil, err
		}
	} else if d.ContainerProperties.NetworkConfiguration != nil || d.ContainerProperties.EphemeralStorage != nil {
		return nil, refuse("networkConfiguration and ephemeralStorage are for Fargate")
	}
	for _, need := range d.ContainerProperties.ResourceRequirements {
		if need.Type == "VCPU" && slices.Contains([]string{"0.25", "0.5"}, need.Value) && slices.Contains(d.PlatformCapabilities, "FARGATE") {
			continue
		}
		if !slices.Contains([]string{"VCPU", "MEMORY", "GPU"}, need.Type) || !regexp.MustCompile(`^[1-9][0-9]*$`).MatchString(need.Value) {
			return nil, refuse("resource requirement %+v is not valid", need)
		}
	}
	all[d.Name] = d
	return object{"jobDefinitionName": d.Name, "jobDefinitionArn": arn("job-definition/" + d.Name + ":1"), "revision": 1}, nil
}

func (all definitions) describe(body []byte) (any, error) {
	var in struct{ JobDefinitionName, Status string }
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	found := []object{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if d := all[name]; in.JobDefinitionName == "" || in.JobDefinitionName == name {
			found = append(found, object{"jobDefinitionName": d.Name, "jobDefinitionArn": arn("job-definition/" + d.Name + ":1"), "revision": 1, "status": "ACTIVE", "type": d.Type, "containerProperties": d.ContainerProperties})
		}
	}
	return object{"jobDefinitions": found}, nil
}

func (all definitions) deregister(body []byte) (any, error) {
	var in struct{ JobDefinition string }
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(in.JobDefinition, arn("job-definition/")), ":")
	delete(all, name)
	return object{}, nil
}

func (s *Server) describeQueues(body []byte) (any, error) {
	var in struct{ JobQueues []string }
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	return object{"jobQueues": s.queues.described(in.JobQueues)}, nil
}

// catalogue is what there is of one kind, by names.
type catalogue map[string]object

// described are those with these names or ARNs, in the order of their names; nil: all.
func (all catalogue) described(wanted []string) []object {
	some := []object{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if wanted == nil || slices.ContainsFunc(wanted, func(w string) bool { return w == name || strings.HasSuffix(w, "/"+name) }) {
			some = append(some, all[name])
		}
	}
	return some
}

// nameOf is the name of one that a request names, also by its ARN; "": there is none.
func (all catalogue) nameOf(text string) string {
	if name := text[strings.LastIndex(text, "/")+1:]; all[name] != nil {
		return name
	}
	return ""
}

func (s *Server) describeEnvironments(body []byte) (any, error) {
	var in struct{ ComputeEnvironments []string }
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	return object{"computeEnvironments": s.environments.described(in.ComputeEnvironments)}, nil
}

// submission is a SubmitJob.
type submission struct {
	JobName            string            `json:"jobName"`
	JobQueue           string            `json:"jobQueue"`
	JobDefinition      string            `json:"jobDefinition"`
	ContainerOverrides overrides         `json:"containerOverrides"`
	Timeout            timeout           `json:"timeout"`
	Tags               map[string]string `json:"tags"`
	PropagateTags      bool              `json:"propagateTags"`
	ArrayProperties    *struct {
		Size int `json:"size"`
	} `json:"arrayProperties,omitempty"`
	SchedulingPriorityOverride int `json:"schedulingPriorityOverride,omitempty"`
}

type overrides struct {
	Command     []string   `json:"command"`
	Environment []variable `json:"environment"`
}

func (in submission) check(size int, queueThere bool) error {
	switch {
	case !nameForm.MatchString(in.JobName):
		return refuse("job name %q is not valid", in.JobName)
	case !queueThere:
		return refuse("Job queue %s does not exist", in.JobQueue)
	case in.Timeout.Seconds < 60:
		return refuse("attemptDurationSeconds must be at least 60")
	case in.ArrayProperties != nil && (in.ArrayProperties.Size < 2 || in.ArrayProperties.Size > 10_000):
		return refuse("Array size must be between 2 and 10000")
	case size > 30<<10:
		return refuse("the request is longer than 30 KiB")
	}
	for _, v := range in.ContainerOverrides.Environment {
		if strings.HasPrefix(v.Name, "AWS_BATCH") {
			return refuse("environment variables must not begin with AWS_BATCH: %s", v.Name)
		}
	}
	for name, value := range in.Tags {
		if len(name) > 128 || len(value) > 256 || !tagForm.MatchString(name) || !tagForm.MatchString(value) || strings.HasPrefix(name, "aws:") {
			return refuse("tag %q is not valid", name)
		}
	}
	return nil
}

func (s *Server) submit(body []byte) (any, error) {
	var in submission
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	queue := s.queues.nameOf(in.JobQueue)
	if err := in.check(len(body), queue != ""); err != nil {
		return nil, err
	}
	var length int
	for _, w := range in.ContainerOverrides.Command {
		length += len(w)
	}
	for _, v := range in.ContainerOverrides.Environment {
		length += len(v.Name) + len(v.Value)
	}
	if length > 8192 {
		return nil, refuse("Container Overrides length must be at most 8192")
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(in.JobDefinition, arn("job-definition/")), ":")
	d, ok := s.definitions[name]
	if !ok {
		return nil, refuse("JobDefinition %s does not exist", in.JobDefinition)
	}
	id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", len(s.order)+1)
	s.order = append(s.order, id)
	if in.ArrayProperties == nil {
		s.jobs[id] = s.newJob(id, in, d)
	} else {
		s.arrays[id] = &array{in: in, size: in.ArrayProperties.Size, created: time.Now(), unseen: s.knobs.hidden}
		for i := range in.ArrayProperties.Size {
			child := fmt.Sprintf("%s:%d", id, i)
			s.jobs[child] = s.newJob(child, in, d)
		}
	}
	return object{"jobId": id, "jobName": in.JobName, "jobArn": arn("job/" + id)}, nil
}

func (s *Server) list(body []byte) (any, error) {
	var in struct {
		JobQueue, JobStatus string
		MaxResults          int
		Filters             []struct {
			Name   string
			Values []string
		}
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	queue := s.queues.nameOf(in.JobQueue)
	byName := len(in.Filters) == 1 && in.Filters[0].Name == "JOB_NAME" && len(in.Filters[0].Values) == 1
	if queue == "" || !byName && (len(in.Filters) > 0 || in.JobStatus == "") {
		return nil, refuse("the filters are not those of this fake, or the queue does not exist: %s", body)
	}
	want := "*"
	if byName {
		want = strings.ToLower(in.Filters[0].Values[0])
	}
	all := []object{}
	for _, id := range slices.Backward(s.order) {
		name, status, unseen := s.summary(id)
		if s.queueOfJob(id) != queue || !byName && status != in.JobStatus {
			continue
		}
		if *unseen > 0 {
			*unseen--
			continue
		}
		prefix, star := strings.CutSuffix(want, "*")
		if low := strings.ToLower(name); low == want || star && strings.HasPrefix(low, prefix) {
			all = append(all, object{"jobId": id, "jobName": name, "status": status, "jobArn": arn("job/" + id)})
		}
	}
	return object{"jobSummaryList": all}, nil
}

func (s *Server) describe(body []byte) (any, error) {
	var in struct{ Jobs []string }
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if len(in.Jobs) == 0 || len(in.Jobs) > 100 {
		return nil, refuse("jobs must have between 1 and 100 members")
	}
	all := []object{}
	for _, id := range in.Jobs {
		if a := s.arrays[id]; a != nil {
			all = append(all, a.described(id, s))
		} else if j := s.jobs[id]; j != nil {
			all = append(all, j.described())
		}
	}
	return object{"jobs": all}, nil
}

func (s *Server) terminate(body []byte) (any, error) {
	var in struct{ JobID, Reason string }
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if in.Reason == "" {
		return nil, refuse("reason is missing")
	}
	if a := s.arrays[in.JobID]; a != nil {
		for i := range a.size {
			s.jobs[fmt.Sprintf("%s:%d", in.JobID, i)].terminate(in.Reason)
		}
	} else if j := s.jobs[in.JobID]; j != nil {
		j.terminate(in.Reason)
	}
	return object{}, nil
}

// snapshot are the jobs that wait in a queue, the oldest first.
func (s *Server) snapshot(body []byte) (any, error) {
	var in struct{ JobQueue string }
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	front := []object{}
	for _, id := range s.order {
		if _, status, _ := s.summary(id); s.queueOfJob(id) == s.queues.nameOf(in.JobQueue) && (status == "RUNNABLE" || status == "PENDING") && len(front) < 100 {
			front = append(front, object{"jobArn": arn("job/" + id)})
		}
	}
	return object{"frontOfQueue": object{"jobs": front}}, nil
}
