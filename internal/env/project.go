package env

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
)

// readProject reads [project] of a pyproject.toml: its dependencies, never the
// project itself, which runs from its folder. Many have no [project], or leave
// the dependencies to a build: those ask for nothing here.
func readProject(r Request) (*manifest, error) {
	m, doc, err := openTOML(r, SourceProject)
	if err != nil || m == nil {
		return nil, err
	}
	project := doc.get("project").table()
	if project == nil {
		return nil, nil
	}
	dynamic := slices.ContainsFunc(project.get("dynamic").list(), func(n node) bool { return n.text() == "dependencies" })
	if dynamic || project.get("dependencies").value == nil && project.get("requires-python").value == nil {
		return nil, nil
	}
	if err := m.allow(project.get("requires-python"), SourceProject, 0); err != nil {
		return nil, err
	}
	if err := m.needs(project.get("dependencies"), "dependencies", SourceProject, 0); err != nil {
		return nil, err
	}
	m.heedUV(doc, SourceProject, 0)
	m.fill()
	return m, m.constraints(r.Environ, map[string]bool{})
}

func openTOML(r Request, name string) (*manifest, *table, error) {
	data, path, err := beside(r, name)
	if err != nil || data == nil {
		return nil, nil, err
	}
	doc, err := parseTOML(string(data))
	if err != nil {
		return nil, nil, badTOML(err, name, 0)
	}
	return &manifest{Path: path, Source: name}, doc, nil
}

// readUVLock reads uv.lock. What the project needs directly is what an
// interpreter must have; every version of the lock then binds what comes with
// it. Building is uv's alone.
func readUVLock(r Request) (*manifest, error) {
	m, lock, err := openTOML(r, SourceUVLock)
	if err != nil || m == nil {
		return nil, err
	}
	project, _, err := beside(r, SourceProject)
	if err != nil {
		return nil, err
	}
	if project == nil {
		return nil, fault.New(fault.Missing, "Put its pyproject.toml beside it, or take your interpreter as it is with --no-env.",
			"read requirements: %s: there is no pyproject.toml beside it", SourceUVLock)
	}
	doc, err := parseTOML(string(project))
	if err != nil {
		return nil, badTOML(err, SourceProject, 0)
	}
	if err := m.allow(lock.get("requires-python"), SourceUVLock, 0); err != nil {
		return nil, err
	}
	m.onlyUV = "only uv reads uv.lock"
	// The project itself is not installed: it runs from its folder, and that
	// goes away with the job. So nothing is installed as a link into it, either.
	m.sync = []string{"--frozen", "--no-install-project", "--no-editable"}
	l := uvLock{m: m, file: SourceUVLock, packages: lock.get("package").list(), groups: defaultGroups(doc)}
	if err := l.read(lock); err != nil {
		return nil, err
	}
	var b strings.Builder
	lock.get("package").digest(&b)
	doc.get("tool", "uv").digest(&b)
	fmt.Fprintf(&b, "%q", l.groups)
	m.also = b.String()
	return m, nil
}

// defaultGroups are those that "uv sync" takes without being told.
func defaultGroups(project *table) []string {
	n := project.get("tool", "uv", "default-groups")
	switch v := n.value.(type) {
	case string: // "all"
		return []string{v}
	case []node:
		var out []string
		for _, g := range v {
			out = append(out, g.text())
		}
		return out
	}
	return []string{"dev"}
}

type uvLock struct {
	m        *manifest
	file     string // its name, for messages
	packages []node
	groups   []string
}

func (l *uvLock) read(lock *table) error {
	roots := l.roots(lock)
	for i, p := range l.packages {
		name, version := p.at("name").text(), p.at("version").text()
		if p.table() == nil || name == "" {
			return badFile(spot(l.file, p.line), "a package without a name")
		}
		switch {
		case roots[i]:
			if err := l.wants(p); err != nil {
				return err
			}
		case p.at("source").at("registry").value == nil:
			l.fromPlace(p)
		case version != "":
			text := name + "==" + version
			if marks := l.marks(p); marks != "" {
				text += " ; " + marks
			}
			if err := l.m.need(text, l.file, p.line); err != nil {
				return err
			}
			l.m.entries[len(l.m.entries)-1].Constraint = true
		}
	}
	return nil
}

// roots are the packages whose needs are the project's: the project itself, or
// all members of a workspace that is no package.
func (l *uvLock) roots(lock *table) map[int]bool {
	out := map[int]bool{}
	for i, p := range l.packages {
		for _, kind := range []string{"virtual", "editable", "directory"} {
			if p.at("source").at(kind).text() == "." {
				out[i] = true
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, name := range lock.get("manifest", "members").list() {
		for i, p := range l.packages {
			if p.at("name").text() == name.text() {
				out[i] = true
			}
		}
	}
	return out
}

// wants adds what a package of ours needs, its default groups included.
func (l *uvLock) wants(p node) error {
	lists := []node{p.at("dependencies")}
	groups := p.at("dev-dependencies").table()
	names := make([]string, 0, len(groups.all()))
	for name := range groups.all() {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains(l.groups, name) || slices.Contains(l.groups, "all") {
			lists = append(lists, groups.get(name))
		}
	}
	for _, list := range lists {
		for _, d := range list.list() {
			text := d.at("name").text()
			var extras []string
			for _, e := range d.at("extra").list() {
				extras = append(extras, e.text())
			}
			if len(extras) > 0 {
				text += "[" + strings.Join(extras, ",") + "]"
			}
			if v := d.at("version").text(); v != "" {
				text += "==" + v
			}
			if mark := d.at("marker").text(); mark != "" {
				text += " ; " + mark
			}
			if err := l.m.need(text, l.file, d.line); err != nil {
				return err
			}
		}
	}
	return nil
}

// marks is where a version of the lock counts; "" for everywhere.
func (l *uvLock) marks(p node) string {
	var all []string
	for _, m := range p.at("resolution-markers").list() {
		all = append(all, "("+m.text()+")")
	}
	return strings.Join(all, " or ")
}

// fromPlace adds a package that comes from git, an address or a folder. A
// folder's content decides, too.
func (l *uvLock) fromPlace(p node) {
	e := entry{File: l.file, Line: p.line, Text: p.at("name").text(), Name: normal(p.at("name").text()), Place: true, folder: filepath.Dir(l.m.Path)}
	for _, kind := range []string{"editable", "directory", "path", "virtual"} {
		if path := p.at("source").at(kind).text(); path != "" {
			e.Path = under(e.folder, path)
		}
	}
	l.m.entries = append(l.m.entries, e)
}
