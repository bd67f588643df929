package maprunner

import (
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/pace"
	"github.com/drover-run/drover/internal/agent/maprunner/prefetch"
	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
)

// try is one try of an item, from when its chunk gave it until its result is known.
type try struct {
	mapagent.Try
	id        uint64
	chunk     *chunk
	group     *slotGroup     // nil: it was not sent
	item      *manifest.Item // what it says, when it had to be fetched apart
	fetching  bool
	size      int // of its text, while it is sent
	began     bool
	ended     bool // its program has ended
	signalled bool // it has got the stop signal, and SIGTERM may follow
	discarded bool // we have it ended: its end says nothing of the item, unless that had come before

	share       *prefetch.Share // the files that it was promised; nil: none, or they are gone
	timeout     time.Duration
	outputBytes int64            // bytes of its outputs, while they are stored
	staging     string           // folder of its outputs; "": none are declared
	outs        []string         // their names
	result      *protocol.Result // of one with outputs, while they are stored
}

// attempts are the tries of items, from when a chunk gave them until their results are known.
type attempts struct {
	*shared
	files      *itemFiles
	uploads    *uploads
	tries      map[uint64]*try // sent, or about to be, by command
	serial     uint32          // of commands
	heldEnds   []heldEnd       // oldest first
	pauseUntil time.Duration   // nothing is sent before
	pace       pace.Pace
}

// registerTry registers a try that a chunk has given.
func (a *attempts) registerTry(w *chunk, n mapagent.Try) *try {
	t := &try{Try: n, chunk: w}
	a.assignTryID(t)
	return t
}

// assignTryID gives a try a command's id of its own: the item's number, for the recorder,
// and what makes it unique.
func (a *attempts) assignTryID(t *try) {
	delete(a.tries, t.id)
	a.serial++
	t.id = recorder.CommandID(t.Item, a.serial)
	a.tries[t.id] = t
}

// recordUnfit records that an item cannot be run as it is.
func (a *attempts) recordUnfit(t *try, err error) {
	delete(a.tries, t.id)
	a.files.removeFiles(t)
	t.chunk.owned.Done(protocol.Result{Item: t.Item, Failed: true, Code: notExecutable, Why: a.Redact.String(recorder.OneLine(err.Error())),
		Ended: a.clock.Now().UnixMicro()})
}

// notExecutable is what a shell says of what it cannot run.
const notExecutable = 126

// returnTry gives a try that never began back to its chunk.
func (a *attempts) returnTry(t *try) {
	delete(a.tries, t.id)
	if t.share != nil {
		a.files.cache.Return(t.share)
		t.share = nil
	}
	t.chunk.owned.Back(t.Item)
}

// removeUnsent takes a try out that its runner did not begin.
func (a *attempts) removeUnsent(t *try) {
	if t.discarded && t.chunk.over {
		a.handInResult(t)
		return
	}
	a.returnTry(t)
}

// noteBegun notes that a try waits no longer in its runner.
func (a *attempts) noteBegun(t *try) {
	if !t.began {
		t.began = true
		t.group.queued--
		t.chunk.queued--
	}
}

// handleTryEnd takes the end of a try, and passes it on: to the uploaders where outputs are
// declared.
func (a *attempts) handleTryEnd(t *try, e *proc.Spawned, said *recorder.Excerpt) {
	t.ended = true
	if !e.Stopped && !t.chunk.over { // the loop had not heard of its end yet, and it was one
		t.discarded = false
	}
	if e.Err != nil && fault.KindOf(e.Err) == fault.Full && !t.discarded { // no room for a process: as if it had never been sent
		a.pauseUntil = a.bootTime() + roomPause
		t.ended = false
		a.returnTry(t)
		return
	}
	if a.holdBackEnd(t, e, said) {
		return
	}
	a.passTryEnd(t, e, said)
}

// passTryEnd passes the end of a try on.
func (a *attempts) passTryEnd(t *try, e *proc.Spawned, said *recorder.Excerpt) {
	if !t.discarded && e.Err == nil {
		a.pace.NoteWallTime(e.Ended.Sub(e.Began))
	}
	a.files.removeFiles(t)
	switch {
	case t.staging != "":
		if !t.discarded {
			r := a.tryResult(t, e, said)
			t.result = &r
		}
		a.uploads.countWaiting(t)
		a.uploads.queue.Add(t)
	case t.discarded:
		delete(a.tries, t.id)
	default:
		delete(a.tries, t.id)
		t.chunk.owned.Done(a.tryResult(t, e, said))
	}
}

// roomPause is how long nothing is sent when the machine takes no more processes.
const roomPause = 100 * time.Millisecond

// handInResult hands a result to its chunk.
func (a *attempts) handInResult(t *try) {
	delete(a.tries, t.id)
	a.files.removeFiles(t)
	if !t.discarded {
		t.chunk.owned.Done(*t.result)
	}
}
