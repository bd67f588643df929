package requirements

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// pipfileLock is the part of a Pipfile.lock that pipenv installs by default.
type pipfileLock struct {
	Meta struct {
		Requires struct {
			Python string `json:"python_version"`      // 3.11
			Full   string `json:"python_full_version"` // 3.11.7
		} `json:"requires"`
		Sources []struct {
			URL    string `json:"url"`
			Verify *bool  `json:"verify_ssl"`
		} `json:"sources"`
	} `json:"_meta"`
	Default map[string]pipfilePackage `json:"default"`
}

// pipfilePackage is one package; one that comes from a place has no version.
type pipfilePackage struct {
	Version      string   `json:"version"` // "==2.31.0"
	Extras       []string `json:"extras"`
	Markers      string   `json:"markers"`
	Hashes       []string `json:"hashes"`
	Git          string   `json:"git"`
	Ref          string   `json:"ref"`
	Subdirectory string   `json:"subdirectory"`
	File         string   `json:"file"` // an address, or a path
	Path         string   `json:"path"`
}

// readPipfile reads a Pipfile.lock: its "default" packages, never "develop".
func readPipfile(r Request) (*Manifest, error) {
	data, path, err := beside(r, SourcePipfile)
	if err != nil || data == nil {
		return nil, err
	}
	var lock pipfileLock
	if err := json.Unmarshal(data, &lock); err != nil {
		return nil, badFile(SourcePipfile, err)
	}
	m := &Manifest{Path: path, Source: SourcePipfile, Single: true}
	if err := m.allowPipfile(lock); err != nil {
		return nil, err
	}
	hashed, rest := lock.indexLines(), lock.indexLines()
	heads := len(hashed)
	for _, name := range slices.Sorted(maps.Keys(lock.Default)) {
		e, line, err := lock.Default[name].entryAndLine(name, r.Dir)
		if err != nil {
			return nil, badFile(SourcePipfile, err)
		}
		m.Entries = append(m.Entries, e)
		if len(lock.Default[name].Hashes) > 0 && !e.Place {
			hashed = append(hashed, line)
		} else {
			rest = append(rest, line)
		}
	}
	// Installers refuse a file in which some have hashes and some have none.
	m.Batches = [][]string{}
	for _, lines := range [][]string{hashed, rest} {
		if len(lines) > heads {
			m.Batches = append(m.Batches, lines)
		}
	}
	return m, m.constraints(r.Environ, map[string]bool{})
}

func (m *Manifest) allowPipfile(lock pipfileLock) (err error) {
	spec := ""
	if v := lock.Meta.Requires.Python; v != "" && v != "*" {
		spec = "==" + v + ".*"
	}
	if v := lock.Meta.Requires.Full; v != "" {
		spec = "==" + v
	}
	if m.Python, err = NewBound(spec, SourcePipfile); err != nil {
		return badFile(SourcePipfile, err)
	}
	return nil
}

// indexLines are the lines that name where packages come from. PyPI is left to the
// caller's own settings: a mirror is named there.
func (l pipfileLock) indexLines() []string {
	var out []string
	for i, s := range l.Meta.Sources {
		url := strings.TrimSuffix(s.URL, "/")
		if url == "" || url == "https://pypi.org/simple" || strings.ContainsAny(url, " \t\r\n") {
			continue
		}
		if i == 0 {
			out = append(out, "--index-url "+s.URL)
		} else {
			out = append(out, "--extra-index-url "+s.URL)
		}
		if s.Verify != nil && !*s.Verify {
			out = append(out, "--trusted-host "+host(url))
		}
	}
	return out
}

// host is an address's host and port.
func host(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "/")
	return rest[strings.LastIndex(rest, "@")+1:]
}

// entryAndLine is one package, to be judged, and the line to install it by.
func (p pipfilePackage) entryAndLine(name, dir string) (e Entry, line string, err error) {
	text := name
	if len(p.Extras) > 0 {
		text += "[" + strings.Join(p.Extras, ",") + "]"
	}
	e = Entry{File: SourcePipfile, Folder: dir, Place: true}
	switch {
	case p.Git != "":
		text += " @ git+" + strings.TrimPrefix(p.Git, "git+") + "@" + p.Ref
		if p.Subdirectory != "" {
			text += "#subdirectory=" + p.Subdirectory
		}
	case p.Path != "":
		e.Path = under(dir, p.Path)
	case p.File != "" && remote(p.File):
		text += " @ " + p.File
	case p.File != "":
		e.Path = under(dir, strings.TrimPrefix(p.File, "file://"))
	default:
		e.Place = false
		if p.Version != "*" {
			text += p.Version
		}
	}
	line = text
	if e.Path != "" {
		// Installed for good, not as a link into a folder that goes away. The
		// digest has the package's content, so its folder is left out of it.
		line = text + " @ file://" + e.Path
	}
	if p.Markers != "" {
		text, line = text+" ; "+p.Markers, line+" ; "+p.Markers
	}
	for _, h := range p.Hashes {
		if !e.Place {
			line += " --hash=" + h
		}
	}
	read, ok := logical(text)
	if !ok || read.Name != Normal(name) || read.Option || strings.ContainsAny(line, "\n\r\x00") || strings.ContainsAny(strings.Join(p.Hashes, ""), " \t") {
		return e, "", fmt.Errorf("%q is not a requirement", text)
	}
	e.Text, e.Name = read.Text, read.Name
	return e, line, nil
}
