package toml

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drover-run/drover/internal/env/tools"
)

var (
	scalarAt = tools.Compiled(`^[A-Za-z0-9+._:-]+(?: \d\d:[0-9:.]+(?:[Zz]|[+-]\d\d:\d\d)?)?`)
	numberIs = tools.Compiled(`^(?:[+-]?(?:0|[1-9](?:_?\d)*)(?:\.\d(?:_?\d)*)?(?:[eE][+-]?\d(?:_?\d)*)?|[+-]?(?:inf|nan)|0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*)$`)
	dateIs   = tools.Compiled(`^(?:\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)?)?|\d\d:\d\d:\d\d(?:\.\d+)?)$`)
)

func (p *tomlReader) readValue(depth int) Node {
	line := p.currentLine()
	if depth > maxNesting {
		p.failParse("more than %d values in one another", maxNesting)
	}
	switch c := p.peekByte(); c {
	case '"', '\'':
		if p.skipPrefix(strings.Repeat(string(c), 3)) {
			return Node{line, p.readMultiline(c)}
		}
		return Node{line, p.readQuoted(c)}
	case '[':
		return Node{line, p.readArray(depth)}
	case '{':
		return Node{line, p.readInlineTable(depth)}
	}
	s := scalarAt().FindString(p.s[p.i:])
	switch {
	case s == "true" || s == "false":
		p.i += len(s)
		return Node{line, s == "true"}
	case numberIs().MatchString(s), dateIs().MatchString(s):
		p.i += len(s)
		return Node{line, bare(s)}
	case s != "":
		p.failParse("%q is not a value; text stands in quotes", s)
	}
	p.failParse("%s where a value should be", p.nameFound())
	return Node{}
}

func (p *tomlReader) readArray(depth int) []Node {
	p.i++
	list := []Node{}
	for {
		p.skipBlank(true)
		if p.skipPrefix("]") {
			return list
		}
		list = append(list, p.readValue(depth+1))
		p.skipBlank(true)
		if !p.skipPrefix(",") && p.peekByte() != ']' {
			p.failParse("%s where \",\" or \"]\" should be", p.nameFound())
		}
	}
}

func (p *tomlReader) readInlineTable(depth int) *Table {
	p.i++
	t := newTable()
	p.skipBlank(false)
	for more := !p.skipPrefix("}"); more; {
		p.skipBlank(false)
		p.readPair(t, depth+1)
		p.skipBlank(false)
		if more = p.skipPrefix(","); !more && !p.skipPrefix("}") {
			p.failParse("%s where \",\" or \"}\" should be", p.nameFound())
		}
	}
	t.sealTables()
	return t
}

// sealTables closes a table and those that its dotted keys made.
func (t *Table) sealTables() {
	t.sealed = true
	for _, n := range t.keys {
		if inner := n.Table(); inner != nil {
			inner.sealTables()
		}
	}
}

// readQuoted reads a string of one line.
func (p *tomlReader) readQuoted(quote byte) string {
	p.i++
	var b strings.Builder
	for {
		c := p.peekByte()
		switch {
		case p.i >= len(p.s) || c == '\n':
			p.failParse("a string without its closing %c", quote)
		case c == quote:
			p.i++
			return b.String()
		case c == '\\' && quote == '"':
			p.readEscape(&b, false)
		case c < ' ' && c != '\t' || c == 0x7f:
			p.failParse("a control character in a string")
		default:
			b.WriteByte(c)
			p.i++
		}
	}
}

// readMultiline reads on after three quotes, to the next three; up to two more
// before those belong to the text.
func (p *tomlReader) readMultiline(quote byte) string {
	p.skipPrefix("\n")
	end := strings.Repeat(string(quote), 3)
	var b strings.Builder
	for {
		c := p.peekByte()
		switch {
		case p.i >= len(p.s):
			p.failParse("a string without its closing %s", end)
		case p.skipPrefix(end):
			for n := 0; n < 2 && p.peekByte() == quote; n++ {
				b.WriteByte(quote)
				p.i++
			}
			return b.String()
		case c == '\\' && quote == '"':
			p.readEscape(&b, true)
		case c < ' ' && c != '\t' && c != '\n' || c == 0x7f:
			p.failParse("a control character in a string")
		default:
			b.WriteByte(c)
			p.i++
		}
	}
}

var (
	escapes  = map[byte]byte{'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r', '"': '"', '\\': '\\', 'e': 0x1b}
	lineJoin = tools.Compiled(`^\\[ \t]*\n[ \t\n]*`)
)

func (p *tomlReader) readEscape(b *strings.Builder, many bool) {
	if join := lineJoin().FindString(p.s[p.i:]); join != "" && many {
		p.i += len(join)
		return
	}
	p.i++
	c := p.peekByte()
	if plain, ok := escapes[c]; ok {
		b.WriteByte(plain)
		p.i++
		return
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	if digits == 0 || p.i+1+digits > len(p.s) {
		p.failParse("\"\\\" before %s means nothing", p.nameFound())
	}
	hex := p.s[p.i+1 : p.i+1+digits]
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
		p.failParse("%q is not a character", `\`+string(c)+hex)
	}
	b.WriteRune(rune(n))
	p.i += 1 + digits
}
