package screen

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// maxHeld is the longest beginning of a colour sequence that an Escaper waits
// for the end of.
const maxHeld = 32

// Escape makes what a program printed harmless to show: control characters,
// escape sequences, marks that turn the direction of writing, and bytes that are
// no UTF-8 become visible text such as \x1b, \u202e, \xff. Newlines and tabs
// stay, and so do colours and weights (SGR) where colour is true, but for those
// that hide text. A backslash stays as it is: the result is for eyes, not for
// reading back.
func Escape(b []byte, colour bool) []byte {
	e := Escaper{Colour: colour}
	return append(e.Next(nil, b), e.Rest()...)
}

// Escaper is Escape for text that comes in pieces, which may part a character
// or a colour sequence. The zero Escaper escapes colours too. Not for many
// goroutines at once.
type Escaper struct {
	Colour bool
	Return bool   // \r stays too: a progress bar that is followed is one line
	held   []byte // a beginning that the next piece may complete
}

// Next appends the escaped b to dst, but for an unfinished character or
// sequence at its end.
func (e *Escaper) Next(dst, b []byte) []byte {
	if len(e.held) > 0 {
		b = append(e.held, b...)
		e.held = nil
	}
	for len(b) > 0 {
		n, keep, whole := e.firstSequence(b)
		if !whole {
			e.held = bytes.Clone(b)
			return dst
		}
		if keep {
			dst = append(dst, b[:n]...)
		} else {
			dst = appendVisible(dst, b[:n])
		}
		b = b[n:]
	}
	return dst
}

// Rest is the escaped unfinished end, when nothing follows.
func (e *Escaper) Rest() []byte {
	var dst []byte
	for _, c := range e.held { // never a whole character but those of ASCII
		if c >= ' ' && c < 0x7f {
			dst = append(dst, c)
		} else {
			dst = appendVisible(dst, []byte{c})
		}
	}
	e.held = nil
	return dst
}

// firstSequence says how long the first character or sequence of b is, and whether it
// may be shown as it is. whole is false when more of it may come.
func (e *Escaper) firstSequence(b []byte) (n int, keep, whole bool) {
	c := b[0]
	switch {
	case c == '\n' || c == '\t' || c >= ' ' && c < 0x7f:
		n = 1
		for n < len(b) && b[n] >= ' ' && b[n] < 0x7f { // the common case, at once
			n++
		}
		return n, true, true
	case c == '\r' && e.Return:
		return 1, true, true
	case c == 0x1b && e.Colour:
		return colour(b)
	case !utf8.FullRune(b):
		return 0, false, false
	}
	r, n := utf8.DecodeRune(b)
	return n, !(r == utf8.RuneError && n == 1) && harmless(r), true
}

// harmless is false for what moves, hides or reorders other text.
func harmless(r rune) bool {
	return !unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp) &&
		r != 0xfeff && // no width
		(r < 0xfff9 || r > 0xfffb) && // annotations
		(r < 0xe0000 || r > 0xe007f) // tags: text that no font shows
}

// colour looks at a sequence ESC [ numbers m.
func colour(b []byte) (n int, keep, whole bool) {
	for n = 1; n < len(b) && n < maxHeld; n++ {
		switch c := b[n]; {
		case n == 1 && c == '[', n > 1 && (c >= '0' && c <= '9' || c == ';' || c == ':'):
		case n > 1 && c == 'm' && !hides(b[2:n]):
			return n + 1, true, true
		default:
			return 1, false, true // only the ESC: the rest is plain text then
		}
	}
	if n == maxHeld {
		return 1, false, true
	}
	return 0, false, false
}

// hides is true when one of the numbers is 8, which conceals, and not part of a
// colour's own numbers: 38;5;8 and 38;2;8;8;8 are colours.
func hides(numbers []byte) bool {
	fields := bytes.Split(numbers, []byte{';'})
	for i := 0; i < len(fields); i++ {
		first, _, _ := bytes.Cut(fields[i], []byte{':'})
		v, err := strconv.Atoi(string(first))
		switch {
		case err != nil && len(first) > 0:
			return true // no terminal's colour
		case v == 8:
			return true
		case (v == 38 || v == 48 || v == 58) && len(first) == len(fields[i]) && i+1 < len(fields):
			switch string(fields[i+1]) {
			case "5":
				i += 2
			case "2":
				i += 4
			}
		}
	}
	return false
}

func appendVisible(dst, b []byte) []byte {
	const hex = "0123456789abcdef"
	r, n := utf8.DecodeRune(b)
	switch {
	case r == '\r':
		return append(dst, `\r`...)
	case r < utf8.RuneSelf || r == utf8.RuneError && n <= 1:
		return append(dst, '\\', 'x', hex[b[0]>>4], hex[b[0]&15])
	case r > 0xffff:
		return append(append(dst, `\U`...), pad(r, 8)...)
	}
	return append(append(dst, `\u`...), pad(r, 4)...)
}

func pad(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	for len(s) < width {
		s = "0" + s
	}
	return s
}
