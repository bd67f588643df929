package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
)

// instructions are all that a Dockerfile may hold.
var instructions = []string{"ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER",
	"ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"}

// Recipe is a Dockerfile, read.
type Recipe struct {
	Text   string        // as it is built: the base is filled in
	Own    bool          // Text is what the file holds, so the file itself can be built
	File   string        // the Dockerfile's path in its folder; "" of a typed text
	From   string        // for a person: "docker/Dockerfile"
	Escape byte          // what continues a line: '\\', or '`' by a directive
	Lines  []Instruction // in their order
}

// Instruction is one line of a Dockerfile, its continuations joined.
type Instruction struct {
	Line  int      // where it begins, from 1
	Word  string   // "COPY", in capitals
	Flags []string // "--chown=1:1"
	Rest  string   // what follows word and flags
	JSON  []string // Rest as a JSON list of strings, where it is one
	Exec  bool     // Rest is such a list
}

// readRecipe fills in the base and reads the text.
func (s *source) readRecipe(base string, named bool) (*Recipe, error) {
	r, err := Read(string(s.text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.from, err)
	}
	text, added := string(s.text), false
	switch from := r.firstInstruction("FROM"); {
	case strings.Contains(text, BaseWord):
		if base == "" {
			return nil, fault.New(fault.Invalid, "Name it with `--image` or `--framework`.", "read %s: %s stands for an image, and none was given", s.from, BaseWord)
		}
		text = strings.ReplaceAll(text, BaseWord, base)
	case from == nil:
		if base == "" {
			return nil, fault.New(fault.Invalid, "Begin it with FROM debian, or name one with `--image`.", "read %s: it has no FROM line", s.from)
		}
		text = text[:r.fromPosition(text)] + "FROM " + base + "\n" + text[r.fromPosition(text):]
		added = true
	case named:
		return nil, fault.New(fault.Invalid, "Write FROM "+BaseWord+" there, or leave `--image` and `--framework` out.", "read %s: it begins from %s, so %s would not be used", s.from, from.Rest, base)
	}
	if r, err = Read(text); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.from, err)
	}
	for i := range r.Lines {
		if added && i > 0 {
			r.Lines[i].Line-- // as the person counts them
		}
	}
	r.Own, r.File, r.From = s.file != "" && text == string(s.text), s.file, s.from
	return r, nil
}

// Read reads a Dockerfile's text as docker's classic builder does. Faults are
// Invalid and name the line; what an instruction's words mean is not looked at.
func Read(text string) (*Recipe, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	r := &Recipe{Text: text, Escape: '\\'}
	lines := strings.Split(text, "\n")
	for i := range directives(lines) {
		if name, value, _ := directive(lines[i]); name == "escape" {
			if value != "`" && value != "\\" {
				return nil, fault.New(fault.Invalid, "Use a backslash or a backquote.", "line %d: %q cannot continue a line", i+1, value)
			}
			r.Escape = value[0]
		}
	}
	heredoc := false
	for i := 0; i < len(lines); i++ {
		if idle(lines[i]) {
			continue
		}
		first, line := i+1, strings.TrimSuffix(lines[i], "\r")
		for r.lineContinues(line) {
			line = strings.TrimRight(line, " \t")
			line = line[:len(line)-1]
			for i++; i < len(lines) && idle(lines[i]); i++ { // no part of it
			}
			if i == len(lines) {
				break
			}
			line += strings.TrimSuffix(lines[i], "\r")
		}
		in, err := parse(first, line, heredoc)
		if err != nil {
			return nil, err
		}
		heredoc = heredoc || strings.Contains(in.Rest, "<<")
		r.Lines = append(r.Lines, in)
	}
	if len(r.Lines) == 0 {
		return nil, fault.New(fault.Invalid, "Begin it with FROM.", "line 1: there is no instruction")
	}
	return r, nil
}

// idle says whether a line is empty or a comment.
func idle(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || line[0] == '#'
}

// lineContinues says whether a line goes on in the next.
func (r *Recipe) lineContinues(line string) bool {
	line = strings.TrimRight(line, " \t")
	return line != "" && line[len(line)-1] == r.Escape
}

// directive reads "# escape=`".
func directive(line string) (name, value string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
	if !ok {
		return "", "", false
	}
	name, value, ok = strings.Cut(rest, "=")
	name = strings.ToLower(strings.TrimSpace(name))
	return name, strings.TrimSpace(value), ok && slices.Contains([]string{"escape", "syntax", "check"}, name)
}

// directives counts the lines at the top that are directives: they mean nothing
// further below.
func directives(lines []string) int {
	for i, line := range lines {
		if _, _, ok := directive(line); !ok {
			return i
		}
	}
	return len(lines)
}

// fromPosition is where a FROM may be put before all instructions, behind directives.
func (r *Recipe) fromPosition(text string) int {
	n := 0
	lines := strings.SplitAfter(text, "\n")
	for _, line := range lines[:directives(lines)] {
		n += len(line)
	}
	return n
}

// parse reads one joined line.
func parse(at int, line string, heredoc bool) (Instruction, error) {
	line = strings.TrimSpace(line)
	word, rest := cutSpace(line)
	in := Instruction{Line: at, Word: strings.ToUpper(word)}
	if !slices.Contains(instructions, in.Word) {
		hint := "The instructions are " + strings.Join(instructions, ", ") + "."
		if near := fault.Nearest(in.Word, instructions); near != "" {
			hint = "Did you mean " + near + "?"
		}
		if heredoc {
			hint = "Texts behind << need BuildKit: `docker build -t NAME .` builds it, and `--image NAME` runs it."
		}
		return in, fault.New(fault.Invalid, hint, "line %d: %q is not an instruction", at, word)
	}
	for strings.HasPrefix(rest, "--") {
		flag, after := cutSpace(rest)
		if flag == "--" {
			rest = after
			break
		}
		in.Flags, rest = append(in.Flags, flag), after
	}
	if rest == "" && in.Word != "RUN" && in.Word != "CMD" && in.Word != "ENTRYPOINT" {
		return in, fault.New(fault.Invalid, "", "line %d: %s needs words behind it", at, in.Word)
	}
	in.Rest = rest
	if !strings.HasPrefix(rest, "[") || !slices.Contains([]string{"ADD", "CMD", "COPY", "ENTRYPOINT", "RUN", "SHELL", "VOLUME"}, in.Word) {
		return in, nil
	}
	var list []any // what is no JSON is text, as in docker
	if json.Unmarshal([]byte(rest), &list) != nil {
		return in, nil
	}
	in.Exec = true
	for _, one := range list {
		s, ok := one.(string)
		if !ok {
			return in, fault.New(fault.Invalid, "Put every word in double quotes.", "line %d: %s: a list holds strings alone", at, in.Word)
		}
		in.JSON = append(in.JSON, s)
	}
	return in, nil
}

// cutSpace cuts a line behind its first word.
func cutSpace(line string) (word, rest string) {
	if i := strings.IndexAny(line, " \t\v\f\r"); i >= 0 {
		return line[:i], strings.TrimSpace(line[i:])
	}
	return line, ""
}

// firstInstruction is the first instruction of a kind, or nil.
func (r *Recipe) firstInstruction(word string) *Instruction {
	for i := range r.Lines {
		if r.Lines[i].Word == word {
			return &r.Lines[i]
		}
	}
	return nil
}

// baseImages are the images that stages begin from or copy from.
func (r *Recipe) baseImages() []string {
	var names, stages []string
	add := func(name string) {
		if name != "" && name != "scratch" && !strings.Contains(name, "$") && !slices.Contains(stages, strings.ToLower(name)) &&
			!slices.Contains(names, name) && strings.Trim(name, "0123456789") != "" {
			names = append(names, name)
		}
	}
	for _, in := range r.Lines {
		words := strings.Fields(in.Rest)
		switch {
		case in.Word == "FROM" && len(words) > 0:
			add(words[0])
			if len(words) == 3 && strings.EqualFold(words[1], "as") {
				stages = append(stages, strings.ToLower(words[2]))
			}
		case in.Word == "COPY":
			add(in.Flag("from"))
		}
	}
	return names
}

// Flag is the value of --name=value, or "".
func (in Instruction) Flag(name string) string {
	for _, f := range in.Flags {
		if v, ok := strings.CutPrefix(f, "--"+name+"="); ok {
			return v
		}
	}
	return ""
}

// Words are the words of COPY and ADD: sources, then the destination.
func (in Instruction) Words() []string {
	if in.Exec {
		return in.JSON
	}
	return strings.Fields(in.Rest)
}

// copySources are the words in the folder that COPY and ADD name. all: one of them
// is only known to the builder, so everything may be meant.
func (r *Recipe) copySources() (words []string, all bool) {
	for _, in := range r.Lines {
		rest, hidden := in, false
		if in.Word == "ONBUILD" {
			word, after := cutSpace(in.Rest)
			rest, hidden = Instruction{Word: strings.ToUpper(word), Rest: after}, true
		}
		if rest.Word != "COPY" && rest.Word != "ADD" || rest.Flag("from") != "" || hidden {
			continue // ONBUILD copies in a later build
		}
		list := rest.Words()
		if len(list) < 2 {
			continue // docker refuses it
		}
		for _, w := range list[:len(list)-1] {
			if isRemote(w) && rest.Word == "ADD" {
				continue
			}
			all = all || strings.ContainsAny(w, "$\\\"'")
			words = append(words, w)
		}
	}
	return words, all
}

func isRemote(word string) bool {
	return strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://") || strings.HasPrefix(word, "git@") || strings.HasPrefix(word, "git://")
}

// dockerfileIn finds the Dockerfile of a folder.
func dockerfileIn(dir string) (string, error) {
	for _, name := range []string{"Dockerfile", "dockerfile"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && info.Mode().IsRegular() {
			return name, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fault.Wrap(err, fault.Denied, "", "read Dockerfile")
		}
	}
	return "", fault.New(fault.Missing, "Put a file named Dockerfile there, or name the file itself.", "read Dockerfile: %s has none", dir)
}
