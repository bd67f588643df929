package record

import (
	"sync"

	"github.com/drover-run/drover/internal/record/redact"
)

// outlet is one Copy's way into the writer, through the redactor.
type outlet struct {
	w      *Writer
	stream Stream
	item   uint64

	mu    sync.Mutex // what is redacted is recorded under it too, and so in order
	text  redact.Stream
	quiet int // ticks since something came
}

func (w *Writer) newOutlet(stream Stream, item uint64) *outlet {
	o := &outlet{w: w, stream: stream, item: item, text: redact.NewStream(w.o.Redact)}
	if !w.o.Redact.IsEmpty() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.outlets == nil {
			w.outlets = map[*outlet]bool{}
		}
		w.outlets[o] = true
	}
	return o
}

func (o *outlet) unregister() {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	delete(o.w.outlets, o)
}

// recordShown records what may be shown now that b has come.
func (o *outlet) recordShown(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.quiet = 0
	return o.recordFrames(o.text.Next(b))
}

// recordHeld records what was held back.
func (o *outlet) recordHeld() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.recordFrames(o.text.End())
}

// recordFrames cuts what masks have made longer than a frame.
func (o *outlet) recordFrames(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), MaxFrame)
		if err := o.w.addFrame(o.stream, o.item, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// releaseHeld records what outlets hold back, once their programs have been quiet for a
// tick: one that asks "continue? y" and waits must be seen to, whatever secrets
// begin with a y. It never waits, like Note.
func (w *Writer) releaseHeld() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for o := range w.outlets {
		if w.closing || w.pack.total >= MaxPending+notesRoom {
			return
		}
		if !o.mu.TryLock() { // it is at work, and would wait for w.mu
			continue
		}
		if o.quiet++; o.quiet > 1 && o.text.HoldsText() {
			if b := o.text.Release(); len(b) > 0 {
				w.appendFrameLocked(&Frame{Stream: o.stream, Item: o.item, Data: b})
			}
		}
		o.mu.Unlock()
	}
}
