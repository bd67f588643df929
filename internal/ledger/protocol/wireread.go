package protocol

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DecodeResults is decode for an object with results in it, which go to results. Who
// reads a map reads a million of them: those that we have written ourselves are read
// here, and all else, and what is wrong with it, is for package json to tell.
func DecodeResults(b []byte, into any, results *[]Result, v *int, key string) error {
	// quotes stand in no text without a backslash before them: this is a field
	if at := bytes.Index(b, []byte(resultsField)); at > 0 && b[at-1] > ' ' && b[at-1] != '{' && len(b) <= MaxEntry {
		s := scanner{text: string(b[at+len(resultsField):])}
		if read, ok := s.results(); ok && resultsCheck(read) == nil && Decode(append(b[:at:at], '}'), into, v, key) == nil {
			*results = read
			return nil
		}
	}
	return Decode(b, into, v, key)
}

const resultsField = `,"results":[`

// scanner reads JSON as we write it: no blanks, and fields in their order.
type scanner struct {
	text string
	at   int
}

// results reads on to the end of the object.
func (s *scanner) results() (all []Result, ok bool) {
	all = make([]Result, 0, min(strings.Count(s.text, `{"i":`), MaxResults))
	for len(all) < MaxResults {
		all = append(all, Result{})
		if !s.result(&all[len(all)-1]) {
			return nil, false
		}
		if s.skip("]}") {
			return all, s.at == len(s.text)
		}
		if !s.skip(",") {
			return nil, false
		}
	}
	return nil, false
}

func (s *scanner) result(r *Result) bool {
	var item, code int64
	ok := s.next(`{"i":`) && s.number(`{"i":`, &item) && s.word(`,"y":`, &r.Try)
	r.Failed = ok && s.skip(`,"f":true`)
	r.Final = ok && s.skip(`,"z":true`)
	ok = ok && s.number(`,"c":`, &code) && s.word(`,"s":`, &r.Signal) && s.word(`,"k":`, &r.Kind) && s.word(`,"w":`, &r.Why) &&
		s.number(`,"e":`, &r.Ended) && s.number(`,"t":`, &r.Wall) && s.number(`,"u":`, &r.CPU) && s.number(`,"m":`, &r.MaxRSS) &&
		s.word(`,"h":`, &r.Head) && s.word(`,"l":`, &r.Tail) && s.number(`,"n":`, &r.Size) && s.outputs(&r.Outputs) && s.skip(`}`)
	r.Item, r.Code = int(item), int(code)
	return ok && int64(r.Item) == item && int64(r.Code) == code
}

func (s *scanner) outputs(all *[]Output) bool {
	if !s.skip(`,"o":[`) {
		return true
	}
	for {
		var o Output
		var mode int64
		if !s.next(`{"n":`) || !s.word(`{"n":`, &o.Name) || !s.number(`,"s":`, &o.Size) || !s.word(`,"d":`, &o.SHA256) ||
			!s.number(`,"m":`, &mode) || !s.skip(`}`) || mode != int64(uint32(mode)) {
			return false
		}
		o.Mode = uint32(mode)
		*all = append(*all, o)
		if s.skip(`]`) {
			return true
		}
		if !s.skip(`,`) {
			return false
		}
	}
}

func (s *scanner) next(word string) bool { return strings.HasPrefix(s.text[s.at:], word) }

func (s *scanner) skip(word string) bool {
	if !s.next(word) {
		return false
	}
	s.at += len(word)
	return true
}

// number reads a field, if it is there: false says that it is none that we write.
func (s *scanner) number(key string, n *int64) (ok bool) {
	if !s.skip(key) {
		return true
	}
	rest, digits := s.text[s.at:], 0
	for digits < len(rest) && (rest[digits] >= '0' && rest[digits] <= '9' || digits == 0 && rest[0] == '-') {
		digits++
	}
	text := rest[:digits]
	s.at += digits
	if text == "" || text[0] == '-' || text[0] == '0' && digits > 1 {
		return json.Unmarshal([]byte(text), n) == nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	*n = v
	return err == nil
}

// word reads a field, if it is there. Its text is a copy, or it would hold all the
// others' in memory.
func (s *scanner) word(key string, text *string) bool {
	if !s.skip(key) {
		return true
	}
	rest := s.text[s.at:]
	if rest == "" || rest[0] != '"' {
		return false
	}
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			s.at += i + 1
			*text = strings.Clone(rest[1:i])
			return true
		case c < ' ':
			return false
		case c == '\\' || c >= utf8.RuneSelf:
			return s.quoted(rest, text)
		}
	}
	return false
}

// quoted leaves a text to package json.
func (s *scanner) quoted(rest string, text *string) bool {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			s.at += i + 1
			return json.Unmarshal([]byte(rest[:i+1]), text) == nil
		}
	}
	return false
}
