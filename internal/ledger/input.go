package ledger

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Version is what one input of a task held at some time, at input/<name>/N. Jobs name a version by its list's digest.
type Version struct {
	List  store.Digest `json:"list"`  // of files and blobs
	From  string       `json:"from"`  // as it was typed
	Files int          `json:"files"` // in it
	Bytes int64        `json:"bytes"` // of all files
}

// Versioned is a version with its number, and when it was stored by its
// writer's clock.
type Versioned struct {
	Version
	N  int
	At time.Time
}

func inputDir(p job.Path, name string) string { return taskDir(p) + "/input/" + name }

// AddVersion notes what an input of p's task holds now, unless its newest version
// is the same. What it names was stored before.
func (w World) AddVersion(ctx context.Context, p job.Path, name string, v Version, by string) error {
	l := w.openLog(inputDir(p, name), by)
	for {
		if err := l.Read(ctx); err != nil {
			return err
		}
		if n := len(l.Entries); n > 0 && l.Entries[n-1].Version != nil && l.Entries[n-1].Version.List == v.List {
			return nil
		}
		mine, err := l.Append(ctx, Entry{Version: &v})
		if err != nil || mine {
			return err
		}
	}
}

// Versions lists the versions of one input of p's task, oldest first.
func (w World) Versions(ctx context.Context, p job.Path, name string) ([]Versioned, error) {
	l := w.openLog(inputDir(p, name), "")
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

// Inputs names the inputs that jobs of p's task have had, from a listing.
func (w World) Inputs(ctx context.Context, p job.Path) iter.Seq2[string, error] {
	prefix := taskDir(p) + "/input/"
	return func(yield func(string, error) bool) {
		last := ""
		for o, err := range w.Store.List(ctx, prefix) {
			if err != nil {
				yield("", fmt.Errorf("list inputs: %w", err))
				return
			}
			name := firstPart(o.Key[len(prefix):])
			if name != last && !yield(name, nil) {
				return
			}
			last = name
		}
	}
}

func firstPart(key string) string {
	for i := range key {
		if key[i] == '/' {
			return key[:i]
		}
	}
	return key
}
