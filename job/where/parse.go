package where

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/drover-run/drover/fault"
)

// The limits of an expression: far above what a user types, and low enough that each
// step is quick.
const (
	maxText    = 4096
	maxValue   = 253 // a node's full name
	maxDepth   = 32  // of parentheses and not
	maxClauses = 256 // of the normal form
)

// Parse reads an expression, or refuses it with a fault of kind Invalid: what is no
// expression, names and values that do not exist, and what no machine can be. Text
// without any word is the zero Expr.
func Parse(typed string) (Expr, error) {
	e, err := parse(typed)
	if err != nil {
		return Expr{}, fault.New(fault.Invalid, fault.MarkedHint(err), "read --where %q: %s", typed, err)
	}
	return e, nil
}

// OneOf is the expression that name has one of the values, each a text or a glob: as
// --machine names types of machines.
func OneOf(name Name, values ...string) (Expr, error) {
	var all []Expr
	for _, v := range values {
		op := Equal
		if strings.ContainsAny(v, "*?") {
			op = Match
		}
		t, err := term(name, op, []string{v}, 1)
		if err != nil {
			return Expr{}, err
		}
		all = append(all, t)
	}
	return joined(or, all), nil
}

func parse(typed string) (Expr, error) {
	if len(typed) > maxText {
		return Expr{}, fault.New(fault.Invalid, "Use globs: type =~ p3.*", "it is longer than %d bytes", maxText)
	}
	words, err := scan(typed)
	if err != nil || len(words) == 0 {
		return Expr{}, err
	}
	p := &parser{words: words}
	e, err := p.parseDisjunction()
	if err != nil {
		return Expr{}, err
	}
	if w := p.nextToken(); w.text != "" {
		return Expr{}, fault.New(fault.Invalid, "Join comparisons with and, or: type == p3.2xlarge and zone != us-east-1a.", "%s follows a whole expression", w.quotedText())
	}
	return e, e.checkClauses(e.String())
}

// word is one token. plain is true for one that stands without quotes and is no sign.
type word struct {
	text   string
	plain  bool
	quoted bool
}

// quotedText names a token in a message.
func (w word) quotedText() string {
	if w.text == "" && !w.quoted {
		return "nothing"
	}
	return `"` + w.text + `"`
}

// signs are the tokens that are no words, longer ones first.
var signs = []string{"==", "!=", "=~", "!~", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "[", "]", ",", "="}

// isWord says whether a letter belongs to a word that needs no quotes.
func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._:/*?-+@%#", r)
}

// isKeyword says whether a plain word is part of the grammar.
func isKeyword(text string) bool {
	switch strings.ToLower(text) {
	case "and", "or", "not", "in":
		return true
	}
	return false
}

// scan cuts an expression into tokens. \* is * and \? is ?, as pages print globs that
// would otherwise be read as their own markup.
func scan(typed string) (words []word, err error) {
	if !utf8.ValidString(typed) || strings.ContainsFunc(typed, unicode.IsControl) {
		return nil, fault.New(fault.Invalid, "Write it in one line.", "it holds a control character")
	}
	rest := typed
	for {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		if rest == "" {
			return words, nil
		}
		if rest[0] == '"' || rest[0] == '\'' {
			text, after, closed := strings.Cut(rest[1:], rest[:1])
			if !closed {
				return nil, fault.New(fault.Invalid, "Close it: type == "+rest+rest[:1]+".", "a quote is open at its end")
			}
			words, rest = append(words, word{text: text, quoted: true}), after
			continue
		}
		if i := slices.IndexFunc(signs, func(s string) bool { return strings.HasPrefix(rest, s) }); i >= 0 {
			words, rest = append(words, word{text: signs[i]}), rest[len(signs[i]):]
			continue
		}
		var text strings.Builder
		for rest != "" {
			if strings.HasPrefix(rest, `\*`) || strings.HasPrefix(rest, `\?`) {
				rest = rest[1:]
			}
			r, width := utf8.DecodeRuneInString(rest)
			if !isWord(r) {
				break
			}
			text.WriteRune(r)
			rest = rest[width:]
		}
		if text.Len() == 0 {
			r, _ := utf8.DecodeRuneInString(rest)
			return nil, fault.New(fault.Invalid, `Put values with other letters in quotes: feature == "a&b".`, "%q has no meaning", string(r))
		}
		words = append(words, word{text: text.String(), plain: true})
	}
}

// parser reads tokens by recursive descent.
type parser struct {
	words []word
	at    int
	depth int
}

// peekToken is the next token; the zero word at the end.
func (p *parser) peekToken() word {
	if p.at == len(p.words) {
		return word{}
	}
	return p.words[p.at]
}

// nextToken is the next token, which is then behind.
func (p *parser) nextToken() word {
	w := p.peekToken()
	p.at = min(p.at+1, len(p.words))
	return w
}

// acceptToken reads the next token if it is one of these, whatever its case.
func (p *parser) acceptToken(texts ...string) bool {
	w := p.peekToken()
	if w.quoted || !slices.Contains(texts, strings.ToLower(w.text)) {
		return false
	}
	p.at++
	return true
}

func (p *parser) parseDisjunction() (Expr, error) {
	return p.parseOperands(or, p.parseConjunction, "or", "||")
}
func (p *parser) parseConjunction() (Expr, error) {
	return p.parseOperands(and, p.parseOperand, "and", "&&")
}

// parseOperands reads operands joined by one of two signs.
func (p *parser) parseOperands(by join, read func() (Expr, error), signs ...string) (Expr, error) {
	first, err := read()
	all := []Expr{first}
	for err == nil && p.acceptToken(signs...) {
		var e Expr
		e, err = read()
		all = append(all, e)
	}
	if err != nil {
		return Expr{}, err
	}
	return joined(by, all), nil
}

// parseOperand reads a comparison, or what stands behind not or in parentheses.
func (p *parser) parseOperand() (Expr, error) {
	if p.depth++; p.depth > maxDepth {
		return Expr{}, fault.New(fault.Invalid, "Write it without the parentheses that change nothing.", "parentheses are more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case p.acceptToken("not", "!"):
		e, err := p.parseOperand()
		return negated(e), err
	case p.acceptToken("("):
		e, err := p.parseDisjunction()
		if err == nil && !p.acceptToken(")") {
			err = fault.New(fault.Invalid, "Close each parenthesis.", "%s stands where ) is missing", p.peekToken().quotedText())
		}
		return e, err
	}
	return p.comparison()
}

// comparison reads name op value.
func (p *parser) comparison() (Expr, error) {
	w := p.nextToken()
	if w.text == "" || !w.plain || isKeyword(w.text) {
		return Expr{}, fault.New(fault.Invalid, "Write name, comparison and value: type =~ p3.*", "%s stands where a name should be", w.quotedText())
	}
	name, scale, err := nameOf(w.text)
	if err != nil {
		return Expr{}, err
	}
	op, err := p.parseOperator(name)
	if err != nil {
		return Expr{}, err
	}
	if op == In || op == NotIn {
		values, err := p.parseValueList(name, op)
		if err != nil {
			return Expr{}, err
		}
		return term(name, op, values, scale)
	}
	v := p.nextToken()
	if !v.plain && !v.quoted || v.plain && isKeyword(v.text) {
		return Expr{}, fault.New(fault.Invalid, "Write a value behind "+string(op)+", in quotes if it is a word such as and.", "%s stands where a value of %s should be", v.quotedText(), name)
	}
	return term(name, op, []string{v.text}, scale)
}

// parseOperator reads a comparison.
func (p *parser) parseOperator(name Name) (Op, error) {
	w := p.nextToken()
	lower := strings.ToLower(w.text)
	_, known := opposite[Op(lower)]
	switch {
	case w.quoted:
	case lower == "!" || lower == "not":
		if p.acceptToken("in") {
			return NotIn, nil
		}
	case known:
		return Op(lower), nil
	case w.text == "=":
		return "", fault.New(fault.Invalid, "Write it as "+string(name)+" == VALUE.", "= is not a comparison")
	}
	return "", fault.New(fault.Invalid, "Use ==, !=, =~, !~, in, <, <=, > or >=.", "%s stands where a comparison of %s should be", w.quotedText(), name)
}

// parseValueList reads the values of in, in parentheses or brackets.
func (p *parser) parseValueList(name Name, op Op) (values []string, err error) {
	if !p.acceptToken("(", "[") {
		return nil, fault.New(fault.Invalid, "Write it as "+string(name)+" "+string(op)+" (a, b).", "%s stands where the values of %s should be", p.peekToken().quotedText(), name)
	}
	for {
		v := p.nextToken()
		if !v.plain && !v.quoted {
			return nil, fault.New(fault.Invalid, "Write it as "+string(name)+" "+string(op)+" (a, b).", "%s stands where a value of %s should be", v.quotedText(), name)
		}
		values = append(values, v.text)
		switch {
		case p.acceptToken(")", "]"):
			return values, nil
		case !p.acceptToken(","):
			return nil, fault.New(fault.Invalid, "Put commas between values, and ) behind them.", "%s stands between the values of %s", p.peekToken().quotedText(), name)
		}
	}
}

// term is a comparison in canonical form, or why it cannot be.
func term(name Name, op Op, typed []string, scale float64) (Expr, error) {
	glob := op == Match || op == NotMatch
	ordered := op == Less || op == AtMost || op == More || op == AtLeast
	numeric := abouts[name].kind != text && abouts[name].kind != texts
	switch {
	case numeric && glob:
		return Expr{}, fault.New(fault.Invalid, "Use ==, !=, in, <, <=, > or >=.", "%s is compared with a number, and %s is for texts", name, op)
	case !numeric && ordered:
		return Expr{}, fault.New(fault.Invalid, "Use ==, !=, =~, !~ or in.", "%s is a text, and %s is for numbers", name, op)
	}
	values := make([]string, len(typed))
	for i, v := range typed {
		var err error
		if values[i], err = name.canonical(v, scale, glob); err != nil {
			return Expr{}, err
		}
		switch {
		case len(values[i]) > maxValue:
			return Expr{}, fault.New(fault.Invalid, "Use a glob: node =~ gpu-*", "a value of %s is longer than %d bytes", name, maxValue)
		case !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) || strings.Contains(v, `"`) && strings.Contains(v, "'"):
			return Expr{}, fault.New(fault.Invalid, "Use a glob in place of the letter: feature =~ a?b.", "a value of %s holds a control character or both kinds of quotes: %q", name, v)
		case values[i] == "":
			return Expr{}, fault.New(fault.Invalid, "Write "+string(name)+" "+string(op)+" VALUE.", "a value of %s is empty", name)
		case !glob && strings.ContainsAny(values[i], "*?"):
			return Expr{}, fault.New(fault.Invalid, "Globs stand behind =~ and !~: "+string(name)+" =~ "+v+".", "%q is a glob, and %s compares whole texts", v, op)
		}
	}
	slices.Sort(values)
	values = slices.Compact(values)
	switch {
	case len(values) == 1 && op == In:
		op = Equal
	case len(values) == 1 && op == NotIn:
		op = NotEqual
	}
	return Expr{term: Term{Name: name, Op: op, Values: values}}, nil
}
