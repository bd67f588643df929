// Package record keeps what a program prints and shows it again: byte for byte,
// in order, while it runs and for as long as the job's objects are kept.
//
// A Writer, in the agent, turns pipes into frames, frames into log objects, and
// serves the newest frames on a unix socket. Read gives frames back from the
// stored objects, ReadTail the last of them, Follow from both until the job has
// settled. Package line makes lines of frames and searches them, metric finds
// numbers in what is printed and keeps them in frames of the same form, redact
// masks secrets before anything is stored, and screen makes text safe to show.
//
// It refuses to know what an attempt, a rank or an item is, when a job is
// settled, how a terminal looks, and which store it writes to. Nothing here
// decides anything: a log that is slow or lost never fails a run.
//
// Proved by its own tests: random streams come back byte for byte, a follower
// that is cut off at random misses and repeats nothing, a blocked store bounds
// memory, and every decoder is fuzzed.
package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// Stream says where bytes came from. The values are bits, so that a Filter can
// hold several.
type Stream uint8

// The streams of a frame.
const (
	Stdout Stream = 1 << iota // the program's standard output
	Stderr                    // the program's standard error
	Agent                     // drover's own notes
	Metric                    // numbers found in the output; below a prefix of their own
	Usage                     // what the node used; the same
)

// String is the stream's name as it stands in JSON and in flags.
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	case Agent:
		return "agent"
	case Metric:
		return "metric"
	case Usage:
		return "usage"
	}
	return "stream-" + strconv.Itoa(int(s))
}

// Frame is what one read of a pipe gave, or one note.
type Frame struct {
	Attempt int       // of the run; for a map, whatever its agents agreed on
	Rank    int       // of the node
	Writer  string    // id of the Writer: no two ever share one
	Seq     uint64    // 1, 2, 3 ... of its writer, without holes
	Item    uint64    // 0: none
	Stream  Stream    // exactly one
	Time    time.Time // when it was read, UTC, in microseconds, by the writer's wall clock
	Data    []byte    // exactly as read, at most 64 KiB; may be kept, never changed
}

// Store is what this package needs of *store.Store.
type Store interface {
	// CreateOnce writes key if it is absent. mine is false when another writer's
	// bytes are there, which are then held. It does not keep body.
	CreateOnce(ctx context.Context, key string, body []byte) (held []byte, mine bool, err error)
	// Get reads a whole object; store.ErrNotExist if it is absent.
	Get(ctx context.Context, key string) ([]byte, error)
	// Open reads n bytes from off. The caller closes.
	Open(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
	// List gives the objects below prefix in byte order of their keys. It may
	// be told too little (rule L6 of docs/protocol.md).
	List(ctx context.Context, prefix string) iter.Seq2[store.Object, error]
}

var _ Store = (*store.Store)(nil)

// Origin identifies the writer of output. Objects are numbered from 0 and stored strictly one after the other, so what
// is stored of a writer is always a beginning of what it wrote, without holes.
type Origin struct {
	Attempt, Rank int
	Writer        string
}

const (
	maxAttempt = 999_999
	maxRank    = 999_999
	maxObjects = 99_999_999
	maxID      = 32 // bytes of a writer's id
)

// Key names the n-th object of a writer. Padding makes byte order the order of
// attempt, rank, writer, n.
func (p Origin) Key(prefix string, n int) string {
	return fmt.Sprintf("%s/%06d-%06d-%s-%08d", prefix, p.Attempt, p.Rank, p.Writer, n)
}

func (p Origin) checkBounds() error {
	switch {
	case p.Attempt < 0 || p.Attempt > maxAttempt:
		return fault.New(fault.Bug, "", "record output: attempt %d is not within 0 and %d", p.Attempt, maxAttempt)
	case p.Rank < 0 || p.Rank > maxRank:
		return fault.New(fault.Bug, "", "record output: rank %d is not within 0 and %d", p.Rank, maxRank)
	case !plainID(p.Writer):
		return fault.New(fault.Bug, "", "record output: writer id %q is not 1 to %d of a-z and 0-9", p.Writer, maxID)
	}
	return nil
}

func plainID(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= maxID
}

// ParseKey is key's inverse; what is not one of ours is not an error, only not ok.
func ParseKey(prefix, key string) (p Origin, n int, ok bool) {
	name, found := strings.CutPrefix(key, prefix+"/")
	if !found {
		return p, 0, false
	}
	parts := strings.Split(name, "-")
	if len(parts) != 4 {
		return p, 0, false
	}
	var errs [3]error
	p.Attempt, errs[0] = strconv.Atoi(parts[0])
	p.Rank, errs[1] = strconv.Atoi(parts[1])
	p.Writer = parts[2]
	n, errs[2] = strconv.Atoi(parts[3])
	if errors.Join(errs[:]...) != nil || n < 0 || p.checkBounds() != nil {
		return p, 0, false
	}
	return p, n, p.Key(prefix, n) == key
}

// Source is what a line belongs to.
type Source struct {
	Origin
	Item   uint64
	Stream Stream
}

func (f *Frame) Source() Source {
	return Source{Origin{f.Attempt, f.Rank, f.Writer}, f.Item, f.Stream}
}
