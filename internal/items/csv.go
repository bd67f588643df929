package items

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/drover-run/drover/internal/items/fields"
	"github.com/drover-run/drover/internal/items/manifest"
)

// csvRecord gives the next record, with LF between its lines, and the number of
// its first line.
func (c *collector) csvRecord() (record []byte, line int, err error) {
	var text []byte
	for len(text) == 0 {
		if text, err = c.readLine(); err != nil {
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
	if _, err := fields.SplitCSV(nil, string(text)); !errors.Is(err, fields.ErrOpenQuote) {
		return nil, line, c.refuseCSV(line, err)
	}
	c.record = append(c.record[:0], text...)
	for open := true; open; open = bytes.Count(text, []byte{'"'})%2 == 0 {
		if text, err = c.readLine(); err == io.EOF {
			return nil, line, c.refuseCSV(line, fields.ErrOpenQuote)
		}
		if err != nil {
			return nil, line, err
		}
		if err := c.checkText(text); err != nil {
			return nil, line, err
		}
		c.record = append(append(c.record, '\n'), text...)
		if len(c.record) > manifest.MaxLine {
			return nil, line, c.refuseLine(line, "Close the quote that it opens, or put long data into files.", "its record is longer than 16 MiB")
		}
	}
	return c.record, line, nil
}

func (c *collector) refuseCSV(line int, why error) error {
	hint := `Quote the whole field, and double the quotes in it: "say ""hi""".`
	if errors.Is(why, fields.ErrOpenQuote) {
		hint = "Close the quote, or double it within a field."
	}
	return c.refuseLine(line, hint, "%v", why)
}

// collectCSV takes every record but the first as an item.
func (c *collector) collectCSV() error {
	var columns []string
	for {
		record, line, err := c.csvRecord()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if columns, err = fields.SplitCSV(columns[:0], string(record)); err != nil {
			return c.refuseCSV(line, err)
		}
		if c.packer.Fields == nil {
			if err := c.readHeader(line, columns); err != nil {
				return err
			}
			continue
		}
		if got, want := len(columns), len(c.packer.Fields); got != want {
			return c.refuseLine(line, "Quote fields that hold commas, and give every line all fields.", "it has %s, the header has %d", counted(got, "field"), want)
		}
		if err := c.addItem(record); err != nil {
			return err
		}
	}
}

// readHeader takes the first record as the fields' names. One without a name, as
// pandas writes it for the index, is not a placeholder.
func (c *collector) readHeader(line int, columns []string) error {
	seen := map[string]bool{}
	size := 0
	for _, name := range columns {
		name = strings.TrimSpace(name)
		if name != "" && seen[name] {
			return c.refuseLine(line, "Give each column a name of its own.", "two columns are named %q", name)
		}
		seen[name] = true
		size += len(name)
		c.packer.Fields = append(c.packer.Fields, name)
	}
	if len(columns) > fields.MaxNames || size > fields.MaxNameBytes {
		return c.refuseLine(line, "Keep the columns that the program needs: cut -d, -f1-10 FILE | drover map --from - ...", "its header has %s with %d bytes of names, and may have %d with %d", counted(len(columns), "column"), size, fields.MaxNames, fields.MaxNameBytes)
	}
	if len(columns) == 1 && strings.Contains(columns[0], ";") {
		c.packer.Notes = append(c.packer.Notes, "the header has no comma but semicolons; fields end at commas, so it is one field")
	}
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
