// Package screen makes a program's text safe to show: Escape shows control
// characters instead of acting on them, TerminalFilter lets pass what colours and
// moves within a line, and Fold keeps of a progress bar its last state.
//
// It refuses to know whether a terminal is there.
//
// Proved by its own tests: tables of attacks, and fuzzed text.
package screen

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
)

// TerminalFilter makes the output of a user's own program fit for that user's terminal:
// the output stays as it is, with its colours and progress bars, and loses what acts on
// more than the lines that the program itself has printed.
//
// It keeps text of any language, \n, \r, \t, \b and the bell, and these control
// sequences: colours and weights (SGR), erasing in a line and below the cursor, hiding
// and showing the cursor, and moving it, but never above the first line of this output.
// It drops every other sequence: those that set the clipboard (OSC 52) and the title (OSC
// 0, 1, 2), all other OSC, DCS, APC, PM and SOS strings, clearing the screen, other
// screens, modes, character sets, and requests that the terminal would answer as if the
// user had typed. C1 control characters become visible text.
//
// A sequence may be parted over several pieces. An unfinished one is held back and never
// shown. A string ends at its terminator, at ESC, or at the end of the line: programs that
// print binary data by accident lose no later line.
//
// The zero TerminalFilter is ready. Not for many goroutines at once.
type TerminalFilter struct {
	state   terminalState
	held    []byte // parameters of an unfinished CSI sequence
	pending int    // continuation bytes that the current UTF-8 character still needs
	c2      bool   // the last byte was 0xc2, which may begin a C1 character
	rows    int    // how far the cursor may go up
}

type terminalState uint8

const (
	plainState      terminalState = iota
	escapeState                   // behind ESC
	designatorState               // behind ESC and an intermediate byte, such as ESC (
	sequenceState                 // in a CSI sequence
	stringState                   // in an OSC, DCS, APC, PM or SOS string
)

// maxParameters bounds a CSI sequence: the longest colours have some 40 bytes.
const maxParameters = 128

// Next appends to dst what may be shown of b.
func (f *TerminalFilter) Next(dst, b []byte) []byte {
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch f.state {
		case plainState:
			if n := asciiRun(b[i:]); n > 0 && f.pending == 0 && !f.c2 {
				dst = append(dst, b[i:i+n]...)
				i += n - 1
				continue
			}
			dst = f.handlePlain(dst, c)
		case escapeState:
			dst = f.handleEscape(dst, c)
		case designatorState:
			if c < ' ' || c >= 0x30 {
				f.state = plainState
			}
			if c < ' ' {
				dst = f.handlePlain(dst, c)
			}
		case sequenceState:
			dst = f.handleSequence(dst, c)
		case stringState:
			switch c {
			case 0x1b:
				f.state = escapeState
			case '\n':
				f.state = plainState
				dst = f.handlePlain(dst, c)
			case '\a', 0x18, 0x1a:
				f.state = plainState
			}
		}
	}
	return dst
}

// asciiRun returns how many bytes at the start of b are printable ASCII.
func asciiRun(b []byte) (n int) {
	for n < len(b) && b[n] >= ' ' && b[n] < 0x7f {
		n++
	}
	return n
}

// handlePlain handles a byte outside of sequences.
func (f *TerminalFilter) handlePlain(dst []byte, c byte) []byte {
	if f.c2 {
		f.c2 = false
		if c >= 0x80 && c < 0xa0 {
			f.pending = 0
			return appendVisible(dst, []byte{0xc2, c})
		}
		dst = append(dst, 0xc2)
	}
	if f.pending > 0 && c&0xc0 == 0x80 {
		f.pending--
		return append(dst, c)
	}
	f.pending = 0
	switch {
	case c == 0x1b:
		f.state = escapeState
	case c == '\n':
		f.rows++
		return append(dst, c)
	case c == '\r', c == '\t', c == '\b', c == '\a', c >= ' ' && c < 0x7f:
		return append(dst, c)
	case c < ' ', c == 0x7f: // shifts of character sets, requests
	case c < 0xa0: // C1, where a terminal knows no UTF-8
		return appendVisible(dst, []byte{c})
	case c == 0xc2:
		f.c2, f.pending = true, 1
	default:
		switch {
		case c >= 0xf0 && c < 0xf5:
			f.pending = 3
		case c >= 0xe0 && c < 0xf0:
			f.pending = 2
		case c > 0xc2 && c < 0xe0:
			f.pending = 1
		}
		return append(dst, c)
	}
	return dst
}

// handleEscape handles the byte behind ESC.
func (f *TerminalFilter) handleEscape(dst []byte, c byte) []byte {
	switch {
	case c == '[':
		f.state, f.held = sequenceState, f.held[:0]
	case c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X':
		f.state = stringState
	case c >= ' ' && c < 0x30:
		f.state = designatorState
	case c == 0x1b:
	case c < ' ' || c >= 0x80:
		f.state = plainState
		return f.handlePlain(dst, c)
	default: // ESC c resets the terminal, ESC 7 and 8 move the cursor, ESC \ ends a string
		f.state = plainState
	}
	return dst
}

// handleSequence handles a byte of a CSI sequence.
func (f *TerminalFilter) handleSequence(dst []byte, c byte) []byte {
	switch {
	case c >= ' ' && c < 0x40:
		if len(f.held) <= maxParameters {
			f.held = append(f.held, c)
		}
		return dst
	case c >= 0x40 && c < 0x7f:
		f.state = plainState
		if len(f.held) <= maxParameters {
			return f.appendSequence(dst, string(f.held), c)
		}
		return dst
	}
	f.state = plainState
	return f.handlePlain(dst, c)
}

// appendSequence appends the CSI sequence if it is one that stays within the program's
// own lines.
func (f *TerminalFilter) appendSequence(dst []byte, parameters string, final byte) []byte {
	keep := func() []byte { return append(append(append(dst, "\x1b["...), parameters...), final) }
	if parameters == "?25" && (final == 'h' || final == 'l') {
		return keep()
	}
	if strings.Trim(parameters, "0123456789;:") != "" {
		return dst
	}
	n, err := strconv.Atoi(parameters)
	if parameters == "" {
		n, err = 1, nil
	}
	switch final {
	case 'm', 'K':
		return keep()
	case 'J':
		if strings.Trim(parameters, "0") == "" {
			return keep()
		}
	case 'A', 'F':
		if n = min(max(n, 1), f.rows); err == nil && n > 0 {
			f.rows -= n
			return append(strconv.AppendInt(append(dst, "\x1b["...), int64(n), 10), final)
		}
	case 'B', 'E':
		if n = max(n, 1); err == nil && n <= 1000 {
			f.rows += n
			return keep()
		}
	case 'C', 'D', 'G':
		if err == nil && n <= 1000 {
			return keep()
		}
	}
	return dst
}

// EscapeJSON makes JSON harmless to show in a terminal, and keeps it the same JSON: in its
// strings every control character, mark that turns the direction of writing, and
// invisible character becomes a \u escape, and a byte that is no UTF-8 \ufffd. b must be
// valid JSON otherwise; it is returned as it is if there is nothing to escape.
func EscapeJSON(b []byte) []byte {
	at := bytes.IndexFunc(b, func(r rune) bool { return r >= 0x7f })
	if at < 0 {
		return b
	}
	out := append(make([]byte, 0, len(b)+64), b[:at]...)
	for _, r := range string(b[at:]) {
		switch {
		case r == '\n' || r >= ' ' && r < 0x7f, r != '\ufffd' && harmless(r):
			out = append(out, string(r)...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = append(append(append(append(out, `\u`...), pad(high, 4)...), `\u`...), pad(low, 4)...)
		default:
			out = append(append(out, `\u`...), pad(r, 4)...)
		}
	}
	return out
}
