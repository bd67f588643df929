package process

import "time"

// The pauses between two reads of a tree that is being killed: each is twice the one before.
const (
	FirstPause = time.Millisecond
	LastPause  = 200 * time.Millisecond
)

// SweepLimit bounds a sweep: longer than the kernel takes to free the memory of
// the largest program, or than a network folder takes to let one go.
const SweepLimit = 30 * time.Second
