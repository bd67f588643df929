//go:build !linux

package store

import "time"

// macOS: Go's monotonic clock is mach_absolute_time, which stands still while the machine
// sleeps. A lease needs a clock that does not, so here it uses the wall clock. A step of the
// wall clock can then cost one lease (60 s), no more: leases never protect correctness.
func boot() time.Duration { return time.Duration(time.Now().UnixNano()) }
