package drivertest

import (
	"testing"
	"time"
)

// Until looks every 10 ms, and at most 12,000 times, until done is true: for what real
// processes do without an event. These are two minutes and more, far longer than anything
// takes on a busy machine. Drivers' own tests use it too.
func Until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 12_000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never seen that %s", what)
}
