package mount

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Layout is a view made out for the supervisor, in the order to be shown.
type Layout struct {
	Entries  []entry
	Hostname string
}

// entry is a bind with paths that hold no links.
type entry struct {
	Source, Target rawPath
	In             rawPath // the folder to build anew, as it lacks the next name of Target; "": Target exists
	Folder         bool    // Source is one

	Layers *layers // of an overlay, which has no Source
	Same   rawPath // the Target of the overlay that is shown here, too; "": none
}

// layers are the folders of an Overlay, without links.
type layers struct {
	Lower       []rawPath
	Upper, Work rawPath
}

// rawPath is a path, which need not be UTF-8: as JSON it is bytes.
type rawPath string

func (r rawPath) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(r)) }

func (r *rawPath) UnmarshalJSON(b []byte) error {
	var text []byte
	err := json.Unmarshal(b, &text)
	*r = rawPath(text)
	return err
}

// MachinePath is where the machine has a name of an overlay: in the uppermost folder with it.
func (l *layers) machinePath(rest string) string {
	at := ""
	for _, layer := range append([]rawPath{l.Upper}, l.Lower...) {
		at = filepath.Join(string(layer), rest)
		if _, err := os.Lstat(at); err == nil {
			break
		}
	}
	return at
}

// sourceOf is where the machine has what is at path in the view. No part of path
// may be a link.
func (s *Layout) sourceOf(path string) string {
	for _, b := range slices.Backward(s.Entries) {
		if rest, inside := strings.CutPrefix(path+"/", string(b.Target)+"/"); inside {
			return b.machinePathOf(rest)
		}
	}
	return path
}

// machinePathOf is where the machine has rest, a name below the target.
func (b *entry) machinePathOf(rest string) string {
	if b.Layers != nil {
		return b.Layers.machinePath(rest)
	}
	return filepath.Join(string(b.Source), rest)
}

const mostLinks = 40 // as many as the kernel follows

// MachinePath is where the machine has what the program sees at path, an absolute
// one. It follows links as the program would. Without a view it is path itself.
func (s *Layout) MachinePath(path string) string {
	if s == nil {
		return path
	}
	at, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		at = filepath.Join(at, name)
		to, err := os.Readlink(s.sourceOf(at))
		if err != nil || links == mostLinks {
			continue // no link, or none to be followed: its opener learns the rest
		}
		links++
		at = filepath.Dir(at)
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return s.sourceOf(at)
}
