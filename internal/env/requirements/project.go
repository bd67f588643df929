package requirements

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/toml"
)

// readProject reads [project] of a pyproject.toml: its dependencies, never the
// project itself, which runs from its folder. Many have no [project], or leave
// the dependencies to a build: those ask for nothing here.
func readProject(r Request) (*Manifest, error) {
	m, doc, err := openTOML(r, SourceProject)
	if err != nil || m == nil {
		return nil, err
	}
	project := doc.Lookup("project").Table()
	if project == nil {
		return nil, nil
	}
	dynamic := slices.ContainsFunc(project.Lookup("dynamic").List(), func(n toml.Node) bool { return n.Text() == "dependencies" })
	if dynamic || project.Lookup("dependencies").Value == nil && project.Lookup("requires-python").Value == nil {
		return nil, nil
	}
	if err := m.keepRequiresPython(project.Lookup("requires-python"), SourceProject, 0); err != nil {
		return nil, err
	}
	if err := m.addRequirements(project.Lookup("dependencies"), "dependencies", SourceProject, 0); err != nil {
		return nil, err
	}
	m.readToolUV(doc, SourceProject, 0)
	m.fillLines()
	return m, m.constraints(r.Environ, map[string]bool{})
}

func openTOML(r Request, name string) (*Manifest, *toml.Table, error) {
	data, path, err := beside(r, name)
	if err != nil || data == nil {
		return nil, nil, err
	}
	doc, err := toml.Parse(string(data))
	if err != nil {
		return nil, nil, badTOML(err, name, 0)
	}
	return &Manifest{Path: path, Source: name}, doc, nil
}

// readUVLock reads uv.lock. What the project needs directly is what an
// interpreter must have; every version of the lock then binds what comes with
// it. Building is uv's alone.
func readUVLock(r Request) (*Manifest, error) {
	m, lock, err := openTOML(r, SourceUVLock)
	if err != nil || m == nil {
		return nil, err
	}
	project, _, err := beside(r, SourceProject)
	if err != nil {
		return nil, err
	}
	if project == nil {
		return nil, fault.New(fault.Missing, "Put its pyproject.toml beside it, or take your interpreter as it is with `--no-env`.",
			"read requirements: %s: there is no pyproject.toml beside it", SourceUVLock)
	}
	doc, err := toml.Parse(string(project))
	if err != nil {
		return nil, badTOML(err, SourceProject, 0)
	}
	if err := m.keepRequiresPython(lock.Lookup("requires-python"), SourceUVLock, 0); err != nil {
		return nil, err
	}
	m.OnlyUV = "only uv reads uv.lock"
	// The project itself is not installed: it runs from its folder, and that
	// goes away with the job. So nothing is installed as a link into it, either.
	m.Sync = []string{"--frozen", "--no-install-project", "--no-editable"}
	l := uvLock{m: m, file: SourceUVLock, packages: lock.Lookup("package").List(), groups: defaultGroups(doc)}
	if err := l.readPackages(lock); err != nil {
		return nil, err
	}
	var b strings.Builder
	lock.Lookup("package").WriteDigest(&b)
	doc.Lookup("tool", "uv").WriteDigest(&b)
	fmt.Fprintf(&b, "%q", l.groups)
	m.also = b.String()
	return m, nil
}

// defaultGroups are those that "uv sync" takes without being told.
func defaultGroups(project *toml.Table) []string {
	n := project.Lookup("tool", "uv", "default-groups")
	switch v := n.Value.(type) {
	case string: // "all"
		return []string{v}
	case []toml.Node:
		var out []string
		for _, g := range v {
			out = append(out, g.Text())
		}
		return out
	}
	return []string{"dev"}
}

type uvLock struct {
	m        *Manifest
	file     string // its name, for messages
	packages []toml.Node
	groups   []string
}

func (l *uvLock) readPackages(lock *toml.Table) error {
	roots := l.rootPackages(lock)
	for i, p := range l.packages {
		name, version := p.Key("name").Text(), p.Key("version").Text()
		if p.Table() == nil || name == "" {
			return badFile(spot(l.file, p.Line), "a package without a name")
		}
		switch {
		case roots[i]:
			if err := l.addWanted(p); err != nil {
				return err
			}
		case p.Key("source").Key("registry").Value == nil:
			l.comesFromPlace(p)
		case version != "":
			text := name + "==" + version
			if marks := l.markerText(p); marks != "" {
				text += " ; " + marks
			}
			if err := l.m.addRequirement(text, l.file, p.Line); err != nil {
				return err
			}
			l.m.Entries[len(l.m.Entries)-1].Constraint = true
		}
	}
	return nil
}

// rootPackages are the packages with the needs of the project: the project itself, or
// all members of a workspace that is no package.
func (l *uvLock) rootPackages(lock *toml.Table) map[int]bool {
	out := map[int]bool{}
	for i, p := range l.packages {
		for _, kind := range []string{"virtual", "editable", "directory"} {
			if p.Key("source").Key(kind).Text() == "." {
				out[i] = true
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, name := range lock.Lookup("manifest", "members").List() {
		for i, p := range l.packages {
			if p.Key("name").Text() == name.Text() {
				out[i] = true
			}
		}
	}
	return out
}

// addWanted adds what a package of ours needs, its default groups included.
func (l *uvLock) addWanted(p toml.Node) error {
	lists := []toml.Node{p.Key("dependencies")}
	groups := p.Key("dev-dependencies").Table()
	names := make([]string, 0, len(groups.Keys()))
	for name := range groups.Keys() {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if slices.Contains(l.groups, name) || slices.Contains(l.groups, "all") {
			lists = append(lists, groups.Lookup(name))
		}
	}
	for _, list := range lists {
		for _, d := range list.List() {
			text := d.Key("name").Text()
			var extras []string
			for _, e := range d.Key("extra").List() {
				extras = append(extras, e.Text())
			}
			if len(extras) > 0 {
				text += "[" + strings.Join(extras, ",") + "]"
			}
			if v := d.Key("version").Text(); v != "" {
				text += "==" + v
			}
			if mark := d.Key("marker").Text(); mark != "" {
				text += " ; " + mark
			}
			if err := l.m.addRequirement(text, l.file, d.Line); err != nil {
				return err
			}
		}
	}
	return nil
}

// markerText is where a version of the lock counts; "" for everywhere.
func (l *uvLock) markerText(p toml.Node) string {
	var all []string
	for _, m := range p.Key("resolution-markers").List() {
		all = append(all, "("+m.Text()+")")
	}
	return strings.Join(all, " or ")
}

// comesFromPlace adds a package that comes from git, an address or a folder. A
// folder's content decides, too.
func (l *uvLock) comesFromPlace(p toml.Node) {
	e := Entry{File: l.file, Line: p.Line, Text: p.Key("name").Text(), Name: Normal(p.Key("name").Text()), Place: true, Folder: filepath.Dir(l.m.Path)}
	for _, kind := range []string{"editable", "directory", "path", "virtual"} {
		if path := p.Key("source").Key(kind).Text(); path != "" {
			e.Path = under(e.Folder, path)
		}
	}
	l.m.Entries = append(l.m.Entries, e)
}
