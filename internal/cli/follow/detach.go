package follow

import (
	"context"
	"os"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
)

// secondThought is how long after a Ctrl-C that detaches another one cancels.
const secondThought = 2 * time.Second

// confirmDetach is Ctrl-C where agents live elsewhere: they go on without us, and so does
// what they cost. A second one, soon, cancels the job. follow is the verb that shows
// it again.
func (a Follower) confirmDetach(ctx context.Context, j *drover.Job, id, follow string, signals <-chan os.Signal) error {
	dropRepeats(signals)
	a.Note("\nDetached: %s is still running, and its machines stay allocated (Ctrl-C again cancels it)", id)
	a.Note("  follow: drover %s %s   stop: drover cancel %s", follow, id, id)
	thought := time.NewTimer(secondThought)
	defer thought.Stop()
	select {
	case <-thought.C:
		return app.Status(fault.ExitInterrupted)
	case <-signals:
	}
	a.Note("Cancelling %s", id)
	stands, err := j.Stop(ctx, "Ctrl-C")
	if err != nil {
		return err
	}
	if stands {
		a.Note("%s cancelled", id)
	}
	return app.Status(fault.ExitInterrupted)
}
