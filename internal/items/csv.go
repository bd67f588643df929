package items

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// What may be wrong with a record. errOpen is not wrong yet: a quoted field goes
// on in the next line.
var (
	errOpen  = errors.New("a quote is not closed")
	errBare  = errors.New("a field that does not begin with a quote holds one")
	errAfter = errors.New("something follows a closing quote")
)

// splitCSV appends the fields of a record to dst. They are parts of record,
// except for those in which a quote was doubled.
func splitCSV(dst []string, record string) ([]string, error) {
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
			return dst, errOpen
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

// csvRecord gives the next record, with LF between its lines, and the number of
// its first line.
func (c *collector) csvRecord() (record []byte, line int, err error) {
	var text []byte
	for len(text) == 0 {
		if text, err = c.line(); err != nil {
			return nil, 0, err
		}
		if len(text) == 0 {
			c.empty++
		}
	}
	line = c.lines
	if err := c.checkText(text); err != nil {
		return nil, line, err
	}
	if bytes.Count(text, []byte{'"'})%2 == 0 {
		return text, line, nil
	}
	// What is wrong in the first line is said now: its quote may swallow the rest.
	if _, err := splitCSV(nil, string(text)); !errors.Is(err, errOpen) {
		return nil, line, c.badCSV(line, err)
	}
	c.record = append(c.record[:0], text...)
	for open := true; open; open = bytes.Count(text, []byte{'"'})%2 == 0 {
		if text, err = c.line(); err == io.EOF {
			return nil, line, c.badCSV(line, errOpen)
		}
		if err != nil {
			return nil, line, err
		}
		if err := c.checkText(text); err != nil {
			return nil, line, err
		}
		c.record = append(append(c.record, '\n'), text...)
		if len(c.record) > maxLine {
			return nil, line, c.bad(line, "Close the quote that it opens, or put long data into files.", "its record is longer than 16 MiB")
		}
	}
	return c.record, line, nil
}

func (c *collector) badCSV(line int, why error) error {
	hint := `Quote the whole field, and double the quotes in it: "say ""hi""".`
	if errors.Is(why, errOpen) {
		hint = "Close the quote, or double it within a field."
	}
	return c.bad(line, hint, "%v", why)
}

// collectCSV takes every record but the first as an item.
func (c *collector) collectCSV() error {
	var fields []string
	for {
		record, line, err := c.csvRecord()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if fields, err = splitCSV(fields[:0], string(record)); err != nil {
			return c.badCSV(line, err)
		}
		if c.packer.fields == nil {
			if err := c.header(line, fields); err != nil {
				return err
			}
			continue
		}
		if got, want := len(fields), len(c.packer.fields); got != want {
			return c.bad(line, "Quote fields that hold commas, and give every line all fields.", "it has %s, the header has %d", counted(got, "field"), want)
		}
		if err := c.add(record); err != nil {
			return err
		}
	}
}

// header takes the first record as the fields' names. One without a name, as
// pandas writes it for the index, is not a placeholder.
func (c *collector) header(line int, fields []string) error {
	seen := map[string]bool{}
	size := 0
	for _, name := range fields {
		name = strings.TrimSpace(name)
		if name != "" && seen[name] {
			return c.bad(line, "Give each column a name of its own.", "two columns are named %q", name)
		}
		seen[name] = true
		size += len(name)
		c.packer.fields = append(c.packer.fields, name)
	}
	if len(fields) > maxNames || size > maxNameBytes {
		return c.bad(line, "Keep the columns that the program needs: cut -d, -f1-10 FILE | drover map --from - ...", "its header has %s with %d bytes of names, and may have %d with %d", counted(len(fields), "column"), size, maxNames, maxNameBytes)
	}
	if len(fields) == 1 && strings.Contains(fields[0], ";") {
		c.packer.notes = append(c.packer.notes, "the header has no comma but semicolons; fields end at commas, so it is one field")
	}
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
