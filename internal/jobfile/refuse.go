package jobfile

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/token"

	"github.com/drover-run/drover/fault"
)

// page is the file as it was typed, for refusals to show.
type page struct {
	name string
	text string
}

// faultAt makes the one fault of this package: where, why, and below it the line
// with a caret. at is nil where no place is to blame.
//
// The excerpt is our own. The YAML library prints one from its tokens, whole
// scalars and all, and puts the caret below their last line.
func (p page) faultAt(at *token.Token, hint, format string, args ...any) error {
	why := fmt.Sprintf(format, args...)
	if at == nil || at.Position == nil {
		return fault.New(fault.Invalid, hint, "read job file: %s: %s", p.name, why)
	}
	lines := strings.Split(p.text, "\n")
	line, column := place(lines, at)
	return fault.New(fault.Invalid, hint, "read job file: %s:%d:%d: %s%s", p.name, line, column, why, excerpt(lines, line, column))
}

// place gives line and column, both from 1, a column counting letters. The
// library gives column 0 to the content of a block scalar, and the blank before
// it to what stands behind a tab.
func place(lines []string, at *token.Token) (line, column int) {
	line = min(max(at.Position.Line, 1), len(lines))
	letters := []rune(lines[line-1])
	column = max(at.Position.Column, 1)
	for at.Type != token.InvalidType && column < len(letters) && unicode.IsSpace(letters[column-1]) {
		column++
	}
	return line, min(column, len(letters)+1)
}

// excerpt shows a line and the one before it, with a caret below column, each
// on a line of its own.
func excerpt(lines []string, line, column int) string {
	var b strings.Builder
	if line > 1 {
		before, _ := window(lines[line-2], 1)
		fmt.Fprintf(&b, "\n  %4d | %s", line-1, before)
	}
	shown, caret := window(lines[line-1], column)
	fmt.Fprintf(&b, "\n> %4d | %s\n%s^", line, shown, strings.Repeat(" ", len("> 1234 | ")+caret-1))
	return b.String()
}

// width is how much of a line an excerpt shows, in letters.
const width = 100

// window cuts a line to the part around column and gives the column there. What
// a terminal would not print as one letter becomes one.
func window(line string, column int) (string, int) {
	letters := []rune(strings.TrimRight(line, "\r"))
	from := 0
	if column > width {
		from = column - width/2
	}
	letters = letters[from:min(from+width, len(letters))]
	for i, r := range letters {
		switch {
		case r == '\t':
			letters[i] = ' '
		case !unicode.IsPrint(r):
			letters[i] = '·'
		}
	}
	return strings.TrimRight(string(letters), " "), column - from
}

// clip shortens text that is quoted in a sentence.
func clip(text string) string { return cut(text, 40) }

func cut(text string, most int) string {
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most]) + "..."
	}
	return text
}

// syntaxFault turns the parser's refusal into ours.
func (p page) syntaxFault(err error) error {
	var placed interface { // what every refusal of the YAML library has
		GetMessage() string
		GetToken() *token.Token
	}
	if errors.As(err, &placed) {
		return p.brokenYAML(placed.GetToken(), placed.GetMessage())
	}
	return p.brokenYAML(nil, err.Error())
}

// brokenYAML says that the text is no YAML.
func (p page) brokenYAML(at *token.Token, why string) error {
	hint := "Look at quotes, brackets and indentation there, and put quotes around text that holds \": \"."
	switch {
	case strings.Contains(why, `'	'`):
		why, hint = "a tab where only blanks may indent", "Indent with blanks."
	case strings.Contains(why, "reserved character"):
		hint = "Put quotes around the text."
	}
	return p.faultAt(at, hint, "not YAML: %s", cut(why, width)) // the library quotes whole scalars
}
