package program

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/host"
)

// reserve returns the function that reserves an agent's part of its allocation; shared names
// the agents that it is shared with. whole is what all agents of this machine have.
func reserve(m *node.Machine, shared *driver.Sharing, whole host.Room) func(context.Context, node.Wish, func(string)) (node.Room, error) {
	switch {
	case shared == nil:
		return room(whole, m.Environ)
	case shared.Folder != "": // the program gets what its container may use; reservations go by what the machine has
		return room(host.Room{Folder: shared.Folder, CPUs: shared.Cores, Memory: shared.Memory}, m.Environ)
	}
	bound := len(host.Cores()) <= m.CPUs
	alone := host.Room{Folder: filepath.Join(m.Work, "claims", fmt.Sprint(os.Getpid())), Memory: m.Memory, CPUs: float64(m.CPUs)}
	take := room(alone, m.Environ)
	return func(ctx context.Context, w node.Wish, told func(string)) (node.Room, error) {
		w.Nodes, w.Queue, w.Priority = 1, "", 0 // the engine handles the job's other agents and the queue
		r, err := take(ctx, w, told)
		if !bound { // the engine counts cores and does not limit the agent to them: nor does drover
			r.Cores = nil
		}
		if release := r.Release; release != nil {
			r.Release = func() {
				release()
				_ = os.RemoveAll(alone.Folder)
			}
		}
		return r, err
	}
}

// scratchBase is this user's folder on a disk that the machine's users share: another
// user can make it first. Agents work in its folder scratchWork.
func scratchBase(scratch string) string {
	return filepath.Join(scratch, fmt.Sprintf("drover-%d", os.Geteuid()))
}

const scratchWork = "work"
