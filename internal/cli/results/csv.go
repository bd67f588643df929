package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/drover"
)

// csvLooksAt is how many results are looked at for the columns they need: CSV has
// its header first, and a million results are not held.
const (
	csvLooksAt = 1000
	csvHolds   = 16 << 20 // bytes of their output
)

// csvResults prints a header, then a record an item: its fields by name, or its
// value where it has none. A result that is a JSON object has a column for each of
// its fields that one of the first results has; what else it has is in "extra".
func csvResults(out io.Writer, names []string, results resultSeq) error {
	t := csvTable{w: csv.NewWriter(out), names: names}
	for r, err := range results {
		if err != nil {
			return err
		}
		if err := t.addResult(r); err != nil {
			return err
		}
	}
	if err := t.writeHeader(); err != nil {
		return err
	}
	t.w.Flush()
	return t.w.Error()
}

// csvTable writes results once it has seen enough of them.
type csvTable struct {
	w       *csv.Writer
	names   []string            // of the items' fields
	keys    []string            // of the results' fields
	first   []drover.ItemResult // that were looked at
	held    int                 // bytes of their output
	written bool                // the header is
}

func (t *csvTable) addResult(r drover.ItemResult) error {
	if t.written {
		return t.writeRow(r)
	}
	t.first = append(t.first, r)
	if t.held += len(r.Stdout); len(t.first) == csvLooksAt || t.held > csvHolds {
		return t.writeHeader()
	}
	return nil
}

// writeHeader writes the header and what was looked at for it.
func (t *csvTable) writeHeader() error {
	if t.written {
		return nil
	}
	t.written = true
	for _, r := range t.first {
		fields, _ := objectOf(r)
		for _, f := range fields {
			if !slices.Contains(t.keys, f.name) {
				t.keys = append(t.keys, f.name)
			}
		}
	}
	head := []string{"item", "value"}
	if len(t.names) > 0 {
		head = append([]string{"item"}, t.names...)
	}
	after := []string{"state", "status", "seconds", "stdout", "outputs"}
	taken := slices.Concat(head, after, []string{"extra"})
	head = append(head, after...)
	for _, key := range t.keys {
		if slices.Contains(taken, key) {
			key = "result." + key
		}
		head = append(head, key)
	}
	if len(t.keys) > 0 {
		head = append(head, "extra")
	}
	if err := t.w.Write(head); err != nil {
		return err
	}
	for _, r := range t.first {
		if err := t.writeRow(r); err != nil {
			return err
		}
	}
	t.first = nil
	return nil
}

func (t *csvTable) writeRow(r drover.ItemResult) error {
	row := []string{strconv.Itoa(r.Item)}
	for _, name := range t.names {
		row = append(row, r.Fields[name])
	}
	if len(t.names) == 0 {
		row = append(row, r.Value)
	}
	printed := r.Stdout
	fields, ok := objectOf(r)
	if ok && len(t.keys) > 0 {
		printed = "" // all of it stands in columns
	}
	row = append(row, string(r.State), codeWord(r.Code, ""), secondsWord(r.Try, ""), printed, strings.Join(outputNames(r.Try), " "))
	if len(t.keys) == 0 {
		return t.w.Write(row)
	}
	cells := make([]string, len(t.keys)+1)
	var extra []field
	for _, f := range fields {
		if i := slices.Index(t.keys, f.name); i >= 0 {
			cells[i] = f.cellText()
		} else {
			extra = append(extra, f)
		}
	}
	if len(extra) > 0 {
		cells[len(t.keys)] = objectText(extra)
	}
	return t.w.Write(append(row, cells...))
}

// field is one of a JSON object.
type field struct {
	name  string
	value json.RawMessage
}

// cellText is a value as a table has it: texts without quotes, null as nothing, numbers
// as they were written, and anything else as JSON.
func (f field) cellText() string {
	var text string
	switch {
	case string(f.value) == "null":
		return ""
	case json.Unmarshal(f.value, &text) == nil:
		return text
	}
	return string(f.value)
}

func objectText(fields []field) string {
	var b bytes.Buffer
	for i, f := range fields {
		name, _ := json.Marshal(f.name)
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		b.Write(name)
		b.WriteByte(':')
		b.Write(f.value)
	}
	b.WriteByte('}')
	return b.String()
}

// objectOf is what an item came to when that is one JSON object, whole: its fields
// in their order. Of a name that is there twice the last counts.
func objectOf(r drover.ItemResult) (fields []field, ok bool) {
	text := strings.TrimSpace(r.Stdout)
	if !strings.HasPrefix(text, "{") || r.Tail != "" {
		return nil, false
	}
	dec := json.NewDecoder(strings.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return nil, false
	}
	for dec.More() {
		name, err := dec.Token()
		key, isText := name.(string)
		var value json.RawMessage
		if err != nil || !isText || dec.Decode(&value) != nil {
			return nil, false
		}
		var plain bytes.Buffer
		if json.Compact(&plain, value) != nil {
			return nil, false
		}
		f := field{key, plain.Bytes()}
		if i := slices.IndexFunc(fields, func(o field) bool { return o.name == key }); i >= 0 {
			fields[i] = f
		} else {
			fields = append(fields, f)
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, false
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, false
	}
	return fields, true
}
