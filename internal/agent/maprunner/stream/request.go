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

// parseLine reads a line. Most say only what is done and how many more are wanted, tens of
// thousands of items a second: these are read here, into q's own room, and all others by
// package json, which also says what is wrong with one.
func (q *request) parseLine(line []byte) error {
	text := string(line) // results are parts of it
	done := q.Done[:0]
	if s := (scanner{text: text}); s.scanRequest(q, done) {
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

// scanRequest reads {"done":[{"n":1,"result":...},...],"want":10}, either part alone too.
func (s *scanner) scanRequest(q *request, done []answered) (ok bool) {
	*q = request{}
	s.text = strings.TrimRight(s.text, "\r\n")
	if !s.skipWord("{") {
		return false
	}
	if s.skipWord(`"done":[`) {
		for {
			var a answered
			if !s.scanAnswer(&a) {
				return false
			}
			done = append(done, a)
			if s.skipWord("]") {
				break
			}
			if !s.skipWord(",") {
				return false
			}
		}
		q.Done = done
		if s.skipWord("}") {
			return s.at == len(s.text)
		}
		if !s.skipWord(",") {
			return false
		}
	}
	if !s.skipWord(`"want":`) {
		return false
	}
	q.Want, ok = s.scanNumber()
	return ok && s.skipWord("}") && s.at == len(s.text)
}

func (s *scanner) scanAnswer(a *answered) (ok bool) {
	if !s.skipWord(`{"n":`) {
		return false
	}
	if a.N, ok = s.scanNumber(); !ok {
		return false
	}
	if s.skipWord("}") {
		return true
	}
	if !s.skipWord(`,"result":`) {
		return false
	}
	value, ok := s.scanValue()
	a.Result = result(value)
	return ok && s.skipWord("}")
}

func (s *scanner) skipWord(word string) bool {
	if !strings.HasPrefix(s.text[s.at:], word) {
		return false
	}
	s.at += len(word)
	return true
}

// scanNumber reads a whole one from 0 on.
func (s *scanner) scanNumber() (n int, ok bool) {
	from := s.at
	for s.at < len(s.text) && s.text[s.at]-'0' <= 9 {
		n = n*10 + int(s.text[s.at]-'0')
		s.at++
	}
	const most = 15 // digits, and no more can be too many
	digits := s.at - from
	return n, digits > 0 && digits <= most && (s.text[from] != '0' || digits == 1)
}

// scanValue reads any one; what is not plain is looked at by package json.
func (s *scanner) scanValue() (text string, ok bool) {
	from, plain := s.at, true
	depth := 0
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case '"':
			if !s.skipString() {
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

// skipString passes over a string.
func (s *scanner) skipString() bool {
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
	_, ok := s.scanNumber()
	return ok && s.at == len(text)
}

// AnswerText is a result as text: a string as it is, anything else as JSON.
func AnswerText(value string) string {
	if value == "" || value[0] != '"' {
		return value
	}
	if n := len(value) - 1; n > 0 && strings.IndexByte(value, '\\') < 0 {
		return value[1:n]
	}
	var text string
	if json.Unmarshal([]byte(value), &text) != nil {
		return value
	}
	return text
}
