//go:build !linux

package proc

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// bootTime goes on while the machine sleeps.
func bootTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for these arguments
	return time.Duration(ts.Nano())
}

func openExecutor(ctx context.Context, c SpawnerConfig, p *post) (executor, error) {
	return openPlain(ctx, c, p)
}
