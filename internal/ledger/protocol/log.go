package protocol

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Log reads and appends one numbered log of entries of one type. It keeps what was read;
// nothing read ever becomes untrue. Not for concurrent use.
type Log[E Entry] struct {
	w       World
	Dir     string
	By      string
	Entries []E // Entries[n] is number n
}

// The logs, one constructor each: a folder holds entries of one type. by is the writer; a
// reader that appends nothing leaves it empty.

func (w World) TaskLog(p job.Path, by string) *Log[TaskEntry] {
	return &Log[TaskEntry]{w: w, Dir: TaskDir(p) + "/log", By: by}
}

func (w World) JobLog(p job.Path, by string) *Log[JobEntry] {
	return &Log[JobEntry]{w: w, Dir: JobDir(p) + "/log", By: by}
}

func (w World) StateLog(p job.Path, rank int, by string) *Log[StateEntry] {
	return &Log[StateEntry]{w: w, Dir: StateDir(p, rank), By: by}
}

func (w World) InputLog(p job.Path, name, by string) *Log[InputEntry] {
	return &Log[InputEntry]{w: w, Dir: InputDir(p, name), By: by}
}

func (w World) OutputsLog(p job.Path, attempt, rank int, by string) *Log[OutputsEntry] {
	return &Log[OutputsEntry]{w: w, Dir: NamedDir(p, attempt, rank), By: by}
}

func (w World) RoundsLog(p job.Path, by string) *Log[RoundsEntry] {
	return &Log[RoundsEntry]{w: w, Dir: RoundsDir(p), By: by}
}

func (w World) SweepLog(by string) *Log[SweepEntry] {
	return &Log[SweepEntry]{w: w, Dir: SweepDir + "/log", By: by}
}

// ChunkLog reads and appends the log of one chunk. Agents keep a fold of it in its place:
// see package chunks.
func (w World) ChunkLog(p job.Path, id, by string) *Log[ChunkEntry] {
	return &Log[ChunkEntry]{w: w, Dir: JobDir(p) + "/" + ChunkDir(id), By: by}
}

func (l *Log[E]) EntryKey(n int) string { return fmt.Sprintf("%s/%08d", l.Dir, n) }

// Read reads on to the log's end: until the next number is absent. By the
// bucket's contract an absent answer is fresh (L6). What this process has read of
// the log before, or written, costs nothing.
func (l *Log[E]) Read(ctx context.Context) error {
	return l.ReadUntil(ctx, func() bool { return false })
}

// ReadUntil is Read that stops as soon as what was read is enough.
func (l *Log[E]) ReadUntil(ctx context.Context, enough func() bool) error {
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
func (l *Log[E]) RecallKnown() error {
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

func (l *Log[E]) applyEncoded(b []byte, key string) error {
	var e E
	if err := Decode(b, &e, &HeaderOf(&e).V, key); err != nil {
		return err
	}
	l.Entries = append(l.Entries, e)
	return nil
}

// Append writes e as the next number, if no other writer has. Either way the entry
// that holds the number has been read when it returns; when it is not mine the
// caller folds and decides again. It blocks until that is settled (L1).
func (l *Log[E]) Append(ctx context.Context, e E) (mine bool, err error) {
	*HeaderOf(&e) = Header{V: Format, By: l.By, Nonce: l.w.NewNonce(), At: l.w.Clock().Now().UTC()}
	key := l.EntryKey(len(l.Entries))
	held, mine, err := l.w.Store.CreateFixed(ctx, key, Encode(e))
	if err != nil {
		return false, fmt.Errorf("append to log: %w", err)
	}
	return mine, l.applyEncoded(held, key)
}
