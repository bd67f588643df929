package drover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/job"
)

// GotItems says what GetItems brought, and where it is.
type GotItems struct {
	Dir   string `json:"dir"`
	Items int    `json:"items"` // that have outputs
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
	// There counts those of Files that were there before, with the same content.
	There int `json:"there"`
	// Left counts files that were not brought, because an earlier item has an output
	// of the same name; Notes names the first of them.
	Left  int      `json:"left,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// leftNotes is how many outputs that were left are named one by one.
const leftNotes = 10

// GetItems brings the outputs of a map's succeeded items into dir, each by its own
// name, and verifies them. Of two items with an output of one name the first
// one's is brought. What is there already with the same content is not copied
// again, so that it may be called while the map runs, and again; other files are
// left alone. told, which may be nil, is called after each file.
func (j *Job) GetItems(ctx context.Context, dir string, told func(GotItems)) (GotItems, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return GotItems{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return GotItems{}, fault.Wrap(err, fault.Denied, "Choose another folder with -o.", "get outputs: make %s", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return GotItems{}, fault.Wrap(err, fault.Denied, "Choose another folder with -o.", "get outputs: open %s", dir)
	}
	defer root.Close()
	// The receipt says that the folder is no code of a later command. It names no
	// files: a million of them are found by their names.
	mark := readReceipt(dir)
	mark.Job = j.path.String()
	if err := mark.write(dir); err != nil {
		return GotItems{}, fault.Wrap(err, fault.Denied, "Choose another folder with -o.", "get outputs: write into %s", dir)
	}
	b := &bringer{j: j, root: root, of: map[uint64]int32{}, got: GotItems{Dir: dir}}
	for r, err := range j.Results(ctx, ResultOptions{States: []job.ItemState{job.ItemSucceeded}}) {
		if err != nil {
			return b.got, fmt.Errorf("get outputs: %w", err)
		}
		if len(r.Outputs) > 0 {
			b.got.Items++
		}
		for _, f := range r.Outputs {
			if err := b.bring(ctx, r, f); err != nil {
				return b.got, fmt.Errorf("get outputs: item %d: %w", r.Item, err)
			}
			if told != nil {
				told(b.got)
			}
		}
	}
	if more := b.got.Left - leftNotes; more > 0 {
		b.got.Notes = append(b.got.Notes, fmt.Sprintf("and %s more outputs of names that others have", job.Comma(more)))
	}
	return b.got, nil
}

// bringer fills one folder.
type bringer struct {
	j    *Job
	root *os.Root
	// of says which item has a name, by the name's hash: of a million names the
	// names themselves would be too much to keep.
	of  map[uint64]int32
	got GotItems
}

func (b *bringer) bring(ctx context.Context, r ItemResult, f ItemFile) error {
	name := path.Clean(f.Name)
	if !filepath.IsLocal(name) || name == "." {
		return fault.New(fault.Invalid, "", "output %q is not a name below a folder", f.Name)
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	if first, taken := b.of[h.Sum64()]; taken {
		if b.got.Left++; b.got.Left <= leftNotes {
			b.got.Notes = append(b.got.Notes, fmt.Sprintf("items %d and %d both made %s: item %d's is here", first, r.Item, name, first))
		}
		return nil
	}
	b.of[h.Sum64()] = int32(r.Item)
	there, err := b.holds(name, f)
	if err != nil {
		return err
	}
	if there {
		b.got.There++
	} else if err := b.copy(ctx, name, ledger.OutKey(b.j.path, r.Item, r.folder, f.Name), f); err != nil {
		return err
	}
	b.got.Files++
	b.got.Bytes += f.Bytes
	return nil
}

// holds says whether the folder has a file already, with the same content.
func (b *bringer) holds(name string, f ItemFile) (bool, error) {
	info, err := b.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, notHere(err, name)
	}
	if info.IsDir() {
		return false, fault.New(fault.Invalid, "Choose another folder with -o.", "write %s: a folder is in its place", name)
	}
	if !info.Mode().IsRegular() || info.Size() != f.Bytes {
		return false, nil
	}
	file, err := b.root.Open(name)
	if err != nil {
		return false, nil // it is written anew
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == f.SHA256, nil
}

// copy writes a file beside its place, verifies it, and puts it there whole.
func (b *bringer) copy(ctx context.Context, name, key string, f ItemFile) (err error) {
	if dir := path.Dir(name); dir != "." {
		if err := b.root.MkdirAll(dir, 0o755); err != nil {
			return notHere(err, name)
		}
	}
	in, err := b.j.c.world.Store.Open(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	defer in.Close()
	part := path.Join(path.Dir(name), ".drover-"+strconv.Itoa(os.Getpid())+".part")
	_ = b.root.Remove(part) // of one that was killed
	mode := fs.FileMode(f.Mode) & fs.ModePerm
	if mode == 0 {
		mode = 0o666
	}
	out, err := b.root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode) // less the umask, as cp makes it
	if err != nil {
		return notHere(err, name)
	}
	defer func() {
		if err != nil {
			out.Close()
			_ = b.root.Remove(part)
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), in)
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	if n != f.Bytes || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fault.New(fault.Lost, "drover verify "+b.j.path.Job+" says what else is damaged.", "copy %s: %s is not what was recorded", name, key)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	return b.root.Rename(part, name)
}

func notHere(err error, name string) error {
	return fault.Wrap(err, fault.Denied, "Choose another folder with -o.", "write %s", name)
}
