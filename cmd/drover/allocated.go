package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/driver/slurm"
	"github.com/drover-run/drover/internal/agent"
	"github.com/drover-run/drover/internal/host"
	"github.com/drover-run/drover/internal/proc"
)

// allocated makes of a machine the part of it that Slurm has given to one agent. That
// part is its own: it is claimed from nobody, and Slurm says which cores they are.
func allocated(m *agent.Machine, in *slurm.Inside) {
	m.CPUs, m.Memory = cmp.Or(in.CPUs, m.CPUs), cmp.Or(in.Memory, m.Memory)
	m.Name, m.Secrets = cmp.Or(in.Node, m.Name), in.Secrets
	if base := scratchBase(in.Scratch); in.Scratch != "" && proc.MakePrivate(base) == nil {
		m.Work = filepath.Join(base, scratchWork)
	}
	bound := len(host.Cores()) <= m.CPUs
	alone := host.Room{Folder: filepath.Join(m.Work, "claims", fmt.Sprint(os.Getpid())), Memory: m.Memory, CPUs: float64(m.CPUs)}
	take := room(alone, m.Environ)
	m.Room = func(ctx context.Context, w agent.Wish, told func(string)) (agent.Room, error) {
		w.Nodes, w.Queue, w.Priority = 1, "", 0 // others of the job, and the line, are Slurm's to see to
		r, err := take(ctx, w, told)
		if !bound { // Slurm counts cores and does not hold us to some: no more do we
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
