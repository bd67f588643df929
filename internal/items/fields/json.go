package fields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// errJSON is a line that is no JSON value, where one was expected.
var errJSON = errors.New("not JSON")

// OfJSON gives the values of a line's object in the order of names; nil if it
// is none. A key that stands in it twice has its last value.
func OfJSON(n *Names, text string) ([]string, error) {
	if !strings.HasPrefix(text, "{") || len(n.List) == 0 {
		return nil, nil
	}
	fields := make([]string, len(n.List))
	for i := range fields {
		fields[i] = Absent
	}
	_, err := EachKey(text, func(key, raw string) (err error) {
		if i, known := n.at[key]; known {
			fields[i], err = JSONText(raw)
		}
		return err
	})
	return fields, err
}

// EachKey calls f for each key of an object and its value as it stands there. It
// looks no deeper, and at the form no more than it must: Collect has done that.
func EachKey(text string, f func(key, raw string) error) (object bool, err error) {
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

// stringEnd is where the string ends that begins at from; -1: nowhere.
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

// JSONText is what a value says: of a string its text, else compact JSON.
func JSONText(raw string) (string, error) {
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
