// Package template fills an item into a command: it parses the placeholders of the
// arguments, quotes values where a shell reads them, refuses what a shell would
// read as its own, and names the outputs of an item.
//
// It refuses to know what runs the command. Proved by its tests: /bin/sh as oracle
// for quoting, hostile lines and names, fuzz.
package template

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
)

// Template is a command with placeholders that are found once and filled for every
// item. It may be used by many goroutines at once.
//
//	{}                            the item
//	{.name} {.stem} {.ext} {.dir} of the item as a path: of a/b.tar.gz these are
//	                              b.tar.gz, b.tar, .gz and a
//	{field} {field.stem} ...      a field of a CSV or JSON line, and of it as a path
//	{n}                           the item's number
//	{out} {out2} ...              where the outputs declared with --out are written
//
// {.stem}{.ext} is always {.name}; {.dir} of a bare name is ".". {{}} writes {} as
// it is, {{n}} writes {n}, and so on. Braces around anything else stay as they
// are, ${...} too, but what looks like a misspelled placeholder is refused.
type Template struct {
	args  [][]piece
	outs  [][]piece
	uses  bool
	notes []string
}

// TemplateOptions say what a command's placeholders may be.
type TemplateOptions struct {
	Fields []string // of the manifest
	// Shell says that the arguments are text for sh -c: values are quoted for it.
	// POSIX's sh and bash read it alike.
	Shell bool
	Out   []string // the patterns of --out
}

// piece is a part of an argument: text, or a value.
type piece struct {
	what  what
	part  pathPart
	quote quoting
	text  string // of a literal; of others what stood between the braces
	index int    // of the field, or of the output
}

type what int

const (
	aText what = iota
	anItem
	aField
	aNumber
	anOutput
)

type pathPart int

const (
	theWhole pathPart = iota
	theName
	theStem
	theExt
	theDir
)

var pathParts = map[string]pathPart{"name": theName, "stem": theStem, "ext": theExt, "dir": theDir}

// Parse reads a command. It refuses, as fault.Invalid, what looks like a
// misspelled placeholder, an item inside the text of sh -c, and in a shell text
// an item where quoting would not hold.
func Parse(args []string, o TemplateOptions) (*Template, error) {
	p := &compiler{doing: "read command", fields: o.Fields, outs: len(o.Out), at: make(map[string]int, len(o.Fields))}
	for i, f := range o.Fields {
		if f != "" {
			p.at[f] = i
		}
	}
	t := &Template{}
	for _, arg := range args {
		pieces, err := p.compileText(arg, o.Shell)
		if err != nil {
			return nil, err
		}
		t.args = append(t.args, pieces)
		t.uses = t.uses || slices.ContainsFunc(pieces, piece.isOfItem)
	}
	if !o.Shell {
		if err := noShellText(args, t.args); err != nil {
			return nil, err
		}
	}
	p.doing, p.inOut = "read --out", true
	for _, pattern := range o.Out {
		pieces, err := p.compileText(pattern, false)
		if err != nil {
			return nil, err
		}
		if err := checkPattern(pattern, pieces); err != nil {
			return nil, err
		}
		t.outs = append(t.outs, pieces)
	}
	t.notes = p.notes
	return t, nil
}

// isOfItem says whether a piece is anything of the item.
func (p piece) isOfItem() bool { return p.what == anItem || p.what == aField || p.what == aNumber }

// Uses says whether the command holds any placeholder of the item: without one
// the program has it in its environment alone.
func (t *Template) Uses() bool { return t.uses }

// Fields are the fields that the command uses, by their place among the manifest's.
func (t *Template) Fields() (used []int) {
	for _, pieces := range t.args {
		for _, p := range pieces {
			if p.what == aField && !slices.Contains(used, p.index) {
				used = append(used, p.index)
			}
		}
	}
	return used
}

// Notes are sentences for the person: braces that hold a name and were left.
func (t *Template) Notes() []string { return slices.Clone(t.notes) }

// compiler turns texts into pieces.
type compiler struct {
	doing  string
	fields []string
	at     map[string]int // of the named fields
	outs   int
	inOut  bool // it reads a pattern of --out
	notes  []string
}

func (c *compiler) compileText(text string, shell bool) ([]piece, error) {
	var pieces []piece
	var kept strings.Builder
	var sh lexer
	flush := func() {
		if kept.Len() > 0 {
			pieces = append(pieces, piece{what: aText, text: kept.String()})
			kept.Reset()
		}
	}
	for at := 0; at < len(text); {
		if shell && text[at] != '{' || text[at] == '$' || shell && sh.inComment() {
			n := dollar(text[at:])
			if shell {
				n = sh.readToken(text, at)
			}
			kept.WriteString(text[at : at+n])
			at += n
			continue
		}
		p, n, err := c.readBrace(text[at:])
		if err == nil && shell && p.what != aText {
			p.quote, err = sh.quotingOf(p)
		}
		if err != nil {
			return nil, err
		}
		if p.what != aText {
			flush()
			pieces = append(pieces, p)
			sh.noteValue()
		} else {
			kept.WriteString(p.text)
			for i := 0; shell && i < len(p.text); {
				i += sh.readToken(p.text, i)
			}
		}
		at += n
	}
	flush()
	if shell {
		return pieces, sh.checkEnd(text)
	}
	return pieces, nil
}

// dollar is how much of a text that begins with $ is not a placeholder: ${ begins a
// variable of a shell.
func dollar(text string) int {
	if len(text) > 2 && text[1] == '{' && text[2] != '}' {
		return 2
	}
	return 1
}

// readBrace reads what begins text: a placeholder, one that is to be written as it
// is, or anything else, of which it takes a byte. n is how long it is.
func (c *compiler) readBrace(text string) (p piece, n int, err error) {
	if text[0] != '{' {
		return piece{text: text[:1]}, 1, nil
	}
	if inside, ok := between(text, "{{", "}}"); ok {
		it := piece{text: "{" + inside + "}"}
		if _, found, err := c.findPlaceholder(inside); found || err != nil && !strings.HasPrefix(inside, ".") {
			return it, len(inside) + 4, nil
		}
		return piece{text: text[:2]}, 2, nil
	}
	inside, ok := between(text, "{", "}")
	if !ok {
		return piece{text: text[:1]}, 1, nil
	}
	p, found, err := c.findPlaceholder(inside)
	if err != nil {
		return piece{}, 0, err
	}
	if !found {
		c.noteLeftBraces(inside)
		return piece{text: text[:1]}, 1, nil
	}
	return p, len(inside) + 2, nil
}

// between is what stands between two braces, without braces in it.
func between(text, open, end string) (string, bool) {
	if !strings.HasPrefix(text, open) {
		return "", false
	}
	rest := text[len(open):]
	i := strings.IndexAny(rest, "{}")
	if i < 0 || !strings.HasPrefix(rest[i:], end) {
		return "", false
	}
	return rest[:i], true
}

// findPlaceholder reads what stands between braces. An error is a placeholder that cannot
// be, or what was likely meant to be one.
func (c *compiler) findPlaceholder(inside string) (p piece, found bool, err error) {
	p = piece{text: inside}
	if i, is := c.at[inside]; is {
		if _, reserved := c.reservedPiece(inside); reserved {
			return p, false, c.refusePlaceholder(inside, "Rename that field in the source.", "is a field's name, and has a meaning of its own")
		}
		p.what, p.index = aField, i
		return p, true, nil
	}
	if q, is := c.reservedPiece(inside); is {
		switch {
		case q.what == anOutput && c.inOut:
			return p, false, c.refusePlaceholder(inside, "Name it after the item: --out {n}.txt, or --out {.stem}.png.", "stands for an output, and cannot be part of its name")
		case q.what == anOutput && q.index >= c.outs && (c.outs > 0 || inside == "out"):
			return p, false, c.refusePlaceholder(inside, "Declare it: --out {n}.txt, or write {"+"{"+inside+"}} for the braces themselves.", "stands for an output, and %s declared", was(c.outs))
		case q.what == anOutput && q.index >= c.outs:
			return p, false, nil
		}
		return q, true, nil
	}
	before, after, dotted := cutLast(inside)
	i, isField := c.at[before]
	part, isPart := pathParts[after]
	if dotted && isField && isPart {
		return piece{what: aField, part: part, text: inside, index: i}, true, nil
	}
	if like, ok := c.nearestPlaceholder(inside, before, after, dotted); ok {
		return p, false, c.refusePlaceholder(inside, "Did you mean {"+like+"}? {"+"{"+inside+"}} writes the braces themselves.", "is not a placeholder")
	}
	return p, false, nil
}

// reservedPiece are the placeholders that do not come from the items' fields.
func (c *compiler) reservedPiece(inside string) (piece, bool) {
	p := piece{text: inside}
	switch {
	case inside == "":
		p.what = anItem
	case inside == "n":
		p.what = aNumber
	case inside[0] == '.' && pathParts[inside[1:]] != theWhole:
		p.what, p.part = anItem, pathParts[inside[1:]]
	case strings.HasPrefix(inside, "out"):
		n := 1
		if inside != "out" {
			var err error
			if n, err = strconv.Atoi(inside[3:]); err != nil || n < 1 || inside[3] == '0' || inside[3] == '+' {
				return p, false
			}
		}
		p.what, p.index = anOutput, n-1
	default:
		return p, false
	}
	return p, true
}

func was(n int) string {
	switch n {
	case 0:
		return "none is"
	case 1:
		return "only one is"
	}
	return fmt.Sprintf("only %d are", n)
}

func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, '.')
	if i <= 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

// foreign are GNU parallel's placeholders, and what people try first.
var foreign = map[string]string{
	"/": ".name", "//": ".dir", "/.": ".stem", ".": ".dir}/{.stem", "#": "n", "item": "",
	"name": ".name", "stem": ".stem", "ext": ".ext", "dir": ".dir",
}

// nearestPlaceholder finds the placeholder that was likely meant: the words of other programs,
// such as awk's {print}, are none.
func (c *compiler) nearestPlaceholder(inside, before, after string, dotted bool) (like string, ok bool) {
	if like, ok := foreign[inside]; ok {
		return like, true
	}
	if !isName(inside) {
		return "", false
	}
	if inside[0] == '.' {
		for _, part := range []string{"name", "stem", "ext", "dir"} {
			if isNear(inside[1:], part) {
				return "." + part, true
			}
		}
		return "", false
	}
	for _, f := range c.fields {
		if f != "" && isNear(inside, f) {
			return f, true
		}
	}
	if !dotted {
		return "", false
	}
	_, exact := c.at[before]
	for _, f := range c.fields {
		if f == "" || !exact && !isNear(before, f) || exact && f != before {
			continue
		}
		for _, part := range []string{"name", "stem", "ext", "dir"} {
			if isNear(after, part) || after == part {
				return f + "." + part, true
			}
		}
		if exact {
			return f + ".stem", true
		}
	}
	return "", false
}

// isNear says whether a is b misspelled: in small and large letters, by one sign
// in a word of three, or by two in one of six.
func isNear(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if a == b {
		return true
	}
	allowed := min(len(a), len(b), 8) / 3
	return allowed > 0 && fault.Distance(a, b) <= allowed
}

// isName says whether text may be a field's name as people write them.
func isName(text string) bool {
	letters := false
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0x80:
			letters = true
		case r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.':
		default:
			return false
		}
	}
	return letters && len(text) <= 100 && !strings.Contains(text, "..")
}

// noteLeftBraces says which braces were left, where the items have fields at all.
func (c *compiler) noteLeftBraces(inside string) {
	if len(c.fields) == 0 || !isName(inside) {
		return
	}
	text := fmt.Sprintf("{%s} is not a field of the items, and was left as it is", inside)
	if !slices.Contains(c.notes, text) {
		c.notes = append(c.notes, text)
	}
}

func (c *compiler) refusePlaceholder(inside, hint, format string, args ...any) error {
	return fault.New(fault.Invalid, hint, c.doing+": {%s}: it "+format, append([]any{inside}, args...)...)
}

// checkPattern refuses a pattern of --out that could not do for any item, or would
// give all of them one name.
func checkPattern(pattern string, pieces []piece) error {
	hint := "Name it after the item: `--out {n}.txt`, or `--out {.stem}.png`."
	why := ""
	switch {
	case pattern == "":
		why = "it is empty"
	case strings.HasPrefix(pattern, "/"):
		why, hint = "it begins with /", "Outputs are stored with the job, so name them relative: `--out {.stem}.png`; `drover get -o FOLDER` brings them."
	case !slices.ContainsFunc(pieces, piece.isOfItem):
		why = "all items would write the same name"
		if body := strings.TrimRight(pattern, "/"); body != "" {
			stem := strings.TrimSuffix(body, path.Ext(body))
			hint = "Put the item's number into it: --out " + QuoteWord(stem+"-{n}"+pattern[len(stem):])
		}
	}
	if why == "" {
		return nil
	}
	return fault.New(fault.Invalid, hint, "read --out %q: %s", pattern, why)
}
