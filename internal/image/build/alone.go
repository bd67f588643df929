package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/private"
)

// turn is how often a waiting build checks for its turn.
const turn = 100 * time.Millisecond

// lockBuild waits until no other process on this machine builds the same for Docker: of
// twenty commands that begin together one builds. done ends the turn; it ends with
// the process, too. waited: another one had it, and may have built the image. Where
// no lock can be had every process builds, and the last one gives the name: that costs
// time alone. The lock lies in a folder that no other user can open: another user's
// lock of a known name would stop all builds.
func (b *Builder) lockBuild(ctx context.Context, o Order) (done func(), waited bool, err error) {
	done = func() {}
	if o.Push != "" || o.File != "" || b.Docker == nil {
		return done, false, nil
	}
	own := filepath.Join(os.TempDir(), fmt.Sprintf("drover-%d", os.Geteuid()))
	if err := private.MakeFolder(own); err != nil {
		fmt.Fprintf(b.Words, "no lock, so others may build the same: %s\n", err)
		return done, false, nil
	}
	path := filepath.Join(own, "build-"+o.Plan.Digest[:20])
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return done, false, nil
	}
	tick := time.NewTicker(turn)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			// A build that waits for a file that is gone gets its turn, and finds the image.
			return func() { os.Remove(path); f.Close() }, waited, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			return done, waited, nil
		case errors.Is(err, unix.EINTR):
			continue
		case !waited:
			waited = true
			fmt.Fprintln(b.Words, "another drover is building the same image: waiting for it")
		}
		select {
		case <-ctx.Done():
			f.Close()
			return done, waited, fault.Wrap(context.Cause(ctx), fault.Interrupted, "", "build image")
		case <-tick.C:
		}
	}
}
