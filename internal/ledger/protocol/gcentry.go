package protocol

import (
	"time"

	"github.com/drover-run/drover/store"
)

// Named lists what a rank's exit will name. It is written before the exit, which
// is a promise at once: gc must know of the outputs before.
type Named struct {
	Outputs map[string]store.Digest `json:"outputs"` // as Exit.Outputs
}

// Sweep says which blobs a gc may delete, from now on and for a while.
type Sweep struct {
	List string `json:"list"` // key of the digests
	// For is how long: counted by gc from before this entry was sent, and by
	// each other process from when it first read it.
	For  time.Duration `json:"for"`
	Host Host          `json:"host"` // gc's process
}

// Swept ends a sweep: nothing of its list is deleted any more.
type Swept struct {
	N int `json:"n"` // the sweep's number
}
