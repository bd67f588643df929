package process

import "time"

// The pauses between two reads of a tree that is being killed: each is twice the one before.
const (
	FirstPause = time.Millisecond
	LastPause  = 200 * time.Millisecond
)
