package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/agent/workspace"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/store"
)

// layOutFiles restores the files that the program of an attempt before had made or
// changed beside itself.
func (s *rankState) layOutFiles(ctx context.Context, from protocol.Saved) error {
	if from.Files == "" {
		return nil
	}
	listing, err := tree.LoadTree(ctx, s.World.Store, from.Files)
	if err != nil {
		return workspace.WrapRestore(err)
	}
	w, digest := s.space.WorkFiles(), listing.Digest()
	stay, err := s.newInCode(ctx, w, listing, from)
	if err == nil {
		listing = treeWithout(listing, stay)
		err = w.RestoreFiles(ctx, s.World.Store, listing)
	}
	if err != nil {
		return workspace.WrapRestore(err)
	}
	s.restored[restoredFiles] = kept{digest: digest, blob: from.Files, tree: listing}
	s.noteRestored("files of the working folder", listing, from)
	if n := len(stay); n > 0 {
		names := slices.Sorted(maps.Keys(stay))
		s.LogNote("%d %s of the new code %s as shipped, and what the program had made of %s is not restored: %s",
			n, workspace.Plural(n, "file"), verb(n, "stays", "stay"), verb(n, "it", "them"), someOf(names))
	}
	return nil
}

// verb is one or many, as n is.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// someOf names the first few.
func someOf(names []string) string {
	const most = 3
	var quoted []string
	for _, name := range names[:min(most, len(names))] {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// treeWithout is a tree less some of its names.
func treeWithout(t tree.Tree, names map[string]bool) tree.Tree {
	if len(names) == 0 {
		return t
	}
	t.Files = slices.DeleteFunc(slices.Clone(t.Files), func(f tree.File) bool { return names[f.Path] })
	t.Links = slices.DeleteFunc(slices.Clone(t.Links), func(l tree.Link) bool { return names[l.Path] })
	return t
}

// newInCode are the names of a tree that the code has now and had not, or otherwise,
// when the tree was saved: the user has changed them since.
func (s *rankState) newInCode(ctx context.Context, w workspace.WorkFiles, t tree.Tree, from protocol.Saved) (map[string]bool, error) {
	now := store.Digest(s.Job.Code.Blob)
	if now == from.Code || now == "" {
		return nil, nil
	}
	is, err := os.OpenRoot(w.Code)
	if err != nil {
		return nil, err
	}
	defer is.Close()
	shared := map[string]bool{}
	err = workspace.EachName(t, func(name string) error {
		in, there, err := workspace.InTheWay(is, name)
		if in != "" || there {
			shared[name] = true
		}
		return err
	})
	if err != nil || len(shared) == 0 {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.Own, "code-before-")
	if err != nil {
		return nil, err
	}
	defer tree.RemoveAll(dir)
	if err := s.space.UnpackCode(ctx, from.Code, dir); err != nil && !errors.Is(err, store.ErrNotExist) { // gone: all are new
		return nil, err
	}
	was, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer was.Close()
	for name := range shared {
		same, err := workspace.SameEntry(is, was, name)
		if err != nil {
			return nil, err
		}
		if same {
			delete(shared, name)
		}
	}
	return shared, nil
}
