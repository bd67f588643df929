// Package gcpbatch is the target of Google Batch: agents are tasks of a job in the user's project, on machines that Google Batch brings up for them
// and takes away, in the user's image.
//
// A placement is one job, with a task for each agent; of more than 5,000 agents it is several. Its name follows from the placement's handle,
// so that a request without an answer is sent again. Records lie in the store (package remote). Each task fetches drover's program from there by its
// machine's service account, checks its digest, and runs it as the supervisor of an agent in the image. Google Batch starts again what lost its spot
// capacity, while no command is attached.
//
// It refuses to know what agents do. drivertest proves it, over a fake of Google Batch (gcpbatchtest) that is held to Google's discovery document.
package gcpbatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/cloud/google/secretmanager"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/gcpbatch/batchapi"
	"github.com/drover-run/drover/driver/remote"
)

// Name is the target in the handles of this driver.
const Name = "gcp"

// Target is Google Batch as a place to run.
var Target = driver.Target{Name: Name, Adopt: adopt, Policy: writePolicy,
	New:   func(f driver.Config) driver.Driver { return New(f.State, f.Store, remote.Options{}) },
	Setup: func(f driver.Config) driver.Setup { return &Setup{New(f.State, f.Store, remote.Options{}).engine} },
	Properties: func(driver.Config) driver.Properties {
		return driver.Properties{Apart: true, Containers: true, Pulls: true, Stores: []string{"gs"}, Identity: "the service account of its machines", TimeLimit: true}
	}}

// Driver starts agents by Google Batch.
type Driver struct {
	*remote.Driver
	engine *engine
	stores driver.OpenStore
}

var _ driver.Driver = (*Driver)(nil)

// New makes the driver of this machine's account. It remembers in the folder state in which regions
// it has started something, and sends nothing.
func New(state string, open driver.OpenStore, o remote.Options) *Driver {
	e := &engine{state: state, caller: sync.OnceValue(func() *rest.Caller { return rest.New(google.Source{}) }), look: lookTime, list: listTime, now: time.Now, seen: map[string]seenJob{}, tails: map[string]tail{}}
	return &Driver{remote.New(Name, e, open, o), e, open}
}

const (
	// lookTime is how long what Google Batch said of a job is believed.
	lookTime = 10 * time.Second
	// listTime is how long what it said of the job's tasks is, while the job counts as many in each state as before.
	listTime = 2 * time.Minute
)

// engine is Google Batch as package remote asks it.
type engine struct {
	state  string
	caller func() *rest.Caller
	look   time.Duration // such as lookTime
	list   time.Duration // such as listTime
	now    func() time.Time

	mu    sync.Mutex
	seen  map[string]seenJob // by site and name
	tails map[string]tail    // what tasks printed last, by job and index
}

// seenJob is what Google Batch said of a job, and when.
type seenJob struct {
	job   batchapi.Job
	tasks []batchapi.Task
	at    time.Time
	// listed is when the tasks were.
	listed time.Time
}

// changed says whether some of the job's tasks are in other states than before.
func (j seenJob) changed(now batchapi.Job) bool {
	was, is := j.job.Status, now.Status
	return was == nil || is == nil || was.State != is.State || len(was.StatusEvents) != len(is.StatusEvents) ||
		!maps.Equal(was.TaskGroups[taskGroup].Counts, is.TaskGroups[taskGroup].Counts)
}

var _ remote.Engine = (*engine)(nil)

// client asks Google Batch in a region of a project.
func (e *engine) client(at site) *batchapi.Client {
	return &batchapi.Client{Caller: e.caller(), Project: at.project, Region: at.region}
}

// secrets are those of a project.
func (e *engine) secrets(at site) secretmanager.Manager {
	return secretmanager.Manager{Caller: e.caller(), Project: at.project}
}

// siteOf is where a handle's jobs run.
func siteOf(h driver.Handle) (site, error) {
	at, err := parseSite(h.Detail)
	if err == nil && (at.project == "" || at.region == "") {
		at, err = at.complete()
	}
	return at, err
}

// forget drops what is known of a placement's jobs: this process changes them.
func (e *engine) forget(at site, names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range names {
		delete(e.seen, at.String()+" "+name)
	}
}

// settled says whether a job and its tasks change no more.
func (j seenJob) settled() bool {
	return ended(j.job) && !slices.ContainsFunc(j.tasks, func(t batchapi.Task) bool {
		return t.Status.State == batchapi.TaskRunning || t.Status.State == batchapi.TaskAssigned
	})
}

// find gives a job and its tasks, unless what is known of it is new enough, or is its end.
func (e *engine) find(ctx context.Context, at site, name string) (seenJob, error) {
	key := at.String() + " " + name
	e.mu.Lock()
	known, ok := e.seen[key]
	e.mu.Unlock()
	if ok && (time.Since(known.at) < e.look || known.settled()) {
		return known, nil
	}
	c := e.client(at)
	now, err := c.Get(ctx, name)
	if err != nil {
		return known, err
	}
	if now.Status == nil {
		now.Status = &batchapi.JobStatus{} // it has none yet
	}
	if known.changed(now) || time.Since(known.listed) >= e.list {
		if known.tasks, err = c.Tasks(ctx, name); err != nil {
			return known, err
		}
		known.listed = time.Now()
	}
	known.job, known.at = now, time.Now()
	e.mu.Lock()
	e.seen[key] = known
	e.mu.Unlock()
	return known, nil
}

// ended says whether a job has ended.
func ended(j batchapi.Job) bool {
	return j.Status != nil && (j.Status.State == batchapi.JobSucceeded || j.Status.State == batchapi.JobFailed || j.Status.State == batchapi.JobCancelled)
}
