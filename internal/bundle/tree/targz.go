package tree

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Named is one of several trees that become one.
type Named struct {
	Name string // for Collision: "rank 3"
	Tree Tree
}

// Collision is a name for which two trees have different contents.
type Collision struct {
	Path string
	Kept string // Named.Name of the tree with the contents that are there
	Left string // Named.Name of the tree with the contents that are not
}

// TarGz merges trees into one tar.gz, straight from the blobs and in constant
// memory: a model.tar.gz of all ranks. Where two trees disagree the earlier one
// is kept and the collision returned; equal contents are no collision. The same
// trees give the same bytes: sorted, no times, no owners, modes 0644 or 0755.
func TarGz(ctx context.Context, b Blobs, trees []Named, w io.Writer) ([]Collision, error) {
	for _, t := range trees {
		if err := t.Tree.Check(); err != nil {
			return nil, fmt.Errorf("merge %s: %w", t.Name, err)
		}
	}
	members, collisions := merge(trees)
	zw := gzip.NewWriter(w)
	tw := tar.NewWriter(zw)
	for _, m := range members {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := m.writeMember(ctx, b, tw); err != nil {
			return nil, fmt.Errorf("write archive: %q: %w", m.path, err)
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		return nil, fmt.Errorf("write archive: %w", err)
	}
	return collisions, nil
}

// Merge makes one tree of several, by the rule of TarGz: what several ranks
// wrote, as one folder. Trees that pass Check make one that does; its lists are
// in the order of their paths, and it has no Notes.
func Merge(trees []Named) (Tree, []Collision) {
	members, collisions := merge(trees)
	var t Tree
	for _, m := range members {
		switch {
		case m.file != nil:
			t.Files = append(t.Files, *m.file)
		case m.link != nil:
			t.Links = append(t.Links, *m.link)
		default:
			t.Dirs = append(t.Dirs, m.path)
		}
	}
	return t, collisions
}

// member is a file, a link or an empty folder of the merged archive.
type member struct {
	path string
	from string // its tree
	file *File
	link *Link
}

func (m *member) sameContent(o *member) bool {
	switch {
	case m.file != nil && o.file != nil:
		return m.file.SHA256 == o.file.SHA256 && m.file.Mode&0o100 == o.file.Mode&0o100
	case m.link != nil && o.link != nil:
		return m.link.Target == o.link.Target
	}
	return m.file == nil && o.file == nil && m.link == nil && o.link == nil
}

func (m *member) isFolder() bool { return m.file == nil && m.link == nil }

// merge decides which entry is kept under each name. A file of one tree where another
// has a folder is a collision like any other.
func merge(trees []Named) (members []*member, collisions []Collision) {
	taken := map[string]*member{}   // by path
	folders := map[string]*member{} // by path: the first member below it
	add := func(m *member) {
		lost := func(kept *member) {
			collisions = append(collisions, Collision{Path: m.path, Kept: kept.from, Left: m.from})
		}
		if old := taken[m.path]; old != nil {
			if !old.sameContent(m) {
				lost(old)
			}
			return
		}
		if below := folders[m.path]; below != nil {
			if !m.isFolder() {
				lost(below)
			}
			return
		}
		for dir := path.Dir(m.path); dir != "."; dir = path.Dir(dir) {
			if above := taken[dir]; above != nil && !above.isFolder() {
				lost(above)
				return
			}
		}
		taken[m.path] = m
		for dir := path.Dir(m.path); dir != "." && folders[dir] == nil; dir = path.Dir(dir) {
			folders[dir] = m
		}
		members = append(members, m)
	}
	for _, t := range trees {
		for _, f := range t.Tree.Files {
			add(&member{path: f.Path, from: t.Name, file: &f})
		}
		for _, l := range t.Tree.Links {
			add(&member{path: l.Path, from: t.Name, link: &l})
		}
		for _, d := range t.Tree.Dirs {
			add(&member{path: d, from: t.Name})
		}
	}
	// An empty folder is not empty when another tree has something in it.
	members = slices.DeleteFunc(members, func(m *member) bool { return m.isFolder() && folders[m.path] != nil })
	slices.SortFunc(members, func(a, b *member) int { return cmp.Compare(a.path, b.path) })
	return members, collisions
}

func (m *member) writeMember(ctx context.Context, b Blobs, tw *tar.Writer) error {
	h := &tar.Header{Typeflag: tar.TypeDir, Name: m.path + "/", Mode: 0o755, ModTime: time.Unix(0, 0)}
	switch {
	case m.link != nil:
		h.Typeflag, h.Name, h.Linkname, h.Mode = tar.TypeSymlink, m.path, m.link.Target, 0o777
	case m.file != nil:
		h.Typeflag, h.Name, h.Size, h.Mode = tar.TypeReg, m.path, m.file.Size, int64(ShipMode(m.file.Mode))
	}
	if err := tw.WriteHeader(h); err != nil || m.file == nil {
		return err
	}
	return copyBlob(ctx, b, *m.file, tw)
}
