package line

import (
	"bytes"
	"container/list"
	"iter"
	"regexp"

	"github.com/drover-run/drover/internal/record"
)

// How much context is remembered: items of which, and bytes of each and of all.
const (
	maxSources      = 4096
	maxContext      = 1 << 20
	maxContextBytes = 16 << 20
)

// Found is a line that Search gives.
type Found struct {
	Line
	Match bool // false: a neighbour of a match
	Apart bool // lines of the same item before this one were left out; not told when no lines around were asked for
}

// Search gives the lines that re matches, with up to before and after lines
// around each, of the same writer and item. Each line comes once, as soon as it
// is known to be wanted. Lines long ago may be missing from a context when very
// many items print at once. Errors are passed on in their place.
func Search(lines iter.Seq2[Line, error], re *regexp.Regexp, before, after int) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		m := newMatcher(re)
		s := search{before: max(0, before), after: max(0, after), yield: yield}
		for l, err := range lines {
			if err != nil {
				if !yield(Found{}, err) {
					return
				}
				continue
			}
			if !s.searchLine(l, m.matchesLine(l.Text)) {
				return
			}
		}
	}
}

// search remembers the last lines of each item, the one that printed least
// recently first.
type search struct {
	before, after int
	yield         func(Found, error) bool

	known map[record.Source]*list.Element // of *nearby; the source's stream is not used
	order list.List
	bytes int
}

type nearby struct {
	record.Source
	lines []Line // the last ones that were not given
	bytes int
	owed  int  // lines to give after a match
	apart bool // some were neither given nor are remembered
}

// wantsContext says whether lines around those that match are wanted.
func (s *search) wantsContext() bool { return s.before+s.after > 0 }

// searchLine takes the next line. It keeps none of its bytes.
func (s *search) searchLine(l Line, match bool) bool {
	if !s.wantsContext() {
		if !match {
			return true
		}
		return s.yield(Found{Line: l, Match: true}, nil)
	}
	n := s.nearbyOf(record.Source{Origin: record.Origin{Attempt: l.Attempt, Rank: l.Rank, Writer: l.Writer}, Item: l.Item, Stream: 0})
	switch {
	case match:
		for _, old := range n.lines {
			if !s.yield(Found{Line: old, Apart: n.apart}, nil) {
				return false
			}
			n.apart = false
		}
		s.forgetLines(n, len(n.lines))
		given := Found{Line: l, Match: true, Apart: n.apart}
		n.apart, n.owed = false, s.after
		return s.yield(given, nil)
	case n.owed > 0:
		n.owed--
		return s.yield(Found{Line: l}, nil)
	case s.before == 0:
		n.apart = true
		return true
	}
	if len(n.lines) == s.before {
		s.forgetLines(n, 1)
		n.apart = true
	}
	l.Text = bytes.Clone(l.Text) // else it holds the whole block it lies in
	n.lines = append(n.lines, l)
	n.bytes += len(l.Text)
	s.bytes += len(l.Text)
	for n.bytes > maxContext {
		s.forgetLines(n, 1)
		n.apart = true
	}
	for s.bytes > maxContextBytes {
		s.evictOldest()
	}
	return true
}

// passOverLines passes over lines that do not match: those of an item that stand in raw from
// from on, each with its newline. It gives where the lines begin that may be around
// another one.
func (s *search) passOverLines(at record.Origin, item uint64, raw []byte, from int) int {
	n := s.nearbyOf(record.Source{Origin: at, Item: item, Stream: 0})
	if n.owed > 0 {
		return from
	}
	last := len(raw)
	for i := 0; i < s.before && last > from; i++ {
		last = from + bytes.LastIndexByte(raw[from:last-1], '\n') + 1
	}
	if last > from {
		s.forgetLines(n, len(n.lines))
		n.apart = true
	}
	return last
}

// nearbyOf gives what is known of an item, and makes it the last to be evicted.
func (s *search) nearbyOf(from record.Source) *nearby {
	if e := s.known[from]; e != nil {
		s.order.MoveToBack(e)
		return e.Value.(*nearby)
	}
	if s.known == nil {
		s.known = map[record.Source]*list.Element{}
	}
	if len(s.known) == maxSources {
		s.evictOldest()
	}
	n := &nearby{Source: from}
	s.known[from] = s.order.PushBack(n)
	return n
}

func (s *search) forgetLines(n *nearby, lines int) {
	for _, l := range n.lines[:lines] {
		n.bytes -= len(l.Text)
		s.bytes -= len(l.Text)
	}
	n.lines = append(n.lines[:0], n.lines[lines:]...)
}

func (s *search) evictOldest() {
	n := s.order.Remove(s.order.Front()).(*nearby)
	s.forgetLines(n, len(n.lines))
	delete(s.known, n.Source)
}
