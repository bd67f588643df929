package bundle

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/tree"
)

// checkCaps checks the caps; its fault names the three largest culprits.
func (l List) checkCaps() error {
	for _, e := range l.Entries {
		if depth := strings.Count(e.Name, "/"); depth > l.caps.Depth {
			return fault.Wrap(ErrTooBig, fault.Invalid, "Choose another folder with `-s DIR`, or leave it out with a line in .droverignore.",
				"scan code: %s: %q is %d folders deep, above %d", l.Dir, e.Name, depth, l.caps.Depth)
		}
		if err := tree.CheckName(e.Name); err != nil {
			return fault.New(fault.Invalid, "Leave it out with a line in .droverignore.", "scan code: %s: %q: %v", l.Dir, e.Name, err)
		}
	}
	if err := l.checkClashes(); err != nil {
		return err
	}
	heavy, many := l.Bytes > l.caps.Bytes, len(l.Entries) > l.caps.Files
	if !heavy && !many {
		return nil
	}
	limit := tree.SizeText(l.caps.Bytes)
	if !heavy {
		limit = fmt.Sprintf("%d files", l.caps.Files)
	}
	var names []string
	top := l.largestCulprits(3, heavy)
	for _, c := range top {
		names = append(names, c.String())
	}
	hint := fmt.Sprintf("Choose another folder with `-s DIR`, make it an input with `-i %s`, or leave it out with a line in .droverignore.", shellWord(top[0].name))
	return fault.Wrap(ErrTooBig, fault.Invalid, hint, "scan code: %s: %s in %d files is above %s; the largest are %s",
		l.Dir, tree.SizeText(l.Bytes), len(l.Entries), limit, strings.Join(names, ", "))
}

// checkClashes finds a file that is to stand where a folder does: two things put
// beside each other may ask for it.
func (l List) checkClashes() error {
	files := make(map[string]string, len(l.Entries))
	for _, e := range l.Entries {
		files[e.Name] = e.path
	}
	for _, e := range l.Entries {
		for dir := path.Dir(e.Name); dir != "."; dir = path.Dir(dir) {
			if file, is := files[dir]; is {
				return fault.New(fault.Invalid, "Rename one of them.", "scan code: %q: %s would be a file and %s needs a folder there", dir, file, e.path)
			}
		}
	}
	return nil
}

// culprit is a file or folder and what it holds.
type culprit struct {
	name   string
	bytes  int64
	files  int
	folder map[string]*culprit // by last name; nil for a file
}

func (c *culprit) String() string {
	if c.folder == nil {
		return fmt.Sprintf("%q (%s)", c.name, tree.SizeText(c.bytes))
	}
	return fmt.Sprintf("%q (%s in %d files)", c.name+"/", tree.SizeText(c.bytes), c.files)
}

func (c *culprit) totalWeight(heavy bool) int64 {
	if heavy {
		return c.bytes
	}
	return int64(c.files)
}

// largestCulprits names the n heaviest things, by bytes or by files. A folder gives way
// to what is in it where that alone is most of it, so that the name is the one
// a person would put in .droverignore: data/raw, not the src/ around it.
func (l List) largestCulprits(n int, heavy bool) []*culprit {
	root := &culprit{folder: map[string]*culprit{}}
	for _, e := range l.Entries {
		at, parts := root, strings.Split(e.Name, "/")
		for i, part := range parts {
			next := at.folder[part]
			if next == nil {
				next = &culprit{name: strings.Join(parts[:i+1], "/")}
				if i < len(parts)-1 {
					next.folder = map[string]*culprit{}
				}
				at.folder[part] = next
			}
			next.bytes, next.files, at = next.bytes+e.Size, next.files+1, next
		}
	}
	found := root.heaviestInside(heavy)
	if len(found) > n {
		found = found[:n]
	}
	for i, c := range found {
		for c.folder != nil {
			first := c.heaviestInside(heavy)[0]
			if first.totalWeight(heavy)*10 < c.totalWeight(heavy)*8 {
				break
			}
			c = first
		}
		found[i] = c
	}
	return found
}

// heaviestInside is what a folder holds, heaviest first.
func (c *culprit) heaviestInside(heavy bool) []*culprit {
	return slices.SortedFunc(maps.Values(c.folder), func(a, b *culprit) int {
		if d := b.totalWeight(heavy) - a.totalWeight(heavy); d != 0 {
			return int(max(-1, min(1, d)))
		}
		return strings.Compare(a.name, b.name)
	})
}

// shellWord is s as a person would paste it into a shell.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@%=:,", r)
	}
	if s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
