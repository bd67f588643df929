package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

const (
	gateFile    = "gate.lock"
	pausedFile  = "paused.json"
	claimPrefix = "claim-"
	digits      = 18 // of a claim's number; an int64 holds them all
	// maxRecord is far above what a wish for all of a big machine takes.
	maxRecord = 1 << 20
)

// errNoLocks says that a lock did not keep another one out.
var errNoLocks = errors.New("its file system has no locks")

// gate is the right to look at the folder and to change it; one process has it at
// a time. Its file holds the number of changes, which is also where the numbers of
// claims come from. It is never removed: a process that opened it before would hold another.
type gate struct {
	folder  string
	fd      int
	changes int64
}

// openGate waits for the gate, until ctx ends.
func (r Room) openGate(ctx context.Context) (*gate, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		fd, err := r.lockFile(gateFile)
		if err == nil {
			return &gate{r.Folder, fd, readCount(r.Folder)}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
		if err := r.waitFor(ctx, gatePause); err != nil {
			return nil, err
		}
	}
}

// lockFile locks a file of the folder. One that root makes in another user's folder
// becomes that user's, which could not read it otherwise.
func (r Room) lockFile(name string) (fd int, err error) {
	fd, err = lock(filepath.Join(r.Folder, name))
	if err != nil || os.Geteuid() != 0 {
		return fd, err
	}
	var owner unix.Stat_t
	if unix.Stat(r.Folder, &owner) == nil {
		_ = unix.Fchown(fd, int(owner.Uid), int(owner.Gid)) // refused in some containers, where root is no other user
	}
	return fd, nil
}

func (g *gate) closeGate() { unlock(g.fd) }

// readCount is the number of changes; 0 where there is none, or nonsense.
func readCount(folder string) int64 {
	text, _ := os.ReadFile(filepath.Join(folder, gateFile)) // not there: nothing has changed yet
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return max(n, 0)
}

// announceChange lets all waiting claims look again. They would do so a little later anyway,
// which is all that a disk without room for it costs.
func (g *gate) announceChange() error {
	g.changes++
	return writeAt(g.fd, fmt.Appendf(nil, "%0*d\n", digits, g.changes))
}

// writeAt writes all of data at the beginning of a file.
func writeAt(fd int, data []byte) error {
	return again(func() error {
		n, err := unix.Pwrite(fd, data, 0)
		if err == nil && n < len(data) {
			err = unix.ENOSPC // the only way in which a disk writes half
		}
		return err
	})
}

// readLine reads the line, and removes what the dead have left.
func (g *gate) readLine() (line, error) {
	files, err := os.ReadDir(g.folder)
	if err != nil {
		return line{}, err
	}
	l := line{paused: map[string]bool{}}
	queues, err := readPaused(g.folder)
	if err != nil {
		return line{}, err
	}
	for _, q := range queues {
		l.paused[q] = true
	}
	swept := false
	for _, f := range files {
		number, ok := claimNumber(f.Name())
		if !ok {
			continue
		}
		path := filepath.Join(g.folder, f.Name())
		lives, err := locked(path)
		if err != nil {
			return line{}, err
		}
		if !lives && os.Remove(path) == nil {
			swept = true
			continue
		}
		l.last = max(l.last, number) // also of a folder in its place, which stays and claims nothing
		if rec, ok := readRecord(path); ok && lives {
			l.entries = append(l.entries, &entry{number, rec})
		}
	}
	if swept {
		_ = g.announceChange() // see there
	}
	return l, nil
}

func claimName(number int64) string { return fmt.Sprintf("%s%0*d", claimPrefix, digits, number) }

func claimNumber(name string) (number int64, ok bool) {
	text, ok := strings.CutPrefix(name, claimPrefix)
	if !ok || len(text) != digits || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil
}

// readRecord reads a claim; not ok is one that says nothing that could be counted.
// drover writes none such behind the gate.
func readRecord(path string) (r record, ok bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return record{}, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil || json.Unmarshal(data, &r) != nil || r.Members < 1 {
		return record{}, false
	}
	if r.Part == noPart {
		return r, len(r.Parts) == 0
	}
	return r, len(r.Parts) == r.Members && r.Part >= 0 && r.Part < r.Members
}

// seat is a claim of this process.
type slot struct {
	Room
	record
	number int64
	// fd locks the file for as long as the process lives. It is a number and no
	// os.File: the collector would close that, and so give everything to another
	// claim, when Release is not kept.
	fd int
	// size is what the file was given from the beginning: a disk that fills up does
	// not keep it from saying what was granted.
	size int
}

// joinQueue takes the last place in line.
func (r Room) joinQueue(ctx context.Context, rec record) (*slot, error) {
	if err := r.makeFolder(); err != nil {
		return nil, err
	}
	g, err := r.openGate(ctx)
	if err != nil {
		return nil, err
	}
	defer g.closeGate()
	l, err := g.readLine()
	if err != nil {
		return nil, err
	}
	g.changes = max(g.changes, l.last) // where a user has emptied the gate's file
	if err := g.announceChange(); err != nil {
		return nil, err
	}
	s := &slot{Room: r, record: rec, number: g.changes}
	if s.fd, err = r.lockFile(claimName(s.number)); err != nil {
		return nil, err
	}
	path := filepath.Join(r.Folder, claimName(s.number))
	// A part names fewer cores and GPUs than the view does, each of them once for all members.
	whole := rec
	whole.Parts = make([]part, rec.Members)
	whole.Parts[0] = part{rec.View.Cores, rec.View.GPUs}
	text, err := json.Marshal(whole)
	if err == nil {
		s.size = len(text) + 32*rec.Members + 16
		err = s.writeRecord()
	}
	if err == nil {
		var lives bool
		if lives, err = locked(path); err == nil && !lives {
			err = errNoLocks
		}
	}
	if err != nil {
		os.Remove(path)
		unlock(s.fd)
		return nil, err
	}
	return s, nil
}

// writeRecord says what the claim is now.
func (s *slot) writeRecord() error {
	text, err := json.Marshal(s.record)
	if err != nil {
		return err
	}
	text = append(text, strings.Repeat(" ", max(s.size-len(text), 0))...)
	return writeAt(s.fd, append(text, '\n'))
}

// makeFolder makes the folder, and sees that others cannot write to it.
func (r Room) makeFolder() error {
	if err := os.MkdirAll(r.Folder, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(r.Folder)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fault.New(fault.Denied, "Run chmod 700 "+r.Folder+".", "open %s: others may write to it", r.Folder)
	}
	return nil
}

// tryToClaim looks at the line and takes what it gives. Not granted is no error.
func (s *slot) tryToClaim(ctx context.Context) (verdict, error) {
	g, err := s.openGate(ctx)
	if err != nil {
		return verdict{}, err
	}
	defer g.closeGate()
	l, err := g.readLine()
	if err != nil {
		return verdict{}, err
	}
	i := slices.IndexFunc(l.entries, func(e *entry) bool { return e.number == s.number })
	if i < 0 {
		return verdict{}, fault.New(fault.Denied, "Run it again, and leave the files in "+s.Folder+" alone.", "wait in the queue: %s was removed", claimName(s.number))
	}
	v := l.judgeClaim(l.entries[i])
	v.seen = g.changes
	if !v.isGranted() {
		return v, nil
	}
	s.Parts, s.Part = v.parts, v.part
	if err := s.writeRecord(); err != nil {
		return verdict{}, err
	}
	_ = g.announceChange() // see there
	return v, nil
}

// waitToRetry waits until it is worth trying again.
func (s *slot) waitToRetry(ctx context.Context, v verdict) error {
	for range lookAnyway {
		if err := s.waitFor(ctx, lookPause); err != nil {
			return err
		}
		if readCount(s.Folder) != v.seen {
			return nil
		}
		for _, number := range v.watch {
			if lives, err := locked(filepath.Join(s.Folder, claimName(number))); err == nil && !lives {
				return nil
			}
		}
	}
	return nil
}

// releaseSeat gives back what the seat holds, and its place in line. Without the gate it
// lets go all the same, and another claim tidies up: once the lock is gone, the
// file may be another's business.
func (s *slot) releaseSlot() {
	ctx, cancel := context.WithTimeout(context.Background(), gatePatience)
	defer cancel()
	g, err := s.openGate(ctx)
	if err == nil {
		defer g.closeGate()
		if err := os.Remove(filepath.Join(s.Folder, claimName(s.number))); err == nil || errors.Is(err, fs.ErrNotExist) {
			_ = g.announceChange() // see there
		}
	}
	unlock(s.fd)
}
