package tasks

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// Versioned is a version with its number, and when it was stored by its
// writer's clock.
type Versioned struct {
	protocol.Version
	N  int
	At time.Time
}

// AddVersion notes what an input of p's task holds now, unless its newest version
// is the same. What it names was stored before.
func AddVersion(ctx context.Context, w protocol.World, p job.Path, name string, v protocol.Version, by string) error {
	l := w.InputLog(p, name, by)
	for {
		if err := l.Read(ctx); err != nil {
			return err
		}
		if n := len(l.Entries); n > 0 && l.Entries[n-1].Version != nil && l.Entries[n-1].Version.List == v.List {
			return nil
		}
		mine, err := l.Append(ctx, protocol.InputEntry{Version: &v})
		if err != nil || mine {
			return err
		}
	}
}

// ReadVersions lists the versions of one input of p's task, oldest first.
func ReadVersions(ctx context.Context, w protocol.World, p job.Path, name string) ([]Versioned, error) {
	l := w.InputLog(p, name, "")
	if err := l.Read(ctx); err != nil {
		return nil, err
	}
	var all []Versioned
	for n, e := range l.Entries {
		if e.Version != nil {
			all = append(all, Versioned{Version: *e.Version, N: n, At: e.At})
		}
	}
	return all, nil
}

// ListInputs names the inputs that jobs of p's task have had, from a listing.
func ListInputs(ctx context.Context, w protocol.World, p job.Path) iter.Seq2[string, error] {
	prefix := protocol.TaskDir(p) + "/input/"
	return func(yield func(string, error) bool) {
		last := ""
		for o, err := range w.Store.List(ctx, prefix) {
			if err != nil {
				yield("", fmt.Errorf("list inputs: %w", err))
				return
			}
			name := protocol.FirstPart(o.Key[len(prefix):])
			if name != last && !yield(name, nil) {
				return
			}
			last = name
		}
	}
}
