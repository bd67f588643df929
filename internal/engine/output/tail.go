package output

import (
	"context"
	"iter"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/line"
	"github.com/drover-run/drover/report"
)

// openLines is how many lines are read more where those that have not ended are left for
// later: as many as items run on most machines.
const openLines = 64

// lastLines are the last lines that there are, and with Follow what comes then. Of what
// is stored only the end is read.
func (x Reader) lastLines(ctx context.Context, rep views.Report, f record.Filter, o report.LogOptions) iter.Seq2[line.Line, error] {
	after, objects := map[record.Origin]uint64{}, map[record.Origin]int{}
	most := o.Tail
	if o.Follow {
		most += openLines
	}
	stored := record.ReadTailTo(ctx, x.session.World.Store, protocol.LogsPrefix(x.path), f, most, after, objects)
	if x.allIsStored(rep, o.Follow) {
		return line.Tail(line.Lines(stored), o.Tail)
	}
	return func(yield func(line.Line, error) bool) {
		there := frames{}
		for fr, err := range stored {
			there = append(there, frame{fr, err})
		}
		now := line.Lines(there.followedBy(x.newestFrames(ctx, rep, f, after, objects)))
		if !o.Follow {
			line.Tail(now, o.Tail)(yield)
			return
		}
		seen := passed{}
		for l, err := range line.Tail(seen.skipPassed(now), o.Tail) {
			if !yield(l, err) {
				return
			}
		}
		there.sortFrames()
		for l, err := range line.Lines(there.followedBy(x.followFrames(ctx, f, after, objects, o))) {
			if err == nil && seen.wasPassed(l) {
				continue
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// frames are some that were read, and what could not be.
type frames []frame

type frame struct {
	record.Frame
	err error
}

// followedBy gives them, and those behind them.
func (fs frames) followedBy(more iter.Seq2[record.Frame, error]) iter.Seq2[record.Frame, error] {
	return func(yield func(record.Frame, error) bool) {
		for _, f := range fs {
			if !yield(f.Frame, f.err) {
				return
			}
		}
		more(yield)
	}
}

// sortFrames forgets what could not be read: it was said.
func (fs *frames) sortFrames() {
	sound := (*fs)[:0]
	for _, f := range *fs {
		if f.err == nil {
			sound = append(sound, f)
		}
	}
	*fs = sound
}

// passed counts the lines of each source that were passed on. A reader of the same
// frames, and of more after them, meets them in the same order.
type passed map[origin]int

// origin is what a line belongs to.
type origin struct {
	attempt, rank int
	writer        string
	item          uint64
	stream        record.Stream
}

func originOf(l line.Line) origin {
	return origin{l.Attempt, l.Rank, l.Writer, l.Item, l.Stream}
}

// skipPassed passes on lines that have ended, and remembers them. A line that goes on is
// left to the reader that follows.
func (p passed) skipPassed(lines iter.Seq2[line.Line, error]) iter.Seq2[line.Line, error] {
	return func(yield func(line.Line, error) bool) {
		for l, err := range lines {
			if err == nil && !l.Whole {
				continue
			}
			if err == nil {
				p[originOf(l)]++
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// wasPassed says of a line that it was passed on before.
func (p passed) wasPassed(l line.Line) bool {
	from := originOf(l)
	if p[from] == 0 {
		return false
	}
	if p[from]--; p[from] == 0 {
		delete(p, from)
	}
	return true
}
