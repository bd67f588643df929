package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"time"
)

// workshop is the folder, inside the one that is restored, where files are
// completed; it must be on the same file system. Save never looks into it, and
// one left by a Restore that died is cleared away by the next.
const workshop = ".drover-part"

// Restore lays t out in dir, which is made if it is not there; files of the
// same name are replaced, others stay. Every file is complete and verified
// before the first one appears, so after an error in fetching dir is as it was.
// A tree that would leave dir, or is otherwise nonsense, is fault.Invalid. Only
// one Restore at a time may work in dir.
func Restore(ctx context.Context, b Blobs, t Tree, dir string) error {
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
	if err := restore(ctx, b, t, root); err != nil {
		return fmt.Errorf("restore %s: %w", dir, err)
	}
	return nil
}

func restore(ctx context.Context, b Blobs, t Tree, root *os.Root) (err error) {
	if err := root.RemoveAll(workshop); err != nil {
		return err
	}
	if err := root.Mkdir(workshop, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.RemoveAll(workshop)) }()
	err = each(ctx, len(t.Files), func(ctx context.Context, i int) error {
		if err := fetch(ctx, b, t.Files[i], root, part(i)); err != nil {
			return fmt.Errorf("%q: %w", t.Files[i].Path, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, f := range t.Files {
		if err := place(root, f.Path, func() error { return root.Rename(part(i), f.Path) }); err != nil {
			return err
		}
	}
	for _, d := range t.Dirs {
		if err := root.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for _, l := range t.Links {
		if err := place(root, l.Path, func() error { return relink(root, l) }); err != nil {
			return err
		}
	}
	return nil
}

func part(i int) string { return path.Join(workshop, strconv.Itoa(i)) }

// place makes the folder around name first.
func place(root *os.Root, name string, put func() error) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return put()
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

// fetch writes one file's contents to name and gives it its mode and time.
func fetch(ctx context.Context, b Blobs, f File, root *os.Root, name string) error {
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = copyBlob(ctx, b, f, out)
	if err == nil {
		err = out.Chmod(os.FileMode(f.Mode))
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if f.Time == 0 {
		return nil
	}
	when := time.Unix(0, f.Time)
	return root.Chtimes(name, when, when)
}

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
		return refuse("blob %s holds %d bytes, not %d", f.SHA256, n, f.Size)
	case err == nil:
		return refuse("blob %s holds more than %d bytes", f.SHA256, f.Size)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}
