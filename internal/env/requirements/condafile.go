package requirements

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/drover-run/drover/internal/env/tools"
)

// CondaFile is what drover reads of an environment.yml: enough to judge an
// active environment. What builds one reads the file itself.
type CondaFile struct {
	Needs     [][2]string // name and version as PEP 440 says it, "" for any
	Unclear   string      // a dependency that cannot be judged here; "" for none
	Variables []string    // "NAME=value", what activating the environment sets
}

// readConda reads environment.yml, or environment.yaml.
func readConda(r Request) (*Manifest, error) {
	name := SourceConda
	data, path, err := beside(r, name)
	if err == nil && data == nil {
		name = "environment.yaml"
		data, path, err = beside(r, name)
	}
	if err != nil || data == nil {
		return nil, err
	}
	var file struct {
		Dependencies []any          `yaml:"dependencies"`
		Variables    map[string]any `yaml:"variables"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, badFile(name, firstLine(err.Error()))
	}
	m := &Manifest{Path: path, Source: SourceConda, Conda: &CondaFile{}, also: string(data)}
	for _, d := range file.Dependencies {
		switch d := d.(type) {
		case string:
			m.Conda.readDependency(d)
		case map[string]any:
			if err := m.readPipSection(d["pip"], name); err != nil {
				return nil, err
			}
		}
	}
	for key, value := range file.Variables {
		m.Conda.Variables = append(m.Conda.Variables, fmt.Sprintf("%s=%v", key, value))
	}
	slices.Sort(m.Conda.Variables)
	return m, nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// readPipSection reads the list that conda hands to pip, one line each of a
// requirements file.
func (m *Manifest) readPipSection(list any, file string) error {
	items, _ := list.([]any)
	for _, item := range items {
		text, ok := item.(string)
		if !ok {
			return badFile(file, "its pip section holds something that is not text")
		}
		if err := m.addLines([]byte(text), Entry{File: file, Folder: filepath.Dir(m.Path)}, map[string]bool{}); err != nil {
			return err
		}
	}
	return nil
}

var (
	condaName    = tools.Compiled(`^(?:[A-Za-z0-9_./-]+::)?([A-Za-z0-9_.-]+)\s*(.*)$`)
	condaVersion = tools.Compiled(`^(==|=|!=|>=|<=|>|<|~=)?\s*(\d[A-Za-z0-9_.+!]*?)(\.?\*)?$`)
)

// readDependency reads one dependency of conda: "numpy", "numpy=1.26", "c::numpy >=1.20,<2".
func (c *CondaFile) readDependency(text string) {
	m := condaName().FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		c.Unclear = text
		return
	}
	spec := ""
	for _, one := range strings.Split(strings.TrimSpace(m[2]), ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		v := condaVersion().FindStringSubmatch(one)
		if v == nil { // a build, a choice, brackets
			c.Unclear = text
			return
		}
		op, version, star := v[1], v[2], v[3] != ""
		switch {
		case op == "=" || op == "" && star || op == "==" && star:
			op, version = "==", version+".*"
		case op == "":
			op = "=="
		case op == "!=" && star:
			version += ".*"
		}
		spec += "," + op + version
	}
	c.Needs = append(c.Needs, [2]string{strings.ToLower(m[1]), strings.TrimPrefix(spec, ",")})
}
