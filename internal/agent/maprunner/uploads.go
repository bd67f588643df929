package maprunner

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
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// uploaded is a try with which the uploaders have done.
type uploaded struct {
	try *try
	err error // the store's
}

// uploaders is how many there are: a far store takes long and bears many at once.
func uploaders(slots int) int { return min(max(4, slots), 32) }

// uploadQueue holds the tries with outputs to store. It has no bound of its own:
// the loop, which adds to it, must never wait for the uploaders, as they wait for the loop
// to take what they have stored. A program that stays may answer thousands of items
// while the store is away.
type uploadQueue struct {
	mu    sync.Mutex
	tries []*try
	more  chan struct{} // holds a token while there may be tries that no uploader has taken
}

func newUploadQueue() *uploadQueue { return &uploadQueue{more: make(chan struct{}, 1)} }

func (q *uploadQueue) addTry(t *try) {
	q.mu.Lock()
	q.tries = append(q.tries, t)
	q.mu.Unlock()
	q.wakeWaiters()
}

func (q *uploadQueue) wakeWaiters() {
	select {
	case q.more <- struct{}{}:
	default: // a uploader is about to look
	}
}

// nextTry waits for a try, in the order in which they were added; nil once done is closed.
func (q *uploadQueue) nextTry(done <-chan struct{}) *try {
	for {
		select {
		case <-q.more:
		case <-done:
			return nil
		}
		q.mu.Lock()
		var t *try
		if len(q.tries) > 0 {
			t, q.tries = q.tries[0], q.tries[1:]
		}
		left := len(q.tries)
		q.mu.Unlock()
		if left > 0 {
			q.wakeWaiters() // for another uploader
		}
		if t != nil {
			return t
		}
	}
}

// runUploader is a uploader's life.
func (c *mapRunner) runUploader() {
	for {
		t := c.queue.nextTry(c.life.Done())
		if t == nil {
			return
		}
		err := c.uploadOutputs(t)
		select {
		case c.stored <- uploaded{t, err}:
		case <-c.life.Done():
			return
		}
	}
}

// acceptUploaded takes a try back from the uploaders.
func (c *mapRunner) acceptUploaded(s uploaded) error {
	c.storing--
	c.waitingBytes -= s.try.outputBytes
	if errors.Is(s.err, errStoppedStoring) {
		c.Note(fmt.Sprintf("item %d: %v", s.try.Item, s.err))
		s.try.discarded = true // as if it had been ended: its chunk says so
		s.err = nil
	}
	if s.err != nil {
		return s.err
	}
	c.handInResult(s.try)
	return nil
}

// countWaiting counts a try's outputs among those that wait.
func (c *mapRunner) countWaiting(t *try) {
	t.outputBytes = outputSize(t)
	c.storing, c.waitingBytes = c.storing+1, c.waitingBytes+t.outputBytes
	if c.usualBytes == 0 {
		c.usualBytes = t.outputBytes
	}
	c.usualBytes += (t.outputBytes - c.usualBytes) / 16
}

// uploadRoom is how many bytes of outputs there is room for beside those that wait.
func (c *mapRunner) uploadRoom() int64 { return int64(job.FetchRoom(c.Job.Spec.Disk)) - c.waitingBytes }

// outputSize is about how much a try has left to be stored: while it waits it takes disk,
// and too much of it has no more begin.
func outputSize(t *try) (bytes int64) {
	const most = 10_000 // files that are looked at: the loop waits for it
	files := 0
	for _, name := range t.outs {
		// What cannot be read is a uploader's to tell.
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

// uploadOutputs stores the outputs of a try that succeeded, and takes its folder away. A
// success that has not left what it should, or more than it may, is a failure.
func (c *mapRunner) uploadOutputs(t *try) error {
	var err error
	if !t.discarded && !t.result.Failed {
		ctx, why := c.uploadTime.storingContext(), c.exceedsDiskLimit(t)
		if why == "" {
			err = c.retryWhileFull(ctx, func() (err error) {
				t.result.Outputs, why, err = c.storeOutputs(ctx, t)
				return err
			})
		}
		if err != nil && errors.Is(context.Cause(ctx), errStoppedStoring) {
			err = errStoppedStoring
		}
		if t.result.Try = t.Name; why != "" {
			t.result.Failed, t.result.Code, t.result.Why = true, 1, c.Redact.String(recorder.OneLine(why))
			t.result.Outputs, t.result.Try = nil, ""
		}
	}
	if err := tree.RemoveAll(t.staging); err != nil {
		c.Log.Warn("folder stays", "err", err)
	}
	if err != nil && !errors.Is(err, errStoppedStoring) {
		err = fmt.Errorf("store outputs of item %d: %w", t.Item, err)
	}
	return err
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

// exceedsDiskLimit says that a try has left more bytes than may be stored, holes and all.
func (c *mapRunner) exceedsDiskLimit(t *try) (why string) {
	if c.MaxStored <= 0 || t.outputBytes <= c.MaxStored {
		return ""
	}
	limit := "the size of this file system; --disk allows more"
	if c.Job.Spec.Disk > 0 {
		limit = "--disk"
	}
	return fmt.Sprintf("its outputs are %s, above %s: %s", job.Bytes(t.outputBytes).Words(), job.Bytes(c.MaxStored).Words(), limit)
}

// storeOutputs stores what a try has left. why says what is missing.
func (c *mapRunner) storeOutputs(ctx context.Context, t *try) (all []protocol.Output, why string, err error) {
	root, err := os.OpenRoot(t.staging)
	if err != nil {
		return nil, "its folder for outputs is gone", nil
	}
	defer root.Close()
	for _, name := range t.outs {
		var more []protocol.Output
		if folder, is := strings.CutSuffix(name, "/"); is {
			more, why, err = c.storeFolder(ctx, root, t, folder)
		} else {
			var one protocol.Output
			one, why, err = c.storeFile(ctx, root, t, name, false)
			more = []protocol.Output{one}
		}
		if why != "" || err != nil {
			return nil, why, err
		}
		all = append(all, more...)
	}
	names := 0
	for _, o := range all {
		names += len(o.Name)
	}
	if len(all) > maxOutputs || names > maxNames {
		return nil, manyFiles, nil
	}
	return all, "", nil
}

var manyFiles = fmt.Sprintf("its outputs are more than %d files, or their names more than 1 MB: have it put them into an archive", maxOutputs)

// storeFolder stores all files in one. Their number is known before one is stored.
func (c *mapRunner) storeFolder(ctx context.Context, root *os.Root, t *try, name string) (all []protocol.Output, why string, err error) {
	if info, err := root.Lstat(name); err != nil || !info.IsDir() {
		return nil, fmt.Sprintf("no output folder %s", name), nil
	}
	if why := c.countFiles(ctx, root, name); why != "" {
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
			one, why, err = c.storeFile(ctx, root, t, file, true)
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
func (c *mapRunner) countFiles(ctx context.Context, root *os.Root, name string) (why string) {
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
func (c *mapRunner) storeFile(ctx context.Context, root *os.Root, t *try, name string, mayBeEmpty bool) (o protocol.Output, why string, err error) {
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o, "no output " + name, nil
	case err != nil:
		return o, fmt.Sprintf("output %s cannot be read, or leads elsewhere", name), nil
	case !info.Mode().IsRegular():
		return o, fmt.Sprintf("output %s is not a regular file", name), nil
	case info.Size() == 0 && !mayBeEmpty:
		return o, fmt.Sprintf("output %s is empty", name), nil
	}
	f, err := open(root, name, info.Mode())
	if err != nil {
		return o, fmt.Sprintf("output %s cannot be read: %v", name, err), nil
	}
	defer f.Close()
	o = protocol.Output{Name: name, Size: info.Size()}
	if mode := uint32(info.Mode().Perm()); mode != 0o644 {
		o.Mode = mode
	}
	key := protocol.OutKey(c.Job.Path(), t.Item, t.Name, name)
	var n int64
	// Only what it had: one that grows as fast as it is read has no end.
	o.SHA256, n, err = c.storeContent(ctx, key, io.NewSectionReader(f, 0, o.Size))
	if ctx.Err() == nil && sizeChanged(f, o.Size) || err == nil && n != o.Size {
		return o, fmt.Sprintf("output %s changed while it was stored", name), nil
	}
	return o, "", err
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
func (c *mapRunner) storeContent(ctx context.Context, key string, f io.ReadSeeker) (digest string, n int64, err error) {
	body := &summed{from: f, hash: sha256.New()}
	if err := c.World.Store.CreateFile(ctx, key, body); err != nil {
		return "", 0, err
	}
	if body.ended { // all of it went there, and the store has it whole
		return hex.EncodeToString(body.hash.Sum(nil)), body.n, nil
	}
	// The store had it by an earlier request that was not answered.
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

// errStoppedStoring is why outputs are not stored to their end: the job was stopped,
// and the grace that its items have is over.
var errStoppedStoring = errors.New("its outputs are not stored: the job was stopped")

// uploadTime is the context in which outputs are stored: it ends some time after the
// job was stopped, and there is another one if the job comes back to life.
type uploadTime struct {
	mu    sync.Mutex
	ctx   context.Context
	end   context.CancelCauseFunc
	timer *time.Timer // nil: the job is not stopped
}

// openContext begins it anew, unless it goes on.
func (s *uploadTime) openContext(life context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx != nil && s.timer == nil {
		return
	}
	if s.timer != nil && s.timer.Stop() {
		s.timer = nil
		return
	}
	s.timer = nil
	s.ctx, s.end = context.WithCancelCause(life)
}

// endAfterGrace has it end after the grace that is left to what is stored.
func (s *uploadTime) endAfterGrace(grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		end := s.end
		s.timer = time.AfterFunc(grace, func() { end(errStoppedStoring) })
	}
}

// endForGood ends it for good; it is after the last uploader.
func (s *uploadTime) endForGood() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.end(nil)
}

// storingContext is what outputs are to be stored in.
func (s *uploadTime) storingContext() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx
}
