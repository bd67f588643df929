package build

import (
	"errors"
	"strings"
)

// errBuilder says that only Docker's builder understands it.
var errBuilder = errors.New("only Docker's builder understands it")

// expander resolves quotes, escapes and variables in an instruction's words, by
// the rules of Docker's builder. What it has no rule for is errBuilder.
type expander struct {
	escape byte
	env    []string // NAME=value; the last one counts
}

func (e expander) variableValue(name string) (string, bool) {
	for i := len(e.env) - 1; i >= 0; i-- {
		if k, v, _ := strings.Cut(e.env[i], "="); k == name {
			return v, true
		}
	}
	return "", false
}

// expandToWord expands text to one word.
func (e expander) expandToWord(text string) (string, error) {
	words, err := e.expandWords(text, false)
	if err != nil || len(words) == 0 {
		return "", err
	}
	return words[0], nil
}

// expandToWords expands text, and splits what variables bring in at spaces outside quotes.
func (e expander) expandToWords(text string) ([]string, error) { return e.expandWords(text, true) }

func (e expander) expandWords(text string, split bool) ([]string, error) {
	var list []string
	var b strings.Builder
	begun := false
	put := func(s string) { b.WriteString(s); begun = true }
	end := func() {
		if begun {
			list = append(list, b.String())
		}
		b.Reset()
		begun = false
	}
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\'':
			n := strings.IndexByte(text[i+1:], '\'')
			if n < 0 {
				return nil, errBuilder
			}
			put(text[i+1 : i+1+n])
			i += n + 2
		case c == '"':
			inner, n, err := e.readQuoted(text[i+1:])
			if err != nil {
				return nil, err
			}
			put(inner)
			i += n + 1
		case c == '$':
			value, n, err := e.expandDollar(text[i:])
			if err != nil {
				return nil, err
			}
			parts := []string{value}
			if split {
				parts = strings.Fields(value)
			}
			for j, part := range parts {
				if j > 0 {
					end()
				}
				put(part)
			}
			i += n
		case c == e.escape && i+1 < len(text):
			put(text[i+1 : i+2])
			i += 2
		case c == e.escape:
			i++ // nothing follows: it is dropped
		case split && (c == ' ' || c == '\t'):
			end()
			i++
		default:
			put(text[i : i+1])
			i++
		}
	}
	end()
	return list, nil
}

// readQuoted reads to the closing quote; n is what was read, the quote with it.
func (e expander) readQuoted(text string) (inner string, n int, err error) {
	var b strings.Builder
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			return b.String(), i + 1, nil
		case c == '$':
			value, n, err := e.expandDollar(text[i:])
			if err != nil {
				return "", 0, err
			}
			b.WriteString(value)
			i += n
		case c == e.escape && i+1 < len(text):
			if next := text[i+1]; next != '"' && next != '$' && next != e.escape {
				b.WriteByte(c)
			}
			b.WriteByte(text[i+1])
			i += 2
		default:
			b.WriteByte(c)
			i++
		}
	}
	return "", 0, errBuilder
}

// expandDollar reads $NAME, ${NAME}, ${NAME:-word} and ${NAME:+word}.
func (e expander) expandDollar(text string) (value string, n int, err error) {
	if len(text) < 2 {
		return "$", 1, nil
	}
	if text[1] != '{' {
		name := identifier(text[1:])
		if name == "" {
			if strings.IndexByte("0123456789@*#?-$!", text[1]) >= 0 {
				return "", 0, errBuilder
			}
			return "$", 1, nil
		}
		value, _ = e.variableValue(name)
		return value, 1 + len(name), nil
	}
	name := identifier(text[2:])
	rest := text[2+len(name):]
	if name == "" || rest == "" {
		return "", 0, errBuilder
	}
	value, _ = e.variableValue(name)
	if rest[0] == '}' {
		return value, 3 + len(name), nil
	}
	closing := strings.IndexByte(rest, '}')
	if closing < 2 || rest[0] != ':' || strings.ContainsAny(rest[2:closing], "${'\"") || strings.IndexByte(rest[:closing], e.escape) >= 0 {
		return "", 0, errBuilder
	}
	other := rest[2:closing]
	switch rest[1] {
	case '-':
		if value == "" {
			value = other
		}
	case '+':
		if value != "" {
			value = other
		}
	default:
		return "", 0, errBuilder
	}
	return value, 2 + len(name) + closing + 1, nil
}

func identifier(text string) string {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return text[:i]
		}
	}
	return text
}

// readPairs reads the words of ENV and LABEL: "K=v K2='v w'", or "K all the rest".
// The values are still to be expanded.
func (e expander) readPairs(rest string) ([][2]string, error) {
	list, err := e.splitWords(rest)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errBuilder
	}
	if !strings.Contains(list[0], "=") {
		name, value, ok := strings.Cut(strings.ReplaceAll(rest, "\t", " "), " ")
		if !ok {
			return nil, errBuilder
		}
		return [][2]string{{name, strings.TrimSpace(value)}}, nil
	}
	var got [][2]string
	for _, word := range list {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, errBuilder
		}
		got = append(got, [2]string{name, value})
	}
	return got, nil
}

// splitWords cuts at spaces that are neither quoted nor escaped, and leaves quotes
// and escapes where they are.
func (e expander) splitWords(text string) (list []string, err error) {
	var quote byte
	begin := -1
	for i := 0; i < len(text); i++ {
		c := text[i]
		space := c == ' ' || c == '\t'
		switch {
		case quote == 0 && space && begin >= 0:
			list, begin = append(list, text[begin:i]), -1
		case quote == 0 && space:
		case c == e.escape && quote != '\'' && i+1 < len(text):
			if begin < 0 {
				begin = i
			}
			i++
		default:
			if begin < 0 {
				begin = i
			}
			if quote == 0 && (c == '"' || c == '\'') {
				quote = c
			} else if quote == c {
				quote = 0
			}
		}
	}
	if quote != 0 {
		return nil, errBuilder
	}
	if begin >= 0 {
		list = append(list, text[begin:])
	}
	return list, nil
}
