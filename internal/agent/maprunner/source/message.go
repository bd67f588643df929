package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/drover-run/drover/internal/items/manifest"
)

// Message is an item as a program is told it.
func (s *Source) Message(it manifest.Item, try int, places []string, files []ProvidedFile) ([]byte, error) {
	b := append(make([]byte, 0, 32+len(it.Text)), `{"n":`...)
	b = append(strconv.AppendInt(b, int64(it.N), 10), `,"value":`...)
	var err error
	switch s.Format {
	case "jsonl":
		b = append(b, it.Text...)
	case "csv":
		row := map[string]string{}
		for i, name := range s.fields {
			if i < len(it.Fields) {
				row[name] = it.Fields[i]
			}
		}
		b, err = appendJSON(b, row)
	default:
		b, err = appendString(b, it.Text)
	}
	if try > 1 {
		b = strconv.AppendInt(append(b, `,"try":`...), int64(try), 10)
	}
	if err == nil && len(places) > 0 {
		b, err = appendJSON(append(b, `,"out":`...), places)
	}
	if err == nil && len(files) > 0 {
		b, err = appendJSON(append(b, `,"file":`...), s.filesForProgram(files))
	}
	if err != nil {
		return nil, fmt.Errorf("report item %d: %w", it.N, err)
	}
	return append(b, '}'), nil
}

// appendString encodes a text; a plain one is its own encoding.
func appendString(b []byte, text string) ([]byte, error) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendJSON(b, text)
		}
	}
	return append(append(append(b, '"'), text...), '"'), nil
}

func appendJSON(b []byte, v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return append(b, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...), err
}
