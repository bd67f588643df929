// Package hits does to the agents of a map on this machine what befalls machines: a drill strikes
// with them while the map runs. Proved by its tests on real processes.
package hits

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Hit is what befalls an agent of a map on this machine.
type Hit string

// The hits. Machines do all of them to agents sooner or later.
const (
	Kill    Hit = "SIGKILL"
	Term    Hit = "SIGTERM"
	Notice  Hit = "notice"  // all agents of its placement are asked to go, with the job's grace
	Pause   Hit = "pause"   // SIGSTOP, and SIGCONT before its lease is over
	Program Hit = "program" // SIGKILL for one of its programs that stay
)

// Strike does a hit to the agent that has the heartbeat b. pick chooses one of its
// programs, and pause says how long it is stopped for. did is false when the agent has
// ended, runs no such program, or is not on this machine.
func Strike(ctx context.Context, s *session.Session, j job.Job, b protocol.Heartbeat, h Hit, pick uint64, pause time.Duration) (did bool, err error) {
	id := process.Identity(b.Host)
	if gone, known := id.Gone(); gone || !known {
		return false, nil
	}
	switch h {
	case Kill:
		return send(id, syscall.SIGKILL)
	case Term:
		return send(id, syscall.SIGTERM)
	case Notice:
		return giveNotice(ctx, s, j, b)
	case Pause:
		return pauseProcess(ctx, s.World.Store.Clock(), id, pause)
	case Program:
		programs, err := process.Supervised(id)
		if err != nil || len(programs) == 0 {
			return false, err
		}
		return send(programs[pick%uint64(len(programs))], syscall.SIGKILL)
	}
	return false, fault.New(fault.Bug, "", "strike agent %s: %q is not a hit", b.Agent, h)
}

func giveNotice(ctx context.Context, s *session.Session, j job.Job, b protocol.Heartbeat) (bool, error) {
	var placement int
	if _, err := fmt.Sscanf(b.Agent, "%d-", &placement); err != nil {
		return false, nil // it is none of a driver's
	}
	d, err := s.Driver(j.Spec.On)
	if err != nil {
		return false, err
	}
	err = d.Stop(ctx, s.PlacementHandle(j, placement), time.Duration(j.Spec.Grace), false)
	return err == nil, err
}

// pauseProcess has a process go on again whatever becomes of the caller.
func pauseProcess(ctx context.Context, clock store.Clock, id process.Identity, d time.Duration) (bool, error) {
	did, err := send(id, syscall.SIGSTOP)
	if !did || err != nil {
		return did, err
	}
	slept := clock.Sleep(ctx, min(d, protocol.Lease/2))
	if _, err := send(id, syscall.SIGCONT); err != nil {
		return true, err
	}
	return true, slept
}

// send gives a process a signal, unless it has ended.
func send(id process.Identity, s syscall.Signal) (bool, error) {
	if gone, known := id.Gone(); gone || !known {
		return false, nil
	}
	switch err := syscall.Kill(id.PID, s); err {
	case nil:
		return true, nil
	case syscall.ESRCH:
		return false, nil
	default:
		return false, fmt.Errorf("send %s to process %d: %w", s, id.PID, err)
	}
}
