// Package bucket makes trees of the objects that lie in a bucket of the user, and
// lays them out from there, if they are still what was listed.
//
// It refuses to know why they are wanted. Proved by its tests: buckets that change
// between the list and the reading.
package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/store"
)

// maxAway bounds how many objects one input may be: the list of a million is some
// 200 MB, which submitter and agents hold in memory.
const maxAway = 1_000_000

// ListAway makes a tree of what is at key in a bucket: all that is below it, or the one
// object of that name. at is the URL that opens s. Nothing is read of the contents.
// Faults: Missing where there is nothing, Invalid of names that can be no files and
// of more objects than an input may be.
func ListAway(ctx context.Context, s *store.Store, at, key string) (tree.Tree, error) {
	return list(ctx, s, at, key, maxAway)
}

func list(ctx context.Context, s *store.Store, at, key string, most int) (tree.Tree, error) {
	folder := key
	if folder != "" && !strings.HasSuffix(folder, "/") {
		folder += "/"
	}
	t := tree.Tree{Away: &tree.Away{Bucket: at, Below: folder}}
	for o, err := range s.List(ctx, folder) {
		if err != nil {
			return t, err
		}
		if len(t.Files)+len(t.Dirs) == most {
			return t, fault.New(fault.Invalid, "Name a folder below it, or pack the files into fewer ones.", "list %s: there are more than %d objects", key, most)
		}
		if err := addObject(&t, o); err != nil {
			return t, err
		}
	}
	if len(t.Files) == 0 && folder != key {
		return single(ctx, s, at, key)
	}
	if len(t.Files) == 0 {
		return t, noObject(key)
	}
	t.Sort()
	return t, t.Check()
}

// single is the tree of one object.
func single(ctx context.Context, s *store.Store, at, key string) (tree.Tree, error) {
	dir, _ := path.Split(key)
	t := tree.Tree{Away: &tree.Away{Bucket: at, Below: dir}}
	for o, err := range s.ListBy(ctx, key, 1) { // its own name comes first
		if err != nil {
			return t, err
		}
		if o.Key != key {
			break
		}
		if err := addObject(&t, o); err != nil {
			return t, err
		}
		return t, t.Check()
	}
	return t, noObject(key)
}

func noObject(key string) error {
	return fault.New(fault.Missing, "Check the name: a folder's end is a whole part of it, and * means nothing in a bucket.", "list %q: nothing is there", key)
}

// addObject adds an object. One without contents and a name that ends in a slash is a
// console's way to show a folder.
func addObject(t *tree.Tree, o store.Object) error {
	name := strings.TrimPrefix(o.Key, t.Away.Below)
	if folder, marker := strings.CutSuffix(name, "/"); o.Size == 0 && (marker || name == "") {
		if folder != "" {
			t.Dirs = append(t.Dirs, folder)
		}
		return nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 255 {
			return fault.New(fault.Invalid, "Give the object another name.", "list %.100q: a part of its name is longer than 255 bytes", o.Key)
		}
	}
	f := tree.File{Path: name, Size: o.Size, Mode: 0o644, SHA256: said(name, o)}
	if !o.Time.IsZero() {
		f.Time = o.Time.UnixNano()
	}
	t.Files = append(t.Files, f)
	return nil
}

// said stands for what a bucket says of an object: its tag, or the time it was
// written where it has none. A tag means nothing under another name.
func said(name string, o store.Object) store.Digest {
	tag := "tag " + o.Tag
	if o.Tag == "" {
		tag = "time " + fmt.Sprint(o.Time.UnixNano())
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "drover object 1\n%q %d %q\n", name, o.Size, tag))
	return store.Digest(hex.EncodeToString(sum[:]))
}

// RestoreAway writes t, with contents that are away, to dir as Restore does. Each object
// is compared with the list before the first is read, and again after the last, so
// that what is laid out is what was listed; one that has changed since, or is gone, is
// fault.Invalid. s is the bucket.
func RestoreAway(ctx context.Context, s *store.Store, t tree.Tree, dir string) error {
	if t.Away == nil {
		return fault.New(fault.Bug, "", "restore %s: its files are in no bucket", dir)
	}
	if err := checkUnchanged(ctx, t, s); err != nil {
		return err
	}
	o := &objects{store: s, at: make(map[store.Digest]tree.File, len(t.Files)), below: t.Away.Below, tree: t}
	for _, f := range t.Files {
		o.at[f.SHA256] = f
	}
	return tree.RestoreWith(ctx, o, t, dir, tree.RestoreOptions{Width: awayWidth, Finally: func(ctx context.Context) error { return checkUnchanged(ctx, t, s) }})
}

// awayWidth is more than width: a request to a bucket waits for tens of milliseconds.
const awayWidth = 32

// checkUnchanged compares all of t with what the bucket says now.
func checkUnchanged(ctx context.Context, t tree.Tree, s *store.Store) error {
	want := make(map[string]tree.File, len(t.Files))
	for _, f := range t.Files {
		want[f.Path] = f
	}
	prefix := t.Away.Below
	if len(t.Files) == 1 { // of a big folder it may be the only one
		prefix += t.Files[0].Path
	}
	for o, err := range s.List(ctx, prefix) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(o.Key, t.Away.Below)
		f, ours := want[name]
		if ours && said(name, o) != f.SHA256 {
			how := fmt.Sprintf("it had %s then, and has %s now", tree.SizeText(f.Size), tree.SizeText(o.Size))
			if f.Size == o.Size {
				how = "it is another one of the same size"
			}
			return changedError(t, f, how)
		}
		delete(want, name)
		if len(want) == 0 {
			return nil
		}
	}
	for _, f := range t.Files { // the first, for people
		if _, gone := want[f.Path]; gone {
			return changedError(t, f, "it is gone")
		}
	}
	return nil
}

// changedError refuses a file that is another one than was listed.
func changedError(t tree.Tree, f tree.File, how string) error {
	return fault.New(fault.Invalid, "Submit it again, to use what is there now.", "read %q of %s: it has changed since the job was submitted: %s", t.Away.Below+f.Path, t.Away.Bucket, how)
}

// objects reads a bucket as if its objects were blobs.
type objects struct {
	store *store.Store
	tree  tree.Tree
	below string
	at    map[store.Digest]tree.File
}

func (o *objects) PutBlob(context.Context, io.ReadSeeker) (store.Digest, int64, error) {
	return "", 0, fault.New(fault.Bug, "", "write to %s: it is read-only", o.tree.Away.Bucket)
}

func (o *objects) HasBlob(_ context.Context, d store.Digest) (bool, error) {
	_, has := o.at[d]
	return has, nil
}

func (o *objects) OpenBlob(ctx context.Context, d store.Digest) (io.ReadCloser, error) {
	f := o.at[d]
	body, err := o.store.Open(ctx, o.below+f.Path, 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return nil, changedError(o.tree, f, "it is gone")
	}
	if err != nil {
		return nil, err
	}
	return &object{body: body, left: f.Size, wrong: func(how string) error { return changedError(o.tree, f, how) }}, nil
}

// object is a body that must have the size that was listed.
type object struct {
	body  io.ReadCloser
	left  int64
	wrong func(how string) error
}

func (o *object) Read(p []byte) (int, error) {
	n, err := o.body.Read(p)
	switch o.left -= int64(n); {
	case o.left < 0:
		return 0, o.wrong("it is longer now")
	case err == io.EOF && o.left > 0:
		return n, o.wrong("it is shorter now")
	}
	return n, err
}

func (o *object) Close() error { return o.body.Close() }
