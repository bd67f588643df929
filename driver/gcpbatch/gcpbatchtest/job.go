package gcpbatchtest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/driver/gcpbatch/batchapi"
)

// job is a job. All of it is under Server.mu.
type job struct {
	s       *Server
	id      string
	request string
	in      batchapi.Job
	created time.Time
	changed time.Time // its state
	state   string
	events  []batchapi.StatusEvent
	tasks   []*task
	deleted bool // it goes once nothing of it runs
}

// task is a task of a job, with one machine at a time.
type task struct {
	job       *job
	index     int
	retries   int
	state     string
	events    []batchapi.StatusEvent
	process   *os.Process // the group leader that runs; nil: none does
	taken     bool        // its machine goes
	preempted chan struct{}
}

func (j *job) name() string { return "projects/" + Project + "/locations/" + Region + "/jobs/" + j.id }

// check refuses what Google Batch refuses, as far as its documents say.
func (j *job) check() error {
	if len(j.in.TaskGroups) != 1 {
		return refuse(400, "INVALID_ARGUMENT", "there should be one task group")
	}
	g := j.in.TaskGroups[0]
	_, made := j.s.IAM.accounts[accountOf(j.in)]
	switch account := j.in.AllocationPolicy.ServiceAccount; {
	case g.TaskCount < 1 || g.TaskCount > 100_000 || g.Parallelism > 5000:
		return refuse(400, "INVALID_ARGUMENT", "task count %d, parallelism %d", g.TaskCount, g.Parallelism)
	case g.TaskSpec.MaxRetryCount > 10:
		return refuse(400, "INVALID_ARGUMENT", "max retry count %d is above 10", g.TaskSpec.MaxRetryCount)
	case account != nil && account.Email != Account && !made:
		return refuse(403, "PERMISSION_DENIED", "The caller does not have permission to act as service account %s.", account.Email)
	}
	for name := range j.in.AllocationPolicy.Labels {
		if strings.HasPrefix(name, "batch-") {
			return refuse(400, "INVALID_ARGUMENT", "label %s is one of Batch's own", name)
		}
	}
	if m := j.in.AllocationPolicy.Instances[0].Policy.MachineType; strings.HasPrefix(m, "x9") {
		return refuse(400, "INVALID_ARGUMENT", "machine type %s is invalid for job", m)
	}
	return nil
}

func (j *job) note(words string) {
	now := time.Now().UTC()
	j.events = append(j.events, batchapi.StatusEvent{Type: "STATUS_CHANGED", Description: words, EventTime: &now})
}

func (j *job) enter(state string) {
	j.note(fmt.Sprintf("Job state is set from %s to %s for job %s.", j.state, state, j.name()))
	j.state, j.changed = state, time.Now()
}

// begin gives each task a machine.
func (j *job) begin() {
	j.enter(batchapi.JobScheduled)
	j.enter(batchapi.JobRunning)
	for n := range int(j.in.TaskGroups[0].TaskCount) {
		t := &task{job: j, index: n, state: batchapi.TaskPending}
		j.tasks = append(j.tasks, t)
		t.start()
	}
}

// show is the job as Google Batch shows it.
func (j *job) show() batchapi.Job {
	out := j.in
	created, changed := j.created, j.changed
	out.Name, out.UID, out.CreateTime, out.UpdateTime = j.name(), j.id+"-uid", &created, &changed
	model := ""
	if p := j.in.AllocationPolicy; p != nil {
		model = p.Instances[0].Policy.ProvisioningModel
		shown := *p
		if shown.Labels = maps.Clone(p.Labels); shown.Labels == nil {
			shown.Labels = map[string]string{}
		}
		shown.Labels["batch-job-id"] = j.id // Google's own
		out.AllocationPolicy = &shown
	}
	counts := map[string]batchapi.Count{}
	for _, t := range j.tasks {
		counts[t.state]++
	}
	out.Status = &batchapi.JobStatus{State: j.state, StatusEvents: slices.Clone(j.events), TaskGroups: map[string]batchapi.TaskGroupStatus{"group0": {Counts: counts, Instances: []batchapi.InstanceStatus{{MachineType: "e2-standard-2", ProvisioningModel: model}}}}}
	return out
}

// pageSize is how many tasks the fake gives at once: fewer than Google, so that there are pages.
const pageSize = 2

// list gives a page of tasks.
func (j *job) list(token string) (any, error) {
	first, _ := strconv.Atoi(token) // "": the first
	all := []batchapi.Task{}
	for _, t := range j.tasks[min(first, len(j.tasks)):min(first+pageSize, len(j.tasks))] {
		all = append(all, batchapi.Task{Name: fmt.Sprintf("%s/taskGroups/group0/tasks/%d", j.name(), t.index), Status: batchapi.TaskStatus{State: t.state, StatusEvents: slices.Clone(t.events)}})
	}
	out := map[string]any{"tasks": all}
	if first+pageSize < len(j.tasks) {
		out["nextPageToken"] = strconv.Itoa(first + pageSize)
	}
	return out, nil
}

// age does what follows from a job's age: one that waits fails after two days, and one that has ended is forgotten after 60. Source: "Job lifecycle" and "Quotas", Batch,
// 2026-11; the words of the event are recorded nowhere.
func (j *job) age() {
	const day = 24 * time.Hour
	switch old := time.Since(j.created); {
	case j.state == batchapi.JobQueued && old >= 2*day:
		j.enter(batchapi.JobFailed)
	case j.over() && old >= 60*day:
		delete(j.s.jobs, j.id)
	}
}

// kill ends all that runs.
func (j *job) kill() {
	for _, t := range j.tasks {
		t.kill()
	}
}

// cancel ends a job without grace: nothing is written of any.
func (j *job) cancel() {
	if j.over() {
		return
	}
	j.enter(batchapi.JobCancelling)
	j.kill()
	j.settle()
}

func (j *job) delete() {
	j.deleted = true
	j.enter(batchapi.JobDeleting)
	j.kill()
	j.settle()
}

func (j *job) over() bool {
	return j.state == batchapi.JobSucceeded || j.state == batchapi.JobFailed || j.state == batchapi.JobCancelled
}

// settle says how a job is, once something of it has changed.
func (j *job) settle() {
	running, failed, open := 0, 0, 0
	for _, t := range j.tasks {
		if t.process != nil {
			running++
		}
		switch t.state {
		case batchapi.TaskFailed:
			failed++
		case batchapi.TaskSucceeded:
		default:
			open++
		}
	}
	switch {
	case j.deleted && running == 0:
		delete(j.s.jobs, j.id)
	case j.deleted || j.over():
	case j.state == batchapi.JobCancelling && running == 0:
		j.enter(batchapi.JobCancelled)
	case j.state == batchapi.JobRunning && open == 0 && failed > 0:
		j.enter(batchapi.JobFailed)
	case j.state == batchapi.JobRunning && open == 0:
		j.enter(batchapi.JobSucceeded)
	}
}

func (t *task) note(state, words string, code int) {
	now := time.Now().UTC()
	e := batchapi.StatusEvent{Type: "STATUS_CHANGED", Description: words, EventTime: &now, TaskState: state}
	if code != 0 {
		e.TaskExecution = &batchapi.TaskExecution{ExitCode: code}
	}
	t.events = append(t.events, e)
	t.state = state
}

func (t *task) kill() {
	if t.process == nil {
		return
	}
	_ = syscall.Kill(-t.process.Pid, syscall.SIGKILL)
	if t.job.s.docker != "" { // its container ends with it
		docker := exec.Command("docker", "--host", t.job.s.docker, "rm", "-f", t.container())
		t.job.s.all.Go(func() { _ = docker.Run() }) // what is not there is gone
	}
}

// dir is the folder of a task's machine.
func (t *task) dir() string { return filepath.Join(t.job.s.dir, t.container()) }

// container is the name of a task's container.
func (t *task) container() string {
	return fmt.Sprintf("%s.%d.%d", t.job.id, t.index, t.retries)
}

// dockerRun is how Docker runs a container of a task, on the machine's network, where the fake's metadata server is.
func (t *task) dockerRun(c *batchapi.Container, env []string) []string {
	words := []string{"docker", "--host", t.job.s.docker, "run", "--rm", "--name", t.container()}
	if !strings.Contains(c.Options, "--network") {
		words = append(words, "--network", "host")
	}
	words = append(words, strings.Fields(c.Options)...)
	for _, v := range c.Volumes {
		words = append(words, "--volume", v)
	}
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); name != "PATH" && name != "HOME" && name != "TMPDIR" {
			words = append(words, "--env", v)
		}
	}
	return append(append(words, "--entrypoint", c.Entrypoint, c.ImageURI), c.Commands...)
}

// start brings a machine up, which runs the task's runnables.
func (t *task) start() {
	t.taken, t.preempted = false, make(chan struct{})
	t.note(batchapi.TaskAssigned, "Task state is updated from PENDING to ASSIGNED on zones/"+Region+"-b/instances/1.", 0)
	dir := t.dir()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.job.s.t.Error(err)
		return
	}
	preempted := t.preempted
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/instance/preempted") {
			serveToken(w, r, machineToken)
			return
		}
		value := "FALSE"
		if r.URL.Query().Get("last_etag") == "" {
			select {
			case <-preempted:
				value = "TRUE"
			default:
			}
		} else { // wait_for_change
			select {
			case <-preempted:
				value = "TRUE"
			case <-r.Context().Done():
			case <-time.After(10 * time.Second):
			}
		}
		w.Header().Set("Metadata-Flavor", "Google")
		w.Header().Set("ETag", value)
		fmt.Fprint(w, value)
	}))
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "GORACE=atexit_sleep_ms=0", "GCE_METADATA_HOST=" + strings.TrimPrefix(metadata.URL, "http://"),
		"CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER=" + t.job.s.At("secretmanager"),
		"BATCH_TASK_INDEX=" + strconv.Itoa(t.index), "BATCH_TASK_RETRY_ATTEMPT=" + strconv.Itoa(t.retries), "BATCH_TASK_COUNT=" + strconv.FormatInt(t.job.in.TaskGroups[0].TaskCount, 10)}
	for name, value := range t.job.in.TaskGroups[0].TaskSpec.Environment.Variables {
		env = append(env, name+"="+value)
	}
	runnables := t.job.in.TaskGroups[0].TaskSpec.Runnables
	t.job.s.all.Go(func() { // Server's cleanup waits
		code := 0
		for i, r := range runnables {
			if code = t.run(dir, env, i, r); code != 0 {
				break
			}
		}
		metadata.CloseClientConnections()
		metadata.Close()
		t.job.s.mu.Lock()
		defer t.job.s.mu.Unlock()
		t.ended(code)
	})
}

// run runs one runnable, and gives its exit code.
func (t *task) run(dir string, env []string, n int, r batchapi.Runnable) int {
	log, err := os.Create(filepath.Join(dir, "log"+strconv.Itoa(n)))
	if err != nil {
		return 1
	}
	defer log.Close()
	words := []string{"sh", "-c"}
	t.job.s.mu.Lock()
	isolated := t.job.s.knobs.isolated
	t.job.s.mu.Unlock()
	switch {
	case r.Script != nil && isolated: // all machines are this one, which may have the program
		words = []string{"unshare", "--net", "--mount", "sh", "-c", "mkdir -p /var/lib/google/drover && mount -t tmpfs none /var/lib/google/drover\n" + r.Script.Text}
	case r.Script != nil:
		words = append(words, r.Script.Text)
	case strings.Contains(r.Container.ImageURI, "/nowhere"):
		fmt.Fprintf(log, "docker: Error response from daemon: manifest for %s not found: manifest unknown\n", r.Container.ImageURI)
		return 125 // docker's own, for an image that is not there
	case t.job.s.docker != "":
		words = t.dockerRun(r.Container, env)
	default:
		words = append([]string{r.Container.Entrypoint}, r.Container.Commands...)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = dir, env, log, log, &syscall.SysProcAttr{Setsid: true}
	t.job.s.mu.Lock()
	if t.taken || t.job.deleted || t.job.state == batchapi.JobCancelling {
		t.job.s.mu.Unlock()
		return 1
	}
	err = cmd.Start()
	if err == nil {
		t.process = cmd.Process
		if t.state == batchapi.TaskAssigned {
			t.note(batchapi.TaskRunning, "Task state is updated from ASSIGNED to RUNNING on zones/"+Region+"-b/instances/1.", 0)
		}
	}
	t.job.s.mu.Unlock()
	if err != nil {
		return 127
	}
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it has left ends with its container
	t.job.s.mu.Lock()
	t.process = nil
	t.job.s.mu.Unlock()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	if code := exit.ExitCode(); code >= 0 {
		return code
	}
	return 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
}

// ended takes in the end of a machine's work. The caller holds mu.
func (t *task) ended(code int) {
	j := t.job
	if t.taken {
		code = 50001
	}
	spec := j.in.TaskGroups[0].TaskSpec
	retried := slices.ContainsFunc(spec.LifecyclePolicies, func(p batchapi.LifecyclePolicy) bool {
		return p.Action == "RETRY_TASK" && slices.Contains(p.ActionCondition.ExitCodes, code)
	})
	switch {
	case j.deleted || j.state == batchapi.JobCancelling:
		t.state = batchapi.TaskFailed // of what is cancelled no event was ever seen
	case code == 0:
		t.note(batchapi.TaskSucceeded, "Task state is updated from RUNNING to SUCCEEDED on zones/"+Region+"-b/instances/1.", 0)
	case retried && t.retries < spec.MaxRetryCount:
		t.note(batchapi.TaskPending, fmt.Sprintf("Task state is updated from RUNNING to PENDING on zones/%s-b/instances/1%s with exit code %d.", Region, reasonOf(code), code), code)
		t.retries++
		t.start()
	default:
		t.note(batchapi.TaskFailed, fmt.Sprintf("Task state is updated from RUNNING to FAILED on zones/%s-b/instances/1%s with exit code %d.", Region, reasonOf(code), code), code)
	}
	j.settle()
}

// reasonOf is what an event says of a code of Google's own.
func reasonOf(code int) string {
	if code == 50001 {
		return " due to Spot VM preemption"
	}
	return ""
}

// on does something with a task that has not ended.
func (s *Server) on(id string, index int, do func(*task)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil && index < len(j.tasks) {
		do(j.tasks[index])
	}
}

// Age has a job be older by so much.
func (s *Server) Age(id string, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil {
		j.created = j.created.Add(-by)
	}
}

// Take takes a task's machine away without a word.
func (s *Server) Take(id string, index int) {
	s.on(id, index, func(t *task) { t.taken = true; t.kill() })
}

// Warn announces that a task's machine goes; it does not.
func (s *Server) Warn(id string, index int) {
	s.on(id, index, func(t *task) {
		select {
		case <-t.preempted:
		default:
			close(t.preempted)
		}
	})
}

// Kill ends all that runs on a task's machine.
func (s *Server) Kill(id string, index int) { s.on(id, index, (*task).kill) }
