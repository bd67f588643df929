package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/store"
)

// Workshop is the folder, inside the one that is restored, where files are
// completed; it must be on the same file system. Save never looks into it, and
// one left by a Restore that died is cleared away by the next.
const Workshop = ".drover-part"

// RestoreOptions say what Restore may make use of. The zero value copies.
type RestoreOptions struct {
	// Local names the file that holds a blob, where that is on this machine. A
	// file system that can then shares the contents of large files, until one of
	// the two is written to; blobs are never linked to, or a program that writes
	// into its input would change them. May be nil, and may say no.
	Local func(store.Digest) (file string, ok bool)
	// Umask makes files as cp does, with the modes of the tree less this process's
	// umask: for a person's own folder. Else they have the very modes of the tree.
	Umask bool

	Width   int                         // how many files are fetched at once; 0: width
	Finally func(context.Context) error // may refuse what was fetched, before a file appears; may be nil

	// clone shares src's contents with out, and is errNoClone where that cannot
	// be; nil: the file system's own.
	clone func(out *os.File, src string) error
}

// Restore lays t out in dir, which is made if it is not there; files of the
// same name are replaced, others stay. Every file is complete and verified
// before the first one appears, so after an error in fetching dir is as it was.
// A tree that would leave dir, or is otherwise nonsense, is fault.Invalid. Only
// one Restore at a time may work in dir.
func Restore(ctx context.Context, b Blobs, t Tree, dir string) error {
	return RestoreWith(ctx, b, t, dir, RestoreOptions{})
}

// RestoreWith is Restore with options.
func RestoreWith(ctx context.Context, b Blobs, t Tree, dir string, opt RestoreOptions) error {
	if err := t.Check(); err != nil {
		return fmt.Errorf("restore folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("restore folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("restore folder: %w", err)
	}
	defer root.Close()
	if opt.clone == nil {
		opt.clone = clone
	}
	r := &restorer{blobs: b, tree: t, root: root, opt: opt}
	r.copies.Store(opt.Local == nil)
	if err := r.restoreAll(ctx); err != nil {
		return fmt.Errorf("restore %s: %w", dir, err)
	}
	return nil
}

type restorer struct {
	blobs  Blobs
	tree   Tree
	root   *os.Root
	opt    RestoreOptions
	copies atomic.Bool // no clone: it has been tried, or there is nothing local
}

// restoreAll makes the files in the workshop, where they are in folders as they
// will be, and moves them from there: what is new in one piece.
func (r *restorer) restoreAll(ctx context.Context) (err error) {
	if err := r.root.RemoveAll(Workshop); err != nil {
		return err
	}
	if err := r.root.Mkdir(Workshop, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.root.RemoveAll(Workshop)) }()
	batches := r.planBatches()
	for _, b := range batches {
		if err := r.root.MkdirAll(path.Join(Workshop, b.folder), 0o755); err != nil {
			return err
		}
	}
	err = eachOf(ctx, cmp.Or(r.opt.Width, width), len(batches), func(ctx context.Context, i int) error { return r.makeBatch(ctx, batches[i]) })
	if err != nil {
		return err
	}
	if r.opt.Finally != nil {
		if err := r.opt.Finally(ctx); err != nil {
			return err
		}
	}
	if err := r.moveIntoPlace("."); err != nil {
		return err
	}
	for _, d := range r.tree.Dirs {
		if err := r.root.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for _, l := range r.tree.Links {
		if err := r.root.MkdirAll(path.Dir(l.Path), 0o755); err != nil {
			return err
		}
		if err := relink(r.root, l); err != nil {
			return err
		}
	}
	return nil
}

// batch is some of the files of one folder, which is opened once for them.
type batch struct {
	folder string
	files  []int
}

// batchFiles is small enough that a folder with all the files keeps every worker
// busy, and large enough that opening the folder does not count.
const batchFiles = 32

func (r *restorer) planBatches() []batch {
	var all []batch
	open := map[string]int{} // folder -> its batch that has room
	for i, f := range r.tree.Files {
		folder := path.Dir(f.Path)
		at, ok := open[folder]
		if !ok || len(all[at].files) == batchFiles {
			at = len(all)
			all = append(all, batch{folder: folder})
			open[folder] = at
		}
		all[at].files = append(all[at].files, i)
	}
	return all
}

func (r *restorer) makeBatch(ctx context.Context, b batch) error {
	folder, err := r.root.OpenRoot(path.Join(Workshop, b.folder))
	if err != nil {
		return err
	}
	defer folder.Close()
	for _, i := range b.files {
		f := r.tree.Files[i]
		if err := r.restoreFile(ctx, f, folder, path.Base(f.Path)); err != nil {
			return fmt.Errorf("%q: %w", f.Path, err)
		}
	}
	return nil
}

// moveIntoPlace gives what is in a folder of the workshop its place: at once where the
// place is free or a file's, else name by name.
func (r *restorer) moveIntoPlace(folder string) error {
	f, err := r.root.Open(path.Join(Workshop, folder))
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	f.Close()
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		there, err := r.root.Stat(name)
		if e.IsDir() && err == nil && there.IsDir() {
			err = r.moveIntoPlace(name)
		} else {
			err = r.root.Rename(path.Join(Workshop, name), name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func relink(root *os.Root, l Link) error {
	fi, err := root.Lstat(l.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case fi.IsDir():
		return fmt.Errorf("%q: a folder stands where a link is to be", l.Path)
	default:
		if err := root.Remove(l.Path); err != nil {
			return err
		}
	}
	return root.Symlink(l.Target, l.Path)
}

// restoreFile writes one file's contents and gives it its mode and time.
func (r *restorer) restoreFile(ctx context.Context, f File, folder *os.Root, name string) error {
	mode := os.FileMode(0o600)
	if r.opt.Umask {
		mode = os.FileMode(f.Mode) // the kernel takes the umask off, and no other call needs to know it
	}
	out, err := folder.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = r.copyContents(ctx, f, out)
	if err == nil && !r.opt.Umask {
		err = out.Chmod(os.FileMode(f.Mode))
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if f.Time == 0 {
		return nil
	}
	when := time.Unix(0, f.Time)
	return folder.Chtimes(name, when, when)
}

// cloneFrom is the size from which a file is worth a clone: below, to copy is as
// quick.
const cloneFrom = 64 << 10

// copyContents gives out the contents of f, which are known to be right when it returns.
func (r *restorer) copyContents(ctx context.Context, f File, out *os.File) error {
	if f.Size < cloneFrom || r.copies.Load() {
		return copyBlob(ctx, r.blobs, f, out)
	}
	local, ok := r.opt.Local(f.SHA256)
	if !ok {
		return copyBlob(ctx, r.blobs, f, out)
	}
	if err := r.opt.clone(out, local); err != nil {
		// The file system cannot, or the store keeps it in another way: what
		// there is to be said of the blob itself, reading it says.
		r.copies.Store(errors.Is(err, errNoClone))
		_, seekErr := out.Seek(0, io.SeekStart)
		if err := errors.Join(out.Truncate(0), seekErr); err != nil {
			return err
		}
		return copyBlob(ctx, r.blobs, f, out)
	}
	d, n, err := hashOnly{}.PutBlob(ctx, out)
	switch {
	case err != nil:
		return err
	case n != f.Size:
		return RefuseArchive("blob %s holds %d bytes, not %d", f.SHA256, n, f.Size)
	case d != f.SHA256:
		return fmt.Errorf("read blob %s: %w", f.SHA256, store.ErrCorrupt)
	}
	return nil
}

var errNoClone = errors.New("the file system shares no contents")

// copyBlob copies f's contents to w: exactly f.Size bytes, or an error. Reading
// on to the end is what lets the blob be verified.
func copyBlob(ctx context.Context, b Blobs, f File, w io.Writer) error {
	blob, err := b.OpenBlob(ctx, f.SHA256)
	if err != nil {
		return err
	}
	defer blob.Close()
	n, err := io.Copy(w, io.LimitReader(blob, f.Size))
	if err != nil {
		return err
	}
	var more [1]byte
	switch _, err := io.ReadFull(blob, more[:]); {
	case n < f.Size && errors.Is(err, io.EOF):
		return RefuseArchive("blob %s holds %d bytes, not %d", f.SHA256, n, f.Size)
	case err == nil:
		return RefuseArchive("blob %s holds more than %d bytes", f.SHA256, f.Size)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}
