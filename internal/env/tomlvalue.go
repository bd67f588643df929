package env

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	scalarAt = compiled(`^[A-Za-z0-9+._:-]+(?: \d\d:[0-9:.]+(?:[Zz]|[+-]\d\d:\d\d)?)?`)
	numberIs = compiled(`^(?:[+-]?(?:0|[1-9](?:_?\d)*)(?:\.\d(?:_?\d)*)?(?:[eE][+-]?\d(?:_?\d)*)?|[+-]?(?:inf|nan)|0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*)$`)
	dateIs   = compiled(`^(?:\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)?)?|\d\d:\d\d:\d\d(?:\.\d+)?)$`)
)

func (p *tomlReader) value(depth int) node {
	line := p.here()
	if depth > maxNesting {
		p.fail("more than %d values in one another", maxNesting)
	}
	switch c := p.peek(); c {
	case '"', '\'':
		if p.take(strings.Repeat(string(c), 3)) {
			return node{line, p.multiline(c)}
		}
		return node{line, p.quoted(c)}
	case '[':
		return node{line, p.array(depth)}
	case '{':
		return node{line, p.inline(depth)}
	}
	s := scalarAt().FindString(p.s[p.i:])
	switch {
	case s == "true" || s == "false":
		p.i += len(s)
		return node{line, s == "true"}
	case numberIs().MatchString(s), dateIs().MatchString(s):
		p.i += len(s)
		return node{line, bare(s)}
	case s != "":
		p.fail("%q is not a value; text stands in quotes", s)
	}
	p.fail("%s where a value should be", p.found())
	return node{}
}

func (p *tomlReader) array(depth int) []node {
	p.i++
	list := []node{}
	for {
		p.blank(true)
		if p.take("]") {
			return list
		}
		list = append(list, p.value(depth+1))
		p.blank(true)
		if !p.take(",") && p.peek() != ']' {
			p.fail("%s where \",\" or \"]\" should be", p.found())
		}
	}
}

func (p *tomlReader) inline(depth int) *table {
	p.i++
	t := newTable()
	p.blank(false)
	for more := !p.take("}"); more; {
		p.blank(false)
		p.pair(t, depth+1)
		p.blank(false)
		if more = p.take(","); !more && !p.take("}") {
			p.fail("%s where \",\" or \"}\" should be", p.found())
		}
	}
	t.seal()
	return t
}

// seal closes a table and those that its dotted keys made.
func (t *table) seal() {
	t.sealed = true
	for _, n := range t.keys {
		if inner := n.table(); inner != nil {
			inner.seal()
		}
	}
}

// quoted reads a string of one line.
func (p *tomlReader) quoted(quote byte) string {
	p.i++
	var b strings.Builder
	for {
		c := p.peek()
		switch {
		case p.i >= len(p.s) || c == '\n':
			p.fail("a string without its closing %c", quote)
		case c == quote:
			p.i++
			return b.String()
		case c == '\\' && quote == '"':
			p.escape(&b, false)
		case c < ' ' && c != '\t' || c == 0x7f:
			p.fail("a control character in a string")
		default:
			b.WriteByte(c)
			p.i++
		}
	}
}

// multiline reads on after three quotes, to the next three; up to two more
// before those belong to the text.
func (p *tomlReader) multiline(quote byte) string {
	p.take("\n")
	end := strings.Repeat(string(quote), 3)
	var b strings.Builder
	for {
		c := p.peek()
		switch {
		case p.i >= len(p.s):
			p.fail("a string without its closing %s", end)
		case p.take(end):
			for n := 0; n < 2 && p.peek() == quote; n++ {
				b.WriteByte(quote)
				p.i++
			}
			return b.String()
		case c == '\\' && quote == '"':
			p.escape(&b, true)
		case c < ' ' && c != '\t' && c != '\n' || c == 0x7f:
			p.fail("a control character in a string")
		default:
			b.WriteByte(c)
			p.i++
		}
	}
}

var (
	escapes  = map[byte]byte{'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r', '"': '"', '\\': '\\', 'e': 0x1b}
	lineJoin = compiled(`^\\[ \t]*\n[ \t\n]*`)
)

func (p *tomlReader) escape(b *strings.Builder, many bool) {
	if join := lineJoin().FindString(p.s[p.i:]); join != "" && many {
		p.i += len(join)
		return
	}
	p.i++
	c := p.peek()
	if plain, ok := escapes[c]; ok {
		b.WriteByte(plain)
		p.i++
		return
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	if digits == 0 || p.i+1+digits > len(p.s) {
		p.fail("\"\\\" before %s means nothing", p.found())
	}
	hex := p.s[p.i+1 : p.i+1+digits]
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
		p.fail("%q is not a character", `\`+string(c)+hex)
	}
	b.WriteRune(rune(n))
	p.i += 1 + digits
}
