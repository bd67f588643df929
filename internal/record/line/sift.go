package line

import (
	"bytes"
	"context"
	"iter"
	"regexp"

	"github.com/drover-run/drover/internal/record"
)

// Sift is Search over the lines of what Read gives, for who looks through millions of
// them: the same lines in the same order. The objects are read ahead and unpacked on
// all cores, and what is known of the expression (needles) is looked for in whole
// blocks, so that most frames are passed over unseen.
//
// What is given is good until the next is asked for. then, if it is not nil, gives the frames behind those that are stored: after says
// by writer the seq of the last frame that is known. It is asked once.
func Sift(ctx context.Context, s record.Store, prefix string, f record.Filter, then func(after map[string]uint64) iter.Seq2[record.Frame, error],
	re *regexp.Regexp, before, after int) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		a := newAhead(s, prefix, f, re)
		defer a.running.Wait()
		defer cancel()
		v := joiner{matcher: newMatcher(re), lines: assembly{lend: true}, search: search{before: max(0, before), after: max(0, after), yield: yield}}
		r := record.Reader{Store: s, Prefix: prefix, Filter: f, List: a.list, Open: a.open}
		r.Deliver = func(ctx context.Context, c *record.Cursor, o *record.Object) (goOn bool, err error) {
			for b := range a.blocks(ctx, o) {
				if goOn := v.block(b, c.Next); !goOn {
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
		if then != nil && !v.frames(then(r.ReachedSeqs()), passOn) {
			return
		}
		v.lines.trim(0, 0, v.joined)
	}
}

// joiner puts together what blocks are cut into: the lines that begin in one frame and
// end in another, and the lines around those that match.
type joiner struct {
	*matcher
	lines  assembly
	search search
}

// frames takes frames that nobody has looked through.
func (v *joiner) frames(all iter.Seq2[record.Frame, error], passOn func(record.Frame, error) bool) bool {
	for f, err := range all {
		if err != nil {
			if !passOn(f, err) {
				return false
			}
			continue
		}
		if !v.lines.add(f, v.joined) {
			return false
		}
	}
	return true
}

// joined takes a line that nobody has looked at.
func (v *joiner) joined(l Line, _ error) bool { return v.search.line(l, v.match(l.Text)) }

// block takes the frames from next on. It keeps nothing that lies in b.
func (v *joiner) block(b *sifted, next uint64) bool {
	hits := b.hits
	for i := range b.pieces {
		p := &b.pieces[i]
		its := hits[:p.hits]
		hits = hits[p.hits:]
		switch {
		case p.Seq < next: // stored twice
		case p.ends && len(its) == 0 && !v.search.around() && !v.lines.holds(p.Item):
		case !v.piece(b, p, its):
			return false
		}
	}
	return true
}

// piece takes a frame in which the lines at hits match.
func (v *joiner) piece(b *sifted, p *piece, hits []span) bool {
	f := b.frame(p)
	from, to := int(p.from), int(p.to)
	if held := v.lines.find(&f); held != nil {
		n := v.lines.more(held, &f)
		if held.Whole && !v.lines.end(held, v.joined) {
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
	if !v.whole(b.at, &f, b.raw[:last], from, hits) {
		return false
	}
	if last < to {
		f.Data = b.raw[last:to]
		v.lines.more(v.lines.begin(&f), &f)
	}
	return v.lines.trim(maxOpenLines, maxOpenBytes, v.joined)
}

// whole takes the lines of f that stand in raw from from on, of which those at hits
// match. Only who wants the lines around them needs the others.
func (v *joiner) whole(at record.Origin, f *record.Frame, raw []byte, from int, hits []span) bool {
	l := newLine(f)
	l.Whole = true
	if !v.search.around() {
		for _, hit := range hits {
			l.Text = raw[hit.from:hit.to:hit.to]
			if !v.search.yield(Found{Line: l, Match: true}, nil) {
				return false
			}
		}
		return true
	}
	if len(hits) == 0 && from < len(raw) {
		from = v.search.pass(at, f.Item, raw, from)
	}
	for from < len(raw) {
		to := from + bytes.IndexByte(raw[from:], '\n')
		match := len(hits) > 0 && hits[0].from == from
		if match {
			hits = hits[1:]
		}
		l.Text = raw[from:to:to]
		if !v.search.line(l, match) {
			return false
		}
		from = to + 1
	}
	return true
}
