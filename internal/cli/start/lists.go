package start

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/items/template"
)

// cutLists takes the lists behind ::: off the words of a command.
func cutLists(words []string) (command []string, lists [][]string, err error) {
	at := slices.IndexFunc(words, func(word string) bool {
		return strings.HasPrefix(word, terminal.ListMark) && strings.Trim(word, ":+") == ""
	})
	if at < 0 {
		return words, nil, nil
	}
	for _, word := range words[at:] {
		switch {
		case word == terminal.ListMark:
			lists = append(lists, nil)
		case strings.HasPrefix(word, terminal.ListMark) && strings.Trim(word, ":+") == "":
			return nil, nil, fault.New(fault.Invalid, "Write the items behind `:::`, or name a file of them: `--from items.txt`.", "read command line: drover map has no %s", word)
		default:
			lists[len(lists)-1] = append(lists[len(lists)-1], word)
		}
	}
	for _, list := range lists {
		if len(list) == 0 {
			return nil, nil, fault.New(fault.Invalid, "Write items behind it: `drover map echo ::: a b c`.", "read command line: a ::: names no items")
		}
	}
	return words[:at], lists, nil
}

// listMap is a map over lists: its command in drover's placeholders, and its items.
type listMap struct {
	command, out []string
	lines        io.Reader
	format       string
}

// mapOfLists makes one. Several lists are a product, the last one running fastest. Items
// of one plain list are its words; else they are JSON objects with the fields 1, 2, ...
func mapOfLists(command []string, lists [][]string, m *mapFlags) (listMap, error) {
	for _, list := range lists {
		for _, word := range list {
			if !utf8.ValidString(word) && (len(lists) > 1 || strings.ContainsAny(word, "\r\n")) {
				return listMap{}, fault.New(fault.Invalid, "Write such items into a file, a line each, and name it with `--from`.", "read command line: item %q is not UTF-8", word)
			}
		}
	}
	plain := len(lists) == 1 && !slices.ContainsFunc(lists[0], func(word string) bool { return strings.TrimSpace(word) == "" || strings.ContainsAny(word, "\r\n") })
	l := listMap{format: manifest.JSONL, lines: &product{lists: lists, plain: plain}}
	var names []string
	if plain {
		l.format = manifest.Lines
	} else {
		for i := range lists {
			names = append(names, strconv.Itoa(i+1))
		}
	}
	for _, word := range command {
		if word == "{}" && len(names) > 1 && !m.shell {
			for _, name := range names {
				l.command = append(l.command, "{"+name+"}")
			}
			continue
		}
		l.command = append(l.command, ofLists(word, names))
	}
	for _, pattern := range m.out {
		l.out = append(l.out, ofLists(pattern, names))
	}
	t, err := template.Parse(l.command, template.TemplateOptions{Fields: names, Shell: m.shell, Out: l.out})
	if err != nil || t.Uses() || m.stdin || m.stream || len(l.command) == 0 {
		return l, err
	}
	// As GNU parallel does it, the items follow a command without placeholders.
	all := []string{"{}"}
	if !plain {
		all = nil
		for _, name := range names {
			all = append(all, "{"+name+"}")
		}
	}
	if m.shell {
		l.command[len(l.command)-1] += " " + strings.Join(all, " ")
		return l, nil
	}
	l.command = append(l.command, all...)
	return l, nil
}

// ofLists writes {} as {1} {2} where items have fields, and {1} as {} where they have none.
// What stands in two braces is left.
func ofLists(word string, names []string) string {
	var b strings.Builder
	for rest := word; rest != ""; {
		at := strings.IndexByte(rest, '{')
		if at < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:at])
		rest = rest[at:]
		end := strings.IndexByte(rest, '}')
		if strings.HasPrefix(rest, "{{") || end < 0 {
			b.WriteString(rest[:min(2, len(rest))])
			rest = rest[min(2, len(rest)):]
			continue
		}
		b.WriteString(ofList(rest[1:end], names))
		rest = rest[end+1:]
	}
	return b.String()
}

func ofList(inside string, names []string) string {
	switch {
	case len(names) == 0 && (inside == "1" || strings.HasPrefix(inside, "1.")):
		return "{" + inside[1:] + "}"
	case len(names) == 1 && (inside == "" || strings.HasPrefix(inside, ".")):
		return "{1" + inside + "}"
	case len(names) > 1 && inside == "":
		return "{" + strings.Join(names, "} {") + "}"
	}
	return "{" + inside + "}"
}

// product reads as the items of lists, a line each.
type product struct {
	lists [][]string
	plain bool
	at    []int // of each list, of the next item; nil before the first
	over  bool
	left  []byte // of a line
}

func (p *product) Read(b []byte) (n int, err error) {
	for len(p.left) == 0 {
		if !p.nextLine() {
			return 0, io.EOF
		}
	}
	n = copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// nextLine makes the next line.
func (p *product) nextLine() bool {
	if p.over {
		return false
	}
	if p.at == nil {
		p.at = make([]int, len(p.lists))
	}
	if p.plain {
		p.left = append([]byte(p.lists[0][p.at[0]]), '\n')
	} else {
		p.left = append(p.left[:0], '{')
		for i, list := range p.lists {
			if i > 0 {
				p.left = append(p.left, ',')
			}
			text, _ := json.Marshal(list[p.at[i]]) // a text always can be
			p.left = append(strconv.AppendInt(append(p.left, '"'), int64(i+1), 10), '"', ':')
			p.left = append(p.left, text...)
		}
		p.left = append(p.left, '}', '\n')
	}
	for i := len(p.lists) - 1; ; i-- {
		if i < 0 {
			p.over = true
			return true
		}
		if p.at[i]++; p.at[i] < len(p.lists[i]) {
			return true
		}
		p.at[i] = 0
	}
}
