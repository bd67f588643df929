package crew

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
	"runtime"
	"strings"
	"syscall"

	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/job"
)

// carried is a try whose outputs the porters have done with.
type carried struct {
	try *try
	err error // the store's
}

// porters is how many there are: a far store takes long and bears many at once.
func porters(slots int) int { return min(max(4, slots), 32) }

// cargoRoom is more than all tries that can be on their way to the porters, so that
// the loop never waits for them: those in runners, and those that are stored before
// no more begin.
func cargoRoom(slots int) int {
	return runtime.GOMAXPROCS(0)*fastWindow + 8*slots + 2*leastStoring
}

// carry is a porter's life.
func (c *crew) carry() {
	for {
		select {
		case t := <-c.cargo:
			err := c.deliver(t)
			select {
			case c.stored <- carried{t, err}:
			case <-c.life.Done():
				return
			}
		case <-c.life.Done():
			return
		}
	}
}

// recorded takes a try back from the porters.
func (c *crew) recorded(s carried) error {
	c.storing--
	c.cargoes -= s.try.cargo
	if s.err != nil {
		return s.err
	}
	c.finish(s.try)
	return nil
}

// load counts a try's outputs among those that wait.
func (c *crew) load(t *try) {
	t.cargo = weigh(t)
	c.storing, c.cargoes = c.storing+1, c.cargoes+t.cargo
	if c.bulk == 0 {
		c.bulk = t.cargo
	}
	c.bulk += (t.cargo - c.bulk) / 16
}

// cargoLeft is how many bytes of outputs there is room for beside those that wait.
func (c *crew) cargoLeft() int64 { return int64(job.FetchRoom(c.Job.Spec.Disk)) - c.cargoes }

// weigh is about how much a try has left to be stored: while it waits it takes disk,
// and too much of it has no more begin.
func weigh(t *try) (bytes int64) {
	const most = 10_000 // files that are looked at: the loop waits for it
	files := 0
	for _, name := range t.outs {
		// What cannot be read is a porter's to tell.
		_ = filepath.WalkDir(filepath.Join(t.staging, filepath.FromSlash(name)), func(_ string, d fs.DirEntry, err error) error {
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

// deliver stores the outputs of a try that succeeded, and takes its folder away. A
// success that has not left what it should is a failure.
func (c *crew) deliver(t *try) error {
	if !t.void && !t.result.Failed {
		var why string
		err := c.patient(c.life, func() (err error) {
			t.result.Outputs, why, err = c.outputs(c.life, t)
			return err
		})
		if err != nil {
			return fmt.Errorf("store outputs of item %d: %w", t.Item, err)
		}
		if t.result.Try = t.Name; why != "" {
			t.result.Failed, t.result.Code, t.result.Why = true, 1, c.Redact.String(oneLine(why))
			t.result.Outputs, t.result.Try = nil, ""
		}
	}
	if err := removeAll(t.staging); err != nil {
		c.Log.Warn("folder stays", "err", err)
	}
	return nil
}

// outputs stores what a try has left. why says what is missing.
func (c *crew) outputs(ctx context.Context, t *try) (all []ledger.Output, why string, err error) {
	root, err := os.OpenRoot(t.staging)
	if err != nil {
		return nil, "its folder for outputs is gone", nil
	}
	defer root.Close()
	for _, name := range t.outs {
		var more []ledger.Output
		if folder, is := strings.CutSuffix(name, "/"); is {
			more, why, err = c.folder(ctx, root, t, folder)
		} else {
			var one ledger.Output
			one, why, err = c.file(ctx, root, t, name, false)
			more = []ledger.Output{one}
		}
		if why != "" || err != nil {
			return nil, why, err
		}
		all = append(all, more...)
	}
	return all, "", nil
}

// folder stores all files in one.
func (c *crew) folder(ctx context.Context, root *os.Root, t *try, name string) (all []ledger.Output, why string, err error) {
	if info, err := root.Lstat(name); err != nil || !info.IsDir() {
		return nil, fmt.Sprintf("no output folder %s", name), nil
	}
	walk := func(file string, d fs.DirEntry, werr error) error {
		switch {
		case werr != nil:
			why = fmt.Sprintf("output %s cannot be read", file)
		case d.IsDir():
			return nil
		default:
			var one ledger.Output
			one, why, err = c.file(ctx, root, t, file, true)
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

// file stores one, which must be regular and within the try's folder, wherever
// links lead.
func (c *crew) file(ctx context.Context, root *os.Root, t *try, name string, mayBeEmpty bool) (o ledger.Output, why string, err error) {
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o, "no output " + name, nil
	case err != nil:
		return o, fmt.Sprintf("output %s cannot be read, or leads elsewhere", name), nil
	case !info.Mode().IsRegular():
		return o, fmt.Sprintf("output %s is no regular file", name), nil
	case info.Size() == 0 && !mayBeEmpty:
		return o, fmt.Sprintf("output %s is empty", name), nil
	}
	f, err := open(root, name, info.Mode())
	if err != nil {
		return o, fmt.Sprintf("output %s cannot be read: %v", name, err), nil
	}
	defer f.Close()
	o = ledger.Output{Name: name, Size: info.Size()}
	if mode := uint32(info.Mode().Perm()); mode != 0o644 {
		o.Mode = mode
	}
	key := ledger.OutKey(c.Job.Path(), t.Item, t.Name, name)
	var n int64
	if o.SHA256, n, err = c.store(ctx, key, f); err == nil && n != o.Size {
		why = fmt.Sprintf("output %s changed while it was stored", name)
	}
	return o, why, err
}

// open opens a file also where a plain user's program has locked him out of it.
func open(root *os.Root, name string, mode fs.FileMode) (*os.File, error) {
	const flags = os.O_RDONLY | syscall.O_NONBLOCK // nothing may be waited for here
	f, err := root.OpenFile(name, flags, 0)
	if errors.Is(err, fs.ErrPermission) && root.Chmod(name, mode.Perm()|0o400) == nil {
		f, err = root.OpenFile(name, flags, 0)
	}
	return f, err
}

// store stores a file, and gives the digest and the size of what is stored.
func (c *crew) store(ctx context.Context, key string, f *os.File) (digest string, n int64, err error) {
	body := &summed{File: f, hash: sha256.New()}
	if err := c.World.Store.CreateFile(ctx, key, body); err != nil {
		return "", 0, err
	}
	if body.ended { // all of it went there, and the store has it whole
		return hex.EncodeToString(body.hash.Sum(nil)), body.n, nil
	}
	// The store had it by an earlier request whose answer was lost.
	r, err := c.World.Store.Open(ctx, key, 0, -1)
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
	*os.File
	hash  hash.Hash
	n     int64
	mid   bool // it was read from its middle, which says nothing of the whole
	ended bool
}

var _ io.ReadSeeker = (*summed)(nil)

func (s *summed) Read(b []byte) (int, error) {
	n, err := s.File.Read(b)
	s.hash.Write(b[:n])
	s.n += int64(n)
	s.ended = err == io.EOF && !s.mid
	return n, err
}

func (s *summed) Seek(offset int64, whence int) (int64, error) {
	at, err := s.File.Seek(offset, whence)
	s.hash.Reset()
	s.n, s.mid, s.ended = 0, at != 0, false
	return at, err
}

// WriteTo would take the file past the hash.
func (s *summed) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{s})
}
