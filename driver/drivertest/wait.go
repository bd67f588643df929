package drivertest

import (
	"testing"
	"time"
)

// Until looks until done, every 10 ms and at most 3,000 times: for what real
// processes do, of which nobody tells. Drivers' own tests use it too.
func Until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 3000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never seen that %s", what)
}
