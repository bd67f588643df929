package metric

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// pair is a name and its number, as a line has them.
type pair struct {
	name  []byte
	value float64
}

// pairs finds them. Its slices are used again for each line.
type pairs struct {
	found []pair
	names []byte // those that are put together from two words
	nest  nest
}

// maxSpaces may stand around the sign between a name and its number: columns
// are aligned.
const maxSpaces = 32

// pairsInLine gives the pairs of a line as far as find understands it. More than maxPairs
// are none: that is a configuration.
func (p *pairs) pairsInLine(line []byte, find presets) []pair {
	p.found, p.names = p.found[:0], p.names[:0]
	if find == 0 {
		return nil
	}
	p.nest = nest{}
	bare := byte(0) // the signs that unquoted pairs may have; found out when one is met
	known := false
	equals, colon := 0, 0 // where the next ones are
	for i := 1; ; i++ {
		if i > equals {
			equals = next(line, '=', i)
		}
		if i > colon {
			colon = next(line, ':', i)
		}
		if i = min(equals, colon); i == len(line) {
			break
		}
		if !promising(line[i+1:]) {
			continue
		}
		sign := line[i]
		name, from, quote := nameBefore(line, i)
		if len(name) == 0 {
			continue
		}
		if quote == 0 {
			if !known {
				bare, known = signs(line, find), true
			}
			if bare != anySign && bare != sign {
				continue
			}
		}
		v, n, whole := valueAfter(line[i+1:], quote != 0)
		if n == 0 || !p.isMetricName(line, i, name, quote, find, whole) {
			continue
		}
		if quote == 0 {
			name = p.phraseName(line[:from], name, sign == ':' || blank(line[i+1:]))
		}
		i += n
		if p.appendPair(name, v); len(p.found) > maxPairs {
			return nil
		}
	}
	if find&findPairs != 0 && !p.findUnsigned(line) {
		return nil
	}
	return p.found
}

// findUnsigned finds numbers that follow a name with nothing between but a space, as in
// "iter 20: loss 3.31, time 200ms". Any word may stand before a number, so only the
// names of losses and scores count, and only fractions, NaN and infinity. It is false
// when there are too many.
func (p *pairs) findUnsigned(line []byte) bool {
	for i := next(line, ' ', 1); i < len(line); i = next(line, ' ', i+1) {
		c := line[i-1]
		if !letter(c) && !figure(c) || !promising(line[i:]) {
			continue
		}
		name, from, quote := nameBefore(line, i)
		if len(name) == 0 || quote != 0 || !scores(name) {
			continue
		}
		v, n, whole := valueAfter(line[i:], false)
		if n == 0 || whole {
			continue
		}
		if p.appendPair(p.phraseName(line[:from], name, true), v); len(p.found) > maxPairs {
			return false
		}
	}
	return true
}

// next is where c stands in line from i on; the line's end if it does not.
func next(line []byte, c byte, i int) int {
	if i < len(line) {
		if n := bytes.IndexByte(line[i:], c); n >= 0 {
			return i + n
		}
	}
	return len(line)
}

const anySign = '*'

// signs says which unquoted pairs of a line are understood: name=number of a
// tqdm bar, name: number of a Keras bar, or any; 0 is none.
func signs(line []byte, find presets) byte {
	switch {
	case find&findPairs != 0:
		return anySign
	case find&findLightning != 0 && isBar(line):
		return '='
	case find&findKeras != 0 && isKeras(line):
		return ':'
	}
	return 0
}

// isBar is true for a tqdm bar with its rate: 50%|#####     | 5/10 [00:01<00:01, 4.9it/s, loss=0.5].
func isBar(line []byte) bool {
	return bytes.IndexByte(line, '[') >= 0 && (bytes.Contains(line, []byte("it/s")) || bytes.Contains(line, []byte("s/it")))
}

// isKeras is true for 12/100 [==>...] - ETA: 3s - loss: 0.5, and what its newer
// versions make of that.
func isKeras(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	_, n, ok := digits(line)
	if !ok || n == len(line) || line[n] != '/' {
		return false
	}
	_, _, ok = digits(line[n+1:])
	return ok && bytes.Contains(line, []byte(" - "))
}

// promising looks at one byte behind the sign: most signs are ruled out by it.
func promising(rest []byte) bool {
	rest = rest[spaces(rest):]
	if len(rest) == 0 {
		return false
	}
	switch c := rest[0]; {
	case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == '\'', c == '"':
		return true
	default:
		c |= 0x20
		return c == 'n' || c == 'i' || c == 't' // nan, np.float64(...), inf, tensor(...)
	}
}

// spaces counts the spaces and tabs that b begins with, up to maxSpaces.
func spaces(b []byte) int {
	n := 0
	for n < len(b) && n < maxSpaces && (b[n] == ' ' || b[n] == '\t') {
		n++
	}
	return n
}

// nameBefore gives the name that ends before the sign at i; none if what stands
// there is no name. from is where it begins, quote what it stands in, 0 for nothing.
func nameBefore(line []byte, i int) (name []byte, from int, quote byte) {
	to := i
	for to > 0 && i-to < maxSpaces && (line[to-1] == ' ' || line[to-1] == '\t') {
		to--
	}
	if to > 0 && (line[to-1] == '\'' || line[to-1] == '"') {
		to--
		quote = line[to]
	}
	from = to
	for from > 0 && nameByte(line[from-1]) && to-from <= maxName {
		from--
	}
	name = line[from:to]
	if len(name) == 0 || len(name) > maxName || !letter(name[0]) || !letter(name[len(name)-1]) && !figure(name[len(name)-1]) {
		return nil, 0, 0
	}
	switch {
	case quote != 0:
		if from == 0 || line[from-1] != quote {
			return nil, 0, 0
		}
	case from > 0 && !apart(line[:from]):
		return nil, 0, 0
	}
	return name, from, quote
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
func figure(c byte) bool { return c >= '0' && c <= '9' }

func nameByte(c byte) bool {
	return letter(c) || figure(c) || c == '-' || c == '.' || c == '/' || c == '@' // Acc@1
}

// apart is true when a name may begin behind before.
func apart(before []byte) bool {
	switch c := before[len(before)-1]; {
	case c < utf8.RuneSelf:
		return bytes.IndexByte([]byte(" \t([{,;:|>*#"), c) >= 0
	default:
		r, _ := utf8.DecodeLastRune(before)
		return !unicode.IsLetter(r)
	}
}

// wrappers stand around numbers that were printed as objects.
var wrappers = [][]byte{
	[]byte("tensor("), []byte("np.float64("), []byte("np.float32("), []byte("np.float16("), []byte("np.int64("), []byte("np.int32("),
}

// valueAfter reads the number behind a sign. n is the length with what stands
// around it, 0 if there is none that may be a metric. quotes: it may stand in some.
func valueAfter(rest []byte, quotes bool) (v float64, n int, whole bool) {
	n = spaces(rest)
	if quotes && n < len(rest) && (rest[n] == '\'' || rest[n] == '"') {
		n++
	}
	if n < len(rest) && letter(rest[n]) {
		for _, w := range wrappers {
			if bytes.HasPrefix(rest[n:], w) {
				n += len(w)
				break
			}
		}
	}
	v, length, whole := number(rest[n:])
	if length == 0 {
		return 0, 0, false
	}
	n += length
	if n < len(rest) && rest[n] == '.' && (n+1 == len(rest) || !figure(rest[n+1])) && whole {
		n++ // 5. is how some print an integer, and how a sentence ends
	}
	if n < len(rest) && rest[n] == '%' {
		if n+1 < len(rest) && rest[n+1] == '|' {
			return 0, 0, false // a bar: how much is done
		}
		n++
	}
	if !ended(rest[n:]) {
		return 0, 0, false
	}
	return v, n, whole
}

// isMetricName is true when a name with a number is a metric, as far as can be told: it
// does not stand in a call (Linear(in_features=4)), quoted names stand in one
// pair of braces, and the name is none of those that are never one.
func (p *pairs) isMetricName(line []byte, i int, name []byte, quote byte, find presets, whole bool) bool {
	if never(name) || quote != 0 && find&findHF == 0 {
		return false
	}
	upper := bytes.IndexByte(name, '_') > 0 && !bytes.ContainsFunc(name, unicode.IsLower)
	if upper && whole {
		return false // OMP_NUM_THREADS=4, 'MASTER_PORT': '29500'
	}
	p.nest.advanceTo(line, i)
	if p.nest.calls != 0 {
		return false
	}
	if quote != 0 {
		return p.nest.braces == 1
	}
	if line[i] == ':' && !blank(line[i+1:]) {
		// host:8080 and python:3.12 against train-rmse:0.5.
		_, led := lead(line)
		return led || !whole && likely(name)
	}
	return true
}

func blank(rest []byte) bool { return len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') }

// appendPair adds a pair, unless its line had that name already, or it has none.
func (p *pairs) appendPair(name []byte, v float64) {
	if name == nil {
		return
	}
	for _, had := range p.found {
		if bytes.Equal(had.name, name) {
			return
		}
	}
	p.found = append(p.found, pair{name, v})
}

// nest knows the brackets that are open at a place of a line.
type nest struct {
	at     int
	calls  uint64 // a bit for each open (, set when it follows a name; the lowest is the innermost
	braces int
}

func (n *nest) advanceTo(line []byte, to int) {
	for ; n.at < to; n.at++ {
		switch line[n.at] {
		case '(':
			n.calls <<= 1
			if n.at > 0 && (letter(line[n.at-1]) || figure(line[n.at-1])) {
				n.calls |= 1
			}
		case ')':
			n.calls >>= 1
		case '{':
			n.braces++
		case '}':
			n.braces--
		}
	}
}
