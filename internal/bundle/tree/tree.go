// Package tree stores folders as lists of files with their contents in blobs. Save
// never offers a file that was being written, Restore shows a file only when it is
// whole, and a Cache spares reading what has not changed since. Merge and TarGz make
// one folder, or one archive, of several trees.
//
// It refuses to know what the files mean and where blobs are kept: a store is three
// methods here. Everything read from a store is taken for hostile until checked.
// Proved by its tests: writers race with Save, and fuzzed trees meet a canary outside
// the folder.
package tree

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/drover-run/drover/store"
)

// Tree is a folder as a list: its files' contents are blobs. The zero Tree is
// an empty folder. One that was read from a store is checked before use.
type Tree struct {
	Files []File
	Dirs  []string // folders with nothing in them
	Links []Link
	Notes []string // what Save left out, a line each; not stored
	// Away says where the contents are if they are no blobs; nil: they are.
	Away *Away
}

// File is one regular file.
type File struct {
	Path   string       // slash-separated, below the folder
	Size   int64        // bytes
	Mode   uint32       // permission bits, at most 0777
	SHA256 store.Digest // of the contents
	Time   int64        // when it was modified, nanoseconds since 1970; 0: not known
}

// Link is a symbolic link that stays inside the folder.
type Link struct {
	Path   string
	Target string // relative to the link's folder; ".." only in front
}

// Digest identifies what the folder holds: names, contents, the owner's x bit,
// links and empty folders, in any order; not times, nor other modes. It is no
// blob's name.
func (t Tree) Digest() string {
	var lines []string
	for _, f := range t.Files {
		lines = append(lines, fmt.Sprintf("%q file %t %d %s\n", f.Path, f.Mode&0o100 != 0, f.Size, f.SHA256))
	}
	for _, d := range t.Dirs {
		lines = append(lines, fmt.Sprintf("%q folder\n", d))
	}
	for _, l := range t.Links {
		lines = append(lines, fmt.Sprintf("%q link %q\n", l.Path, l.Target))
	}
	slices.Sort(lines)
	sum := sha256.New()
	io.WriteString(sum, "drover tree 1\n")
	for _, line := range lines {
		io.WriteString(sum, line)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Blobs are the contents that the tree names in its store; none of one that is read elsewhere.
func (t Tree) Blobs() (all []store.Digest) {
	if t.Away != nil {
		return nil
	}
	for _, f := range t.Files {
		all = append(all, f.SHA256)
	}
	return all
}

// Bytes is the size of all files together.
func (t Tree) Bytes() int64 {
	var n int64
	for _, f := range t.Files {
		n += f.Size
	}
	return n
}

// Add puts o's contents below a folder of t that has that name.
func (t *Tree) Add(folder string, o Tree) {
	below := func(name string) string { return folder + "/" + name }
	for _, f := range o.Files {
		f.Path = below(f.Path)
		t.Files = append(t.Files, f)
	}
	for _, l := range o.Links {
		l.Path = below(l.Path)
		t.Links = append(t.Links, l)
	}
	t.Dirs = append(t.Dirs, folder)
	for _, d := range o.Dirs {
		t.Dirs = append(t.Dirs, below(d))
	}
	for _, n := range o.Notes {
		t.Notes = append(t.Notes, folder+": "+n)
	}
	t.Sort()
}

// Sort puts everything in the order of its path.
func (t *Tree) Sort() {
	slices.SortFunc(t.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(t.Links, func(a, b Link) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(t.Dirs)
}

// Check says why t cannot be laid out inside a folder, or nil: names and links
// that lead outside, two things under one name, a file where a folder must be,
// impossible sizes and modes, and what is beyond the limits of a tree,
// which is ErrLimit.
func (t Tree) Check() error {
	if err := checkCount(len(t.Files)+len(t.Links)+len(t.Dirs), MaxEntries); err != nil {
		return err
	}
	var total int64
	for _, f := range t.Files {
		if err := checkEntry(f.Path); err != nil {
			return err
		}
		_, err := store.ParseDigest(string(f.SHA256))
		if f.Size < 0 || f.Mode&^0o777 != 0 || err != nil {
			return RefuseArchive("%q: size %d, mode %o or digest %q is not valid", f.Path, f.Size, f.Mode, f.SHA256)
		}
		if f.Size > math.MaxInt64-total {
			return beyond("", "%s: with it the files are larger than any disk", shortened(f.Path))
		}
		total += f.Size
	}
	for _, l := range t.Links {
		if err := checkEntry(l.Path); err != nil {
			return err
		}
		if !staysInside(l) {
			return RefuseArchive("%q: a link that leads outside: %q", l.Path, l.Target)
		}
	}
	for _, d := range t.Dirs {
		if err := checkEntry(d); err != nil {
			return err
		}
	}
	return t.checkFolders()
}

// checkEntry says why name cannot be that of something in a tree, or nil.
func checkEntry(name string) error {
	if err := CheckPath(name); err != nil {
		return err
	}
	if err := CheckName(name); err != nil {
		return RefuseArchive("%q: %v", name, err)
	}
	if name == Workshop || strings.HasPrefix(name, Workshop+"/") {
		return RefuseArchive("%q: drover's own name", name)
	}
	return nil
}

// checkFolders refuses two things under one name, and things below what is no
// folder. Sorted as a walk comes to them, what lies below a name follows it at
// once, so neighbours are all that must be compared.
func (t Tree) checkFolders() error {
	type entry struct {
		name   string
		folder bool
	}
	all := make([]entry, 0, len(t.Files)+len(t.Links)+len(t.Dirs))
	for _, f := range t.Files {
		all = append(all, entry{f.Path, false})
	}
	for _, l := range t.Links {
		all = append(all, entry{l.Path, false})
	}
	for _, d := range t.Dirs {
		all = append(all, entry{d, true})
	}
	slices.SortFunc(all, func(a, b entry) int { return compareWalk(a.name, b.name) })
	for i, e := range all[min(1, len(all)):] {
		before := all[i]
		switch {
		case before.name == e.name && before.folder && e.folder:
		case before.name == e.name && before.folder == e.folder:
			return RefuseArchive("%q: twice the same name", e.name)
		case before.name == e.name, !before.folder && strings.HasPrefix(e.name, before.name+"/"):
			return RefuseArchive("%q: both a folder and not one", before.name)
		}
	}
	return nil
}

// compareWalk orders paths so that what is in a folder follows it before
// anything else does: "a", "a/b", "a-b".
func compareWalk(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			continue
		}
		switch {
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		}
		return cmp.Compare(a[i], b[i])
	}
	return cmp.Compare(len(a), len(b))
}

// staysInside tells whether following l can leave the folder. Its ".." stand in
// front, so they climb folders that are real: Check lets nothing live below a
// link. What comes after only goes down, perhaps by other links of the kind.
func staysInside(l Link) bool {
	if l.Target == "" || len(l.Target) > MaxPath || strings.HasPrefix(l.Target, "/") || strings.IndexByte(l.Target, 0) >= 0 {
		return false
	}
	up, front := strings.Count(l.Path, "/"), true
	for part := range strings.SplitSeq(l.Target, "/") {
		switch {
		case part != "..":
			front = front && (part == "" || part == ".")
		case !front || up == 0:
			return false
		default:
			up--
		}
	}
	return true
}

// Missing names the blobs of t that b does not hold: gc may have taken one
// between the look and the entry that names it. See Cache.Forget.
func Missing(ctx context.Context, b Blobs, t Tree) ([]store.Digest, error) {
	var mu sync.Mutex
	var gone []store.Digest
	all := make([]store.Digest, 0, len(t.Files))
	for _, f := range t.Files {
		all = append(all, f.SHA256)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	err := ForEach(ctx, len(all), func(ctx context.Context, i int) error {
		has, err := b.HasBlob(ctx, all[i])
		if err == nil && !has {
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, all[i])
		}
		return err
	})
	slices.Sort(gone)
	return gone, err
}

// The stored form. File names are bytes and JSON strings are not, so a name
// that is not UTF-8 is a NUL, which no name can hold, and base64.
type (
	wireFile struct {
		Path   wireName     `json:"path"`
		Size   int64        `json:"size"`
		Mode   uint32       `json:"mode"`
		SHA256 store.Digest `json:"sha256"`
		Time   int64        `json:"time,omitempty"`
	}
	wireLink struct {
		Path   wireName `json:"path"`
		Target wireName `json:"target"`
	}
	wireName string
)

// MarshalText keeps names that are not UTF-8 apart from those that are.
func (n wireName) MarshalText() ([]byte, error) {
	if utf8.ValidString(string(n)) && !strings.HasPrefix(string(n), "\x00") {
		return []byte(n), nil
	}
	return []byte("\x00" + base64.StdEncoding.EncodeToString([]byte(n))), nil
}

// UnmarshalText undoes MarshalText.
func (n *wireName) UnmarshalText(text []byte) error {
	coded, is := strings.CutPrefix(string(text), "\x00")
	if !is {
		*n = wireName(text)
		return nil
	}
	name, err := base64.StdEncoding.DecodeString(coded)
	*n = wireName(name)
	return err
}

// MarshalJSON writes t as it is stored, without Notes.
func (t Tree) MarshalJSON() ([]byte, error) { return io.ReadAll(newListBody(t)) }

// UnmarshalJSON reads what MarshalJSON wrote. It checks nothing: Check does.
func (t *Tree) UnmarshalJSON(text []byte) (err error) {
	*t, err = decodeList(bytes.NewReader(text))
	return err
}

// Away says where a tree's contents are when they are no blobs: they are objects of
// a foreign bucket, and stay there. The digest of each file then is not
// that of its contents, which were not read, but of what the bucket says of them:
// it is another one as soon as the object is. Modes are 0644, and there are no links.
type Away struct {
	Bucket string `json:"bucket"` // the URL that opens it
	Below  string `json:"below"`  // before the path of a file: its object's key
}
