package line

import (
	"bytes"
	"context"
	"iter"
	"regexp"

	"github.com/drover-run/drover/internal/record"
)

// Sift is Search over the lines of what Read gives, for a reader of millions of
// them: the same lines in the same order. The objects are read ahead and unpacked on
// all cores, and what is known of the expression (needles) is looked for in whole
// blocks, so that most frames are passed over unseen.
//
// What is given is good until the next is asked for. then, if it is not nil, gives the frames behind those that are stored: after says
// by origin the seq of the last frame that is known. It is asked once.
func Sift(ctx context.Context, s record.Store, prefix string, f record.Filter, then func(after map[record.Origin]uint64) iter.Seq2[record.Frame, error],
	re *regexp.Regexp, before, after int) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		a := newAhead(s, prefix, f, re)
		defer a.running.Wait()
		defer cancel()
		v := joiner{matcher: newMatcher(re), lines: assembly{lend: true}, search: search{before: max(0, before), after: max(0, after), yield: yield}}
		r := record.Reader{Store: s, Prefix: prefix, Filter: f, List: a.listAhead, Open: a.openListed}
		r.Deliver = func(ctx context.Context, c *record.Cursor, o *record.Object) (goOn bool, err error) {
			for b := range a.siftedBlocks(ctx, o) {
				if goOn := v.takeBlock(b, c.Next); !goOn {
					return false, nil
				}
				c.Next = max(c.Next, b.next)
				if err = b.err; err != nil {
					return true, err
				}
			}
			return true, context.Cause(ctx)
		}
		passOn := func(_ record.Frame, err error) bool { return yield(Found{}, err) }
		if goOn, _ := r.Scan(ctx, then == nil, passOn); !goOn {
			return
		}
		if then != nil && !v.joinFrames(then(r.ReachedSeqs()), passOn) {
			return
		}
		v.lines.yieldExcess(0, 0, v.searchLine)
	}
}

// joiner puts together what blocks are cut into: the lines that begin in one frame and
// end in another, and the lines around those that match.
type joiner struct {
	*matcher
	lines  assembly
	search search
}

// joinFrames takes frames that were not searched yet.
func (v *joiner) joinFrames(all iter.Seq2[record.Frame, error], passOn func(record.Frame, error) bool) bool {
	for f, err := range all {
		if err != nil {
			if !passOn(f, err) {
				return false
			}
			continue
		}
		if !v.lines.addFrame(f, v.searchLine) {
			return false
		}
	}
	return true
}

// searchLine takes a line that was not searched yet.
func (v *joiner) searchLine(l Line, _ error) bool {
	return v.search.searchLine(l, v.matchesLine(l.Text))
}

// takeBlock takes the frames from next on. It keeps nothing that lies in b.
func (v *joiner) takeBlock(b *sifted, next uint64) bool {
	hits := b.hits
	for i := range b.pieces {
		p := &b.pieces[i]
		its := hits[:p.hits]
		hits = hits[p.hits:]
		switch {
		case p.Seq < next: // stored twice
		case p.ends && len(its) == 0 && !v.search.wantsContext() && !v.lines.mayHoldItem(p.Item):
		case !v.searchPiece(b, p, its):
			return false
		}
	}
	return true
}

// searchPiece takes a frame in which the lines at hits match.
func (v *joiner) searchPiece(b *sifted, p *piece, hits []span) bool {
	f := b.frameOf(p)
	from, to := int(p.from), int(p.to)
	if held := v.lines.findOpenLine(&f); held != nil {
		n := v.lines.extendLine(held, &f)
		if held.Whole && !v.lines.yieldLine(held, v.searchLine) {
			return false
		}
		from += n
		if len(hits) > 0 && hits[0].from < from { // it is the end of a line
			hits = hits[1:]
		}
	}
	last := to
	if !p.ends {
		last = from + bytes.LastIndexByte(b.raw[from:to], '\n') + 1
	}
	if !v.searchWholeLines(b.at, &f, b.raw[:last], from, hits) {
		return false
	}
	if last < to {
		f.Data = b.raw[last:to]
		v.lines.extendLine(v.lines.beginLine(&f), &f)
	}
	return v.lines.yieldExcess(maxOpenLines, maxOpenBytes, v.searchLine)
}

// searchWholeLines takes the lines of f that stand in raw from from on, of which those at hits
// match. Only a search with context lines needs the others.
func (v *joiner) searchWholeLines(at record.Origin, f *record.Frame, raw []byte, from int, hits []span) bool {
	l := newLine(f)
	l.Whole = true
	if !v.search.wantsContext() {
		for _, hit := range hits {
			l.Text = raw[hit.from:hit.to:hit.to]
			if !v.search.yield(Found{Line: l, Match: true}, nil) {
				return false
			}
		}
		return true
	}
	if len(hits) == 0 && from < len(raw) {
		from = v.search.passOverLines(at, f.Item, raw, from)
	}
	for from < len(raw) {
		to := from + bytes.IndexByte(raw[from:], '\n')
		match := len(hits) > 0 && hits[0].from == from
		if match {
			hits = hits[1:]
		}
		l.Text = raw[from:to:to]
		if !v.search.searchLine(l, match) {
			return false
		}
		from = to + 1
	}
	return true
}
