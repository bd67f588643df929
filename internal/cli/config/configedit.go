package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/drover-run/drover/fault"
)

// A config file is the person's own: what is changed in it is some lines, and all
// others, with their comments and their order, stay as they are.

// File is a config file that is changed.
type File struct{ lines []string }

// OpenConfig reads the lines of a settings file; one that is not there has none.
func OpenConfig(file string) (*File, error) {
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return nil, fault.Wrap(err, fault.Denied, "", "read config")
	}
	text := strings.TrimRight(string(b), "\n")
	if text == "" || strings.TrimSpace(text) == "{}" {
		return &File{}, nil
	}
	return &File{strings.Split(text, "\n")}, nil
}

// Save writes it, whole or not at all, if it says the same as want.
func (c *File) Save(file string, want map[string]string) error {
	text := strings.Join(c.lines, "\n") + "\n"
	var tree map[string]any
	got := map[string]string{}
	err := yaml.Unmarshal([]byte(text), &tree)
	if err == nil {
		err = flatten(got, "", tree)
	}
	if err != nil || !sameValues(got, want) {
		return ByHand(file)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fault.Wrap(err, fault.Denied, "", "write config")
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // a link into a folder of dotfiles stays one
	}
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		return fault.Wrap(err, fault.Denied, "", "write config")
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fault.Wrap(err, fault.Denied, "", "write config")
	}
	return nil
}

func sameValues(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if v, ok := b[key]; !ok || v != value {
			return false
		}
	}
	return true
}

// findKey finds the lines of a key in tables of tables: its own is the first, end is
// after the last that belongs to it.
func (c *File) findKey(path ...string) (at, end int, ok bool) {
	lo, hi := 0, len(c.lines)
	for _, name := range path {
		at, end, ok = c.findChild(lo, hi, name)
		if !ok {
			return 0, 0, false
		}
		lo, hi = at+1, end
	}
	return at, end, true
}

// findChild finds a key among the lines from lo to hi, at the depth of the first.
func (c *File) findChild(lo, hi int, name string) (at, end int, ok bool) {
	depth := -1
	for i := lo; i < hi; i++ {
		if depth < 0 && content(c.lines[i]) {
			depth = indent(c.lines[i])
		}
		if depth < 0 || indent(c.lines[i]) != depth || !isKey(c.lines[i][depth:], name) {
			continue
		}
		end = i + 1
		for k := i + 1; k < hi && (!content(c.lines[k]) || indent(c.lines[k]) > depth || strings.HasPrefix(c.lines[k][depth:], "- ")); k++ {
			if content(c.lines[k]) {
				end = k + 1
			}
		}
		return i, end, true
	}
	return 0, 0, false
}

func content(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && line[0] != '#' && line != "---"
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

func isKey(line, name string) bool {
	for _, form := range []string{name, `"` + name + `"`, "'" + name + "'"} {
		if rest, ok := strings.CutPrefix(line, form); ok && strings.HasPrefix(strings.TrimLeft(rest, " "), ":") {
			return true
		}
	}
	return false
}

// Set gives a key one value, where it stands or as a line of its own; "" removes it.
// It says whether there was such a line.
func (c *File) Set(key, value string) (found bool) {
	at, end, ok := c.findKey(key)
	last := key
	if !ok {
		path := strings.Split(key, ".")
		if at, end, ok = c.findKey(path...); ok {
			last = path[len(path)-1]
		}
	}
	if !ok {
		at, end = len(c.lines), len(c.lines)
	}
	var line []string
	if value != "" {
		depth := 0
		if ok {
			depth = indent(c.lines[at])
		}
		line = []string{strings.Repeat(" ", depth) + last + ": " + scalar(value)}
		if ok {
			line[0] += remark(c.lines[at])
		}
	}
	c.lines = slices.Replace(c.lines, at, end, line...)
	return ok
}

// remark is the comment at a line's end, with the blanks before it.
func remark(line string) string {
	i := strings.LastIndex(line, " #")
	if i < 0 || strings.ContainsAny(line[i:], "\"'") {
		return ""
	}
	return line[len(strings.TrimRight(line[:i], " ")):]
}

// ByHand is for a file that says a thing in a way that lines are not enough for.
func ByHand(file string) error {
	return fault.New(fault.Invalid, "Edit it by hand: "+file+".", "write config: its YAML is too unusual to be changed line by line")
}

// SetTable puts the lines of a table below one of tables, in the place of what it has
// of that name; nil removes it.
func (c *File) SetTable(tables, name string, body []string) {
	depth := 2
	top, topEnd, there := c.findKey(tables)
	if there && topEnd > top+1 {
		for _, l := range c.lines[top+1 : topEnd] {
			if content(l) {
				depth = indent(l)
				break
			}
		}
	}
	var lines []string
	if body != nil {
		lines = append(lines, strings.Repeat(" ", depth)+name+":")
		for _, l := range body {
			lines = append(lines, strings.Repeat(" ", 2*depth)+l)
		}
	}
	at, end, ok := c.findKey(tables, name)
	switch {
	case ok:
	case there:
		at, end = topEnd, topEnd
	default:
		if body != nil {
			lines = append([]string{tables + ":"}, lines...)
		}
		at, end = len(c.lines), len(c.lines)
	}
	c.lines = slices.Replace(c.lines, at, end, lines...)
}

// scalar is a value as YAML writes it.
func scalar(value string) string {
	b, err := yaml.Marshal(value)
	text := strings.TrimSpace(string(b))
	if err != nil || strings.Contains(text, "\n") {
		return `"` + strings.ReplaceAll(strings.ReplaceAll(value, `\`, `\\`), `"`, `\"`) + `"`
	}
	return text
}
