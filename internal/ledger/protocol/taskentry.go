package protocol

import (
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Version is what one input of a task held at some time, at input/<name>/N. Jobs name a version by its list's digest.
type Version struct {
	List  store.Digest `json:"list"`  // of files and blobs
	From  string       `json:"from"`  // as it was typed
	Files int          `json:"files"` // in it
	Bytes int64        `json:"bytes"` // of all files
}

// Submitted says that a job exists and is the task's live one (T1).
type Submitted struct {
	Job string `json:"job"`
	// Record is the digest of job.json's bytes (T1a). "": of an older drover.
	Record store.Digest `json:"record,omitempty"`
}

// Closed says that the task's live job has settled (T1: "settled(J)").
type Closed struct {
	Job string `json:"job"`
}

// Beside says that commands of the task with certain settings are jobs of another task:
// when the first such was submitted, a job with other settings was live (T3).
type Beside struct {
	Key  string `json:"key"`  // digest of the settings
	Task string `json:"task"` // of the same project
}

// Removed says that gc took a job away (E6), and what of it the task's next job
// must still know: the job itself is not there to be asked.
type Removed struct {
	Job   string    `json:"job"`
	State job.State `json:"state,omitempty"` // as it had settled; "" for a submit that never finished
	// Since is the first place with checkpoints that a next job may begin with,
	// StateSince that of /state: as job.Job's.
	Since      int `json:"since,omitempty"`
	StateSince int `json:"state_since,omitempty"`
}
