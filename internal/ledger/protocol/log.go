package protocol

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/store"
)

// Entry is one numbered object of a log. It may hold several facts (L4); those
// left out are nil. Once written it never changes.
type Entry struct {
	V     int       `json:"v"`
	Nonce string    `json:"nonce"` // its writer's mark, after an unclear answer (L1)
	By    string    `json:"by"`    // agent id, or the id of a command line
	At    time.Time `json:"at"`    // the writer's wall clock: for people only

	// A task's log.
	Submitted *Submitted `json:"submitted,omitempty"`
	Closed    *Closed    `json:"closed,omitempty"`
	Removed   *Removed   `json:"removed,omitempty"`
	Beside    *Beside    `json:"beside,omitempty"`

	// A job's log.
	Placed    *Placed  `json:"placed,omitempty"`
	Attempt   *Attempt `json:"attempt,omitempty"`
	Cancelled *Stop    `json:"cancelled,omitempty"`
	Failing   *Stop    `json:"failing,omitempty"`
	Settled   *Settled `json:"settled,omitempty"`
	Drained   *Drained `json:"drained,omitempty"`

	// A map's job log, beside these. Amended and Extended are in the log of its rounds, too.
	Amended  *Amended  `json:"amended,omitempty"`
	Extended *Extended `json:"extended,omitempty"`
	Paused   *Paused   `json:"paused,omitempty"`
	Resumed  *Resumed  `json:"resumed,omitempty"`
	// Told names agents that the engine says are gone (D1b); true: it took them.
	Told     map[string]bool `json:"told,omitempty"`
	Reopened *Reopened       `json:"reopened,omitempty"`

	// The log of a chunk. Claim is the claim that an owner's facts belong to.
	Claim    int       `json:"claim,omitempty"`
	Claimed  *Claimed  `json:"claimed,omitempty"`
	Results  []Result  `json:"results,omitempty"`
	Starting []int     `json:"starting,omitempty"` // numbers of items that start now
	Handed   *Handed   `json:"handed,omitempty"`
	Released *Released `json:"released,omitempty"`
	Ended    *Ended    `json:"ended,omitempty"`
	Again    *Again    `json:"again,omitempty"` // the job's reopened, applied to a chunk (M4)

	// The log of a rank's state.
	Restored *Restored `json:"restored,omitempty"`
	Saved    *Saved    `json:"saved,omitempty"`
	Begun    *Begun    `json:"begun,omitempty"` // rank 0's alone

	// The log of an input.
	Version *Version `json:"version,omitempty"`

	// The log of what a rank is about to leave.
	Named *Named `json:"named,omitempty"`

	// The store's own log, of gc.
	Sweep *Sweep `json:"sweep,omitempty"`
	Swept *Swept `json:"swept,omitempty"`
}

// Log reads and appends one numbered log. It keeps what it has read; nothing
// read ever becomes untrue. Not for concurrent use.
type Log struct {
	w       World
	Dir     string
	By      string
	Entries []Entry // Entries[n] is number n
}

func (w World) OpenLog(dir, by string) *Log { return &Log{w: w, Dir: dir, By: by} }

func (l *Log) EntryKey(n int) string { return fmt.Sprintf("%s/%08d", l.Dir, n) }

// Read reads on to the log's end: until the next number is absent. By the
// bucket's contract an absent answer is fresh (L6). What this process has read of
// the log before, or written, costs nothing.
func (l *Log) Read(ctx context.Context) error { return l.ReadUntil(ctx, func() bool { return false }) }

// ReadUntil is Read that stops as soon as what was read is enough.
func (l *Log) ReadUntil(ctx context.Context, enough func() bool) error {
	for !enough() {
		key := l.EntryKey(len(l.Entries))
		b, err := l.w.ReadWriteOnce(ctx, key, store.Forever, MaxEntry)
		if errors.Is(err, store.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		if err := l.applyEncoded(b, key); err != nil {
			return err
		}
	}
	return nil
}

// RecallKnown takes in what this process knows of the log, without a request. It is true
// and may be old: good for an Append, which finds out, and for what never becomes
// untrue; a caller that learns from it that something has not happened reads on.
func (l *Log) RecallKnown() error {
	for {
		key := l.EntryKey(len(l.Entries))
		b, ok := l.w.Store.Recall(key, store.Forever)
		if !ok {
			return nil
		}
		if err := l.applyEncoded(b, key); err != nil {
			return err
		}
	}
}

func (l *Log) applyEncoded(b []byte, key string) error {
	var e Entry
	if err := Decode(b, &e, &e.V, key); err != nil {
		return err
	}
	l.Entries = append(l.Entries, e)
	return nil
}

// Append writes e as the next number, if no other writer has. Either way the entry
// that holds the number has been read when it returns; when it is not mine the
// caller folds and decides again. It blocks until that is settled (L1).
func (l *Log) Append(ctx context.Context, e Entry) (mine bool, err error) {
	e.V, e.By, e.Nonce, e.At = Format, l.By, l.w.NewNonce(), l.w.Clock().Now().UTC()
	key := l.EntryKey(len(l.Entries))
	held, mine, err := l.w.Store.CreateFixed(ctx, key, Encode(e))
	if err != nil {
		return false, fmt.Errorf("append to log: %w", err)
	}
	return mine, l.applyEncoded(held, key)
}
