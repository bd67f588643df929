package line

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNeedles is how many texts are looked for at once: with more of them going
// through a block once for each costs as much as the expression itself.
const maxNeedles = 8

// needles are texts of which every text that an expression matches holds one at
// least. To look for them is many times faster than to try the expression, and
// nearly all lines hold none.
type needles struct {
	texts [][]byte // none: nothing is known of what it matches
	fold  bool     // they are lower case, and either case counts
	only  bool     // the expression matches whatever holds one
}

// needlesOf reads an expression as regexp.Compile did.
func needlesOf(re *regexp.Regexp) needles {
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return needles{} // it was compiled from POSIX's grammar
	}
	best := required(tree.Simplify())
	for tree.Op == syntax.OpCapture {
		tree = tree.Sub[0]
	}
	best.only = tree.Op == syntax.OpLiteral && !best.fold && len(best.texts) == 1 &&
		string(best.texts[0]) == string(tree.Rune) && bytes.IndexByte(best.texts[0], '\n') < 0
	return best
}

// required is of all that must be there what is found soonest: the longest.
func required(tree *syntax.Regexp) (best needles) {
	switch tree.Op {
	case syntax.OpLiteral:
		fold := tree.Flags&syntax.FoldCase != 0
		if text := plainRun(tree.Rune, fold); text != "" {
			return needles{texts: [][]byte{[]byte(text)}, fold: fold}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(tree.Sub[0])
	case syntax.OpRepeat:
		if tree.Min > 0 {
			return required(tree.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range tree.Sub {
			if n := required(sub); n.shortestLength() > best.shortestLength() {
				best = n
			}
		}
	case syntax.OpAlternate:
		for i, sub := range tree.Sub {
			n := required(sub)
			if n.texts == nil || i > 0 && n.fold != best.fold || len(best.texts)+len(n.texts) > maxNeedles {
				return needles{}
			}
			best.texts, best.fold = append(best.texts, n.texts...), n.fold
		}
	}
	return best
}

// shortestLength is the length of the shortest text.
func (n needles) shortestLength() int {
	if len(n.texts) == 0 {
		return 0
	}
	least := len(n.texts[0])
	for _, text := range n.texts {
		least = min(least, len(text))
	}
	return least
}

// plainRun is the longest part of a literal that stands as these bytes in whatever
// it matches. U+FFFD matches any byte that is no UTF-8. Where case does not count,
// only ASCII is one byte in both cases, and of that k and s are also the Kelvin sign
// and the long s.
func plainRun(literal []rune, fold bool) string {
	longest := ""
	for _, run := range strings.FieldsFunc(string(literal), func(r rune) bool {
		return r == utf8.RuneError || fold && (r >= utf8.RuneSelf || unicode.ToLower(r) == 'k' || unicode.ToLower(r) == 's')
	}) {
		if len(run) > len(longest) {
			longest = run
		}
	}
	if fold {
		longest = strings.ToLower(longest)
	}
	return longest
}

// finder looks for needles in a text, from left to right.
type finder struct {
	needles
	in    []byte
	at    []int  // by needle: the first place at or behind what was asked for last; len(in): none
	lower []byte // reused
}

// beginText takes the text.
func (f *finder) beginText(in []byte) {
	f.in = in
	if f.fold {
		f.lower = append(f.lower[:0], in...)
		for i, c := range f.lower {
			if c-'A' < 26 {
				f.lower[i] = c + 'a' - 'A'
			}
		}
		f.in = f.lower
	}
	f.at = f.at[:0]
	for range f.texts {
		f.at = append(f.at, -1)
	}
}

// nextMatch is the first place from which on a needle stands, from on; the text's length
// if there is none. Each call asks for no less than the one before.
func (f *finder) nextMatch(from int) int {
	if len(f.texts) == 0 {
		return from
	}
	first := len(f.in)
	for i, text := range f.texts {
		if f.at[i] < from {
			if n := bytes.Index(f.in[from:], text); n >= 0 {
				f.at[i] = from + n
			} else {
				f.at[i] = len(f.in)
			}
		}
		first = min(first, f.at[i])
	}
	return first
}

// matcher says whether a line matches. It is for one goroutine.
type matcher struct {
	re *regexp.Regexp
	finder
}

func newMatcher(re *regexp.Regexp) *matcher {
	return &matcher{re: re, finder: finder{needles: needlesOf(re)}}
}

func (m *matcher) matchesLine(line []byte) bool {
	switch {
	case len(m.texts) == 0:
	case len(m.texts) == 1 && !m.fold:
		if !bytes.Contains(line, m.texts[0]) {
			return false
		}
	default:
		if m.beginText(line); m.nextMatch(0) == len(line) {
			return false
		}
	}
	return m.only || m.re.Match(line)
}

// span is a line's place in a block.
type span struct{ from, to int }

// appendMatches adds the lines between from and to that match to hits. The one that has not
// ended at to is left out; begin has taken all of the block.
func (m *matcher) appendMatches(hits []span, block []byte, from, to int) []span {
	for {
		at := m.nextMatch(from)
		if at >= to {
			return hits
		}
		n := bytes.IndexByte(block[at:to], '\n')
		if n < 0 {
			return hits
		}
		line := span{from + bytes.LastIndexByte(block[from:at], '\n') + 1, at + n}
		if m.only || m.re.Match(block[line.from:line.to]) {
			hits = append(hits, line)
		}
		from = line.to + 1
	}
}
