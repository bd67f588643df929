package template

import (
	"path"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
)

// quoting is how a value is written into an argument.
type quoting int

const (
	unquoted quoting = iota // an argument of its own, or a number
	asWord                  // 'value'
	inSingle                // value, between single quotes that stand in the text
	inDouble                // "'value'", between double quotes that stand in the text
)

// lexer follows a shell text as far as it must to know how each place is quoted.
// Where it cannot know, or where no quoting holds (arithmetic, backticks,
// here-documents), an item is refused: the environment always works.
type lexer struct {
	stack  []inside
	word   bool   // the byte before is part of a word, so # begins no comment
	dollar bool   // the byte before is a $ that says something of the next
	unsure string // what makes all that follows uncertain
}

// inside is what a place in a shell text stands in.
type inside int

const (
	plain    inside = iota // not in anything
	single                 // '...'
	double                 // "..."
	command                // $(...)
	group                  // (...)
	variable               // ${...}
	sum                    // $((...)): a level for each parenthesis
	sumAlone               // ((...)): likewise
	backtick               // `...`
	remark                 // # to the end of the line
)

func (l *lexer) innermost() inside {
	if len(l.stack) == 0 {
		return plain
	}
	return l.stack[len(l.stack)-1]
}

func (l *lexer) pushContext(in ...inside) { l.stack = append(l.stack, in...) }

func (l *lexer) popContext() { l.stack = l.stack[:len(l.stack)-1] }

func (l *lexer) inComment() bool { return l.innermost() == remark }

func (l *lexer) noteUnclear(why string) {
	if l.unsure == "" {
		l.unsure = why
	}
}

// readToken reads what stands at a place of text and says how long it is: 1, or more
// where the bytes belong together.
func (l *lexer) readToken(text string, at int) (n int) {
	c, rest := text[at], text[at:]
	in := l.innermost()
	l.dollar = false
	switch {
	case in == remark:
		if c == '\n' {
			l.popContext()
			l.word = false
		}
		return 1
	case in == single:
		if c == '\'' {
			l.popContext()
			l.word = true
		}
		return 1
	case c == '\\':
		return l.backslash(rest)
	case in == backtick:
		if c == '`' {
			l.popContext()
			l.word = true
		}
		return 1
	case c == '`':
		l.pushContext(backtick)
		return 1
	case c == '$':
		return l.readDollar(rest)
	case c == '"' || c == '\'':
		l.readQuote(c)
		return 1
	}
	switch in {
	case double:
		return 1
	case variable:
		if c == '}' {
			l.popContext()
			l.word = true
		}
		return 1
	case sum, sumAlone:
		if c == '#' || strings.HasPrefix(rest, "case") {
			l.noteUnclear("((...)) that may be commands")
		}
		switch c {
		case '(':
			l.pushContext(in)
		case ')':
			l.popContext()
			l.word = in == sum
		}
		return 1
	}
	return l.readUnquoted(text, at)
}

func (l *lexer) backslash(rest string) int {
	if len(rest) == 1 {
		return 1
	}
	if rest[1] != '\n' { // a line that goes on is as if it had not ended
		l.word = true
	}
	return 2
}

// readQuote is for ' and ", which end only what they began.
func (l *lexer) readQuote(c byte) {
	switch in := l.innermost(); {
	case c == '"' && in == double:
		l.popContext()
		l.word = true
	case in == double: // a ' like any other
	case in == variable || in == sum || in == sumAlone:
		l.noteUnclear("a quote inside ${...} or ((...))") // shells differ
	case c == '"':
		l.pushContext(double)
	default:
		l.pushContext(single)
	}
}

// readDollar is for $ and what belongs to it.
func (l *lexer) readDollar(rest string) int {
	word := func(in ...inside) {
		l.pushContext(in...)
		l.word = false
	}
	quoted := l.innermost() == double
	switch {
	case strings.HasPrefix(rest, "$(("):
		word(sum, sum)
		return 3
	case strings.HasPrefix(rest, "$("):
		word(command)
		return 2
	case strings.HasPrefix(rest, "${") && dollar(rest) == 2:
		l.pushContext(variable)
		return 2
	case strings.HasPrefix(rest, "$'") && !quoted:
		l.noteUnclear("$'...'") // bash's own
	case strings.HasPrefix(rest, "$["):
		l.noteUnclear("$[...]")
	}
	l.word, l.dollar = true, !quoted
	return 1
}

// readUnquoted is for all that is not quoted.
func (l *lexer) readUnquoted(text string, at int) int {
	c, rest := text[at], text[at:]
	begins := !l.word
	switch c {
	case ' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')':
		l.word = false
	default:
		l.word = true
	}
	switch {
	case c == '#' && begins:
		l.pushContext(remark)
	case strings.HasPrefix(rest, "<<"):
		l.noteUnclear("<<")
	case c == '(':
		return l.parenthesis(rest, begins)
	case c == ')' && (l.innermost() == command || l.innermost() == group):
		l.word = l.innermost() == command // $(a)#b is one word
		l.popContext()
	case begins && strings.HasPrefix(rest, "case") && slices.Contains(l.stack, command):
		// Its patterns end in parentheses that were not opened.
		l.noteUnclear("case inside $(...)")
	}
	return 1
}

// parenthesis is for one that opens and has no $ before it.
func (l *lexer) parenthesis(rest string, begins bool) int {
	if !begins && !strings.HasPrefix(rest, "()") {
		l.noteUnclear("a parenthesis within a word") // bash's lists and patterns
	}
	if strings.HasPrefix(rest, "((") {
		l.pushContext(sumAlone, sumAlone)
		return 2
	}
	l.pushContext(group)
	return 1
}

// noteValue is told that a value stands here.
func (l *lexer) noteValue() { l.word, l.dollar = true, false }

// quotingOf says how a value is to be quoted where the lexer stands.
func (l *lexer) quotingOf(p piece) (quoting, error) {
	if p.what == aNumber && !l.dollar {
		return unquoted, nil
	}
	why := l.unsure
	for _, in := range l.stack {
		switch in {
		case variable:
			why = "${...}"
		case sum, sumAlone:
			why = "((...))"
		case backtick:
			why = "`...`"
		}
	}
	if l.dollar {
		why = "a $"
	}
	if why != "" {
		return 0, fault.New(fault.Invalid, `Write "$DROVER_ITEM", or set a variable first: x={}; echo "$x".`,
			"read command: {%s} is inside or after %s, where it cannot be quoted safely", p.text, why)
	}
	switch l.innermost() {
	case single:
		return inSingle, nil
	case double:
		return inDouble, nil
	}
	return asWord, nil
}

// checkEnd refuses a text that no shell would take.
func (l *lexer) checkEnd(text string) error {
	in := l.innermost()
	if l.unsure != "" || in == plain || in == remark {
		return nil
	}
	open := map[inside]string{
		single: "a single quote", double: "a double quote", command: "$(", group: "a parenthesis",
		variable: "${", sum: "$((", sumAlone: "((", backtick: "a backtick",
	}[in]
	return fault.New(fault.Invalid, "Close it.", "read command: %.200q: it opens %s and does not close it", text, open)
}

// appendQuoted writes a value so that a POSIX shell reads it back.
func appendQuoted(b *strings.Builder, value string, q quoting) {
	switch q {
	case unquoted:
		b.WriteString(value)
		return
	case asWord:
		b.WriteByte('\'')
	case inDouble:
		b.WriteString(`"'`)
	}
	for {
		before, after, more := strings.Cut(value, "'")
		b.WriteString(before)
		if !more {
			break
		}
		b.WriteString(`'\''`)
		value = after
	}
	switch q {
	case asWord:
		b.WriteByte('\'')
	case inDouble:
		b.WriteString(`'"`)
	}
}

// QuoteWord is a word for a hint.
func QuoteWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/*?[]") == "" {
		return word
	}
	var b strings.Builder
	appendQuoted(&b, word, asWord)
	return b.String()
}

var shells = []string{"sh", "bash", "dash", "ksh", "zsh", "ash", "fish", "mksh"}

// wrappers run the program that their arguments name.
var wrappers = []string{
	"busybox", "chrt", "conda", "doas", "docker", "env", "ionice", "mpirun", "nice", "nohup", "numactl", "podman",
	"setsid", "srun", "stdbuf", "strace", "sudo", "taskset", "time", "timeout", "unshare", "uv", "xargs",
}

// noShellText refuses an item inside the text that sh -c is given: an item could
// run commands of its own.
func noShellText(args []string, pieces [][]piece) error {
	for i, arg := range args {
		if i > 0 && !slices.Contains(wrappers, path.Base(args[0])) {
			return nil
		}
		if !slices.Contains(shells, path.Base(arg)) {
			continue
		}
		at := scriptText(args, i+1)
		if at < 0 {
			continue
		}
		bad := slices.IndexFunc(pieces[at], func(p piece) bool { return p.what != aText && p.what != aNumber })
		if bad < 0 {
			continue
		}
		name := path.Base(arg)
		return fault.New(fault.Invalid, "Use "+fault.Mark("drover map --shell "+QuoteWord(args[at]))+", or hand it over: `"+name+` -c '... "$1" ...' `+name+" {}`.",
			"read command: {%s} is in the text of %s -c, where an item could run commands", pieces[at][bad].text, name)
	}
	return nil
}

// scriptText is where the text of a shell's -c stands, -1 if it is given none.
// Its options begin at from.
func scriptText(args []string, from int) int {
	runs := false
	for i := from; i < len(args); i++ {
		arg, before := args[i], args[i-1]
		switch {
		case arg == "--" || strings.HasPrefix(arg, "--") && !runs:
		case len(arg) > 1 && (arg[0] == '-' || arg[0] == '+'):
			runs = runs || arg[0] == '-' && strings.Contains(arg, "c")
		case i > from && strings.HasPrefix(before, "-") && !strings.HasPrefix(before, "--") && strings.HasSuffix(before, "o"): // -o pipefail
		case runs:
			return i
		default:
			return -1
		}
	}
	return -1
}
