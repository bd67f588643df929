package template

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/fields"
	"github.com/drover-run/drover/internal/items/manifest"
)

const (
	// maxArg is what Linux takes as one argument or variable, with its ending NUL.
	// It holds everywhere, so that what runs here runs there.
	maxArg = 128<<10 - 1
	// maxPath and maxElement are what file systems take, and buckets too.
	maxPath    = 900
	maxElement = 255
)

// Fill is the command for an item. out is where each pattern's output is to be
// written, an absolute path for each. A value that no argument can hold, or a
// field that the item does not have, is fault.Invalid.
func (t *Template) Fill(it manifest.Item, out []string) ([]string, error) {
	args := make([]string, len(t.args))
	for i, pieces := range t.args {
		text, err := fill(pieces, it, out)
		if err != nil {
			return nil, refuseItem("fill command", it, err)
		}
		if strings.IndexByte(text, 0) >= 0 {
			return nil, refuseItem("fill command", it, fault.New(fault.Invalid, "", "a value holds a NUL byte, and an argument cannot"))
		}
		if len(text) > maxArg {
			return nil, refuseItem("fill command", it, fault.New(fault.Invalid, "Give it to the program on its input, with `--stdin`, or put it into a file.",
				"an argument would be %d KiB, and 128 is the most a system takes", len(text)>>10))
		}
		args[i] = text
	}
	return args, nil
}

func refuseItem(doing string, it manifest.Item, err error) error {
	return fault.Wrap(err, fault.Invalid, "", "%s: item %d", doing, it.N)
}

// fill joins pieces. One value that is a whole argument costs no copy.
func fill(pieces []piece, it manifest.Item, out []string) (string, error) {
	if len(pieces) == 1 && pieces[0].quote == unquoted {
		return pieces[0].pieceValue(it, out)
	}
	var b strings.Builder
	for _, p := range pieces {
		text, err := p.pieceValue(it, out)
		if err != nil {
			return "", err
		}
		if b.Len() == 0 {
			b.Grow(len(text) + 64)
		}
		appendQuoted(&b, text, p.quote)
	}
	return b.String(), nil
}

// pieceValue is what a piece stands for, without quotes.
func (p *piece) pieceValue(it manifest.Item, out []string) (string, error) {
	text := p.text
	switch p.what {
	case anItem:
		text = it.Text
	case aNumber:
		return strconv.Itoa(it.N), nil
	case aField:
		if p.index >= len(it.Fields) || it.Fields[p.index] == fields.Absent {
			return "", fault.New(fault.Invalid, "Give every line that field, or take it in the program from DROVER_ITEM.", "it has no field for {%s}", p.text)
		}
		text = it.Fields[p.index]
	case anOutput:
		if p.index >= len(out) {
			return "", fault.New(fault.Bug, "", "there is no --out for {%s}", p.text)
		}
		return out[p.index], nil
	}
	if p.part == theWhole {
		return text, nil
	}
	return partOf(text, p.part), nil
}

// partOf takes a text as a path. Nothing in it is made clean: it need not be one.
func partOf(text string, part pathPart) string {
	trimmed := strings.TrimRight(text, "/")
	i := strings.LastIndexByte(trimmed, '/')
	if part == theDir {
		switch before := strings.TrimRight(trimmed[:i+1], "/"); {
		case i < 0 && trimmed == "" && text != "":
			return "/"
		case i < 0:
			return "."
		case before == "":
			return "/"
		default:
			return before
		}
	}
	base := trimmed[i+1:]
	dot := strings.LastIndexByte(base, '.')
	if strings.Trim(base[:max(dot, 0)], ".") == "" { // .bashrc has no ending
		dot = len(base)
	}
	switch part {
	case theStem:
		return base[:dot]
	case theExt:
		return base[dot:]
	}
	return base
}

// Outputs are the names of the item's declared outputs, by pattern: clean relative
// paths with slashes, of a folder one that ends in "/". What would lie outside, or
// in another of them, is fault.Invalid.
func (t *Template) Outputs(it manifest.Item) ([]string, error) {
	names := make([]string, len(t.outs))
	for i, pieces := range t.outs {
		text, err := fill(pieces, it, nil)
		if err != nil {
			return nil, refuseItem("name outputs", it, err)
		}
		last := pieces[len(pieces)-1]
		folder := last.what == aText && strings.HasSuffix(last.text, "/")
		clean, why := cleanOutput(text, folder)
		if why != "" {
			return nil, refuseItem("name outputs", it, fault.New(fault.Invalid, "Name outputs after parts of the item, such as {.stem}, or after its number, {n}.", "%.200q %s", text, why))
		}
		names[i] = clean
	}
	for i, a := range names {
		for j, b := range names {
			if i != j && (a == b || strings.HasPrefix(b, strings.TrimSuffix(a, "/")+"/")) {
				return nil, refuseItem("name outputs", it, fault.New(fault.Invalid, "Give each `--out` a name of its own.", "%q and %q would be the same, or lie in each other", a, b))
			}
		}
	}
	return names, nil
}

// cleanOutput takes "." out of a name, and says what else is wrong with it.
func cleanOutput(text string, folder bool) (clean, why string) {
	body := text
	if folder {
		body = text[:len(text)-1]
	}
	if len(text) > maxPath {
		return "", "is longer than 900 bytes"
	}
	if strings.HasPrefix(text, "/") || filepath.IsAbs(filepath.FromSlash(text)) {
		return "", "is an absolute path"
	}
	var elements []string
	for e := range strings.SplitSeq(body, "/") {
		switch {
		case e == "":
			return "", "has an empty element"
		case e == "..":
			return "", "goes up with .."
		case strings.IndexByte(e, 0) >= 0:
			return "", "holds a NUL byte"
		case len(e) > maxElement:
			return "", "has an element longer than 255 bytes"
		case e != ".":
			elements = append(elements, e)
		}
	}
	if len(elements) == 0 {
		return "", "names nothing"
	}
	clean = strings.Join(elements, "/")
	if folder {
		clean += "/"
	}
	return clean, ""
}
