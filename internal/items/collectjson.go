package items

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/drover-run/drover/internal/items/fields"
)

// collectJSON takes every line as an item.
func (c *collector) collectJSON() error {
	known := fields.NewNames(nil)
	for {
		text, err := c.readLine()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			c.empty++
			continue
		}
		if err := c.checkText(text); err != nil {
			return err
		}
		if !json.Valid(text) {
			return c.refuseJSON(text)
		}
		if err := c.checkKeys(known, string(text)); err != nil {
			return err
		}
		if c.packer.Count == 0 && text[0] == '[' {
			if _, err := c.in.Peek(1); err == io.EOF {
				c.packer.Notes = append(c.packer.Notes, "the one line is an array, and so one item; for its elements: jq -c '.[]' FILE")
			}
		}
		if err := c.addItem(text); err != nil {
			return err
		}
	}
	c.packer.Fields = known.List
	if known.Full {
		c.packer.Notes = append(c.packer.Notes, fmt.Sprintf("the objects have more keys than can be placeholders: the first %d are", len(known.List)))
	}
	return nil
}

// checkKeys checks the line's keys and values, and learns new names.
func (c *collector) checkKeys(known *fields.Names, text string) error {
	_, err := fields.EachKey(text, func(key, raw string) error {
		if _, err := fields.JSONText(raw); err != nil {
			return err
		}
		i := known.Add(key)
		if i < 0 {
			return nil
		}
		if known.LastSeen[i] == c.lines {
			return fmt.Errorf("two values are named %q", key)
		}
		known.LastSeen[i] = c.lines
		return nil
	})
	if err != nil {
		return c.refuseLine(c.lines, "Mend that line.", "%v", err)
	}
	return nil
}

func (c *collector) refuseJSON(text []byte) error {
	var value any
	err := json.Unmarshal(text, &value)
	hint := "Write one JSON value on each line: `jq -c . FILE`."
	if c.packer.Count == 0 && (text[0] == '[' || text[0] == '{') {
		hint = "Write one value on each line: `jq -c '.[]' FILE` (of an array), or `jq -c . FILE`."
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return c.refuseLine(c.lines, hint, "it is not JSON: at byte %d: %v", syntax.Offset, err)
	}
	return c.refuseLine(c.lines, hint, "it is not JSON: %v", err)
}
