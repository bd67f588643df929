package proc

import (
	"syscall"

	"github.com/drover-run/drover/internal/proc/wire"
)

func endEvent(e *errandEnd) Spawned {
	s := Spawned{ID: e.id, Kind: SpawnedEnded, Exit: ended(e.status), Began: e.began, Ended: e.ended, Output: e.output, Stopped: e.stopped}
	s.Exit.TimedOut, s.Exit.Left = e.timedOut, e.left
	s.Exit.User, s.Exit.System, s.Exit.MaxRSS = e.user, e.system, e.maxRSS
	return s
}

// parseSpawned reads a frame from the spawner. The data of an output stays where it is.
func parseSpawned(o *wire.Order, kind byte, c cut) (s Spawned, ok bool) {
	s.ID = c.u64()
	switch kind {
	case frameBegan:
		s.Kind, s.Began = SpawnedBegan, c.nextTime()
	case frameOutput:
		s.Kind, s.Stream, s.Data = SpawnedOutput, int(c.u8()), c.b
	case frameEnded:
		e := c.nextErrandEnd(s.ID)
		s = endEvent(&e)
	case frameUnfit:
		errno := syscall.Errno(c.u32())
		s.Kind, s.Began = SpawnedEnded, c.nextTime()
		s.Ended = s.Began
		s.Exit.Code = -1
		told := wire.Order{Path: c.b, Dir: o.Dir, Layout: o.Layout}
		s.Err = explain(told, wire.StepExec, errno)
	case frameUnstarted:
		s.Kind = SpawnedUnstarted
	default:
		return s, false
	}
	return s, !c.bad
}
