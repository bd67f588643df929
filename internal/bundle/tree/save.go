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
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/store"
)

// SaveOptions say what Save may take for granted. The zero value is the careful
// one.
type SaveOptions struct {
	// Settled: whatever wrote the folder has ended, so nothing is waited for.
	Settled bool
	// Skip leaves out a file, or a folder with all in it, by its
	// slash-separated path. May be nil.
	Skip func(path string) bool
	// SkipFile leaves out what is no folder, by its path and what was seen of it. May
	// be nil.
	SkipFile func(path string, info fs.FileInfo) bool
	// As is the folder's name for the program that writes it, where that
	// differs from Save's: absolute links into it are kept as relative ones.
	As string
	// Cache remembers what was read and sent before. May be nil.
	Cache *Cache
	// MaxBytes is the most that the files may hold together, with their holes; 0
	// is no limit. More is ErrLimit, before a file is read.
	MaxBytes int64
	// Last, if it is not nil, are the versions of files that were saved before, by
	// path. A file that changes while it is saved, is held open for writing or may not
	// be read is then listed as Last has it, or left out, and the others are saved: for
	// a folder in which some file, such as a log, is open all the time.
	Last map[string]File

	maxEntries int // tests; 0: MaxEntries
}

// openAtOnce bounds the files open together. Of a folder with more to read,
// nothing may change from the first look to the last, or it is all looked at
// again; up to this many it may go on changing as soon as they are open.
// Must stay well under the 1,024 descriptors that many systems allow.
const openAtOnce = 256

// Save stores the contents of dir's files and lists them. It never offers a
// torn set: all files are opened, then their names are looked up again, so at
// one moment the folder was exactly what is saved; contents are read from the
// open files, so a later replacement by rename does no harm; and a file that is
// held open for writing (Linux), was modified a moment ago (elsewhere) or
// changes while it is read makes Save begin again. After a few times of that
// the error is ErrChanging, and the generation before remains the one to offer.
//
// Links that stay inside are kept as links. Other links, sockets, fifos and
// devices are left out with a note. Names that look temporary are kept: they
// are the user's. A file that cannot be read is an error. What no Restore could
// lay out, or is larger than opt.MaxBytes, is ErrLimit before a file is read.
//
// Of a file that opt.Cache knows, b is asked whether it holds the contents, once
// in the life of the Cache, and the file is opened only if b does not.
func Save(ctx context.Context, b Blobs, dir string, opt SaveOptions) (Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Tree{}, fmt.Errorf("save folder: %w", err)
	}
	defer root.Close()
	s := &saver{root: root, dir: dir, blobs: b, opt: opt, cache: opt.Cache}
	_, s.dry = b.(hashOnly)
	if s.cache == nil {
		s.cache = new(Cache) // a second try need not send anything twice
	}
	// Of a folder that is settled there hardly is a second try, and what would be
	// remembered for it takes memory for each file.
	s.remembers = opt.Cache != nil || !opt.Settled
	for try := range Attempts {
		// The pauses double up to 0.2 s: a writer of small files is done by
		// then, and for a writer of large ones the next generation will come.
		if try > 0 {
			if err := store.System.Sleep(ctx, 25*time.Millisecond<<(try-1)); err != nil {
				return Tree{}, fmt.Errorf("save %s: %w", dir, err)
			}
		}
		var t Tree
		if t, err = s.saveOnce(ctx); err == nil {
			return t, nil
		}
		if !errors.Is(err, ErrChanging) {
			break
		}
	}
	return Tree{}, fmt.Errorf("save %s: %w", dir, err)
}

func changing(name string) error { return fmt.Errorf("%q: %w", name, ErrChanging) }

type saver struct {
	root  *os.Root
	dir   string
	blobs Blobs
	opt   SaveOptions
	cache *Cache
	dry   bool // nothing is stored
	// remembers: what is read is noted in cache.
	remembers bool
}

// saveOnce is one look at the whole folder.
func (s *saver) saveOnce(ctx context.Context) (Tree, error) {
	seen, err := s.scanFolders(ctx)
	if err != nil {
		return Tree{}, err
	}
	if err := seen.checkBytes(s.opt.MaxBytes); err != nil {
		return Tree{}, err
	}
	tree := Tree{Dirs: seen.dirs, Links: seen.links, Notes: seen.notes.Lines(), Files: make([]File, len(seen.files))}
	var todo, ask []int
	for i, f := range seen.files {
		tree.Files[i] = File{Path: f.path, Size: f.stamp.size, Mode: f.mode, Time: f.stamp.mtime}
		known, ok := s.cache.findCached(f)
		if !ok {
			todo = append(todo, i)
			continue
		}
		tree.Files[i].SHA256 = known.digest
		if !s.dry && !known.sent {
			ask = append(ask, i)
		}
	}
	unsent, err := s.findUnsent(ctx, tree.Files, ask)
	if err != nil {
		return Tree{}, err
	}
	todo = append(todo, unsent...)
	for {
		now := todo[:min(openAtOnce, len(todo))]
		todo = todo[len(now):]
		if err := s.saveGroup(ctx, seen, now, len(todo) == 0, tree.Files); err != nil {
			return Tree{}, err
		}
		if len(todo) == 0 {
			break
		}
	}
	if s.remembers {
		s.cache.dropMissing(seen.files)
	}
	s.reuseLastVersions(&tree)
	tree.Sort()
	return tree, nil
}

// mayBePartial says whether a file that does not hold still holds up the others.
func (s *saver) mayBePartial() bool { return s.opt.Last != nil && !s.opt.Settled }

// isUnsteady says of an error that it concerns one file alone, which is then not read.
func (s *saver) isUnsteady(err error) bool {
	return s.mayBePartial() && (errors.Is(err, ErrChanging) || errors.Is(err, fs.ErrPermission))
}

// reuseLastVersions gives the files that were not read the versions that were saved before, and
// leaves out those that have none or are gone.
func (s *saver) reuseLastVersions(t *Tree) {
	if !s.mayBePartial() {
		return
	}
	files := t.Files[:0]
	for _, f := range t.Files {
		if f.SHA256 == "" {
			f = s.opt.Last[f.Path]
		}
		if f.SHA256 != "" {
			files = append(files, f)
		}
	}
	t.Files = files
}

// findUnsent asks for the contents that are known but were not sent by way of this
// cache, and gives those that are not there.
func (s *saver) findUnsent(ctx context.Context, files []File, ask []int) (gone []int, err error) {
	held := make([]bool, len(ask))
	err = ForEach(ctx, len(ask), func(ctx context.Context, k int) (err error) {
		held[k], err = s.blobs.HasBlob(ctx, files[ask[k]].SHA256)
		return err
	})
	for k, i := range ask {
		if held[k] {
			s.cache.markSent(files[i].Path)
		} else {
			gone = append(gone, i)
		}
	}
	return gone, err
}

// saveGroup opens some of the files that were seen, makes sure of them, and sends
// them; the last group makes sure of the whole folder.
func (s *saver) saveGroup(ctx context.Context, seen *sight, now []int, last bool, out []File) error {
	open := make([]*os.File, 0, len(now))
	defer func() {
		for _, f := range open {
			f.Close()
		}
	}()
	var newest int64
	read := make([]int, 0, len(now))
	for _, i := range now {
		f, err := s.openSeenFile(seen.files[i])
		if s.isUnsteady(err) {
			continue
		}
		if err != nil {
			return err
		}
		open, read = append(open, f), append(read, i)
		newest = max(newest, seen.files[i].stamp.ctime)
	}
	if last && !s.opt.Settled && (len(now) > 0 || !s.mayBePartial()) {
		again, err := s.scanFolders(ctx)
		if err != nil {
			return err
		}
		if name, same := seen.compareWith(again); !same {
			if !s.mayBePartial() {
				return changing(name)
			}
			defer seen.forgetChanged(again, out) // once they were read: it may have been before
		}
	}
	if !s.opt.Settled {
		if err := s.waitForClockTick(ctx, newest); err != nil {
			return err
		}
	}
	return ForEach(ctx, len(read), func(ctx context.Context, k int) error {
		d, n, err := s.sendFile(ctx, seen.files[read[k]], open[k])
		if err == nil {
			out[read[k]].SHA256, out[read[k]].Size = d, n
		}
		if s.isUnsteady(err) {
			err = nil
		}
		return err
	})
}

// forgetChanged takes from out the contents of the files that a later look saw
// otherwise, and the names of those that it did not see.
func (s *sight) forgetChanged(later *sight, out []File) {
	stamps := make(map[string]seenFile, len(later.files))
	for _, f := range later.files {
		stamps[f.path] = f
	}
	for i, f := range s.files {
		is, there := stamps[f.path]
		switch {
		case !there:
			out[i] = File{}
		case is != f:
			out[i].SHA256 = ""
		}
	}
}

// openSeenFile opens the very file that was seen, or says that it is another by now.
func (s *saver) openSeenFile(f seenFile) (*os.File, error) {
	file, err := s.root.OpenFile(f.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE) || errors.Is(err, syscall.ELOOP):
		return nil, changing(f.path)
	case err != nil:
		return nil, err
	}
	fi, err := file.Stat()
	if err == nil && (!fi.Mode().IsRegular() || StampOf(fi) != f.stamp) {
		err = changing(f.path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// waitForClockTick waits until a further write must show in a file's times: the kernel
// gives writes within one tick the same one. A time in the future, by a clock
// that is not ours, is waited for no longer than one from this moment.
func (s *saver) waitForClockTick(ctx context.Context, newest int64) error {
	age := time.Duration(store.System.Now().UnixNano() - newest)
	if age >= quiet {
		return nil
	}
	return store.System.Sleep(ctx, quiet-max(age, 0))
}

// sendFile stores one open file, and is certain that it stood still meanwhile.
func (s *saver) sendFile(ctx context.Context, f seenFile, file *os.File) (store.Digest, int64, error) {
	// Asked after settle: from here on a writer's traces show in the times.
	if !s.opt.Settled && beingWritten(file) {
		return "", 0, changing(f.path)
	}
	// No further than the file reached when it was seen: one that grows as fast as
	// it is read would have no end.
	d, n, err := s.blobs.PutBlob(ctx, io.NewSectionReader(file, 0, f.stamp.size))
	fi, statErr := file.Stat()
	if statErr != nil {
		return "", 0, statErr
	}
	moved := !StampOf(fi).SameContent(f.stamp)
	switch {
	case moved && (err != nil || !s.opt.Settled):
		return "", 0, changing(f.path)
	case err != nil:
		return "", 0, fmt.Errorf("%q: %w", f.path, err)
	case !moved && n != f.stamp.size:
		return "", 0, fmt.Errorf("%q: stored %d bytes of %d", f.path, n, f.stamp.size)
	}
	if now := store.System.Now().UnixNano(); s.remembers && !moved && now-f.stamp.ctime >= int64(quiet) {
		s.cache.putCached(f.path, cached{stamp: f.stamp, digest: d, at: now, sent: !s.dry})
	}
	return d, n, nil
}

// sight is what one look at the folder found.
type sight struct {
	files []seenFile // by path
	dirs  []string
	links []Link
	notes Notes
	left  int // names in notes: they take memory as the others do
}

// noteLeftOut notes that a name is left out.
func (s *sight) noteLeftOut(reason, name string) {
	s.notes.Add(reason, name)
	s.left++
}

type seenFile struct {
	path  string
	mode  uint32
	stamp stamp
}

// countEntries is how many entries the tree will have.
func (s *sight) countEntries() int { return len(s.files) + len(s.links) + len(s.dirs) }

// compareWith tells whether two looks saw the same; otherwise it names a difference.
func (s *sight) compareWith(t *sight) (string, bool) {
	for i := range max(len(s.files), len(t.files)) {
		switch {
		case i >= len(s.files):
			return t.files[i].path, false
		case i >= len(t.files) || s.files[i] != t.files[i]:
			return s.files[i].path, false
		}
	}
	for i := range max(len(s.links), len(t.links)) {
		switch {
		case i >= len(s.links):
			return t.links[i].Path, false
		case i >= len(t.links) || s.links[i] != t.links[i]:
			return s.links[i].Path, false
		}
	}
	return "", true
}

func (s *saver) scanFolders(ctx context.Context) (*sight, error) {
	seen := &sight{notes: Notes{}}
	if err := s.scanOpenFolder(ctx, s.root, ".", seen); err != nil {
		return nil, err
	}
	slices.SortFunc(seen.files, func(a, b seenFile) int { return cmp.Compare(a.path, b.path) })
	slices.SortFunc(seen.links, func(a, b Link) int { return cmp.Compare(a.Path, b.Path) })
	return seen, nil
}

// scanOpenFolder looks at one folder, which is open: a name in it is then one call, not
// one for each folder above.
func (s *saver) scanOpenFolder(ctx context.Context, folder *os.Root, dir string, seen *sight) error {
	f, err := folder.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	before := seen.countEntries()
	for err == nil {
		var names []string
		names, err = f.Readdirnames(namesAtOnce)
		for _, base := range names {
			if err := s.scanUnlessSkipped(ctx, folder, dir, base, seen); err != nil {
				return err
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	if seen.countEntries() == before && dir != "." {
		seen.dirs = append(seen.dirs, dir)
	}
	return nil
}

// namesAtOnce is how many names of a folder are read at a time: their memory
// does not count beside what is kept of each.
const namesAtOnce = 1024

// scanUnlessSkipped looks at one name of a folder, unless it is to be skipped.
func (s *saver) scanUnlessSkipped(ctx context.Context, folder *os.Root, dir, base string, seen *sight) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	name := base
	if dir != "." {
		name = dir + "/" + base
	}
	if name == Workshop || s.opt.Skip != nil && s.opt.Skip(name) {
		return nil
	}
	if err := CheckPath(name); err != nil {
		return err
	}
	if err := s.scanName(ctx, folder, base, name, seen); err != nil {
		return err
	}
	return checkCount(seen.countEntries()+seen.left, cmp.Or(s.opt.maxEntries, MaxEntries))
}

// scanName looks at one name. What vanishes meanwhile was not there.
func (s *saver) scanName(ctx context.Context, folder *os.Root, base, name string, seen *sight) error {
	fi, err := folder.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return atName(err, name)
	case fi.IsDir():
		inner, err := folder.OpenRoot(base)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return atName(err, name)
		}
		defer inner.Close()
		return s.scanOpenFolder(ctx, inner, name, seen)
	case s.opt.SkipFile != nil && s.opt.SkipFile(name, fi):
	case fi.Mode().IsRegular():
		seen.files = append(seen.files, seenFile{name, uint32(fi.Mode().Perm()), StampOf(fi)})
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := folder.Readlink(base)
		if err != nil {
			return changing(name)
		}
		l := Link{Path: name, Target: s.relativeTarget(name, target)}
		if staysInside(l) {
			seen.links = append(seen.links, l)
		} else {
			seen.noteLeftOut("a link that leads outside", name)
		}
	default:
		seen.noteLeftOut("a socket, fifo or device", name)
	}
	return nil
}

// atName gives an error of a call by a base name the whole name.
func atName(err error, name string) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: name, Err: at.Err}
	}
	return err
}

// relativeTarget turns an absolute target inside the folder into one from the link.
func (s *saver) relativeTarget(name, target string) string {
	if !filepath.IsAbs(target) {
		return target
	}
	for _, top := range []string{s.dir, s.opt.As} {
		if top == "" {
			continue
		}
		rest, inside := strings.CutPrefix(filepath.Clean(target), filepath.Clean(top)+"/")
		if !inside {
			continue
		}
		if rel, err := filepath.Rel("/"+path.Dir(name), "/"+rest); err == nil {
			return rel
		}
	}
	return target
}
