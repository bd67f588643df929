// Package ledger implements the protocol of docs/protocol.md: which agent does what,
// and what is done, as facts in a store. Everything that changes is a small log of
// numbered entries; a process writes an entry by creating the object with the next
// number; the state is the fold of a log's entries.
//
// Package ledger depends on a store, a clock and randomness alone, so that the
// simulators in its tests drive this code through crashes, pauses and lost replies.
// What follows next is decided by pure functions (Run.Next, Map.Next). Member and
// MapMember are an agent's part, Keeper and MapKeeper that of an attached command line,
// MapView a reader's.
//
// It refuses to know processes, machines, files and terminals. Proved by simulations
// with planted mutants (docs/design/002, 012).
package ledger

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// The protocol's times. Leases bound repeated work, they never protect correctness (D3).
const (
	Lease     = 60 * time.Second // a counter that stood still so long is a dead agent's (D1)
	Heartbeat = 15 * time.Second // four fit into a lease, so that three may be lost
	Poll      = 5 * time.Second  // how often an agent reads the job's log at least (R7)
	// readGap is the longest pause between two looks after which a lease is
	// counted anew (D2). It must be longer than Heartbeat, or no lease would
	// ever run out, and shorter than Lease.
	readGap = 30 * time.Second
	// keepRank is how long a survivor's rank stays reserved in a new attempt
	// (R3). It must be longer than Lease: a survivor may be paused that long
	// and still count as alive.
	keepRank = 120 * time.Second
	// stopGrace is the part of R8's bound that the user's grace is added to.
	stopGrace = 30 * time.Second
	// sure is how long a job.json that was seen counts as there. It is asked for
	// that often and no more by all that one process does for a job, so that one
	// which was removed gets at most one heartbeat more of an agent (E6): what an
	// agent writes meanwhile a later gc sweeps.
	sure = Heartbeat
	// MaxInterruptions bounds a run that is interrupted for ever (R5).
	MaxInterruptions = 20
)

// World is all a ledger touches.
type World struct {
	Store *store.Store
	Rand  io.Reader // for nonces, ids and tokens
	// Gone tells whether the process of an agent on this very machine is gone
	// (D1a); known is false for agents elsewhere.
	Gone func(Host) (gone, known bool)
	// Lanes is how many requests who only looks may have under way at once; 0: one. An
	// agent has one: what thousands of them ask for is to be spread over time.
	Lanes int
}

// Host says which process on which machine an agent is. Equal boot ids and
// equal PID namespaces make its PID comparable with ours.
type Host struct {
	Boot      string `json:"boot,omitempty"`
	Namespace string `json:"ns,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Start     uint64 `json:"start,omitempty"`
}

func (w World) clock() store.Clock { return w.Store.Clock() }

// Stagger is how long an agent of an object store waits before its first request. An
// engine may start ten thousand in one second, and S3 takes 3,500 writes and 5,500
// reads a second of one prefix: so they come at most 500 a second, in the order of
// their index, and what they do every so often stays apart as well.
func Stagger(index int) time.Duration {
	const apart, most = 2 * time.Millisecond, 30 * time.Second
	return min(time.Duration(max(0, index-fewAgents))*apart, most)
}

// nonce is 16 random hex digits: the mark by which a writer knows its entry.
func (w World) nonce() string {
	var b [8]byte
	if _, err := io.ReadFull(w.Rand, b[:]); err != nil {
		panic(fmt.Sprintf("reading randomness: %v", err)) // the machine cannot go on
	}
	return hex.EncodeToString(b[:])
}

// NewID makes a job id.
func (w World) NewID() string {
	var b [job.IDBytes]byte
	if _, err := io.ReadFull(w.Rand, b[:]); err != nil {
		panic(fmt.Sprintf("reading randomness: %v", err))
	}
	return job.ID(b)
}

// The keys of the object layout in docs/protocol.md.
func taskDir(p job.Path) string { return p.Project + "/" + p.Task }
func jobDir(p job.Path) string  { return taskDir(p) + "/" + p.Job }
func jobKey(p job.Path) string  { return jobDir(p) + "/job.json" }
func attemptKey(p job.Path, k int, what string, rank int) string {
	return fmt.Sprintf("%s/attempts/%d/%s/%d", jobDir(p), k, what, rank)
}
func agentKey(p job.Path, id string) string { return jobDir(p) + "/agents/" + id }
func idKey(short string) string             { return "ids/" + short }

// LogsPrefix is where the job's log objects lie.
func LogsPrefix(p job.Path) string { return jobDir(p) + "/logs" }

// MetricsPrefix is where the numbers found in its output lie, UsagePrefix what
// its nodes used.
func MetricsPrefix(p job.Path) string { return jobDir(p) + "/metrics" }
func UsagePrefix(p job.Path) string   { return jobDir(p) + "/usage" }

// ItemsPrefix is where the lists of a map's items lie, and OutPrefix what each try
// of an item left: see OutKey.
func ItemsPrefix(p job.Path) string { return jobDir(p) + "/items" }
func OutPrefix(p job.Path, item int, try string) string {
	return fmt.Sprintf("%s/out/%d/%s", jobDir(p), item, try)
}

// OutputPrefix is where the archives made after the end lie.
func OutputPrefix(p job.Path) string { return jobDir(p) + "/output" }

// Load reads job.json, which never changes, or remembers it: see sure. A job that was removed, or never was, is store.ErrNotExist;
// of the two a removed one is ErrRemoved as well.
func (w World) Load(ctx context.Context, p job.Path) (job.Job, error) {
	j, _, err := w.load(ctx, p)
	return j, err
}

// load is Load with the bytes that were read.
func (w World) load(ctx context.Context, p job.Path) (j job.Job, body []byte, err error) {
	b, err := w.fixed(ctx, jobKey(p), sure, maxRecord)
	if errors.Is(err, store.ErrNotExist) {
		if t, terr := w.Task(ctx, p); terr == nil && t.removed(p.Job) {
			return j, nil, fmt.Errorf("read job %s: %w: %w", p.Job, ErrRemoved, err)
		}
	}
	if err != nil {
		return j, nil, fmt.Errorf("read job %s: %w", p.Job, err)
	}
	if err := decode(b, &j, &j.V, jobKey(p)); err != nil {
		return j, nil, err
	}
	return j, b, of(j, p)
}

// of refuses a record that is not of the job that it lies under: its ids become names
// of folders, and words of commands that people paste.
func of(j job.Job, p job.Path) error {
	if j.Path() == p && j.Short != "" && strings.HasPrefix(j.ID, j.Short) {
		return nil
	}
	return fault.Wrap(unreadable{fmt.Errorf("it is another job's: %.80q, %.80q", j.Path(), j.Short)}, fault.Bug, "Keep the store as it is and report this.", "read %s", jobKey(p))
}

// format is the newest entry and record format this code can read. A reader
// that meets a newer one refuses rather than guess.
const format = 1

// ErrUnreadable says that an object is there and was read, and that what it holds is
// damaged, or of a newer drover. Another job's objects may be as good as ever.
var ErrUnreadable = errors.New("it cannot be read")

// unreadable is why, in its own words.
type unreadable struct{ error }

func (u unreadable) Is(target error) bool { return target == ErrUnreadable }
func (u unreadable) Unwrap() error        { return u.error }

// decode reads a record of this format, and holds it against its bounds: see check.go.
func decode(b []byte, into any, v *int, key string) error {
	damaged := func(err error) error {
		return fault.Wrap(unreadable{shortened{err}}, fault.Bug, "Keep the store as it is and report this.", "read %s", key)
	}
	if most := maxSize(into); len(b) > most {
		return damaged(fmt.Errorf("it has %d bytes, at most %d", len(b), most))
	}
	if len(b) > fewBytes && structs(b) > maxStructs {
		return damaged(fmt.Errorf("it holds more than %d records", maxStructs))
	}
	if err := json.Unmarshal(b, into); err != nil {
		return damaged(err)
	}
	if *v > format {
		return fault.Wrap(unreadable{fmt.Errorf("format %d, this drover knows %d", *v, format)}, fault.Invalid, "Use the newer drover that wrote it.", "read %s", key)
	}
	if r, ok := into.(checked); ok {
		if err := r.Check(); err != nil {
			return damaged(err)
		}
	}
	return nil
}

// get reads an object of the ledger's own, and fixed one that is never rewritten: see
// store.Store. What is no object of drover's, or has more than most bytes, is ErrUnreadable;
// many are read at once, so none comes into memory beyond its bound.
func (w World) get(ctx context.Context, key string, most int) ([]byte, error) {
	b, err := w.Store.GetAtMost(ctx, key, most)
	return b, misread(err)
}

func (w World) fixed(ctx context.Context, key string, age time.Duration, most int) ([]byte, error) {
	b, err := w.Store.Fixed(ctx, key, age, most)
	return b, misread(err)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err)) // our own plain structs
	}
	return b
}

// getRecord reads and decodes a write-once record; ok is false when it is absent.
func getRecord[T any](ctx context.Context, w World, key string, v func(*T) *int) (rec T, ok bool, err error) {
	b, err := w.fixed(ctx, key, store.Forever, maxSize(&rec))
	if errors.Is(err, store.ErrNotExist) {
		return rec, false, nil
	}
	if err != nil {
		return rec, false, fmt.Errorf("read %s: %w", key, err)
	}
	return rec, true, decode(b, &rec, v(&rec), key)
}
