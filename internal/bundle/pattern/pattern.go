// Package pattern matches names with globs as git's wildmatch does, in a time
// bounded by the product of both lengths.
//
// It refuses to know what is matched. Proved by the tests of package bundle, with
// git as the oracle.
package pattern

import "strings"

// A glob is run as a set of states over the text, never by backtracking, so
// "*a*a*a*a*b" costs its length times the text's and no stranger's ignore file
// can make a scan hang.

type kind uint8

const (
	one   kind = iota // one byte of set
	star              // any bytes but "/"
	rest              // any bytes: a "**" at the end
	hop               // a "**/": skips itself and the until that follows it
	until             // any bytes up to and with a "/"
)

type Token struct {
	kind kind
	set  set
}

// set is a set of bytes.
type set [4]uint64

func (s *set) addByte(c byte)           { s[c>>6] |= 1 << (c & 63) }
func (s *set) containsByte(c byte) bool { return s[c>>6]&(1<<(c&63)) != 0 }

func (s *set) addRange(lo, hi byte) {
	for c := int(lo); c <= int(hi); c++ {
		s.addByte(byte(c))
	}
}

func (s *set) invertAll() {
	for i := range s {
		s[i] = ^s[i]
	}
}

// Compile reads a glob as git's wildmatch does. ok is false for a pattern that
// can match nothing: an open bracket, a backslash at the end.
func Compile(s string) (tokens []Token, ok bool) {
	for i := 0; i < len(s); {
		var t Token
		switch s[i] {
		case '*':
			n := len(s[i:]) - len(strings.TrimLeft(s[i:], "*"))
			begins := i == 0 || s[i-1] == '/'
			i += n
			switch {
			case n == 1 || !begins:
				t.kind = star
			case i == len(s) || strings.HasPrefix(s[i:], `\/`):
				t.kind = rest
			case s[i] == '/':
				tokens = append(tokens, Token{kind: hop})
				t.kind = until
				i++
			default:
				t.kind = star
			}
		case '?':
			t.set.addByte('/')
			t.set.invertAll()
			i++
		case '[':
			n := class(s[i+1:], &t.set)
			if n < 0 {
				return nil, false
			}
			i += 1 + n
		case '\\':
			if i++; i == len(s) {
				return nil, false
			}
			fallthrough
		default:
			t.set.addByte(s[i])
			i++
		}
		tokens = append(tokens, t)
	}
	return tokens, true
}

// class reads a bracket expression after its "[" into out and returns its
// length with the closing "]", or -1 when there is none.
func class(s string, out *set) int {
	i := 0
	not := strings.HasPrefix(s, "!") || strings.HasPrefix(s, "^")
	if not {
		i++
	}
	prev := -1 // the byte before, where it can begin a range
	for first := true; ; first = false {
		if i >= len(s) {
			return -1
		}
		c := s[i]
		if c == ']' && !first {
			break
		}
		switch {
		case c == '[' && i+1 < len(s) && s[i+1] == ':' && namedEnd(s[i+2:]) >= 0:
			end := namedEnd(s[i+2:])
			if !named(s[i+2:i+2+end], out) {
				return -1
			}
			i, prev = i+2+end+2, -1
			continue
		case c == '-' && prev >= 0 && i+1 < len(s) && s[i+1] != ']':
			if i++; s[i] == '\\' {
				i++
			}
			if i >= len(s) {
				return -1
			}
			out.addRange(byte(prev), s[i])
			i, prev = i+1, -1
			continue
		case c == '\\':
			if i++; i >= len(s) {
				return -1
			}
			c = s[i]
		}
		out.addByte(c)
		i, prev = i+1, int(c)
	}
	if not {
		out.invertAll()
	}
	out['/'>>6] &^= 1 << ('/' & 63)
	return i + 1
}

// namedEnd finds the ":" of the ":]" that ends a name like [:alpha:], or -1.
// wildmatch looks for the next "]" and wants a ":" before it.
func namedEnd(s string) int {
	end := strings.IndexByte(s, ']')
	if end < 1 || s[end-1] != ':' {
		return -1
	}
	return end - 1
}

// named adds the bytes of a POSIX class and tells whether there is one.
func named(name string, out *set) bool {
	for _, c := range []struct{ name, ranges string }{
		{"alnum", "09AZaz"}, {"alpha", "AZaz"}, {"blank", "  \t\t"},
		{"cntrl", "\x00\x1f\x7f\x7f"}, {"digit", "09"}, {"graph", "!~"},
		{"lower", "az"}, {"print", " ~"}, {"punct", "!/:@[`{~"},
		{"space", "\t\r  "}, {"upper", "AZ"}, {"xdigit", "09AFaf"},
	} {
		if c.name == name {
			for i := 0; i < len(c.ranges); i += 2 {
				out.addRange(c.ranges[i], c.ranges[i+1])
			}
			return true
		}
	}
	return false
}

// Match tells whether tokens match the whole of text.
func Match(tokens []Token, text string) bool {
	now, then := make([]bool, len(tokens)+1), make([]bool, len(tokens)+1)
	enter(tokens, now, 0)
	for i := range len(text) {
		c, alive := text[i], false
		clear(then)
		for at, here := range now[:len(tokens)] {
			if !here {
				continue
			}
			alive = true
			switch t := &tokens[at]; t.kind {
			case one:
				if t.set.containsByte(c) {
					enter(tokens, then, at+1)
				}
			case star:
				if c != '/' {
					enter(tokens, then, at)
				}
			case rest:
				enter(tokens, then, at)
			case until:
				enter(tokens, then, at)
				if c == '/' {
					enter(tokens, then, at+1)
				}
			}
		}
		if !alive {
			return false
		}
		now, then = then, now
	}
	return now[len(tokens)]
}

// enter marks state at, and the states reached from it without a byte.
func enter(tokens []Token, states []bool, at int) {
	for !states[at] {
		states[at] = true
		if at == len(tokens) {
			return
		}
		switch tokens[at].kind {
		case star, rest:
			at++
		case hop:
			enter(tokens, states, at+1)
			at += 2
		default:
			return
		}
	}
}
