package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Entry is one numbered object of a log. It may hold several facts (L4); those
// left out are nil. Once written it never changes.
type Entry struct {
	V     int       `json:"v"`
	Nonce string    `json:"nonce"` // whose it is, after an unclear answer (L1)
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

// Submitted says that a job exists and is the task's live one (T1).
type Submitted struct {
	Job string `json:"job"`
	// Record is the digest of job.json's bytes (T1a). "": of an older drover.
	Record store.Digest `json:"record,omitempty"`
}

// Closed says that the task's live job has settled (T1: "settled(J)").
type Closed struct {
	Job string `json:"job"`
}

// Beside says that commands of the task with certain settings are jobs of another task:
// when the first such was submitted, a job with other settings was live (T3).
type Beside struct {
	Key  string `json:"key"`  // digest of the settings
	Task string `json:"task"` // of the same project
}

// Placed comes before the driver is asked for agents (J1): the engine's name
// for them is the job's id and Placement, so an ambiguous start is found again.
type Placed struct {
	Placement int    `json:"placement"` // 1, 2, ...
	Agents    int    `json:"agents"`    // how many were asked for
	Target    string `json:"target"`
	// Inherited are the variables of the command that asks for the agents, where these
	// inherit them and they are others than the job's; nil: they are the job's.
	Inherited *job.Inherited `json:"inherited,omitempty"`
}

// Cause says why an attempt was opened.
type Cause string

// The causes of R3, and the first attempt's. Only Failure spends a retry; Lost
// and Notice count as interruptions; Asked (Ctrl-C, then resume) is nobody's fault.
const (
	First   Cause = "first"
	Lost    Cause = "lost"
	Notice  Cause = "notice"
	Asked   Cause = "asked"
	Failure Cause = "failure"
)

// Attempt opens try K of the whole run. Keep names the survivors and the ranks
// they keep.
type Attempt struct {
	K     int            `json:"k"` // 1, 2, ...
	Cause Cause          `json:"cause"`
	Ranks []int          `json:"ranks,omitempty"` // the ranks that caused it
	Keep  map[int]string `json:"keep,omitempty"`  // rank -> agent id
}

// Stop ends a job early: somebody cancelled it, or a limit was reached (E1).
type Stop struct {
	Reason string `json:"reason,omitempty"`
	Code   int    `json:"code,omitempty"` // exit status to give, 0: by kind
	// Drain lets a map's running items end (E2), until a cancel without it.
	Drain bool `json:"drain,omitempty"`
}

// hardenedBy says whether a later cancel takes the place of the stop that stands:
// one that was to let items end is cancelled outright.
func (s *Stop) hardenedBy(later Stop) bool { return s != nil && s.Drain && !later.Drain }

// Settled ends a job for good.
type Settled struct {
	State   job.State `json:"state"`
	Attempt int       `json:"attempt"`        // the attempt whose outputs count; 0: none
	Rank    int       `json:"rank"`           // the rank that Code and Reason come from
	Code    int       `json:"code"`           // the program's exit status, or drover's
	Reason  string    `json:"reason"`         // one line; empty after success
	Hint    string    `json:"hint,omitempty"` // one command or sentence that would help
	// Tally counts the items of a map. Place is the job's place in its task's log
	// for which this was said: a map may settle again at a later one (T2).
	Tally *job.Tally `json:"tally,omitempty"`
	Place int        `json:"place,omitempty"`
}

// Log reads and appends one numbered log. It keeps what it has read; nothing
// read ever becomes untrue. Not for concurrent use.
type Log struct {
	w       World
	dir     string
	by      string
	Entries []Entry // Entries[n] is number n
}

func (w World) openLog(dir, by string) *Log { return &Log{w: w, dir: dir, by: by} }

func (l *Log) key(n int) string { return fmt.Sprintf("%s/%08d", l.dir, n) }

// Read reads on to the log's end: until the next number is absent. By the
// bucket's contract an absent answer is fresh (L6). What this process has read of
// the log before, or written, costs nothing.
func (l *Log) Read(ctx context.Context) error { return l.readUntil(ctx, func() bool { return false }) }

// readUntil is Read that stops as soon as what was read is enough.
func (l *Log) readUntil(ctx context.Context, enough func() bool) error {
	for !enough() {
		key := l.key(len(l.Entries))
		b, err := l.w.fixed(ctx, key, store.Forever, maxEntry)
		if errors.Is(err, store.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		if err := l.take(b, key); err != nil {
			return err
		}
	}
	return nil
}

// recall takes in what this process knows of the log, without a request. It is true
// and may be old: good for an Append, which finds out, and for what never becomes
// untrue; whoever is told by it that something has not happened reads on.
func (l *Log) recall() error {
	for {
		key := l.key(len(l.Entries))
		b, ok := l.w.Store.Recall(key, store.Forever)
		if !ok {
			return nil
		}
		if err := l.take(b, key); err != nil {
			return err
		}
	}
}

func (l *Log) take(b []byte, key string) error {
	var e Entry
	if err := decode(b, &e, &e.V, key); err != nil {
		return err
	}
	l.Entries = append(l.Entries, e)
	return nil
}

// Append writes e as the next number, if nobody else has. Either way the entry
// that holds the number has been read when it returns; when it is not mine the
// caller folds and decides again. It blocks until that is settled (L1).
func (l *Log) Append(ctx context.Context, e Entry) (mine bool, err error) {
	e.V, e.By, e.Nonce, e.At = format, l.by, l.w.nonce(), l.w.clock().Now().UTC()
	key := l.key(len(l.Entries))
	held, mine, err := l.w.Store.CreateFixed(ctx, key, encode(e))
	if err != nil {
		return false, fmt.Errorf("append to log: %w", err)
	}
	return mine, l.take(held, key)
}
