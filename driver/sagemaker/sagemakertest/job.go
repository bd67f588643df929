package sagemakertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// job is one job. All of it is under Server.mu.
type job struct {
	s           *Server
	in          creation
	asked       *processingCreation // nil: it is a training job
	created     time.Time
	began       time.Time // its newest start
	status      string
	secondary   string
	reason      string // FailureReason
	transitions []map[string]any
	starts      int
	processes   []*os.Process // of the instances, by their numbers; nil: it has ended
	left        int           // processes that have not ended
	codes       []int
	taken       bool // spot capacity is gone: when all processes have ended it starts again
	stopping    bool
	expired     bool // its time is over
	warm        bool // its machines are kept
}

// enter gives the job a secondary status.
func (j *job) enter(secondary, message string) {
	now := float64(time.Now().UnixMilli()) / 1000
	if n := len(j.transitions); n > 0 {
		j.transitions[n-1]["EndTime"] = now
	}
	j.secondary = secondary
	j.transitions = append(j.transitions, map[string]any{"Status": secondary, "StartTime": now, "StatusMessage": message})
}

// start brings the instances up.
func (j *job) start() {
	j.enter("Starting", "Launching requested ML instances")
	if j.s.knobs.held {
		return
	}
	if strings.Contains(j.in.AlgorithmSpecification.TrainingImage, "/nowhere") {
		j.fail("ClientError: Cannot pull the image: it does not exist, or access to it is denied")
		return
	}
	j.enter("Downloading", "Downloading the training image")
	j.starts++
	j.began = time.Now()
	j.taken = false
	j.processes, j.codes, j.left = nil, make([]int, j.in.ResourceConfig.InstanceCount), j.in.ResourceConfig.InstanceCount
	for host := range j.in.ResourceConfig.InstanceCount {
		dir := filepath.Join(j.s.dir, fmt.Sprintf("%s.%d.%d", j.in.TrainingJobName, j.starts, host))
		cmd, err := j.launch(dir, host)
		if err != nil {
			j.left -= j.in.ResourceConfig.InstanceCount - host
			j.fail("InternalServerError: " + err.Error())
			return
		}
		j.processes = append(j.processes, cmd.Process)
		j.s.all.Go(func() { // Server's cleanup waits
			err := cmd.Wait()
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it has left ends with its container
			j.s.mu.Lock()
			defer j.s.mu.Unlock()
			j.ended(host, err)
		})
	}
	j.enter("Training", "Training image download completed. Training in progress.")
}

func (j *job) launch(dir string, host int) (*exec.Cmd, error) {
	ml, err := layOut(dir, host, j.in, j.asked)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	variables := []string{"AWS_REGION=" + Region, "AWS_CONTAINER_CREDENTIALS_FULL_URI=" + j.s.http.URL + rolePath, "AWS_EC2_METADATA_DISABLED=true"}
	if j.asked == nil {
		variables = append(variables, "TRAINING_JOB_NAME="+j.in.TrainingJobName)
	}
	for name, value := range j.s.Environ() {
		if strings.HasPrefix(name, "AWS_ENDPOINT_URL_") {
			variables = append(variables, name+"="+value)
		}
	}
	for name, value := range j.in.Environment {
		variables = append(variables, name+"="+value)
	}
	of := j.in.AlgorithmSpecification
	cmd := j.s.container(Container{Name: filepath.Base(dir), Image: of.TrainingImage, Command: slices.Concat(of.ContainerEntrypoint, of.ContainerArguments), Env: variables, ML: ml})
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = dir, &syscall.SysProcAttr{Setsid: true}, log, log
	return cmd, cmd.Start()
}

// signal signals all processes.
func (j *job) signal(sig syscall.Signal) {
	for _, p := range j.processes {
		if p != nil {
			_ = syscall.Kill(-p.Pid, sig)
		}
	}
}

// ended takes in the end of an instance's process. One that fails ends the job's others.
func (j *job) ended(host int, err error) {
	j.processes[host] = nil
	j.left--
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if j.codes[host] = exit.ExitCode(); j.codes[host] < 0 {
			j.codes[host] = 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
	}
	if j.codes[host] != 0 && !j.taken && !j.stopping {
		j.stopProcesses()
	}
	if j.left > 0 {
		return
	}
	code := 0
	for _, c := range j.codes {
		if code == 0 {
			code = c
		}
	}
	switch {
	case j.expired:
		j.status = "Stopped"
		j.enter("MaxRuntimeExceeded", "Training job runtime exceeded MaxRuntimeInSeconds provided")
	case j.stopping:
		j.status = "Stopped"
		j.enter("Stopped", "Training job stopped")
	case j.taken && j.in.EnableManagedSpotTraining:
		j.start()
	case j.taken:
		j.fail("InternalServerError: We encountered an internal error. Please try again.")
	case code != 0:
		j.fail(fmt.Sprintf("AlgorithmError: %s, exit code: %d", j.failure(), code))
	default:
		j.status, j.warm = "Completed", j.in.ResourceConfig.KeepAlivePeriodInSeconds > 0
		j.enter("Completed", "Training job completed")
	}
}

func (j *job) fail(reason string) {
	j.status, j.reason = "Failed", reason
	j.enter("Failed", "Training job failed")
}

// folder is the one that stands for /opt/ml in a container of the job's newest start.
func (j *job) folder(host int) string {
	return filepath.Join(j.s.dir, fmt.Sprintf("%s.%d.%d", j.in.TrainingJobName, j.starts, host), "ml")
}

// failure is what the first container has left that has left a word why it failed, as far as SageMaker shows it.
func (j *job) failure() string {
	for host := range j.in.ResourceConfig.InstanceCount {
		if text, err := os.ReadFile(filepath.Join(j.folder(host), "output", "failure")); err == nil {
			return string(text[:min(len(text), 1024)])
		}
	}
	return ""
}

// Folder is the one that stands for /opt/ml in a container of a job's newest start.
func (s *Server) Folder(name string, host int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named(name).folder(host)
}

// Failure is why a job has failed, in the fake's words.
func (s *Server) Failure(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named(name).reason
}

// update ends the keeping of a job's machines.
func (s *Server) update(body []byte) (any, error) {
	var in struct {
		TrainingJobName string
		ResourceConfig  struct{ KeepAlivePeriodInSeconds *int }
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	j := s.jobs[arn(in.TrainingJobName, false)]
	if j == nil || !j.warm || in.ResourceConfig.KeepAlivePeriodInSeconds == nil {
		return nil, refuse("ValidationException", "The warm pool of the training job is not available.")
	}
	j.warm = *in.ResourceConfig.KeepAlivePeriodInSeconds > 0
	return map[string]string{"TrainingJobArn": arn(in.TrainingJobName, false)}, nil
}

// KeepWarm has the machines of a job be kept, as if it had just completed.
func (s *Server) KeepWarm(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named(name).warm = true
}

// stopProcesses sends SIGTERM, and SIGKILL when the time of a stop is over.
func (j *job) stopProcesses() {
	j.signal(syscall.SIGTERM)
	time.AfterFunc(stopTime, func() {
		j.s.mu.Lock()
		defer j.s.mu.Unlock()
		j.signal(syscall.SIGKILL)
	})
}

func (j *job) stop() error {
	if j.status != "InProgress" {
		return refuse("ValidationException", "The request was rejected because the training job is in status %s.", j.status)
	}
	j.stopping, j.status = true, "Stopping"
	j.enter("Stopping", "Stopping the training job")
	if j.left == 0 {
		j.status = "Stopped"
		j.enter("Stopped", "Training job stopped")
		return nil
	}
	j.stopProcesses()
	return nil
}

// stoppingCondition is that of the request, without a wait that it does not have.
func (j *job) stoppingCondition() map[string]int {
	all := map[string]int{"MaxRuntimeInSeconds": j.in.StoppingCondition.MaxRuntimeInSeconds}
	if n := j.in.StoppingCondition.MaxWaitTimeInSeconds; n > 0 {
		all["MaxWaitTimeInSeconds"] = n
	}
	return all
}

// described is the job as DescribeTrainingJob shows it.
func (j *job) described() map[string]any {
	if j.asked != nil {
		return j.describedProcessing()
	}
	o := map[string]any{"TrainingJobName": j.in.TrainingJobName, "TrainingJobArn": arn(j.in.TrainingJobName, false),
		"CreationTime": float64(j.created.Unix()), "ModelArtifacts": map[string]string{"S3ModelArtifacts": j.in.OutputDataConfig.S3OutputPath + "/" + j.in.TrainingJobName + "/output/model.tar.gz"}, "StoppingCondition": j.stoppingCondition(),
		"TrainingJobStatus": j.status, "SecondaryStatus": j.secondary, "ResourceConfig": j.in.ResourceConfig, "EnableManagedSpotTraining": j.in.EnableManagedSpotTraining, "SecondaryStatusTransitions": j.transitions}
	if !j.began.IsZero() {
		o["TrainingStartTime"] = float64(j.began.Unix())
	}
	o["AlgorithmSpecification"], o["RoleArn"], o["OutputDataConfig"], o["Environment"] = j.in.AlgorithmSpecification, j.in.RoleArn, j.in.OutputDataConfig, j.in.Environment
	if len(j.in.HyperParameters) > 0 {
		o["HyperParameters"] = j.in.HyperParameters
	}
	if j.reason != "" {
		o["FailureReason"] = j.reason
	}
	return o
}

// Interrupt takes the spot capacity of a job away: its machines are gone, and it starts again.
func (s *Server) Interrupt(name string) {
	s.NoteInterrupted(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.named(name); j != nil {
		j.signal(syscall.SIGKILL)
	}
}

// StopByUser stops a job, as a user does in SageMaker's console.
func (s *Server) StopByUser(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named(name).stop()
}

// Expire has the time of a job be over: its containers are asked to end, and killed in time.
func (s *Server) Expire(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.named(name); j != nil && j.left > 0 {
		j.expired, j.status = true, "Stopping"
		j.began = j.began.Add(-time.Duration(j.in.StoppingCondition.MaxRuntimeInSeconds) * time.Second)
		j.enter("Stopping", "Stopping the training job")
		j.stopProcesses()
	}
}

// NoteInterrupted has the end of a job's containers count as that of their spot capacity; the caller ends them.
func (s *Server) NoteInterrupted(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.named(name); j != nil && j.left > 0 {
		j.taken = true
		j.enter("Interrupted", "Training job interrupted: spot capacity is no longer available")
	}
}

// Kill ends the process of a job's instance without a word, as the kernel would; Warn sends it SIGTERM, as SageMaker does
// before it takes its machine.
func (s *Server) Kill(name string, host int) { s.signal(name, host, syscall.SIGKILL) }

// Warn is as Kill says.
func (s *Server) Warn(name string, host int) { s.signal(name, host, syscall.SIGTERM) }

func (s *Server) signal(name string, host int, sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.named(name); j != nil && host < len(j.processes) && j.processes[host] != nil {
		_ = syscall.Kill(-j.processes[host].Pid, sig)
	}
}
