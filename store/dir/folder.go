package dir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// maxHeld is how many folders are held open. An agent appends to a handful at a
// time, and macOS gives a process as few as 256 files.
const maxHeld = 64

// folders are those with names that are known to be durable. Each is held open:
// as long as it is, no other folder can have its inode number, so a folder that
// was removed and made again, perhaps not durably, is told from the one we know.
type folders struct {
	mu   sync.Mutex
	held map[string]*folder
}

type folder struct {
	file  File
	inode uint64
	users int // under folders.mu: its takers, and one for being held; the last one closes it

	mu          sync.Mutex
	turn        sync.Cond // of mu: running has ended
	begun, done uint64    // syncs, counted
	running     bool
	err         error // of the sync that failed; there is no other after it
}

// syncAllNames makes the names that are in dir now durable, and those above them.
func (b *Bucket) syncAllNames(dir string) error {
	d, err := b.openDurableFolder(dir)
	if err != nil {
		return err
	}
	defer b.folders.putFolder(d)
	err = d.syncShared()
	if errors.Is(err, syscall.ESTALE) {
		// NFS: not the disk failed, the folder we hold is no more.
		b.folders.forgetFolder(dir, d)
	}
	return err
}

// openDurableFolder finds the held folder that dir names now. One not known is first made
// durable in its parent, and that in its own, up to the root.
func (b *Bucket) openDurableFolder(dir string) (*folder, error) {
	f, err := b.fs.Open(dir, openFolder)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if d := b.folders.getFolder(dir, info.Inode); d != nil {
		f.Close()
		return d, nil
	}
	if dir == b.root {
		err = b.syncNames(filepath.Dir(dir)) // another process may just have made it
	} else {
		err = b.syncAllNames(filepath.Dir(dir))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return b.folders.addFolder(dir, f, info.Inode), nil
}

// syncNames syncs a folder above the root. One we may not read was not made by
// drover, and its names are not ours to care for.
func (b *Bucket) syncNames(dir string) error {
	f, err := b.fs.Open(dir, openFolder)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return syncFolder(f)
}

// syncFolder syncs a folder. Some network file systems know no sync of a folder
// and say so with EINVAL or ENOTSUP: their servers answer once it is done.
func syncFolder(f File) error {
	err := f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}

// syncShared returns once a sync that began after the call has ended. Calls that begin
// while one is running share the next. A failed sync is never repeated: the
// kernel may have forgotten what it could not write, and would answer that all
// is well.
func (d *folder) syncShared() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := d.begun + 1
	for d.running && d.done < want {
		d.turn.Wait()
	}
	if d.done >= want || d.err != nil {
		return d.err
	}
	d.begun++
	d.running = true
	d.mu.Unlock()
	err := syncFolder(d.file)
	d.mu.Lock()
	d.running = false
	d.done = d.begun
	d.err = err
	d.turn.Broadcast()
	return err
}

// syncFailure is the error of a sync that failed in the folder that is dir now.
func (b *Bucket) syncFailure(dir string) error {
	err := b.folders.syncFailure(dir)
	if err == nil {
		return nil
	}
	d, e := b.openDurableFolder(dir)
	if e != nil {
		return nil // the next use meets it again
	}
	defer b.folders.putFolder(d)
	return b.folders.syncFailure(dir)
}

func (s *folders) syncFailure(dir string) error {
	s.mu.Lock()
	d := s.held[dir]
	s.mu.Unlock()
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (s *folders) forgetFolder(dir string, d *folder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[dir] == d {
		delete(s.held, dir)
		s.releaseFolder(d)
	}
}

func (s *folders) getFolder(dir string, inode uint64) *folder {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.held[dir]
	if d == nil || d.inode != inode {
		return nil
	}
	d.users++
	return d
}

func (s *folders) putFolder(d *folder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseFolder(d)
}

func (s *folders) releaseFolder(d *folder) {
	d.users--
	if d.users == 0 {
		d.file.Close()
	}
}

// addFolder holds f as dir, unless another caller was quicker.
func (s *folders) addFolder(dir string, f File, inode uint64) *folder {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.held[dir]; d != nil {
		if d.inode == inode {
			f.Close()
			d.users++
			return d
		}
		delete(s.held, dir)
		s.releaseFolder(d)
	}
	if s.held == nil {
		s.held = make(map[string]*folder)
	}
	s.dropUnfailed()
	d := &folder{file: f, inode: inode, users: 2}
	d.turn.L = &d.mu
	s.held[dir] = d
	return d
}

// dropUnfailed releases all folders except after a failed sync: to forget that
// would be to repeat the sync.
func (s *folders) dropUnfailed() {
	for dir, d := range s.held {
		if len(s.held) < maxHeld {
			return
		}
		d.mu.Lock()
		failed := d.err != nil
		d.mu.Unlock()
		if !failed {
			delete(s.held, dir)
			s.releaseFolder(d)
		}
	}
}

// refreshNames makes sure that a name which is absent in dir is absent on the server
// (rule L6 of docs/protocol.md): a client that has changed a folder itself must ask again about
// every name in it. It returns fs.ErrNotExist if dir is absent in that sense.
func (b *Bucket) refreshNames(dir string) error {
	err := b.createScratchFile(dir)
	if !errors.Is(err, fs.ErrNotExist) || dir == b.root {
		return err
	}
	// dir itself may be there by now.
	if err := b.refreshNames(filepath.Dir(dir)); err != nil {
		return err
	}
	return b.createScratchFile(dir)
}

func (b *Bucket) createScratchFile(dir string) error {
	name := filepath.Join(dir, ".look-"+b.session+"-"+strconv.FormatUint(b.serial.Add(1), 10))
	f, err := b.fs.Open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	f.Close()
	return b.fs.Remove(name, false)
}

// sweepTemporary removes what writers that died left under .tmp. Old is judged by the
// file system's own clock, which may be another machine's. An error
// here is met again by a writer, which reports it better.
func (b *Bucket) sweepTemporary() {
	folder := filepath.Join(b.root, ".tmp")
	f, err := b.fs.Open(folder, openFolder)
	if err != nil {
		return
	}
	defer f.Close()
	entries, err := f.ReadDir(batch)
	if err != nil {
		return
	}
	now, err := b.fileSystemTime(folder)
	for err == nil {
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > staleAfter {
				b.fs.Remove(filepath.Join(folder, e.Name()), false)
			}
		}
		entries, err = f.ReadDir(batch)
	}
}

// fileSystemTime is the time by the file system's clock.
func (b *Bucket) fileSystemTime(folder string) (time.Time, error) {
	name := filepath.Join(folder, b.session+"-now")
	f, err := b.fs.Open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return time.Time{}, err
	}
	info, err := f.Stat()
	f.Close()
	return info.Time, errors.Join(err, b.fs.Remove(name, false))
}
