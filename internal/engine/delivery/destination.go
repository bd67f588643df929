// Package delivery brings what jobs have made into folders of the user's: the outputs of a run,
// those of a map's items, and a task's state. It replaces and removes what it has brought itself,
// which a receipt in the folder names, and nothing else. It does not know how outputs are made.
// Proved by the tests of package drover.
package delivery

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// firstNames is how many names Changes has.
const firstNames = 10

// destination is a folder that outputs are brought into. What its receipt names, and
// what has not changed since, is drover's to replace and to remove; anything else is
// the user's.
type destination struct {
	root      *os.Root
	dir       string
	job       string // its path
	short     string // its short id
	overwrite bool

	log      *os.File              // the receipt, which is appended to
	old      int64                 // bytes of it that were there before
	known    map[bundle.Print]bool // what the receipt named before; nil: not read yet
	beside   map[string]bool       // where this command put what could not have its name
	replaced map[string]bool       // paths of earlier lines that do not count any more
	last, at string                // the folder that was asked for last, and where it is
	changes  report.Changes
}

const otherFolder = "Choose another folder with -o."

// openDestination makes the folder if it is not there, marks it as one that is no code, and
// clears away what a command that died was completing. The caller closes.
func openDestination(dir, jobPath, short string, o report.GetOptions) (d *destination, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fault.Wrap(err, fault.Denied, otherFolder, "get outputs: make %s", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(err, fault.Denied, otherFolder, "get outputs: open %s", dir)
	}
	d = &destination{root: root, dir: dir, job: jobPath, short: short, overwrite: o.Overwrite,
		beside: map[string]bool{}, replaced: map[string]bool{}}
	if err := d.openFolder(); err != nil {
		d.closeFolder()
		return nil, fault.Wrap(err, fault.Denied, otherFolder, "get outputs: write into %s", dir)
	}
	return d, nil
}

func (d *destination) openFolder() (err error) {
	if info, err := d.root.Lstat(bundle.Receipt); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", bundle.Receipt)
	}
	if d.log, err = d.root.OpenFile(bundle.Receipt, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return err
	}
	if d.old, err = d.log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	head := bundle.ReceiptHead(d.job)
	if d.old > 0 {
		// The last line may have been cut short by the end of a command.
		last := []byte{0}
		if _, err := d.log.ReadAt(last, d.old-1); err != nil {
			return err
		}
		if head = nil; last[0] != '\n' {
			head = []byte{'\n'}
		}
	}
	if _, err := d.log.Write(head); err != nil {
		return err
	}
	if err := d.root.RemoveAll(bundle.Workshop); err != nil {
		return err
	}
	return d.root.Mkdir(bundle.Workshop, 0o700)
}

func (d *destination) closeFolder() {
	if d.log != nil {
		_ = d.root.RemoveAll(bundle.Workshop)
		d.log.Close()
	}
	d.root.Close()
}

// eachEarlierFile gives what the receipt named before this command.
func (d *destination) eachEarlierFile(use func(b bundle.Brought)) {
	for b := range bundle.ReadReceipt(io.NewSectionReader(d.log, 0, d.old)) {
		use(b)
	}
}

// isBroughtByUs says whether b, as it stands in the folder, was brought by drover.
func (d *destination) isBroughtByUs(b bundle.Brought) bool {
	if d.known == nil {
		d.known = map[bundle.Print]bool{}
		d.eachEarlierFile(func(b bundle.Brought) {
			b.For = ""
			d.known[b.Print()] = true
		})
	}
	b.For = ""
	return d.known[b.Print()]
}

// standing is what is at a path of the folder.
type standing int

const (
	nothing    standing = iota
	theSame             // a file or link with the content that is brought
	drovers             // something that drover brought, and that has not changed since
	theUsers            // a file, a link or anything else that is not drover's
	usersFiles          // a folder that is not empty
)

// compareWithThere says what is at a path where b is to be.
func (d *destination) compareWithThere(ctx context.Context, at string, b bundle.Brought) (standing, error) {
	info, err := d.root.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing, nil
	case err != nil:
		return 0, notHere(err, at)
	case info.IsDir():
		if d.root.Remove(at) == nil { // it was empty
			return nothing, nil
		}
		return usersFiles, nil
	}
	is, err := d.readThere(ctx, at, info)
	switch {
	case err != nil:
		return 0, err
	case is.SHA256 == b.SHA256 && is.Link == b.Link && is.Size == b.Size && (is.SHA256 != "" || is.Link != ""):
		return theSame, nil
	case d.isBroughtByUs(is):
		return drovers, nil
	}
	return theUsers, nil
}

// readThere says what a file, or a link, holds. What is neither, or cannot be read, holds
// nothing that drover brought.
func (d *destination) readThere(ctx context.Context, at string, info fs.FileInfo) (bundle.Brought, error) {
	is := bundle.Brought{Path: at}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		is.Link, _ = d.root.Readlink(at)
		return is, nil
	case !info.Mode().IsRegular():
		return is, nil
	}
	f, err := d.root.Open(at)
	if err != nil {
		return is, nil
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, withContext{ctx, f})
	if ctx.Err() != nil {
		return is, context.Cause(ctx)
	}
	if err == nil {
		is.Size, is.SHA256 = n, store.Digest(hex.EncodeToString(sum.Sum(nil)))
	}
	return is, nil
}

// withContext reads until ctx ends.
type withContext struct {
	ctx context.Context
	io.Reader
}

func (r withContext) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(b)
}

// besideName is the n-th name that a file may have: its own, then model.ab3f.bin,
// model.ab3f-2.bin and so on.
func (d *destination) besideName(name string, n int) string {
	if n == 0 {
		return name
	}
	with := "." + d.short
	if n > 1 {
		with += "-" + strconv.Itoa(n)
	}
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	if stem == "" { // .bashrc
		stem, ext = ext, ""
	}
	const maxName = 255
	for len(stem) > 0 && len(stem)+len(with)+len(ext) > maxName {
		stem = stem[:len(stem)-1]
	}
	if len(with)+len(stem)+len(ext) > maxName {
		ext = ""
	}
	return stem + with + ext
}

// mostBeside ends a search for a free name.
const mostBeside = 10_000

// ensureFolder makes the folder for a file, and says where it is: where something that is not a
// folder has its name, it is beside that. Every folder above the file is a real one.
func (d *destination) ensureFolder(ctx context.Context, name string) (at string, err error) {
	switch name {
	case ".":
		return ".", nil
	case d.last:
		return d.at, nil
	}
	if at, err = d.makeFolder(ctx, name); err == nil {
		d.last, d.at = name, at
	}
	return at, err
}

func (d *destination) makeFolder(ctx context.Context, name string) (at string, err error) {
	above, err := d.ensureFolder(ctx, path.Dir(name))
	if err != nil {
		return "", err
	}
	for n := range mostBeside {
		at := path.Join(above, d.besideName(path.Base(name), n))
		info, err := d.root.Lstat(at)
		if err == nil && info.IsDir() {
			return at, nil
		}
		if err == nil {
			is, err := d.readThere(ctx, at, info)
			if err != nil {
				return "", err
			}
			if !d.overwrite && !d.isBroughtByUs(is) {
				continue
			}
			if err := d.root.Remove(at); err != nil {
				return "", notHere(err, at)
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", notHere(err, at)
		}
		if err := d.root.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", notHere(err, at)
		}
		return at, nil
	}
	return "", fault.New(fault.Denied, otherFolder, "write %s: there are %d others beside it", name, mostBeside)
}

// findPlaceFor says where b is to be, and what is there now: theSame, or what may be replaced.
// named says of a path below the folder that another file of the result has it; may be nil.
func (d *destination) findPlaceFor(ctx context.Context, b bundle.Brought, named func(string) bool) (at string, is standing, err error) {
	dir, err := d.ensureFolder(ctx, path.Dir(b.Path))
	if err != nil {
		return "", 0, err
	}
	for n := range mostBeside {
		at := path.Join(dir, d.besideName(path.Base(b.Path), n))
		if n > 0 && named != nil && named(at) {
			continue
		}
		is, err := d.compareWithThere(ctx, at, b)
		if err != nil {
			return "", 0, err
		}
		if is < theUsers || is == theUsers && d.overwrite {
			return at, is, nil
		}
	}
	return "", 0, fault.New(fault.Denied, otherFolder, "write %s: there are %d others beside it", b.Path, mostBeside)
}

// recordBrought writes down that b comes to a path, before it does.
func (d *destination) recordBrought(b bundle.Brought, at string) error {
	if at != b.Path {
		b.For, b.Path = b.Path, at
		d.noteBeside(b.For, at)
	}
	if _, err := d.log.Write(b.Line()); err != nil {
		return notHere(err, bundle.Receipt)
	}
	return nil
}

// noteBeside says that a file is not where it should be.
func (d *destination) noteBeside(name, at string) {
	d.beside[at] = true
	if d.changes.Kept++; d.changes.Kept <= firstNames {
		d.changes.Beside = append(d.changes.Beside, report.Beside{Name: name, Path: at})
	}
}

// putFile gives a file or link, which was completed in the workshop, its place.
func (d *destination) putFile(ctx context.Context, staged string, b bundle.Brought, named func(string) bool) error {
	at, is, err := d.findPlaceFor(ctx, b, named)
	if err != nil {
		return err
	}
	if b.For = ""; is == theSame && !d.isBroughtByUs(bundle.Brought{Path: at, Size: b.Size, SHA256: b.SHA256, Link: b.Link}) {
		return d.root.Remove(staged) // the user has it already, and it stays the user's
	}
	if err := d.recordBrought(b, at); err != nil {
		return err
	}
	if err := d.root.Rename(staged, at); err != nil {
		return notHere(err, at)
	}
	return nil
}

// removeFile takes away what an earlier command brought, if it has not changed since, and
// the folders that this leaves empty.
func (d *destination) removeFile(ctx context.Context, b bundle.Brought) error {
	info, err := d.root.Lstat(b.Path)
	if err != nil || info.IsDir() || !d.hasNoLinks(path.Dir(b.Path)) {
		return nil
	}
	is, err := d.readThere(ctx, b.Path, info)
	if err != nil || !d.isBroughtByUs(is) {
		return err
	}
	if err := d.root.Remove(b.Path); err != nil {
		return nil // the file stays, which does no harm
	}
	d.last = ""
	if d.changes.Removed++; d.changes.Removed <= firstNames {
		d.changes.Gone = append(d.changes.Gone, b.Path)
	}
	for dir := path.Dir(b.Path); dir != "." && (b.State || path.Dir(dir) != "."); dir = path.Dir(dir) {
		if d.root.Remove(dir) != nil {
			break
		}
	}
	return nil
}

// hasNoLinks says that a folder is reached through no link.
func (d *destination) hasNoLinks(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if info, err := d.root.Lstat(dir); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// rewriteRecord writes the receipt anew: the earlier lines that still count, and those of this
// command.
func (d *destination) rewriteRecord(counts func(b bundle.Brought) bool) (err error) {
	part := path.Join(bundle.Workshop, "receipt-"+rand.Text())
	out, err := d.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := errWriter{w: out}
	w.writeUnlessFailed(bundle.ReceiptHead(d.job))
	d.eachEarlierFile(func(b bundle.Brought) {
		if counts(b) && !d.replaced[b.Path] {
			w.writeUnlessFailed(b.Line())
		}
	})
	size, err := d.log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	for b := range bundle.ReadReceipt(io.NewSectionReader(d.log, d.old, size-d.old)) {
		w.writeUnlessFailed(b.Line())
	}
	if w.err != nil {
		return w.err
	}
	return d.root.Rename(part, bundle.Receipt)
}

// errWriter keeps the first error.
type errWriter struct {
	w   io.Writer
	err error
}

func (w *errWriter) writeUnlessFailed(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

// stagingFolder is where a part is completed, as a path for other packages.
func (d *destination) stagingFolder(part string) string {
	return filepath.Join(d.dir, bundle.Workshop, part)
}

func notHere(err error, name string) error {
	return fault.Wrap(err, fault.Denied, otherFolder, "write %s", name)
}
