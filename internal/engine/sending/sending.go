// Package sending says how far the sending of files is, while it is done, a few times a second.
//
// Proved by the tests of package engine.
package sending

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// tellEach is how often it is told how far the sending is.
const tellEach = 100 * time.Millisecond

// Progress says how far the sending of files is. Its methods may be called by many
// goroutines; watch is called by one at a time.
type Progress struct {
	watch func(report.CopyProgress)
	clock store.Clock

	mu   sync.Mutex
	now  report.CopyProgress
	Last time.Duration // by the clock
}

func NewProgress(watch func(report.CopyProgress), c store.Clock) *Progress {
	if watch == nil {
		watch = func(report.CopyProgress) {}
	}
	return &Progress{watch: watch, clock: c, Last: c.Boot() - tellEach}
}

// AddFound says what there is to be sent, if that is known before.
func (t *Progress) AddFound(files, bytes int64) {
	t.addProgress(func(p *report.CopyProgress) { p.Found, p.FoundBytes, p.Counted = files, bytes, true })
}

// AddSame is a file that is on its way already, or there.
func (t *Progress) AddSame(bytes int64) {
	t.addProgress(func(p *report.CopyProgress) { p.Same++; p.SameBytes += bytes })
}

func (t *Progress) addProgress(change func(*report.CopyProgress)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if change(&t.now); !t.now.Counted {
		t.now.Found, t.now.FoundBytes = t.now.Files+t.now.Same, t.now.Bytes+t.now.SameBytes
	}
	if at := t.clock.Boot(); at-t.Last >= tellEach {
		t.Last = at
		t.watch(t.now)
	}
}

// ReportEnd tells once more, of all that was done.
func (t *Progress) ReportEnd() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch(t.now)
}

// CountedBlobs is a store, and tells of what is put into it.
type CountedBlobs struct {
	*store.Store
	Tell *Progress
}

func (b CountedBlobs) PutBlob(ctx context.Context, body io.ReadSeeker) (store.Digest, int64, error) {
	told := b.Tell.CountingBody(body)
	d, n, err := b.Store.PutBlob(ctx, told)
	if err == nil {
		told.CountSent(1, n)
	}
	return d, n, err
}

// CountingBody is r, of which it is told how much was sent.
func (t *Progress) CountingBody(r io.ReadSeeker) *countedBody {
	return &countedBody{ReadSeeker: r, tell: t}
}

// countedBody is a file that PutBlob reads: once to name it, and from its beginning again
// to send it, which counts; what is sent a second time does not.
type countedBody struct {
	io.ReadSeeker
	tell  *Progress
	turns int   // that it was read from its beginning
	at    int64 // the next byte
	told  int64
}

func (b *countedBody) Seek(offset int64, whence int) (int64, error) {
	at, err := b.ReadSeeker.Seek(offset, whence)
	if b.at = at; at == 0 {
		b.turns++
	}
	return at, err
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadSeeker.Read(p)
	if b.at += int64(n); b.turns > 1 && b.at > b.told {
		more := b.at - b.told
		b.told = b.at
		b.tell.addProgress(func(p *report.CopyProgress) { p.Bytes += more })
	}
	return n, err
}

// CountSent says that all of it is there, which is so many files and bytes.
func (b *countedBody) CountSent(files, bytes int64) {
	more := bytes - b.told
	b.told = bytes
	b.tell.addProgress(func(p *report.CopyProgress) { p.Files += files; p.Bytes += more })
}
