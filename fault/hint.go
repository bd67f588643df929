package fault

import "strings"

// Hint is the outermost hint in err's tree as a sentence to read, or "".
func Hint(err error) string {
	var text strings.Builder
	for _, p := range HintParts(err) {
		text.WriteString(p.Text)
	}
	return text.String()
}

// HintParts is the same hint as data, for a front end that is no command line: a page makes
// a button of a command, a library an argument of an option. nil for no hint.
func HintParts(err error) []Part { return Parts(MarkedHint(err)) }

// MarkedHint is the same hint as it was given to New, to be the hint of another fault.
func MarkedHint(err error) string {
	if f, ok := err.(*Fault); ok && f.Hint != "" {
		return f.Hint
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return MarkedHint(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if hint := MarkedHint(one); hint != "" {
				return hint
			}
		}
	}
	return ""
}

// PartKind says what a part of a hint is.
type PartKind int

// The kinds of a part.
const (
	Words   PartKind = iota // to read
	Command                 // of drover: "drover resume ab12"
	Option                  // of drover's command line: "--memory 2G"
	Shell                   // what else can be typed: a command of another program, a value
)

// Part is a piece of a hint. The texts of all parts, one after the other, are the sentence.
type Part struct {
	Kind PartKind
	Text string
}

// Verb is the verb of a Command, "resume" of "drover resume ab12", or "" for another part.
func (p Part) Verb() string {
	if words := strings.Fields(p.Text); p.Kind == Command && len(words) > 1 {
		return words[1]
	}
	return ""
}

// Option splits an Option into its name, without dashes, and its value, "" for none.
func (p Part) Option() (name, value string) {
	if p.Kind != Option {
		return "", ""
	}
	name = strings.TrimLeft(p.Text, "-")
	if at := strings.IndexAny(name, " ="); at >= 0 {
		return name[:at], name[at+1:]
	}
	return name, ""
}

// inMark stands for a backquote in what is marked.
const inMark = "\x00"

// Mark marks what can be typed and may have backquotes of its own, such as a command that
// a user typed.
func Mark(typed string) string { return "`" + strings.ReplaceAll(typed, "`", inMark) + "`" }

// Parts divides a marked hint. A mark begins before a word and ends after one, so that the
// backquotes in "a`b" are the word's own.
func Parts(hint string) (parts []Part) {
	add := func(k PartKind, text string) {
		if text != "" {
			parts = append(parts, Part{k, strings.ReplaceAll(text, inMark, "`")})
		}
	}
	for {
		from, to := findMark(hint)
		if to < 0 {
			add(Words, hint)
			return parts
		}
		add(Words, hint[:from])
		typed := hint[from+1 : to]
		switch {
		case strings.HasPrefix(typed, "drover "):
			add(Command, typed)
		case strings.HasPrefix(typed, "-"):
			add(Option, typed)
		default:
			add(Shell, typed)
		}
		hint = hint[to+1:]
	}
}

// findMark finds the backquotes of the first mark; to is -1 where there is none.
func findMark(hint string) (from, to int) {
	from = -1
	for at, c := range []byte(hint) {
		switch {
		case c != '`':
		case from < 0 && (at == 0 || strings.IndexByte(" (", hint[at-1]) >= 0):
			from = at
		case from >= 0 && (at == len(hint)-1 || strings.IndexByte(" .,;:?)", hint[at+1]) >= 0):
			return from, at
		}
	}
	return from, -1
}
