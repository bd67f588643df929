package protocol

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DecodeResults is decode for an object with results in it, which go to results. A
// reader of a map reads a million of them: those that we have written ourselves are read
// here, and all else, and what is wrong with it, is for package json to tell.
func DecodeResults(b []byte, into any, results *[]Result, v *int, key string) error {
	// quotes stand in no text without a backslash before them: this is a field
	if at := bytes.Index(b, []byte(resultsField)); at > 0 && b[at-1] > ' ' && b[at-1] != '{' && len(b) <= MaxEntry {
		s := scanner{text: string(b[at+len(resultsField):])}
		if read, ok := s.readResults(); ok && resultsCheck(read) == nil && Decode(append(b[:at:at], '}'), into, v, key) == nil {
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

// readResults reads on to the end of the object.
func (s *scanner) readResults() (all []Result, ok bool) {
	all = make([]Result, 0, min(strings.Count(s.text, `{"i":`), MaxResults))
	for len(all) < MaxResults {
		all = append(all, Result{})
		if !s.readResult(&all[len(all)-1]) {
			return nil, false
		}
		if s.skipWord("]}") {
			return all, s.at == len(s.text)
		}
		if !s.skipWord(",") {
			return nil, false
		}
	}
	return nil, false
}

func (s *scanner) readResult(r *Result) bool {
	var item, code int64
	ok := s.beginsWith(`{"i":`) && s.readNumber(`{"i":`, &item) && s.readText(`,"y":`, &r.Try)
	r.Failed = ok && s.skipWord(`,"f":true`)
	r.Final = ok && s.skipWord(`,"z":true`)
	ok = ok && s.readNumber(`,"c":`, &code) && s.readText(`,"s":`, &r.Signal) && s.readText(`,"k":`, &r.Kind) && s.readText(`,"w":`, &r.Why) &&
		s.readNumber(`,"e":`, &r.Ended) && s.readNumber(`,"t":`, &r.Wall) && s.readNumber(`,"u":`, &r.CPU) && s.readNumber(`,"m":`, &r.MaxRSS) &&
		s.readText(`,"h":`, &r.Head) && s.readText(`,"l":`, &r.Tail) && s.readNumber(`,"n":`, &r.Size) && s.readOutputs(&r.Outputs) && s.skipWord(`}`)
	r.Item, r.Code = int(item), int(code)
	return ok && int64(r.Item) == item && int64(r.Code) == code
}

func (s *scanner) readOutputs(all *[]Output) bool {
	if !s.skipWord(`,"o":[`) {
		return true
	}
	for {
		var o Output
		var mode int64
		if !s.beginsWith(`{"n":`) || !s.readText(`{"n":`, &o.Name) || !s.readNumber(`,"s":`, &o.Size) || !s.readText(`,"d":`, &o.SHA256) ||
			!s.readNumber(`,"m":`, &mode) || !s.skipWord(`}`) || mode != int64(uint32(mode)) {
			return false
		}
		o.Mode = uint32(mode)
		*all = append(*all, o)
		if s.skipWord(`]`) {
			return true
		}
		if !s.skipWord(`,`) {
			return false
		}
	}
}

func (s *scanner) beginsWith(word string) bool { return strings.HasPrefix(s.text[s.at:], word) }

func (s *scanner) skipWord(word string) bool {
	if !s.beginsWith(word) {
		return false
	}
	s.at += len(word)
	return true
}

// readNumber reads a field, if it is there: false says that it is none that we write.
func (s *scanner) readNumber(key string, n *int64) (ok bool) {
	if !s.skipWord(key) {
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

// readText reads a field, if it is there. Its text is a copy, or it would hold all the
// others' in memory.
func (s *scanner) readText(key string, text *string) bool {
	if !s.skipWord(key) {
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
			return s.readQuoted(rest, text)
		}
	}
	return false
}

// readQuoted leaves a text to package json.
func (s *scanner) readQuoted(rest string, text *string) bool {
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
