package tasks

import (
	"context"
	"errors"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// ReadShortID reads a short id; ok is false for one that was withdrawn. What it names becomes
// parts of keys.
func ReadShortID(ctx context.Context, w protocol.World, key string) (p job.Path, ok bool, err error) {
	b, err := w.ReadObject(ctx, key, protocol.MaxRecord)
	if errors.Is(err, store.ErrNotExist) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	v := protocol.Format // such a record has none
	return p, true, protocol.Decode(b, &p, &v, key)
}

// FindJob resolves a short id, or the unambiguous beginning of one or of a full
// id. store.ErrNotExist when nothing matches.
func FindJob(ctx context.Context, w protocol.World, id string) (job.Path, error) {
	if len(id) > job.MinShort {
		// A full id, or more of it than the short id needs.
		for n := len(id); n >= job.MinShort; n-- {
			p, ok, err := ReadShortID(ctx, w, protocol.IDKey(id[:n]))
			if err != nil {
				return p, err
			}
			if ok && len(p.Job) >= len(id) && p.Job[:len(id)] == id {
				return p, nil
			}
		}
	}
	var found []job.Path
	var bad error
	for o, err := range w.Store.List(ctx, protocol.IDKey(id)) {
		if err != nil {
			return job.Path{}, err
		}
		p, ok, err := ReadShortID(ctx, w, o.Key)
		switch {
		case errors.Is(err, protocol.ErrUnreadable) && o.Key != protocol.IDKey(id):
			bad = err // it may be another's
		case err != nil || ok && o.Key == protocol.IDKey(id):
			return p, err
		case ok:
			if found = append(found, p); len(found) > 1 {
				return p, ErrAmbiguous
			}
		}
	}
	if len(found) == 0 && bad != nil {
		return job.Path{}, bad
	}
	if len(found) == 0 {
		return job.Path{}, store.ErrNotExist
	}
	return found[0], nil
}

// ErrAmbiguous is Find's answer when several jobs begin with what was given.
var ErrAmbiguous = errors.New("several jobs begin with it")
