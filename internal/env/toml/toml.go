// Package toml reads the TOML of lists of packages, with the line of each value: faults name
// it. It refuses to know what the keys mean. Python's own reader proves it.
package toml

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drover-run/drover/internal/env/tools"
)

// A Node is one value of a TOML document and the line it begins on: faults name
// the line, which is why no library reads these files.
type Node struct {
	Line  int
	Value any // string, bool, bare, []node or *table; nil for what is not there
}

// bare is a number, a date or a time, as it was written: nothing here counts with one.
type bare string

// Table maps keys to values. How it came about decides which part may still add to it.
type Table struct {
	keys   map[string]Node
	header bool // [named] by a line of its own
	sealed bool // written inline, or by dotted keys: complete where it stands
}

func newTable() *Table { return &Table{keys: map[string]Node{}} }

// Lookup follows keys through tables; a node without a value when one is missing.
func (t *Table) Lookup(path ...string) Node {
	n := Node{Value: t}
	for _, key := range path {
		inner, ok := n.Value.(*Table)
		if !ok || inner == nil {
			return Node{}
		}
		n = inner.keys[key]
	}
	return n
}

func (n Node) Text() string      { s, _ := n.Value.(string); return s }
func (n Node) List() []Node      { l, _ := n.Value.([]Node); return l }
func (n Node) Table() *Table     { t, _ := n.Value.(*Table); return t }
func (n Node) Key(k string) Node { return n.Table().Lookup(k) }

// WriteDigest writes a value so that two have the same text only when they say the same.
func (n Node) WriteDigest(w io.Writer) {
	switch v := n.Value.(type) {
	case *Table:
		keys := make([]string, 0, len(v.keys))
		for k := range v.keys {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		io.WriteString(w, "{")
		for _, k := range keys {
			fmt.Fprintf(w, "%q=", k)
			v.keys[k].WriteDigest(w)
		}
		io.WriteString(w, "}")
	case []Node:
		io.WriteString(w, "[")
		for _, one := range v {
			one.WriteDigest(w)
		}
		io.WriteString(w, "]")
	default:
		fmt.Fprintf(w, "%T %q,", v, tools.Mask(fmt.Sprint(v)))
	}
}

// SyntaxError is why a document is not TOML.
type SyntaxError struct {
	Line int
	Why  string
}

func (b SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", b.Line, b.Why) }

// maxNesting bounds arrays in arrays: the reader calls itself for each.
const maxNesting = 100

// Parse reads TOML 1.0. It takes a few things that the standard forbids (a
// date that does not exist), and refuses nothing that it allows. The fault of a
// document that it cannot read is a broken.
func Parse(text string) (t *Table, err error) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	p := &tomlReader{s: text, line: 1, root: newTable()}
	p.into = p.root
	defer func() {
		// Each function below would hand a broken up through six others.
		if r := recover(); r != nil {
			b, ok := r.(SyntaxError)
			if !ok {
				panic(r)
			}
			t, err = nil, b
		}
	}()
	if !utf8.ValidString(text) {
		p.failParse("it is not UTF-8")
	}
	for p.skipBlank(true); p.i < len(p.s); p.skipBlank(true) {
		if p.s[p.i] == '[' {
			p.readHeader()
		} else {
			p.readPair(p.into, 0)
		}
		p.endOfLine()
	}
	return p.root, nil
}

type tomlReader struct {
	s       string
	i       int // next to read
	line    int // of counted
	counted int
	root    *Table
	into    *Table // what a pair is added to
}

func (p *tomlReader) currentLine() int {
	if p.i > p.counted {
		p.line += strings.Count(p.s[p.counted:min(p.i, len(p.s))], "\n")
		p.counted = p.i
	}
	return p.line
}

func (p *tomlReader) failParse(format string, args ...any) {
	panic(SyntaxError{p.currentLine(), fmt.Sprintf(format, args...)})
}

func (p *tomlReader) peekByte() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

func (p *tomlReader) skipPrefix(s string) bool {
	if strings.HasPrefix(p.s[p.i:], s) {
		p.i += len(s)
		return true
	}
	return false
}

// skipBlank skips space and, where lines do not matter, comments and line ends.
func (p *tomlReader) skipBlank(lines bool) {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == ' ' || c == '\t' || lines && c == '\n':
			p.i++
		case lines && c == '#':
			p.skipComment()
		default:
			return
		}
	}
}

func (p *tomlReader) skipComment() {
	if n := strings.IndexByte(p.s[p.i:], '\n'); n >= 0 {
		p.i += n
		return
	}
	p.i = len(p.s)
}

func (p *tomlReader) endOfLine() {
	p.skipBlank(false)
	if p.peekByte() == '#' {
		p.skipComment()
	}
	if p.i < len(p.s) && !p.skipPrefix("\n") {
		p.failParse("%s where the line should end", p.nameFound())
	}
}

// nameFound names what stands here, for a message.
func (p *tomlReader) nameFound() string {
	if p.i >= len(p.s) {
		return "the end"
	}
	if p.s[p.i] == '\n' {
		return "the end of the line"
	}
	_, n := utf8.DecodeRuneInString(p.s[p.i:])
	return strconv.Quote(p.s[p.i : p.i+n])
}

// readHeader reads [a.b] or [[a.b]].
func (p *tomlReader) readHeader() {
	line, many := p.currentLine(), p.skipPrefix("[[")
	if !many {
		p.i++
	}
	path := p.readKey()
	if close := map[bool]string{true: "]]", false: "]"}[many]; !p.skipPrefix(close) {
		p.failParse("%s where %q should be", p.nameFound(), close)
	}
	last := path[len(path)-1]
	t := p.root
	for _, k := range path[:len(path)-1] {
		t = p.enterTable(t, k, line)
	}
	old, there := t.keys[last]
	if many {
		list, ok := old.Value.([]Node)
		if there && (!ok || len(list) == 0 || list[0].Table() == nil || list[0].Table().sealed) {
			p.failParse("%q is there already", last)
		}
		p.into = newTable()
		t.keys[last] = Node{line, append(list, Node{line, p.into})}
		return
	}
	if !there {
		p.into = newTable()
		t.keys[last] = Node{line, p.into}
	} else if p.into = old.Table(); p.into == nil || p.into.header || p.into.sealed {
		p.failParse("%q is there already", last)
	}
	p.into.header = true
}

// enterTable goes to a table inside t, or the last one of a list of tables; makes
// what is not there.
func (p *tomlReader) enterTable(t *Table, key string, line int) *Table {
	n, there := t.keys[key]
	if !there {
		inner := newTable()
		t.keys[key] = Node{line, inner}
		return inner
	}
	if l := n.List(); len(l) > 0 {
		n = l[len(l)-1]
	}
	inner := n.Table()
	if inner == nil || inner.sealed {
		p.failParse("%q is there already, and complete", key)
	}
	return inner
}

// readPair reads a.b = value into t.
func (p *tomlReader) readPair(t *Table, depth int) {
	line := p.currentLine()
	path := p.readKey()
	if !p.skipPrefix("=") {
		p.failParse("%s where \"=\" should be", p.nameFound())
	}
	for _, k := range path[:len(path)-1] {
		n, there := t.keys[k]
		if inner := n.Table(); there && (inner == nil || inner.header || inner.sealed) {
			p.failParse("%q is there already", k)
		}
		t = p.enterTable(t, k, line)
	}
	last := path[len(path)-1]
	if _, there := t.keys[last]; there {
		p.failParse("%q is there twice", last)
	}
	p.skipBlank(false)
	t.keys[last] = p.readValue(depth)
}

var bareKey = tools.Compiled(`^[A-Za-z0-9_-]+`)

// readKey reads a dotted key and the space around it.
func (p *tomlReader) readKey() []string {
	var path []string
	for {
		p.skipBlank(false)
		switch c := p.peekByte(); {
		case c == '"' || c == '\'':
			path = append(path, p.readQuoted(c))
		default:
			k := bareKey().FindString(p.s[p.i:])
			if k == "" {
				p.failParse("%s where a key should be", p.nameFound())
			}
			p.i += len(k)
			path = append(path, k)
		}
		p.skipBlank(false)
		if !p.skipPrefix(".") {
			return path
		}
		if len(path) == maxNesting {
			p.failParse("more than %d keys in one another", maxNesting)
		}
	}
}

// Keys are a table's keys; none of no table.
func (t *Table) Keys() map[string]Node {
	if t == nil {
		return nil
	}
	return t.keys
}
