package process

import "time"

// How often a tree that is being killed is looked at again.
const (
	FirstLook = time.Millisecond
	LastLook  = 200 * time.Millisecond
)
