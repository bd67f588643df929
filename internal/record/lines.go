package record

import (
	"bytes"
	"container/list"
	"iter"
	"time"
)

const (
	// MaxLine is the most bytes of a line that are kept; the rest is counted.
	MaxLine = 1 << 20
	// Lines without their end are held in memory: at most this many, and bytes.
	// A map of millions of items whose last line has no newline meets both.
	maxOpenLines = 1 << 16
	maxOpenBytes = 16 << 20
)

// Line is one line of one stream of one item.
type Line struct {
	Attempt, Rank int
	Writer        string
	Item          uint64
	Stream        Stream
	Seq           uint64    // of the frame that holds its first byte
	Time          time.Time // of that frame
	Text          []byte    // without its newline; may be kept, never changed
	Dropped       int64     // bytes beyond MaxLine
	Whole         bool      // it ended with a newline
}

// source is what a line belongs to.
type source struct {
	place
	item   uint64
	stream Stream
}

// Lines puts frames together to lines, each given when its newline comes. Lines
// that are still open at the end are given then. When too many are open, those
// that grew least recently are given as they are, and what follows of them is a
// line of its own. Errors are passed on in their place.
func Lines(frames iter.Seq2[Frame, error]) iter.Seq2[Line, error] { return lines(frames, false) }

func lines(frames iter.Seq2[Frame, error], fold bool) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		a := assembly{fold: fold}
		for f, err := range frames {
			if err != nil {
				if !yield(Line{}, err) {
					return
				}
				continue
			}
			if !a.add(f, yield) {
				return
			}
		}
		a.trim(0, 0, yield)
	}
}

// assembly holds the open lines, the one that grew least recently first.
type assembly struct {
	fold  bool
	open  map[source]*list.Element // of *openLine
	order list.List
	bytes int
}

type openLine struct {
	source
	Line
}

func (a *assembly) add(f Frame, yield func(Line, error) bool) bool {
	from := source{place{f.Attempt, f.Rank, f.Writer}, f.Item, f.Stream}
	for rest := f.Data; len(rest) > 0; {
		text, after, whole := bytes.Cut(rest, []byte{'\n'})
		rest = after
		held := a.open[from]
		if whole && held == nil { // most lines: not copied
			l := newLine(&f)
			if a.fold {
				text = Fold(text)
			}
			l.grow(text[:len(text):len(text)])
			l.Whole = true
			if !yield(l, nil) {
				return false
			}
			continue
		}
		if held == nil {
			held = a.begin(from, &f)
		}
		l := held.Value.(*openLine)
		before := len(l.Text)
		if a.fold {
			l.fold(text, whole, &f)
		} else {
			l.grow(text)
		}
		a.bytes += len(l.Text) - before
		a.order.MoveToBack(held)
		if whole {
			l.Whole = true
			if !a.end(held, yield) {
				return false
			}
		}
	}
	return a.trim(maxOpenLines, maxOpenBytes, yield)
}

func newLine(f *Frame) Line {
	return Line{Attempt: f.Attempt, Rank: f.Rank, Writer: f.Writer, Item: f.Item, Stream: f.Stream, Seq: f.Seq, Time: f.Time}
}

// grow appends what MaxLine allows and counts the rest. The first bytes are not
// copied.
func (l *Line) grow(b []byte) {
	n := min(len(b), MaxLine-len(l.Text))
	l.Dropped += int64(len(b) - n)
	if l.Text == nil {
		l.Text = b[:n:n]
	} else {
		l.Text = append(l.Text, b[:n]...)
	}
}

// fold grows l and keeps of a progress bar its last state. whole: b is the end.
func (l *Line) fold(b []byte, whole bool, f *Frame) {
	at := bytes.LastIndexByte(b, '\r') + 1
	if at > 0 && shows(b[at:]) { // nothing before it counts any more
		l.Text, l.Dropped, l.Seq, l.Time = l.Text[:0], 0, f.Seq, f.Time
		l.grow(b[at:])
		return
	}
	before := len(l.Text)
	l.grow(b)
	if at > 0 {
		left, from := foldOpen(l.Text)
		l.Text = append(l.Text[:0], left...)
		if from >= before && len(left) > 1 {
			l.Seq, l.Time = f.Seq, f.Time
		}
	}
	if whole {
		l.Text = Fold(l.Text)
	}
}

func (a *assembly) begin(from source, f *Frame) *list.Element {
	if a.open == nil {
		a.open = map[source]*list.Element{}
	}
	l := newLine(f)
	l.Text = []byte{} // its own: what is held must not hold a whole block
	e := a.order.PushBack(&openLine{from, l})
	a.open[from] = e
	return e
}

func (a *assembly) end(e *list.Element, yield func(Line, error) bool) bool {
	l := a.order.Remove(e).(*openLine)
	delete(a.open, l.source)
	a.bytes -= len(l.Text)
	return yield(l.Line, nil)
}

// trim gives open lines until no more than these are left.
func (a *assembly) trim(lines, size int, yield func(Line, error) bool) bool {
	for a.order.Len() > lines || a.bytes > size {
		if !a.end(a.order.Front(), yield) {
			return false
		}
	}
	return true
}
