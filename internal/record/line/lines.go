// Package line makes lines of the frames of recorded output: Lines puts them
// together per stream and item, Folded keeps of a progress bar its last state,
// Tail gives the last ones, Search those that match an expression with what stands
// around them, and Sift does the same for stored output on all cores, skipping
// blocks that cannot match.
//
// It refuses to know where frames come from but for Sift, which reads them from a
// store with package record.
//
// Proved by its own tests: a naive search as oracle for Sift, damaged objects,
// fuzzed frames and expressions, and a bound of memory.
package line

import (
	"bytes"
	"iter"
	"time"

	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/screen"
)

const (
	// MaxLine is the most bytes of a line that are kept; the rest is counted.
	MaxLine = 1 << 20
	// Lines without their end are held in memory: at most this many, and bytes.
	// A map of millions of items without a newline at their ends meets both.
	maxOpenLines = 1 << 16
	maxOpenBytes = 16 << 20
	maxSpare     = 64 << 10 // and of a buffer that is used again
)

// Line is one line of one stream of one item.
type Line struct {
	Attempt, Rank int
	Writer        string
	Item          uint64
	Stream        record.Stream
	Seq           uint64    // of the frame that holds its first byte
	Time          time.Time // of that frame
	Text          []byte    // without its newline; may be kept, never changed
	Dropped       int64     // bytes beyond MaxLine
	Whole         bool      // it ended with a newline
}

// Lines puts frames together to lines, each given when its newline comes. Lines
// that are still open at the end are given then. When too many are open, those
// that grew least recently are given as they are, and what follows of them is a
// line of its own. Errors are passed on in their place.
func Lines(frames iter.Seq2[record.Frame, error]) iter.Seq2[Line, error] { return lines(frames, false) }

func lines(frames iter.Seq2[record.Frame, error], fold bool) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		a := assembly{fold: fold}
		for f, err := range frames {
			if err != nil {
				if !yield(Line{}, err) {
					return
				}
				continue
			}
			if !a.addFrame(f, yield) {
				return
			}
		}
		a.yieldExcess(0, 0, yield)
	}
}

// near is how many open lines are found by looking at each. Nearly always there are
// no more: one for each program that prints.
const near = 16

// assembly holds the open lines in a list, from the one that grew least recently.
type assembly struct {
	fold           bool
	lend           bool // a line's text is good until the next one is opened
	oldest, newest *openLine
	count, bytes   int
	far            map[record.Source]*openLine // all of them, since they are more than near; nil: walk the list
	crowd          [1 << 8]int32               // how many there are, by a hash of the item
	spare          *openLine
}

type openLine struct {
	record.Source
	Line
	older, newer *openLine
}

func (a *assembly) addFrame(f record.Frame, yield func(Line, error) bool) bool {
	for rest := f.Data; len(rest) > 0; {
		text, after, whole := bytes.Cut(rest, []byte("\n"))
		held := a.findOpenLine(&f)
		if whole && held == nil { // most lines: not copied
			rest = after
			l := newLine(&f)
			if a.fold {
				text = screen.Fold(text)
			}
			l.growText(text[:len(text):len(text)])
			l.Whole = true
			if !yield(l, nil) {
				return false
			}
			continue
		}
		if held == nil {
			held = a.beginLine(&f)
		}
		f.Data = rest
		rest = rest[a.extendLine(held, &f):]
		if whole && !a.yieldLine(held, yield) {
			return false
		}
	}
	return a.yieldExcess(maxOpenLines, maxOpenBytes, yield)
}

// findOpenLine gives the open line that f goes on with; nil: there is none.
func (a *assembly) findOpenLine(f *record.Frame) *openLine {
	if !a.mayHoldItem(f.Item) {
		return nil
	}
	from := f.Source()
	if a.far != nil {
		return a.far[from]
	}
	for l := a.newest; l != nil; l = l.older {
		if l.Source == from {
			return l
		}
	}
	return nil
}

// mayHoldItem is false when no line of the item is open; it is true of some others, too.
func (a *assembly) mayHoldItem(item uint64) bool { return a.crowd[crowd(item)] > 0 }

func crowd(item uint64) int { return int(item * 0x9e3779b97f4a7c15 >> 56) }

// extendLine makes an open line longer by what f has of it, and says how many bytes of f
// that is. The line is whole then if they end it.
func (a *assembly) extendLine(l *openLine, f *record.Frame) int {
	text, _, whole := bytes.Cut(f.Data, []byte("\n"))
	before := len(l.Text)
	if a.fold {
		l.foldProgress(text, whole, f)
	} else {
		l.growText(text)
	}
	a.bytes += len(l.Text) - before
	if a.newest != l {
		a.unlinkLine(l)
		a.linkNewest(l)
	}
	if l.Whole = whole; whole {
		return len(text) + 1
	}
	return len(text)
}

func newLine(f *record.Frame) Line {
	return Line{Attempt: f.Attempt, Rank: f.Rank, Writer: f.Writer, Item: f.Item, Stream: f.Stream, Seq: f.Seq, Time: f.Time}
}

// growText appends what MaxLine allows and counts the rest. The first bytes are not
// copied.
func (l *Line) growText(b []byte) {
	n := min(len(b), MaxLine-len(l.Text))
	l.Dropped += int64(len(b) - n)
	if l.Text == nil {
		l.Text = b[:n:n]
	} else {
		l.Text = append(l.Text, b[:n]...)
	}
}

// foldProgress grows l and keeps of a progress bar its last state. whole: b is the end.
func (l *Line) foldProgress(b []byte, whole bool, f *record.Frame) {
	at := bytes.LastIndexByte(b, '\r') + 1
	if at > 0 && screen.ShowsText(b[at:]) { // nothing before it counts any more
		l.Text, l.Dropped, l.Seq, l.Time = l.Text[:0], 0, f.Seq, f.Time
		l.growText(b[at:])
		return
	}
	before := len(l.Text)
	l.growText(b)
	if at > 0 {
		left, from := screen.FoldOpenLine(l.Text)
		l.Text = append(l.Text[:0], left...)
		if from >= before && len(left) > 1 {
			l.Seq, l.Time = f.Seq, f.Time
		}
	}
	if whole {
		l.Text = screen.Fold(l.Text)
	}
}

// beginLine opens an empty line where f's begin.
func (a *assembly) beginLine(f *record.Frame) *openLine {
	l := a.spare
	if a.spare = nil; l == nil {
		l = new(openLine)
	}
	text := l.Text
	if text == nil {
		text = []byte{} // its own: what is held must not hold a whole block
	}
	l.Source, l.Line = f.Source(), newLine(f)
	l.Text = text
	a.linkNewest(l)
	a.crowd[crowd(l.Source.Item)]++
	if a.count++; a.far == nil && a.count > near {
		a.far = make(map[record.Source]*openLine, 2*near)
		for all := a.newest; all != nil; all = all.older {
			a.far[all.Source] = all
		}
	} else if a.far != nil {
		a.far[l.Source] = l
	}
	return l
}

func (a *assembly) yieldLine(l *openLine, yield func(Line, error) bool) bool {
	a.unlinkLine(l)
	a.crowd[crowd(l.Source.Item)]--
	a.bytes -= len(l.Text)
	if a.count--; a.count == 0 {
		a.far = nil
	} else if a.far != nil {
		delete(a.far, l.Source)
	}
	whole := l.Line
	if a.spare = l; a.lend && cap(l.Text) <= maxSpare {
		l.Text = l.Text[:0]
	} else {
		l.Text = nil
	}
	return yield(whole, nil)
}

// yieldExcess gives open lines until no more than these are left.
func (a *assembly) yieldExcess(lines, size int, yield func(Line, error) bool) bool {
	for a.count > lines || a.bytes > size {
		if !a.yieldLine(a.oldest, yield) {
			return false
		}
	}
	return true
}

// linkNewest makes a line the newest.
func (a *assembly) linkNewest(l *openLine) {
	l.older, l.newer = a.newest, nil
	if a.newest == nil {
		a.oldest = l
	} else {
		a.newest.newer = l
	}
	a.newest = l
}

func (a *assembly) unlinkLine(l *openLine) {
	if l.older == nil {
		a.oldest = l.newer
	} else {
		l.older.newer = l.newer
	}
	if l.newer == nil {
		a.newest = l.older
	} else {
		l.newer.older = l.older
	}
}

// Folded is Lines with each line folded: a progress bar of an hour is one line,
// of the time of its last state, and takes the memory of one.
func Folded(frames iter.Seq2[record.Frame, error]) iter.Seq2[Line, error] {
	return lines(frames, true)
}
