package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/store"
)

const (
	// flushSize of frames make an object worth its request (rule M9 of docs/protocol.md).
	flushSize = 1 << 20
	// MaxPending is where the program waits for the store. Objects are stored
	// one at a time, so the next one grows while a slow store takes the last:
	// the slower the store, the fewer and larger its requests. Two of these,
	// the ring and the buffers stay far below the 64 MB an agent may take.
	MaxPending = 4 << 20
	// notesRoom is kept above MaxPending for the agent's own lines, which must
	// not wait: the agent that notes is the one that could end the wait.
	notesRoom = 1 << 20

	flushEvery   = 60 * time.Second
	flushHurried = 2 * time.Second // while a reader follows
	tick         = time.Second     // how late a flush may be; below flushHurried

	// slow is when a store that only retries by itself is worth a word.
	slow = 30 * time.Second

	backoffMin = 200 * time.Millisecond
	backoffMax = 30 * time.Second
)

// Options name the writer, and where it writes.
type Options struct {
	Store   Store
	Prefix  string // where the log objects lie, without a slash at its end
	Attempt int    // 0 to 999,999
	Rank    int    // 0 to 999,999
	ID      string // this writer's own, 1 to 32 of a-z and 0-9, never used before
	Clock   store.Clock
	// OnError, if set, hears of each request that the store refused. It is
	// called from one goroutine, without locks, and must not call Close.
	OnError func(error)
	// Prompt stores the first output after 2 s, and later output after a tenth of the writer's
	// age, up to 60 s: a reader on another machine sees early what a program begins with, for
	// some 50 requests more in the first ten minutes.
	Prompt bool
	// Redact takes secrets out of output and notes before anything else is done
	// with them. nil: there are none.
	Redact *redact.Redactor
}

// Writer stores what a program prints. All methods may be called from many
// goroutines at once.
type Writer struct {
	o       Options
	at      Origin
	abandon context.CancelCauseFunc // makes the goroutines below give up
	run     sync.WaitGroup          // keep and watch; Close waits for them
	made    time.Duration           // when

	mu      sync.Mutex
	changed *sync.Cond // on mu: anything below changed
	pack    *packer
	body    []byte        // the object being built: its packed blocks
	since   time.Duration // when its first frame came
	seq     uint64        // last given to a frame
	stored  uint64        // last that is stored
	want    uint64        // to be stored without delay
	storing int           // bytes of the object being stored
	asked   time.Duration // since when
	overdue bool
	hurried bool
	dropped int // notes
	closing bool
	over    bool             // nothing will be stored any more
	trouble error            // what the store said last, nil when it took it
	lost    error            // why frames were given up
	outlets map[*outlet]bool // of Copies that redact

	ticking func(now time.Time) // what else watch does each tick, without locks; nil: nothing

	live live
}

var errClosed = errors.New("record output: the writer is closed")

// NewWriter makes a writer. It stores from its own goroutines until Close,
// which must be called. Errors: a place or an id that cannot name objects.
func NewWriter(o Options) (*Writer, error) {
	at := Origin{o.Attempt, o.Rank, o.ID}
	if err := at.checkBounds(); err != nil {
		return nil, err
	}
	if err := store.CheckKey(o.Prefix); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = store.System
	}
	pack, err := newPacker()
	if err != nil {
		return nil, fmt.Errorf("record output: %w", err)
	}
	w := &Writer{o: o, at: at, pack: pack, made: o.Clock.Boot()}
	w.changed = sync.NewCond(&w.mu)
	// The writer outlives whatever asked for it: what a cancelled program said
	// last is what people look for. Close alone ends it.
	ctx, abandon := context.WithCancelCause(context.Background())
	w.abandon = abandon
	w.run.Go(func() { w.storeObjects(ctx) })
	w.run.Go(func() { w.watchOverdue(ctx) })
	return w, nil
}

var buffers = sync.Pool{New: func() any { return new([MaxFrame]byte) }}

// Copy records r until its end, and gives the bytes it read. item is 0 for
// none. It waits when the store is slower than r. Errors: those of reading r;
// the writer was closed. The caller closes r, which also ends a Copy that waits
// for r.
func (w *Writer) Copy(stream Stream, item uint64, r io.Reader) (int64, error) {
	buf := buffers.Get().(*[MaxFrame]byte)
	defer buffers.Put(buf)
	o := w.newOutlet(stream, item)
	defer o.unregister()
	var total int64
	for {
		n, err := r.Read(buf[:])
		if n > 0 {
			if err := o.recordShown(buf[:n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		if err != nil {
			rest := o.recordHeld()
			if errors.Is(err, io.EOF) {
				return total, rest
			}
			return total, fmt.Errorf("read %s: %w", stream, err)
		}
	}
}

func (w *Writer) addFrame(stream Stream, item uint64, b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.pack.total >= MaxPending && !w.closing {
		w.changed.Wait()
	}
	if w.closing {
		return errClosed
	}
	w.appendFrameLocked(&Frame{Stream: stream, Item: item, Data: b})
	return nil
}

// Note records a line of drover's own. It never waits: while the store is so
// slow that there is no room, notes are dropped and counted, and the next one
// says how many. After Close it does nothing.
func (w *Writer) Note(text string) {
	text = strings.TrimSuffix(w.o.Redact.String(text), "\n") + "\n"
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return
	}
	if w.pack.total+len(text) > MaxPending+notesRoom {
		w.dropped++
		return
	}
	if w.dropped > 0 {
		text = fmt.Sprintf("%d notes were dropped while the store was slow\n%s", w.dropped, text)
		w.dropped = 0
	}
	for b := []byte(text); len(b) > 0; {
		n := min(len(b), MaxFrame)
		w.appendFrameLocked(&Frame{Stream: Agent, Data: b[:n]})
		b = b[n:]
	}
}

// TryAdd is add that never waits: false says that there was no room, or that w
// is closed.
func (w *Writer) TryAdd(stream Stream, item uint64, b []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing || w.pack.total >= MaxPending {
		return false
	}
	w.appendFrameLocked(&Frame{Stream: stream, Item: item, Data: b})
	return true
}

// PendingBytes is how many bytes wait for the store.
func (w *Writer) PendingBytes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pack.total + w.storing
}

// OnTick has each called with the clock's time whenever the writer looks whether a
// block is due, without its locks.
func (w *Writer) OnTick(each func(now time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticking = each
}

// appendFrameLocked numbers a frame and puts it into the block and the ring. w.mu is held.
func (w *Writer) appendFrameLocked(f *Frame) {
	if w.pack.total == 0 {
		w.since = w.o.Clock.Boot()
	}
	w.seq++
	f.Seq, f.Time = w.seq, w.o.Clock.Now()
	var encoded []byte
	w.body, encoded = w.pack.addFrame(w.body, f)
	w.live.ring.addFrame(encoded, f.Seq)
	w.changed.Broadcast()
}

// Hurry says whether a reader reads from the store while the program runs, so
// that it is written every 2 s instead of every 60 s. Followers on the socket
// are counted without it.
func (w *Writer) Hurry(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hurried = yes
}

// Flush stores all that was recorded before the call, and blocks until it is.
// Errors: ctx ended first; the writer gave up.
func (w *Writer) Flush(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed.Broadcast()
	})
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	target := w.seq
	w.want = max(w.want, target)
	w.changed.Broadcast()
	for w.stored < target && !w.over && ctx.Err() == nil {
		w.changed.Wait()
	}
	switch {
	case w.stored >= target:
		return nil
	case w.over:
		return w.lost
	}
	return fmt.Errorf("store output of %s: %w", w.at, context.Cause(ctx))
}

// Err is what the store answered last if it was a refusal, or that it has not
// answered for half a minute; the writer goes on trying. It is nil when all is
// well.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	silent := w.o.Clock.Boot() - w.asked
	if w.trouble == nil && w.storing > 0 && silent >= slow {
		return fault.New(fault.Lost, "", "store output of %s: no answer for %s", w.at, silent.Round(time.Second))
	}
	return w.trouble
}

// Close stores what is left, tells the followers that this is the end, and
// frees everything. When ctx ends first it gives up and says what was lost. It
// may be called twice. Copies that still run end with an error.
func (w *Writer) Close(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { w.abandon(context.Cause(ctx)) })
	defer stop()
	w.mu.Lock()
	w.closing = true
	w.changed.Broadcast()
	w.mu.Unlock()
	w.run.Wait()
	w.live.closeServer(w)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// String is the place as it stands in messages.
func (p Origin) String() string { return fmt.Sprintf("attempt %d, rank %d", p.Attempt, p.Rank) }

// storeObjects stores one object after the other until the writer is closed and all is
// stored, or ctx ends.
func (w *Writer) storeObjects(ctx context.Context) {
	defer w.abandon(nil) // ends watch
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.changed.Broadcast()
	var spare []byte // two bodies take turns, so that 10 GB make no garbage
	for number := 0; ; {
		for !w.flushIsDue() && !w.closing {
			w.changed.Wait()
		}
		if w.pack.total == 0 { // only when closing
			w.over = true
			return
		}
		raw, last := w.pack.total, w.seq
		body := w.pack.sealObject(w.body, w.at)
		w.body, w.storing, w.overdue = spare[:0], len(body), false
		w.asked = w.o.Clock.Boot()
		w.changed.Broadcast()
		w.mu.Unlock()
		next, err := w.putObject(ctx, number, body)
		w.mu.Lock()
		number, spare, w.storing = next, body, 0
		if err != nil {
			w.over, w.closing = true, true
			w.lost = fault.Wrap(err, fault.Lost, "", "store output of %s: %d bytes are lost", w.at, raw+w.pack.total)
			return
		}
		w.stored = last
		w.changed.Broadcast()
	}
}

func (w *Writer) flushIsDue() bool {
	return w.pack.total >= flushSize || w.pack.total > 0 && (w.overdue || w.want > w.stored)
}

// putObject stores body under number, or the first free number after it, and gives
// the next. It tries for ever: a run must not fail because its log is slow.
func (w *Writer) putObject(ctx context.Context, number int, body []byte) (next int, err error) {
	for wait := backoffMin; ; wait = min(2*wait, backoffMax) {
		key := w.at.Key(w.o.Prefix, number)
		_, mine, err := w.o.Store.CreateOnce(ctx, key, body)
		if err == nil && mine {
			w.setTrouble(nil)
			return number + 1, nil
		}
		if ctx.Err() != nil {
			return number, context.Cause(ctx)
		}
		if err == nil {
			// Another writer has our id. Its objects stay; ours go behind them.
			err = fault.New(fault.Bug, "", "store output: %s: another writer was given the same id", key)
			number++
		}
		w.setTrouble(err)
		if err := w.o.Clock.Sleep(ctx, wait); err != nil {
			return number, err
		}
	}
}

func (w *Writer) setTrouble(err error) {
	w.mu.Lock()
	w.trouble = err
	w.mu.Unlock()
	if err != nil && w.o.OnError != nil {
		w.o.OnError(err)
	}
}

// flushPeriod is how long a frame may wait until it is stored.
func (w *Writer) flushPeriod() time.Duration {
	switch {
	case w.hurried || len(w.live.followers) > 0:
		return flushHurried
	case w.o.Prompt:
		return min(max((w.o.Clock.Boot()-w.made)/10, flushHurried), flushEvery)
	}
	return flushEvery
}

// watchOverdue makes frames that have waited long enough due.
func (w *Writer) watchOverdue(ctx context.Context) {
	for w.o.Clock.Sleep(ctx, tick) == nil {
		w.releaseHeld()
		w.mu.Lock()
		ticking := w.ticking
		w.mu.Unlock()
		if ticking != nil {
			ticking(w.o.Clock.Now())
		}
		w.mu.Lock()
		if w.pack.total > 0 && w.o.Clock.Boot()-w.since >= w.flushPeriod() {
			w.overdue = true
			w.changed.Broadcast()
		}
		w.mu.Unlock()
	}
}
