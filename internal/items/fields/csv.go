package fields

import (
	"errors"
	"strings"
)

// SplitCSV appends the fields of a record to dst. They are parts of record,
// except for those in which a quote was doubled.
func SplitCSV(dst []string, record string) ([]string, error) {
	for {
		if !strings.HasPrefix(record, `"`) {
			field, rest, more := strings.Cut(record, ",")
			if strings.Contains(field, `"`) {
				return dst, errBare
			}
			dst = append(dst, field)
			if !more {
				return dst, nil
			}
			record = rest
			continue
		}
		end := closingQuote(record)
		if end < 0 {
			return dst, ErrOpenQuote
		}
		field := record[1:end]
		if strings.Contains(field, `"`) {
			field = strings.ReplaceAll(field, `""`, `"`)
		}
		dst = append(dst, field)
		record = record[end+1:]
		if record == "" {
			return dst, nil
		}
		if record[0] != ',' {
			return dst, errAfter
		}
		record = record[1:]
	}
}

// closingQuote finds the end of the field that record begins with; -1: none.
func closingQuote(record string) int {
	for at := 1; ; {
		i := strings.IndexByte(record[at:], '"')
		if i < 0 {
			return -1
		}
		at += i
		if at+1 == len(record) || record[at+1] != '"' {
			return at
		}
		at += 2
	}
}

// What may be wrong with a record. ErrOpenQuote is not wrong yet: a quoted field goes
// on in the next line.
var (
	ErrOpenQuote = errors.New("a quote is not closed")
	errBare      = errors.New("a field that does not begin with a quote holds one")
	errAfter     = errors.New("something follows a closing quote")
)
