package engine

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/store"
)

// Sending is what Submit sends.
type Sending int

// What a plan's Watch hears of.
const (
	OfItems  Sending = iota // files that items name
	OfInputs                // those of the input that is stored just now, of which some may be there
)

// progressOf is a plan's Watch for one of them; nil: nobody watches.
func (p *Plan) progressOf(what Sending) func(transfer.Progress) {
	if p.Watch == nil {
		return nil
	}
	return func(now transfer.Progress) { p.Watch(what, now) }
}

// tellEach is how often it is told how far the sending is.
const tellEach = 100 * time.Millisecond

// telling says how far the sending of files is. Its methods may be called by many
// goroutines; watch is called by one at a time.
type telling struct {
	watch func(transfer.Progress)
	clock store.Clock

	mu   sync.Mutex
	now  transfer.Progress
	last time.Duration // by the clock
}

func newTelling(watch func(transfer.Progress), c store.Clock) *telling {
	if watch == nil {
		watch = func(transfer.Progress) {}
	}
	return &telling{watch: watch, clock: c, last: c.Boot() - tellEach}
}

// addFound says what there is to be sent, if that is known before.
func (t *telling) addFound(files, bytes int64) {
	t.addProgress(func(p *transfer.Progress) { p.Found, p.FoundBytes, p.Counted = files, bytes, true })
}

// addSame is a file that is on its way already, or there.
func (t *telling) addSame(bytes int64) {
	t.addProgress(func(p *transfer.Progress) { p.Same++; p.SameBytes += bytes })
}

func (t *telling) addProgress(change func(*transfer.Progress)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if change(&t.now); !t.now.Counted {
		t.now.Found, t.now.FoundBytes = t.now.Files+t.now.Same, t.now.Bytes+t.now.SameBytes
	}
	if at := t.clock.Boot(); at-t.last >= tellEach {
		t.last = at
		t.watch(t.now)
	}
}

// reportEnd tells once more, of all that was done.
func (t *telling) reportEnd() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch(t.now)
}

// toldBlobs is a store, and tells of what is put into it.
type toldBlobs struct {
	*store.Store
	tell *telling
}

func (b toldBlobs) PutBlob(ctx context.Context, body io.ReadSeeker) (store.Digest, int64, error) {
	told := b.tell.countingBody(body)
	d, n, err := b.Store.PutBlob(ctx, told)
	if err == nil {
		told.countSent(1, n)
	}
	return d, n, err
}

// countingBody is r, of which it is told how much was sent.
func (t *telling) countingBody(r io.ReadSeeker) *toldBody { return &toldBody{ReadSeeker: r, tell: t} }

// toldBody is a file that PutBlob reads: once to name it, and from its beginning again
// to send it, which counts; what is sent a second time does not.
type toldBody struct {
	io.ReadSeeker
	tell  *telling
	turns int   // that it was read from its beginning
	at    int64 // the next byte
	told  int64
}

func (b *toldBody) Seek(offset int64, whence int) (int64, error) {
	at, err := b.ReadSeeker.Seek(offset, whence)
	if b.at = at; at == 0 {
		b.turns++
	}
	return at, err
}

func (b *toldBody) Read(p []byte) (int, error) {
	n, err := b.ReadSeeker.Read(p)
	if b.at += int64(n); b.turns > 1 && b.at > b.told {
		more := b.at - b.told
		b.told = b.at
		b.tell.addProgress(func(p *transfer.Progress) { p.Bytes += more })
	}
	return n, err
}

// countSent says that all of it is there, which is so many files and bytes.
func (b *toldBody) countSent(files, bytes int64) {
	more := bytes - b.told
	b.told = bytes
	b.tell.addProgress(func(p *transfer.Progress) { p.Files += files; p.Bytes += more })
}
