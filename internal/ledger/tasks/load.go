package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// LoadJob reads job.json, which never changes, or remembers it: see sure. A job that was removed, or never was, is store.ErrNotExist;
// of the two a removed one is ErrRemoved as well.
func LoadJob(ctx context.Context, w protocol.World, p job.Path) (job.Job, error) {
	j, _, err := readJob(ctx, w, p)
	return j, err
}

// readJob is Load with the bytes that were read.
func readJob(ctx context.Context, w protocol.World, p job.Path) (j job.Job, body []byte, err error) {
	b, err := w.ReadWriteOnce(ctx, protocol.JobKey(p), protocol.JobSeenFor, protocol.MaxRecord)
	if errors.Is(err, store.ErrNotExist) {
		if t, terr := ReadTask(ctx, w, p); terr == nil && t.WasRemoved(p.Job) {
			return j, nil, fmt.Errorf("read job %s: %w: %w", p.Job, liveness.ErrRemoved, err)
		}
	}
	if err != nil {
		return j, nil, fmt.Errorf("read job %s: %w", p.Job, err)
	}
	if err := protocol.Decode(b, &j, &j.V, protocol.JobKey(p)); err != nil {
		return j, nil, err
	}
	return j, b, checkIsOf(j, p)
}

// LoadAccepted is Load for whatever runs a job, or has it go on: job.json must have the
// bytes that it had when the job was submitted (T1a). One that was changed since is
// ErrUnreadable, and nothing of it is returned. Behind the job's first `submitted` nothing
// is read.
func LoadAccepted(ctx context.Context, w protocol.World, p job.Path) (job.Job, error) {
	j, body, err := readJob(ctx, w, p)
	if err != nil {
		return j, err
	}
	l := w.TaskLog(p, "")
	said := func() bool {
		return slices.ContainsFunc(l.Entries, func(e protocol.TaskEntry) bool { return e.Submitted != nil && e.Submitted.Job == p.Job })
	}
	if err := l.ReadUntil(ctx, said); err != nil {
		return job.Job{}, err
	}
	if want := AcceptedRecord(l.Entries, p.Job); want != "" && want != digestOf(body) {
		return job.Job{}, fault.Wrap(protocol.MarkUnreadable(errors.New("it was changed after the job was submitted: its task's log names another digest")), fault.Bug,
			"Put job.json back from a copy of the store, or run the command again with `--force`.", "read %s", protocol.JobKey(p))
	}
	return j, nil
}

// CheckSubmitted says whether a job exists: its task's log names it (T1). What a submit
// left that never got so far is store.ErrNotExist.
func CheckSubmitted(ctx context.Context, w protocol.World, p job.Path) error {
	t, err := ReadTask(ctx, w, p)
	if err != nil {
		return err
	}
	if _, ok := t.PlaceOf(p.Job); !ok {
		return fmt.Errorf("read job %s: never submitted: %w", p.Job, store.ErrNotExist)
	}
	return nil
}

// checkIsOf refuses a record that is not of the job that it lies under: its ids become names
// of folders, and words of commands that people paste.
func checkIsOf(j job.Job, p job.Path) error {
	if j.Path() == p && j.Short != "" && strings.HasPrefix(j.ID, j.Short) {
		return nil
	}
	return fault.Wrap(protocol.MarkUnreadable(fmt.Errorf("it is another job's: %.80q, %.80q", j.Path(), j.Short)), fault.Bug, "Keep the store as it is and report this.", "read %s", protocol.JobKey(p))
}

// AcceptedRecord is the digest of a job's record by the first `submitted` of it; "": there is
// none, or it names none.
func AcceptedRecord(entries []protocol.TaskEntry, id string) store.Digest {
	for _, e := range entries {
		if e.Submitted != nil && e.Submitted.Job == id {
			return e.Submitted.Record
		}
	}
	return ""
}
