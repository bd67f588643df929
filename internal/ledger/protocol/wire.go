package protocol

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Results are written by hand, a hundred thousand in a second: their bytes are
// those that package json gives, which reads them.

// EncodeEntry is Encode for an entry of a chunk, with its results last.
func EncodeEntry(e ChunkEntry) []byte {
	results := e.Results
	e.Results = nil
	b := Encode(e)
	if len(results) == 0 {
		return b
	}
	return WithResults(b, appendResults(nil, results))
}

// WithResults adds results, which are encoded, to an object that has other fields.
func WithResults(object, results []byte) []byte {
	b := slices.Grow(object[:len(object)-1], len(results)+len(`,"results":[]}`))
	b = append(b, `,"results":[`...)
	b = append(b, results...)
	return append(b, "]}"...)
}

// appendResults encodes results with commas between them, also to those in b.
func appendResults(b []byte, results []Result) []byte {
	const about = 96 // bytes of a short one
	b = slices.Grow(b, about*len(results))
	for i := range results {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = AppendResult(b, &results[i])
	}
	return b
}

func AppendResult(b []byte, r *Result) []byte {
	if len(r.Outputs) > 0 {
		whole := *r // or r would have to live on the heap
		return append(b, Encode(&whole)...)
	}
	b = append(b, `{"i":`...)
	b = strconv.AppendInt(b, int64(r.Item), 10)
	b = appendText(b, `,"y":`, r.Try)
	if r.Failed {
		b = append(b, `,"f":true`...)
	}
	if r.Final {
		b = append(b, `,"z":true`...)
	}
	b = appendNumber(b, `,"c":`, int64(r.Code))
	b = appendText(b, `,"s":`, r.Signal)
	b = appendText(b, `,"k":`, r.Kind)
	b = appendText(b, `,"w":`, r.Why)
	b = appendNumber(b, `,"e":`, r.Ended)
	b = appendNumber(b, `,"t":`, r.Wall)
	b = appendNumber(b, `,"u":`, r.CPU)
	b = appendNumber(b, `,"m":`, r.MaxRSS)
	b = appendText(b, `,"h":`, r.Head)
	b = appendText(b, `,"l":`, r.Tail)
	b = appendNumber(b, `,"n":`, r.Size)
	return append(b, '}')
}

func appendNumber(b []byte, key string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, key...), n, 10)
}

func appendText(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	b = append(b, key...)
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(text) // a string always can be
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
