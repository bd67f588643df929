package requirements

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/internal/env/toml"
	"github.com/drover-run/drover/internal/env/tools"
)

// scriptBlock is the reference expression of PEP 723, word for word.
var scriptBlock = tools.Compiled(`(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$`)

var scriptOpens = tools.Compiled(`(?m)^# /// script[ \t]*$`)

// readScript reads the block that a script carries in its own comments.
func readScript(r Request) (*Manifest, error) {
	if r.Script == "" {
		return nil, nil
	}
	data, path, err := beside(r, r.Script)
	if err != nil || data == nil {
		return nil, err
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	if !strings.Contains(text, "# /// script") {
		return nil, nil // the expression takes its time over a large script
	}
	m := &Manifest{Path: path, Source: SourceScript}
	content, offset, err := findBlock(text, r.Script)
	if err != nil || offset == 0 {
		return nil, err
	}
	doc, err := toml.Parse(content)
	if err != nil {
		return nil, badTOML(err, r.Script, offset)
	}
	if err := m.keepRequiresPython(doc.Lookup("requires-python"), r.Script, offset); err != nil {
		return nil, err
	}
	if err := m.addRequirements(doc.Lookup("dependencies"), "dependencies", r.Script, offset); err != nil {
		return nil, err
	}
	m.readToolUV(doc, r.Script, offset)
	m.fillLines()
	if m.OnlyUV != "" {
		m.Sync = []string{"--script", path, "--active"}
	}
	if err := m.readScriptLock(r); err != nil {
		return nil, err
	}
	return m, m.constraints(r.Environ, map[string]bool{})
}

// readScriptLock binds a script to the lock that "uv lock --script" puts beside it.
func (m *Manifest) readScriptLock(r Request) error {
	file := r.Script + ".lock"
	_, lock, err := openTOML(r, file)
	if err != nil || lock == nil {
		return err
	}
	l := uvLock{m: m, file: file, packages: lock.Lookup("package").List()}
	if err := l.readPackages(lock); err != nil {
		return err
	}
	var b strings.Builder
	lock.Lookup("package").WriteDigest(&b)
	m.also += b.String()
	m.OnlyUV = "only uv reads " + file
	m.Sync = []string{"--script", m.Path, "--active", "--frozen"}
	return nil
}

// findBlock gives the block's TOML and the line that stands before it; 0 for
// no block. One that is not closed is a fault: PEP 723 would have it ignored,
// and the script would start without its packages.
func findBlock(text, script string) (content string, offset int, err error) {
	line := func(at int) int { return 1 + strings.Count(text[:at], "\n") }
	inside := func(int) bool { return false }
	for _, at := range scriptBlock().FindAllStringSubmatchIndex(text, -1) {
		from, to, before := at[0], at[1], inside
		inside = func(i int) bool { return before(i) || i >= from && i < to }
		if text[at[2]:at[3]] != "script" {
			continue
		}
		if offset > 0 {
			return "", 0, badFile(spot(script, line(from)), "a second block \"# /// script\"")
		}
		offset = line(from)
		content = text[at[4]:at[5]]
	}
	for _, at := range scriptOpens().FindAllStringIndex(text, -1) {
		if !inside(at[0]) {
			return "", 0, badFile(spot(script, endOfBlock(text, at[0])), "the block \"# /// script\" ends without a line \"# ///\"")
		}
	}
	var b strings.Builder
	for _, l := range strings.SplitAfter(content, "\n") {
		if rest, ok := strings.CutPrefix(l, "# "); ok {
			l = rest
		} else {
			l = strings.TrimPrefix(l, "#")
		}
		b.WriteString(l)
	}
	return b.String(), offset, nil
}

// endOfBlock is the first line after an opening that cannot belong to it.
func endOfBlock(text string, at int) int {
	line := 1 + strings.Count(text[:at], "\n")
	for _, l := range strings.Split(text[at:], "\n")[1:] {
		line++
		if l != "#" && !strings.HasPrefix(l, "# ") {
			break
		}
	}
	return line
}

// badTOML is a document that starts offset lines into its file.
func badTOML(err error, file string, offset int) error {
	var b toml.SyntaxError
	if errors.As(err, &b) {
		return badFile(spot(file, b.Line+offset), b.Why)
	}
	return badFile(filepath.Base(file), err)
}
