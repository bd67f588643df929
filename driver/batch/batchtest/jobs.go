package batchtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopTime is what a container has between SIGTERM and SIGKILL.
const stopTime = 30 * time.Second

// array is the parent of an array's children.
type array struct {
	in      submission
	size    int
	created time.Time
	unseen  int
}

// job is one job: a child of an array, or one without.
type job struct {
	s          *Server
	id         string
	in         submission
	definition definition
	created    time.Time
	unseen     int

	status     string
	reason     string // statusReason
	attempts   []object
	process    *os.Process // of the attempt that runs
	taken      bool        // its host is gone
	terminated string      // the reason that a request gave
}

// newJob makes a job, and starts it. Under Server.mu.
func (s *Server) newJob(id string, in submission, d definition) *job {
	j := &job{s: s, id: id, in: in, definition: d, created: time.Now(), unseen: s.knobs.hidden, status: "RUNNABLE"}
	j.start()
	return j
}

// start begins an attempt. Under Server.mu.
func (j *job) start() {
	if j.s.knobs.held {
		j.reason = j.s.knobs.reason
		return
	}
	dir := filepath.Join(j.s.dir, j.folder())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		j.end("Task failed to start", "CannotStartContainerError: "+err.Error(), -1)
		return
	}
	if strings.HasPrefix(j.definition.ContainerProperties.Image, "nowhere/") {
		j.end("Task failed to start", "CannotPullContainerError: pull image manifest has been retried 1 time(s): failed to resolve ref "+j.definition.ContainerProperties.Image, -1)
		return
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		j.end("Task failed to start", "CannotStartContainerError: "+err.Error(), -1)
		return
	}
	c := j.s.container(Container{Name: filepath.Base(dir), Image: j.definition.ContainerProperties.Image, Command: j.in.ContainerOverrides.Command, Env: j.variables()})
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Setsid: true}
	if c.Env != nil { // a process of this machine: what it leaves when it is killed goes with the test
		c.Env = append(c.Env, "TMPDIR="+dir)
	}
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		log.Close()
		j.end("Task failed to start", "CannotStartContainerError: "+err.Error(), -1)
		return
	}
	log.Close()
	j.status, j.reason, j.process, j.taken = "RUNNING", "", c.Process, false
	j.s.all.Go(func() { // Server.close waits
		err := c.Wait()
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what it has left ends with its container
		j.s.mu.Lock()
		defer j.s.mu.Unlock()
		j.ended(err)
	})
}

// folder is the name of the folder of an attempt's container. Under Server.mu, before the attempt ends.
func (j *job) folder() string {
	return fmt.Sprintf("%s.%d", strings.ReplaceAll(j.id, ":", "-"), len(j.attempts)+1)
}

// Container is what a job's attempt runs.
type Container struct {
	Name    string // one like it never was before
	Image   string
	Command []string
	Env     []string
}

// process runs a container as a process of this machine.
func process(c Container) *exec.Cmd {
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, c.Env...)
	return cmd
}

// variables are those that AWS Batch gives, and the job's own.
func (j *job) variables() (all []string) {
	_, index, child := strings.Cut(j.id, ":")
	all = []string{"AWS_BATCH_JOB_ID=" + j.id, "AWS_BATCH_JOB_ATTEMPT=" + strconv.Itoa(len(j.attempts)+1), "AWS_BATCH_JQ_NAME=" + j.s.queues.nameOf(j.in.JobQueue), "AWS_BATCH_CE_NAME=machines",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + j.s.http.URL + rolePath, "AWS_ENDPOINT_URL_SECRETS_MANAGER=" + j.s.http.URL, "AWS_EC2_METADATA_DISABLED=true"}
	if child {
		all = append(all, "AWS_BATCH_JOB_ARRAY_INDEX="+index)
	}
	for _, v := range j.in.ContainerOverrides.Environment {
		all = append(all, v.Name+"="+v.Value)
	}
	return all
}

// ended takes in the end of a container's process. Under Server.mu.
func (j *job) ended(err error) {
	j.process = nil
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if code = exit.ExitCode(); code < 0 {
			code = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
	}
	switch {
	case j.taken:
		j.end("Host EC2 (instance i-0123456789abcdef0) terminated.", "", -1)
	default:
		j.end("Essential container in task exited", "", code)
	}
}

// end ends an attempt, and starts the next one where the strategy says so. code is -1 where there is none.
// Under Server.mu.
func (j *job) end(statusReason, reason string, code int) {
	container := object{"taskArn": arn("task/" + j.id), "logStreamName": j.definition.Name + "/default/" + j.folder()}
	if reason != "" {
		container["reason"] = reason
	}
	if code >= 0 {
		container["exitCode"] = code
	}
	now := time.Now().UnixMilli()
	j.attempts = append(j.attempts, object{"container": container, "statusReason": statusReason, "startedAt": now - 1, "stoppedAt": now})
	j.reason = statusReason
	switch {
	case j.terminated != "":
		j.status, j.reason = "FAILED", j.terminated
	case code == 0:
		j.status = "SUCCEEDED"
	case len(j.attempts) < j.definition.RetryStrategy.Attempts && j.definition.RetryStrategy.again(statusReason, reason, code):
		j.status = "RUNNABLE"
		j.start()
	default:
		j.status = "FAILED"
	}
}

// again says whether a job runs again: the first evaluation of which all conditions hold decides, and
// without one it does.
func (r retryStrategy) again(statusReason, reason string, code int) bool {
	holds := func(pattern, text string) bool {
		if pattern == "" {
			return true
		}
		prefix, star := strings.CutSuffix(pattern, "*")
		return strings.EqualFold(pattern, text) || star && strings.HasPrefix(strings.ToLower(text), strings.ToLower(prefix))
	}
	exit := ""
	if code >= 0 {
		exit = strconv.Itoa(code)
	}
	for _, e := range r.EvaluateOnExit {
		if holds(e.OnStatusReason, statusReason) && holds(e.OnReason, reason) && holds(e.OnExitCode, exit) {
			return e.Action == "RETRY"
		}
	}
	return true
}

// terminate ends a job: SIGTERM, and SIGKILL when the time of a stop is over. Under Server.mu.
func (j *job) terminate(reason string) {
	if j.status == "SUCCEEDED" || j.status == "FAILED" || j.terminated != "" {
		return
	}
	j.terminated = reason
	if j.process == nil {
		j.status, j.reason = "FAILED", reason
		return
	}
	p := j.process
	_ = syscall.Kill(-p.Pid, syscall.SIGTERM)
	time.AfterFunc(stopTime, func() { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) })
}

// kill ends a job's process at once. Under Server.mu.
func (j *job) kill() {
	if j.terminated = "the test has ended"; j.process != nil {
		_ = syscall.Kill(-j.process.Pid, syscall.SIGKILL)
	}
}

// described is a job as DescribeJobs shows it.
func (j *job) described() object {
	o := object{"jobId": j.id, "jobName": j.in.JobName, "jobQueue": arn("job-queue/" + j.s.queues.nameOf(j.in.JobQueue)), "status": j.status, "startedAt": j.created.UnixMilli(),
		"jobDefinition": j.in.JobDefinition, "attempts": j.attempts, "isTerminated": j.terminated != ""}
	if j.attempts == nil {
		o["attempts"] = []object{}
	}
	if j.reason != "" {
		o["statusReason"] = j.reason
	}
	return o
}

// described is an array as DescribeJobs shows it.
func (a *array) described(id string, s *Server) object {
	_, status, _ := s.summary(id)
	return object{"jobId": id, "jobName": a.in.JobName, "jobQueue": arn("job-queue/" + s.queues.nameOf(a.in.JobQueue)), "status": status, "startedAt": a.created.UnixMilli(),
		"jobDefinition": a.in.JobDefinition, "attempts": []object{}, "arrayProperties": object{"size": a.size}}
}

// summary is a job's or array's name and status, and in how many more lists it is missing.
func (s *Server) summary(id string) (name, status string, unseen *int) {
	a := s.arrays[id]
	if a == nil {
		j := s.jobs[id]
		return j.in.JobName, j.status, &j.unseen
	}
	status = "SUCCEEDED"
	for i := range a.size {
		switch s.jobs[fmt.Sprintf("%s:%d", id, i)].status {
		case "SUCCEEDED":
		case "FAILED":
			if status == "SUCCEEDED" {
				status = "FAILED"
			}
		default:
			status = "PENDING"
		}
	}
	return a.in.JobName, status, &a.unseen
}

// queueOfJob is the name of the queue of a job or array.
func (s *Server) queueOfJob(id string) string {
	if a := s.arrays[id]; a != nil {
		return s.queues.nameOf(a.in.JobQueue)
	}
	return s.queues.nameOf(s.jobs[id].in.JobQueue)
}

// End ends all jobs, as if by a request.
func (s *Server) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		j.terminate("ended by the test")
	}
}

// Kill ends the process of a job without a word, as the kernel would.
func (s *Server) Kill(id string) { s.signal(id, syscall.SIGKILL) }

// Warn sends the process of a job SIGTERM, as ECS does when its host is about to go.
func (s *Server) Warn(id string) { s.signal(id, syscall.SIGTERM) }

func (s *Server) signal(id string, sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil && j.process != nil {
		_ = syscall.Kill(-j.process.Pid, sig)
	}
}

// Take takes a job's host away.
func (s *Server) Take(id string) {
	s.NoteTaken(id)
	s.signal(id, syscall.SIGKILL)
}

// NoteTaken has the end of a job's container count as that of its host; the caller ends it.
func (s *Server) NoteTaken(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil {
		j.taken = true
	}
}
