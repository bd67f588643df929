// Package dir keeps objects as files in a folder: a laptop's disk, or a network folder shared
// by many machines. It survives a power cut at any moment, a full disk, and NFS, which repeats
// requests and answers from old caches.
//
// An object is written under .tmp and synced, linked to its final name, and its folder is
// synced; only then is the first name removed. So the final name of a file with two names may
// not be durable yet. A reader that finds such a file syncs its folder before it uses the
// content: what a reader was shown is never lost.
//
// It refuses to know what the objects are. storetest proves it, and powercut_test.go by crash
// images taken after every operation.
package dir

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drover-run/drover/store"
)

// staleAfter is the age at which a temporary file counts as left over. It must be longer than
// any writer pauses between two writes to one file: a writer that loses its file begins again.
const staleAfter = 24 * time.Hour

// Bucket is a folder of objects. Any number of Buckets, in any number of processes and
// machines, may share one folder.
type Bucket struct {
	root    string
	fs      FS
	network bool   // the file system may answer "absent" from an old cache
	session string // unique to this Bucket: its temporary names begin with it
	serial  atomic.Uint64
	folders folders
}

var _ store.Bucket = (*Bucket)(nil)

// Open opens the store at path, an absolute or relative folder. It makes the folder if it is
// absent, and removes temporary files that writers left in it more than a day ago. A folder
// that may only be read opens too; writing to it is then refused as fault.Denied. fsys is OS,
// except in tests.
func Open(path string, fsys FS) (*Bucket, error) {
	root, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("open store %s: %w", root, err)
	}
	b := &Bucket{root: root, fs: fsys, session: hex.EncodeToString(id[:])}
	if err := b.ensureRoot(); err != nil {
		return nil, b.wrapFileError("open store "+root, err)
	}
	if b.network, err = fsys.Network(root); err != nil {
		return nil, b.wrapFileError("open store "+root, err)
	}
	if own, ok := fsys.(osFS); ok {
		own.root = root
		b.fs = own
	}
	b.sweepTemporary()
	return b, nil
}

// Shared says whether the folder is on a network file system: other machines may work in it,
// and each look at it is a request to its server.
func (b *Bucket) Shared() bool { return b.network }

// ensureRoot makes sure that root is a folder and that its own name is durable.
func (b *Bucket) ensureRoot() error {
	info, err := b.statFolder(b.root)
	if errors.Is(err, fs.ErrNotExist) {
		if err = b.mkdirDurable(b.root); err == nil {
			info, err = b.statFolder(b.root)
		}
	}
	if errors.Is(err, syscall.ENOTDIR) || err == nil && !info.Dir {
		return errNotFolder
	}
	return err
}

// mkdirDurable makes dir and what is missing above it, each durable before
// anything is made in it.
func (b *Bucket) mkdirDurable(dir string) error {
	parent := filepath.Dir(dir)
	err := b.fs.Mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := b.mkdirDurable(parent); err != nil {
			return err
		}
		err = b.fs.Mkdir(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return b.syncNames(parent)
}

// String is the folder's absolute path.
func (b *Bucket) String() string { return b.root }

// statFolder is of the root or a folder above it, which may be reached by a symbolic link.
func (b *Bucket) statFolder(name string) (Info, error) { return b.statWithFlags(name, openFolder) }

// statObject is of what a key or a temporary name names.
func (b *Bucket) statObject(name string) (Info, error) { return b.statWithFlags(name, openObject) }

func (b *Bucket) statWithFlags(name string, flag int) (Info, error) {
	f, err := b.fs.Open(name, flag)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	return f.Stat()
}

// openFolder opens a folder, and does not wait where a pipe has its name.
const openFolder = os.O_RDONLY | syscall.O_NONBLOCK

// openObject opens what a key names. Others may write in the folder too: a symbolic link
// could lead to any file or device of this machine, and opening a pipe could wait for ever.
const openObject = os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// Get implements store.Bucket. A key that names a link, a pipe, a socket or a device is
// store.ErrMalformed.
func (b *Bucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	doing := "get " + key + " from " + b.root
	final := b.objectPath(key)
	f, err := b.fs.Open(final, openObject)
	if b.network && errors.Is(err, fs.ErrNotExist) {
		switch e := b.refreshNames(filepath.Dir(final)); {
		case e == nil:
			f, err = b.fs.Open(final, openObject)
		case errors.Is(e, fs.ErrPermission) || errors.Is(e, syscall.EROFS):
			// A process without the right to write appends nothing that "absent" could mislead.
		default:
			err = e
		}
	}
	if err != nil {
		return nil, b.wrapFileError(doing, err)
	}
	info, err := f.Stat()
	switch {
	case err == nil && info.Dir:
		err = fs.ErrNotExist
	case err == nil && !info.File:
		err = errNotFile
	}
	if err == nil && info.Links > 1 {
		err = b.syncAllNames(filepath.Dir(final))
	}
	if err != nil {
		f.Close()
		return nil, b.wrapFileError(doing, err)
	}
	if n < 0 || n > math.MaxInt64-off {
		n = math.MaxInt64 - off
	}
	return &object{SectionReader: io.NewSectionReader(f, off, n), b: b, file: f, doing: doing}, nil
}

// object is an open object. NFS gives ESTALE when a Put has removed the file while it is read;
// object tells that from a broken disk.
type object struct {
	*io.SectionReader
	b     *Bucket
	file  File
	doing string
}

func (o *object) Read(p []byte) (int, error) {
	n, err := o.SectionReader.Read(p)
	if err != nil && err != io.EOF {
		err = o.b.wrapFileError(o.doing, err)
	}
	return n, err
}

func (o *object) Close() error { return o.file.Close() }

// Delete implements store.Bucket. It removes folders that it leaves empty.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	final := b.objectPath(key)
	err := b.fs.Remove(final, false)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil // below an object there is nothing
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if info, e := b.statObject(final); e == nil && info.Dir {
			return nil // a folder of objects is no object
		}
		return b.wrapFileError("delete "+key+" in "+b.root, err)
	}
	for dir := filepath.Dir(final); dir != b.root && b.fs.Remove(dir, true) == nil; {
		dir = filepath.Dir(dir)
	}
	return nil
}
