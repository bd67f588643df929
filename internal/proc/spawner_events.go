package proc

import (
	"syscall"

	"github.com/drover-run/drover/internal/proc/spawner/frame"
	"github.com/drover-run/drover/internal/proc/wire"
)

func endEvent(e *frame.CommandEnd) Spawned {
	s := Spawned{ID: e.ID, Kind: SpawnedEnded, Exit: ended(e.Status), Began: e.Began, Ended: e.Ended, Output: e.Output, Stopped: e.Stopped}
	s.Exit.TimedOut, s.Exit.Left = e.TimedOut, e.Left
	s.Exit.User, s.Exit.System, s.Exit.MaxRSS = e.User, e.System, e.MaxRSS
	return s
}

// parseSpawned reads a frame from the spawner. The data of an output stays where it is.
func parseSpawned(o *wire.Order, kind byte, c frame.Cut) (s Spawned, ok bool) {
	s.ID = c.U64()
	switch kind {
	case frame.FrameBegan:
		s.Kind, s.Began = SpawnedBegan, c.NextTime()
	case frame.FrameOutput:
		s.Kind, s.Stream, s.Data = SpawnedOutput, int(c.U8()), c.B
	case frame.FrameEnded:
		e := c.NextCommandEnd(s.ID)
		s = endEvent(&e)
	case frame.FrameUnfit:
		errno := syscall.Errno(c.U32())
		s.Kind, s.Began = SpawnedEnded, c.NextTime()
		s.Ended = s.Began
		s.Exit.Code = -1
		told := wire.Order{Path: c.B, Dir: o.Dir, Layout: o.Layout}
		s.Err = explain(told, wire.StepExec, errno)
	case frame.FrameUnstarted:
		s.Kind = SpawnedUnstarted
	default:
		return s, false
	}
	return s, !c.Bad
}
