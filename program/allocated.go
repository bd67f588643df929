package program

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/agent"
	"github.com/drover-run/drover/internal/host"
)

// reserve returns what reserves an agent's part of its allocation, in which shared names the
// agents that share it. whole is what all agents of this machine have.
func reserve(m *agent.Machine, shared *driver.Sharing, whole host.Room) func(context.Context, agent.Wish, func(string)) (agent.Room, error) {
	switch {
	case shared == nil:
		return room(whole, m.Environ)
	case shared.Folder != "": // what a container may use counts for the program, what the machine has for its reservations
		return room(host.Room{Folder: shared.Folder, CPUs: shared.Cores, Memory: shared.Memory}, m.Environ)
	}
	bound := len(host.Cores()) <= m.CPUs
	alone := host.Room{Folder: filepath.Join(m.Work, "claims", fmt.Sprint(os.Getpid())), Memory: m.Memory, CPUs: float64(m.CPUs)}
	take := room(alone, m.Environ)
	return func(ctx context.Context, w agent.Wish, told func(string)) (agent.Room, error) {
		w.Nodes, w.Queue, w.Priority = 1, "", 0 // others of the job, and the queue, are the engine's to see to
		r, err := take(ctx, w, told)
		if !bound { // the engine counts cores and holds the agent to none: neither does drover
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
