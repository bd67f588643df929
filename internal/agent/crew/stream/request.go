package stream

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// request is a line of a program. All parts may be left out.
type request struct {
	Done []answered `json:"done"`
	Fail []givenUp  `json:"fail"`
	Back []int      `json:"back"` // these have not begun
	Bye  bool       `json:"bye"`  // nor have any others that were given: the connection is about to be closed
	Want int        `json:"want"` // the most that it would like
}

type answered struct {
	N      int    `json:"n"`
	Result result `json:"result"`
}

type givenUp struct {
	N     int    `json:"n"`
	Error string `json:"error"`
	Retry *bool  `json:"retry"` // false: it is not worth another try
}

// result is JSON; "" for none.
type result string

// UnmarshalJSON keeps it as it is.
func (r *result) UnmarshalJSON(b []byte) error {
	*r = result(b)
	return nil
}

// parse reads a line. Most say only what is done and how many more are wanted, tens of
// thousands of items a second: these are read here, into q's own room, and all others by
// package json, which is also who says what is wrong with one.
func (q *request) parse(line []byte) error {
	text := string(line) // results are parts of it
	done := q.Done[:0]
	if s := (scanner{text: text}); s.request(q, done) {
		return nil
	}
	*q = request{}
	if err := json.Unmarshal(line, q); err != nil {
		return fmt.Errorf("it is not a valid JSON object: %w", err)
	}
	return nil
}

// scanner reads JSON without blanks, as programs write it that are in a hurry.
type scanner struct {
	text string
	at   int
}

// request reads {"done":[{"n":1,"result":...},...],"want":10}, either part alone too.
func (s *scanner) request(q *request, done []answered) (ok bool) {
	*q = request{}
	s.text = strings.TrimRight(s.text, "\r\n")
	if !s.skip("{") {
		return false
	}
	if s.skip(`"done":[`) {
		for {
			var a answered
			if !s.answer(&a) {
				return false
			}
			done = append(done, a)
			if s.skip("]") {
				break
			}
			if !s.skip(",") {
				return false
			}
		}
		q.Done = done
		if s.skip("}") {
			return s.at == len(s.text)
		}
		if !s.skip(",") {
			return false
		}
	}
	if !s.skip(`"want":`) {
		return false
	}
	q.Want, ok = s.number()
	return ok && s.skip("}") && s.at == len(s.text)
}

func (s *scanner) answer(a *answered) (ok bool) {
	if !s.skip(`{"n":`) {
		return false
	}
	if a.N, ok = s.number(); !ok {
		return false
	}
	if s.skip("}") {
		return true
	}
	if !s.skip(`,"result":`) {
		return false
	}
	value, ok := s.value()
	a.Result = result(value)
	return ok && s.skip("}")
}

func (s *scanner) skip(word string) bool {
	if !strings.HasPrefix(s.text[s.at:], word) {
		return false
	}
	s.at += len(word)
	return true
}

// number reads a whole one from 0 on.
func (s *scanner) number() (n int, ok bool) {
	from := s.at
	for s.at < len(s.text) && s.text[s.at]-'0' <= 9 {
		n = n*10 + int(s.text[s.at]-'0')
		s.at++
	}
	const most = 15 // digits, and no more can be too many
	digits := s.at - from
	return n, digits > 0 && digits <= most && (s.text[from] != '0' || digits == 1)
}

// value reads any one; what is not plain is looked at by package json.
func (s *scanner) value() (text string, ok bool) {
	from, plain := s.at, true
	depth := 0
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case '"':
			if !s.quoted() {
				return "", false
			}
			continue
		case '[', '{':
			depth, plain = depth+1, false
		case ']', '}', ',':
			if depth == 0 {
				text = strings.Trim(s.text[from:s.at], " \t\r\n") // package json takes blanks off, too
				return text, text != "" && (plain && settled(text) || json.Valid([]byte(text)))
			}
			if c != ',' {
				depth--
			}
		}
		s.at++
	}
	return "", false
}

// quoted passes over a string.
func (s *scanner) quoted() bool {
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return true
		}
	}
	return false
}

// settled says that a value is JSON: a whole number, or a string without escapes.
func settled(text string) bool {
	if n := len(text); n > 1 && text[0] == '"' && strings.IndexByte(text[1:], '"') == n-2 {
		return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '\\' })
	}
	s := scanner{text: text}
	_, ok := s.number()
	return ok && s.at == len(text)
}
