package screen

import (
	"bytes"
)

// Fold gives a line as its progress bar left it: of the states that \r parts,
// the last one that shows anything. Of those at its end one stays, so that the
// lines of Windows are no bars. The result may lie in text.
func Fold(text []byte) []byte {
	states := bytes.TrimRight(text, "\r")
	end := text[len(states):][:min(1, len(text)-len(states))]
	at := lastState(states)
	state, _, more := bytes.Cut(states[at:], []byte("\r"))
	if !more { // what follows the state is the end
		return text[at : at+len(state)+len(end)]
	}
	return append(bytes.Clone(state), end...)
}

// lastState is where the last state that shows anything begins; where none
// does, the last one.
func lastState(states []byte) int {
	for to := len(states); ; {
		at := bytes.LastIndexByte(states[:to], '\r') + 1
		if ShowsText(states[at:to]) {
			return at
		}
		if at == 0 {
			return bytes.LastIndexByte(states, '\r') + 1
		}
		to = at - 1
	}
}

// FoldOpenLine is Fold for a line that goes on: what it gives, with what follows,
// folds to what all of it would have. from is where in text that began.
func FoldOpenLine(text []byte) (left []byte, from int) {
	last := bytes.LastIndexByte(text, '\r') + 1
	if last == 0 || ShowsText(text[last:]) {
		return text[last:], last
	}
	states := bytes.TrimRight(text[:last], "\r")
	from = lastState(states)
	state, _, _ := bytes.Cut(states[from:], []byte("\r"))
	return append(append(bytes.Clone(state), '\r'), text[last:]...), from
}

// ShowsText is true when a terminal would show something of b.
func ShowsText(b []byte) bool {
	for len(b) > 0 {
		switch n := EscapeLen(b); {
		case n > 0:
			b = b[n:]
		case b[0] > ' ' && b[0] != 0x7f:
			return true
		default:
			b = b[1:]
		}
	}
	return false
}

// EscapeLen is the length of the escape sequence that b begins with, 0 if it
// begins with none. One that is cut off ends with b.
func EscapeLen(b []byte) int {
	if len(b) == 0 || b[0] != 0x1b {
		return 0
	}
	if len(b) == 1 {
		return 1
	}
	switch b[1] {
	case '[':
		for n := 2; n < len(b); n++ {
			switch c := b[n]; {
			case c >= 0x40 && c <= 0x7e:
				return n + 1
			case c < 0x20 || c > 0x3f:
				return n // not of a sequence
			}
		}
		return len(b)
	case ']': // a title or a link, ended by BEL or ESC \
		for n := 2; n < len(b); n++ {
			switch {
			case b[n] == 0x07:
				return n + 1
			case b[n] == 0x1b && n+1 < len(b) && b[n+1] == '\\':
				return n + 2
			}
		}
		return len(b)
	}
	return 2
}
