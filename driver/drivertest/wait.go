package drivertest

import (
	"testing"
	"time"
)

// Until looks until done, every 10 ms and at most 12,000 times: for what real
// processes do without an event. That is two minutes and more, far longer than
// anything takes on a machine that has much to do. Drivers' own tests use it too.
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
