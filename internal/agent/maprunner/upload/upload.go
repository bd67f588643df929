// Package upload stores the outputs that tries of items have declared and left, and verifies
// what is stored. A Queue hands tries to uploaders, a Deadline ends the storing some time
// after the job was stopped.
//
// It refuses to know how tries run and what their results are for. Proved by the tests of
// package maprunner: outputs of all kinds, stores that lose answers, jobs that are stopped.
package upload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Outputs is what one try has left in its folder.
type Outputs struct {
	Item  int
	Try   string   // its name
	Dir   string   // the folder
	Names []string // as declared, below Dir; a folder's ends with a slash
	Bytes int64    // their Size
}

// Uploader stores outputs of one job. Its methods may be called from many goroutines.
type Uploader struct {
	Store *store.Store
	Job   job.Path
	// MaxStored is the most bytes that one try may leave; 0 is no limit.
	MaxStored int64
	Disk      job.Bytes // --disk; 0: MaxStored is the file system's size
}

// Size is about how much a try has left to be stored: while it waits it takes disk,
// and too much of it has no more begin.
func (o Outputs) Size() (bytes int64) {
	const most = 10_000 // files that are looked at: the loop waits for it
	files := 0
	for _, name := range o.Names {
		// What cannot be read is a uploader's to tell.
		_ = filepath.WalkDir(filepath.Join(o.Dir, filepath.FromSlash(name)), func(_ string, d fs.DirEntry, err error) error {
			if files++; err != nil || files > most {
				return fs.SkipAll
			}
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
				bytes += info.Size()
			}
			return nil
		})
	}
	return bytes
}

// maxOutputs is how many files one try may leave in all, and maxNames how many bytes
// their names may have together. Each is named in its result, with 100 bytes more, in
// one entry of the chunk's log: some such results, though each byte of their names is
// escaped as six, must stay under store.MaxWhole, or no reader could read them. And weigh,
// which the loop waits for, looks at no more files.
const (
	maxOutputs = 10_000
	maxNames   = 1 << 20
)

// ExceedsLimit says that a try has left more bytes than may be stored, holes and all.
func (u *Uploader) ExceedsLimit(o Outputs) (why string) {
	if u.MaxStored <= 0 || o.Bytes <= u.MaxStored {
		return ""
	}
	limit := "the size of this file system; --disk allows more"
	if u.Disk > 0 {
		limit = "--disk"
	}
	return fmt.Sprintf("its outputs are %s, above %s: %s", job.Bytes(o.Bytes).Words(), job.Bytes(u.MaxStored).Words(), limit)
}

// Upload stores what a try has left. why says what is missing.
func (u *Uploader) Upload(ctx context.Context, o Outputs) (all []protocol.Output, why string, err error) {
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, "its folder for outputs is gone", nil
	}
	defer root.Close()
	for _, name := range o.Names {
		var more []protocol.Output
		if folder, is := strings.CutSuffix(name, "/"); is {
			more, why, err = u.storeFolder(ctx, root, o, folder)
		} else {
			var one protocol.Output
			one, why, err = u.storeFile(ctx, root, o, name, false)
			more = []protocol.Output{one}
		}
		if why != "" || err != nil {
			return nil, why, err
		}
		all = append(all, more...)
	}
	names := 0
	for _, one := range all {
		names += len(one.Name)
	}
	if len(all) > maxOutputs || names > maxNames {
		return nil, manyFiles, nil
	}
	return all, "", nil
}

var manyFiles = fmt.Sprintf("its outputs are more than %d files, or their names more than 1 MB: have it put them into an archive", maxOutputs)

// storeFolder stores all files in one. Their number is known before one is stored.
func (u *Uploader) storeFolder(ctx context.Context, root *os.Root, o Outputs, name string) (all []protocol.Output, why string, err error) {
	if info, err := root.Lstat(name); err != nil || !info.IsDir() {
		return nil, fmt.Sprintf("no output folder %s", name), nil
	}
	if why := u.countFiles(ctx, root, name); why != "" {
		return nil, why, context.Cause(ctx)
	}
	walk := func(file string, d fs.DirEntry, werr error) error {
		switch {
		case werr != nil:
			why = fmt.Sprintf("output %s cannot be read", file)
		case d.IsDir():
			return nil
		default:
			var one protocol.Output
			one, why, err = u.storeFile(ctx, root, o, file, true)
			all = append(all, one)
		}
		if why != "" || err != nil {
			return fs.SkipAll
		}
		return nil
	}
	if werr := fs.WalkDir(root.FS(), name, walk); werr != nil && why == "" && err == nil {
		why = fmt.Sprintf("output %s cannot be read", name)
	}
	if len(all) == 0 && why == "" && err == nil {
		why = fmt.Sprintf("output %s/ is empty", name)
	}
	return all, why, err
}

// countFiles says that a folder of outputs holds too many files, or one with a path
// that is too long to be brought home. What cannot be read is for storeFolder to tell.
func (u *Uploader) countFiles(ctx context.Context, root *os.Root, name string) (why string) {
	files, names := 0, 0
	_ = fs.WalkDir(root.FS(), name, func(file string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return fs.SkipAll
		}
		files++
		if !d.IsDir() {
			names += len(file)
		}
		if files > 2*maxOutputs || names > maxNames { // folders count as files here
			why = manyFiles
		}
		if err := tree.CheckPath(file); err != nil {
			why = "output " + err.Error()
		}
		if why != "" {
			return fs.SkipAll
		}
		return nil
	})
	return why
}

// storeFile stores one, which must be regular and within the try's folder, wherever
// links lead.
func (u *Uploader) storeFile(ctx context.Context, root *os.Root, o Outputs, name string, mayBeEmpty bool) (one protocol.Output, why string, err error) {
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one, "no output " + name, nil
	case err != nil:
		return one, fmt.Sprintf("output %s cannot be read, or leads elsewhere", name), nil
	case !info.Mode().IsRegular():
		return one, fmt.Sprintf("output %s is not a regular file", name), nil
	case info.Size() == 0 && !mayBeEmpty:
		return one, fmt.Sprintf("output %s is empty", name), nil
	}
	f, err := open(root, name, info.Mode())
	if err != nil {
		return one, fmt.Sprintf("output %s cannot be read: %v", name, err), nil
	}
	defer f.Close()
	one = protocol.Output{Name: name, Size: info.Size()}
	if mode := uint32(info.Mode().Perm()); mode != 0o644 {
		one.Mode = mode
	}
	key := protocol.OutKey(u.Job, o.Item, o.Try, name)
	var n int64
	// Only what it had: one that grows as fast as it is read has no end.
	one.SHA256, n, err = u.storeContent(ctx, key, io.NewSectionReader(f, 0, one.Size))
	if ctx.Err() == nil && sizeChanged(f, one.Size) || err == nil && n != one.Size {
		return one, fmt.Sprintf("output %s changed while it was stored", name), nil
	}
	return one, "", err
}

// sizeChanged reports whether an open file is not as large as it was. A bucket may
// refuse one that became shorter, which is the item's fault and not the store's.
func sizeChanged(f *os.File, size int64) bool {
	info, err := f.Stat()
	return err == nil && info.Size() != size
}

// open opens a file also where a plain user's program has made it unreadable.
func open(root *os.Root, name string, mode fs.FileMode) (*os.File, error) {
	const flags = os.O_RDONLY | syscall.O_NONBLOCK // nothing may be waited for here
	f, err := root.OpenFile(name, flags, 0)
	if errors.Is(err, fs.ErrPermission) && root.Chmod(name, mode.Perm()|0o400) == nil {
		f, err = root.OpenFile(name, flags, 0)
	}
	return f, err
}

// storeContent stores a file, and gives the digest and the size of what is stored.
func (u *Uploader) storeContent(ctx context.Context, key string, f io.ReadSeeker) (digest string, n int64, err error) {
	body := &summed{from: f, hash: sha256.New()}
	if err := u.Store.CreateFile(ctx, key, body); err != nil {
		return "", 0, err
	}
	if body.ended { // all of it went there, and the store has it whole
		return hex.EncodeToString(body.hash.Sum(nil)), body.n, nil
	}
	// The store had it by an earlier request that was not answered.
	r, err := u.Store.Open(ctx, key, 0, -1)
	if err != nil {
		return "", 0, err
	}
	defer r.Close()
	sum := sha256.New()
	if n, err = io.Copy(sum, r); err != nil {
		return "", 0, fmt.Errorf("read %s: %w", key, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), n, nil
}

// summed is a file that is hashed while it is read, from its beginning to its end.
type summed struct {
	from  io.ReadSeeker
	hash  hash.Hash
	n     int64
	mid   bool // it was read from its middle, which says nothing of the whole
	ended bool
}

var _ io.ReadSeeker = (*summed)(nil)

func (s *summed) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	s.hash.Write(b[:n])
	s.n += int64(n)
	s.ended = err == io.EOF && !s.mid
	return n, err
}

func (s *summed) Seek(offset int64, whence int) (int64, error) {
	at, err := s.from.Seek(offset, whence)
	s.hash.Reset()
	s.n, s.mid, s.ended = 0, at != 0, false
	return at, err
}
