package items

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// errJSON is a line that is no JSON value, where one was expected.
var errJSON = errors.New("not JSON")

// names are the keys of JSON objects in order of first sight.
type names struct {
	list  []string
	at    map[string]int
	bytes int
	full  bool  // a key was left out
	seen  []int // by name: the last line that had it
}

func newNames(list []string) *names {
	n := &names{at: make(map[string]int, len(list))}
	for _, name := range list {
		n.add(name)
	}
	return n
}

// add gives a name's place; -1: no more are taken.
func (n *names) add(name string) int {
	if i, known := n.at[name]; known {
		return i
	}
	if len(n.list) == maxNames || n.bytes+len(name) > maxNameBytes {
		n.full = true
		return -1
	}
	name = strings.Clone(name) // of a line, which would be kept whole
	n.at[name] = len(n.list)
	n.list, n.bytes, n.seen = append(n.list, name), n.bytes+len(name), append(n.seen, 0)
	return len(n.list) - 1
}

// collectJSON takes every line as an item.
func (c *collector) collectJSON() error {
	known := newNames(nil)
	for {
		text, err := c.line()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			c.empty++
			continue
		}
		if err := c.checkText(text); err != nil {
			return err
		}
		if !json.Valid(text) {
			return c.badJSON(text)
		}
		if err := c.keys(known, string(text)); err != nil {
			return err
		}
		if c.packer.count == 0 && text[0] == '[' {
			if _, err := c.in.Peek(1); err == io.EOF {
				c.packer.notes = append(c.packer.notes, "the one line is an array, and so one item; for its elements: jq -c '.[]' FILE")
			}
		}
		if err := c.add(text); err != nil {
			return err
		}
	}
	c.packer.fields = known.list
	if known.full {
		c.packer.notes = append(c.packer.notes, fmt.Sprintf("the objects have more keys than can be placeholders: the first %d are", len(known.list)))
	}
	return nil
}

// keys checks the line's keys and values, and learns new names.
func (c *collector) keys(known *names, text string) error {
	_, err := eachKey(text, func(key, raw string) error {
		if _, err := jsonText(raw); err != nil {
			return err
		}
		i := known.add(key)
		if i < 0 {
			return nil
		}
		if known.seen[i] == c.lines {
			return fmt.Errorf("two values are named %q", key)
		}
		known.seen[i] = c.lines
		return nil
	})
	if err != nil {
		return c.bad(c.lines, "Mend that line.", "%v", err)
	}
	return nil
}

func (c *collector) badJSON(text []byte) error {
	var value any
	err := json.Unmarshal(text, &value)
	hint := "Write one JSON value on each line: jq -c . FILE."
	if c.packer.count == 0 && (text[0] == '[' || text[0] == '{') {
		hint = "Write one value on each line: jq -c '.[]' FILE (of an array), or jq -c . FILE."
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return c.bad(c.lines, hint, "it is not JSON: at byte %d: %v", syntax.Offset, err)
	}
	return c.bad(c.lines, hint, "it is not JSON: %v", err)
}

// jsonFields gives the values of a line's object in the order of names; nil if it
// is none. A key that stands in it twice has its last value.
func jsonFields(n *names, text string) ([]string, error) {
	if !strings.HasPrefix(text, "{") || len(n.list) == 0 {
		return nil, nil
	}
	fields := make([]string, len(n.list))
	for i := range fields {
		fields[i] = Absent
	}
	_, err := eachKey(text, func(key, raw string) (err error) {
		if i, known := n.at[key]; known {
			fields[i], err = jsonText(raw)
		}
		return err
	})
	return fields, err
}

// eachKey calls f for each key of an object and its value as it stands there. It
// looks no deeper, and at the form no more than it must: Collect has done that.
func eachKey(text string, f func(key, raw string) error) (object bool, err error) {
	if !strings.HasPrefix(text, "{") {
		return false, nil
	}
	at := blank(text, 1)
	if at < len(text) && text[at] == '}' {
		return true, nil
	}
	for {
		end := valueEnd(text, at)
		if end < 0 || text[at] != '"' {
			return true, errJSON
		}
		key, err := unquote(text[at:end])
		if err != nil {
			return true, err
		}
		if at = blank(text, end); at == len(text) || text[at] != ':' {
			return true, errJSON
		}
		at = blank(text, at+1)
		if end = valueEnd(text, at); end < 0 {
			return true, errJSON
		}
		if err := f(key, text[at:end]); err != nil {
			return true, err
		}
		at = blank(text, end)
		switch {
		case at == len(text):
			return true, errJSON
		case text[at] == '}':
			return true, nil
		case text[at] != ',':
			return true, errJSON
		}
		at = blank(text, at+1)
	}
}

// blank is where the next byte stands that is no white space.
func blank(text string, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}

// valueEnd is where the value ends that begins at from; -1: there is none.
func valueEnd(text string, from int) int {
	depth := 0
	for at := from; at < len(text); {
		switch c := text[at]; {
		case c == '"':
			end := stringEnd(text, at)
			if end < 0 {
				return -1
			}
			at = end
		case c == '{' || c == '[':
			depth++
			at++
			continue
		case c == '}' || c == ']':
			depth--
			at++
		case depth > 0:
			at++
			continue
		default:
			n := strings.IndexAny(text[at:], ",:]} \t\r\n\"{[")
			if n == 0 {
				return -1
			}
			if n < 0 {
				return len(text)
			}
			return at + n
		}
		if depth == 0 {
			return at
		}
		if depth < 0 {
			return -1
		}
	}
	return -1
}

// stringEnd is where the string ends whose quote is at from; -1: nowhere.
func stringEnd(text string, from int) int {
	for at := from + 1; at < len(text); at++ {
		i := strings.IndexAny(text[at:], `"\`)
		if i < 0 {
			return -1
		}
		if at += i; text[at] == '"' {
			return at + 1
		}
		at++
	}
	return -1
}

// jsonText is what a value says: of a string its text, else compact JSON.
func jsonText(raw string) (string, error) {
	if strings.HasPrefix(raw, `"`) {
		return unquote(raw)
	}
	if !strings.ContainsAny(raw, " \t\r\n") {
		return raw, nil
	}
	var b bytes.Buffer
	err := json.Compact(&b, []byte(raw))
	return b.String(), err
}

// unquote reads a JSON string. Unlike encoding/json it refuses half a surrogate
// pair, which no text can hold, instead of putting another sign in its place.
func unquote(raw string) (string, error) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", errJSON
	}
	raw = raw[1 : len(raw)-1]
	if strings.IndexByte(raw, '\\') < 0 {
		return raw, nil
	}
	b := make([]byte, 0, len(raw))
	for at := 0; at < len(raw); {
		i := strings.IndexByte(raw[at:], '\\')
		if i < 0 {
			b = append(b, raw[at:]...)
			break
		}
		b = append(b, raw[at:at+i]...)
		r, n, err := escape(raw[at+i:])
		if err != nil {
			return "", err
		}
		b = utf8.AppendRune(b, r)
		at += i + n
	}
	return string(b), nil
}

// escape reads what begins with a backslash, and says how long it is.
func escape(text string) (r rune, n int, err error) {
	if len(text) < 2 {
		return 0, 0, errJSON
	}
	if text[1] != 'u' {
		i := strings.IndexByte(`"\/bfnrt`, text[1])
		if i < 0 {
			return 0, 0, errJSON
		}
		return rune("\"\\/\b\f\n\r\t"[i]), 2, nil
	}
	r, err = hexRune(text)
	if err != nil || !utf16.IsSurrogate(r) {
		return r, 6, err
	}
	if low, e := hexRune(text[6:]); e == nil {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12, nil
		}
	}
	return 0, 0, fmt.Errorf("%s is half of a surrogate pair", text[:6])
}

func hexRune(text string) (rune, error) {
	if len(text) < 6 || text[:2] != `\u` {
		return 0, errJSON
	}
	v, err := strconv.ParseUint(text[2:6], 16, 16)
	if err != nil {
		return 0, errJSON
	}
	return rune(v), nil
}
