package engine

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/job"
)

// Hit is what befalls an agent of a map on this machine.
type Hit string

// The hits. Machines do all of them to agents sooner or later.
const (
	HitKill    Hit = "SIGKILL"
	HitTerm    Hit = "SIGTERM"
	HitNotice  Hit = "notice"  // all agents of its placement are asked to go, with the job's grace
	HitPause   Hit = "pause"   // SIGSTOP, and SIGCONT before its lease is over
	HitProgram Hit = "program" // SIGKILL for one of its programs that stay
)

// Strike does a hit to the agent that has the heartbeat b. pick chooses one of its
// programs, and pause says how long it is stopped for. did is false when the agent has
// ended, runs no such program, or is not on this machine.
func (e *Engine) Strike(ctx context.Context, j job.Job, b protocol.Heartbeat, h Hit, pick uint64, pause time.Duration) (did bool, err error) {
	id := process.Identity(b.Host)
	if gone, known := id.Gone(); gone || !known {
		return false, nil
	}
	switch h {
	case HitKill:
		return send(id, syscall.SIGKILL)
	case HitTerm:
		return send(id, syscall.SIGTERM)
	case HitNotice:
		return e.giveNotice(ctx, j, b)
	case HitPause:
		return e.pauseProcess(ctx, id, pause)
	case HitProgram:
		programs, err := process.Supervised(id)
		if err != nil || len(programs) == 0 {
			return false, err
		}
		return send(programs[pick%uint64(len(programs))], syscall.SIGKILL)
	}
	return false, fault.New(fault.Bug, "", "strike agent %s: %q is not a hit", b.Agent, h)
}

func (e *Engine) giveNotice(ctx context.Context, j job.Job, b protocol.Heartbeat) (bool, error) {
	var placement int
	if _, err := fmt.Sscanf(b.Agent, "%d-", &placement); err != nil {
		return false, nil // it is none of a driver's
	}
	d, err := e.Driver(j.Spec.On)
	if err != nil {
		return false, err
	}
	err = d.Stop(ctx, e.PlacementHandle(j, placement), time.Duration(j.Spec.Grace), false)
	return err == nil, err
}

// pauseProcess has a process go on again whatever becomes of the caller.
func (e *Engine) pauseProcess(ctx context.Context, id process.Identity, d time.Duration) (bool, error) {
	did, err := send(id, syscall.SIGSTOP)
	if !did || err != nil {
		return did, err
	}
	slept := e.World.Store.Clock().Sleep(ctx, min(d, protocol.Lease/2))
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
