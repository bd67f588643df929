package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// patience is how often Create begins again because its folder was removed, as
// empty, between its making and its use.
const patience = 100

// Create implements store.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	doing := "create " + key + " in " + b.root
	return b.retryVanished(ctx, doing, key, func() error {
		final := b.objectPath(key)
		if err := b.syncFailure(filepath.Dir(final)); err != nil {
			return b.wrapFileError(doing, err)
		}
		temp, err := b.writeTemporary(ctx, doing, body, true)
		if err != nil {
			return err
		}
		return b.publishFile(doing, temp, final)
	})
}

// publishFile gives a synced temporary file its final name, durably. The temporary
// name goes when the fate of the final one is certain, and not before: as long as
// there are two, readers know that they must sync.
func (b *Bucket) publishFile(doing, temp, final string) error {
	err := b.withFolder(final, func() error { return b.fs.Link(temp, final) })
	if err != nil {
		// NFS may have applied the link and lost the answer; asked again, it finds
		// the name there.
		ours, e := b.isSameFile(temp, final)
		exists := errors.Is(err, fs.ErrExist)
		switch {
		case ours:
			err = nil
		case exists && e != nil:
			err = e
		case exists:
			b.fs.Remove(temp, false)
			return b.existsDurably(doing, final)
		}
	}
	if err != nil {
		err = b.wrapNameError(doing, err)
		if !errors.Is(err, store.ErrUnclear) {
			b.fs.Remove(temp, false)
		}
		return err
	}
	if err := b.syncAllNames(filepath.Dir(final)); err != nil {
		if absent(err) {
			err = bare(err) // another process deleted it, with its folder
		} else {
			err = b.wrapFileError(doing, err)
		}
		return fmt.Errorf("%w: %w", err, store.ErrUnclear)
	}
	b.fs.Remove(temp, false)
	return nil
}

// isSameFile says whether two names are one file.
func (b *Bucket) isSameFile(temp, final string) (bool, error) {
	t, err := b.statObject(temp)
	if err != nil {
		return false, err
	}
	f, err := b.statObject(final)
	switch {
	case err != nil:
		return false, err
	case f.Dir:
		return false, errIsFolder
	case !f.File:
		return false, errNotFile
	}
	return t.Inode == f.Inode || t.Links > 1, nil
}

// existsDurably answers ErrExists once the object that exists is durable.
func (b *Bucket) existsDurably(doing, final string) error {
	f, err := b.statObject(final)
	if err == nil && !f.File {
		err = errNotFile
	}
	if err == nil && f.Links > 1 {
		err = b.syncAllNames(filepath.Dir(final))
	}
	if err != nil {
		return b.notWritten(doing, err)
	}
	return fmt.Errorf("%s: %w", doing, store.ErrExists)
}

// Put implements store.Bucket: nothing is synced.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	doing := "put " + key + " in " + b.root
	return b.retryVanished(ctx, doing, key, func() error {
		temp, err := b.writeTemporary(ctx, doing, body, false)
		if err != nil {
			return err
		}
		final := b.objectPath(key)
		err = b.withFolder(final, func() error { return b.fs.Rename(temp, final) })
		if err == nil {
			return nil
		}
		b.fs.Remove(temp, false)
		if info, e := b.statObject(final); e == nil && info.Dir {
			err = errIsFolder
		}
		return b.wrapNameError(doing, err)
	})
}

// retryVanished does f, and once more whenever something vanished under it.
func (b *Bucket) retryVanished(ctx context.Context, doing, key string, f func() error) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	for range patience {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := f(); !errors.Is(err, errVanished) {
			return err
		}
	}
	if _, err := b.statFolder(b.root); errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Missing, "Name the right folder with `--store`.", "%s: the store's folder is gone", doing)
	}
	return fmt.Errorf("%s: its folder vanished %d times: %w", doing, patience, store.ErrBusy)
}

// withFolder does f, which needs the folder of final; a missing folder is made.
// Nothing is synced here: settle does, from the root down.
func (b *Bucket) withFolder(final string, f func() error) error {
	err := f()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := b.makeFolder(filepath.Dir(final)); err != nil {
		return err
	}
	return f()
}

func (b *Bucket) makeFolder(dir string) error {
	if dir == b.root {
		// It was there when the store was opened: it is gone, or not mounted, and a
		// new one would hold nothing.
		return fs.ErrNotExist
	}
	err := b.fs.Mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := b.makeFolder(filepath.Dir(dir)); err != nil {
			return err
		}
		err = b.fs.Mkdir(dir)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// writeTemporary makes a temporary file of body, synced if it is to be durable. After an
// error there is none.
func (b *Bucket) writeTemporary(ctx context.Context, doing string, body io.ReadSeeker, durable bool) (temp string, err error) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	temp = filepath.Join(b.root, ".tmp", b.session+"-"+strconv.FormatUint(b.serial.Add(1), 10))
	var f File
	err = b.withFolder(temp, func() (err error) {
		f, err = b.fs.Open(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		return err
	})
	if err != nil {
		return "", b.notWritten(doing, err)
	}
	readErr, err := copyInto(ctx, f, body)
	if readErr == nil && err == nil && durable {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e // NFS says here that the disk is full
	}
	if readErr == nil && err == nil {
		return temp, nil
	}
	b.fs.Remove(temp, false)
	if readErr != nil {
		return "", fmt.Errorf("%s: %w", doing, readErr) // no fault of the store's
	}
	return "", b.notWritten(doing, err)
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func copyInto(ctx context.Context, f File, body io.Reader) (readErr, writeErr error) {
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	for {
		if err := context.Cause(ctx); err != nil {
			return err, nil
		}
		n, err := body.Read(buffer[:])
		if n > 0 {
			if _, err := f.Write(buffer[:n]); err != nil {
				return nil, err
			}
		}
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
	}
}
