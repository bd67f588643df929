package local

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// Stop writes the grace for each live agent into its stop file, and sends SIGTERM, or SIGKILL to
// its process group when there is no grace. The agent itself keeps the time: Adopt kills it when
// the grace is over, so Stop does not wait and its caller may exit. An agent that cannot do so
// (frozen, swapped out) is ended by a Stop without grace.
//
// With remove, the next Status, List or Stop after the last agent has gone
// removes the folder.
func (d *Driver) Stop(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
	dir, ok := d.placementFolder(h)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !ok {
		return nil
	}
	facts, err := readRequest(dir)
	if err == nil && facts.Machine != d.machine {
		return fault.New(fault.Denied, "Run the same command on "+facts.Host+".", "stop agents: %s: they were started on %s", h, facts.Host)
	}
	if err == nil && remove {
		err = folder.Touch(folder.RemoveFile(dir))
	}
	for i := 0; err == nil && i < facts.Agents; i++ {
		err = stopAgent(dir, i, grace)
	}
	if err == nil {
		_, err = d.sweepPlacement(dir)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil // it was never there, or another process has removed it
	}
	return d.wrapFileError("stop agents", err)
}

// stopAgent writes the stop file before it reads the pid, and Adopt notes the pid before it reads
// the stop file. So an agent that is just coming up gets the order on one of the two ways.
func stopAgent(dir string, i int, grace time.Duration) error {
	if held, _, err := look(agentFile(dir, i)); err != nil || !held {
		return err
	}
	if err := folder.LeaveWord(stopFile(dir, i), grace); err != nil {
		return err
	}
	held, n, err := look(agentFile(dir, i))
	if err != nil || !held || n.Up == nil {
		return err
	}
	if n.Up.Space != pidSpace() {
		return fault.New(fault.Denied, "Run the same command there.", "stop agents: agent %d runs in another container of this machine", i)
	}
	// The lock was held a moment ago, so the pid was the agent's. The kernel gives out pids in turn:
	// none is used again within that moment.
	if grace > 0 {
		err = unix.Kill(n.Up.PID, unix.SIGTERM)
	} else {
		err = unix.Kill(-n.Up.PID, unix.SIGKILL)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended meanwhile
	}
	return err
}

// sweepPlacement removes a placement that is to be removed, once all its agents have ended; one of
// another machine, once all have noted that they ended.
func (d *Driver) sweepPlacement(dir string) (gone bool, err error) {
	gone, err = folder.Sweep(dir, folder.Hold, func() (bool, error) {
		members, err := d.readMembers(dir)
		return folder.AnyAlive(members), err
	}, func() error { return folder.TakeAway(dir) })
	return gone, d.wrapFileError("remove agents", err)
}
