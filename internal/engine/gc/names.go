package gc

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// key is a digest as it is kept by the million.
type key [32]byte

func keyOf(d store.Digest) (k key, ok bool) {
	n, err := hex.Decode(k[:], []byte(d))
	return k, err == nil && n == len(k)
}

func (k key) digest() store.Digest { return store.Digest(hex.EncodeToString(k[:])) }

// blob is one that nothing names.
type blob struct {
	key  key
	size int64
	at   int64 // when it was stored, by the store's clock, in Unix seconds
}

// names are the blobs that entries name, by themselves or in a list of files. It
// only grows: what was named once in a look is not deleted after it.
type names struct {
	store *store.Store
	set   map[key]struct{}
	lists map[store.Digest][]key // lists of files that were read, and the blobs in them
	items map[string]bool        // lists of items' files that were read, by key
	// unknown says why not all that is named is known, after the last add; none: it is.
	unknown []error
}

func newNames(s *store.Store) *names {
	return &names{store: s, set: map[key]struct{}{}, lists: map[store.Digest][]key{}, items: map[string]bool{}}
}

// addNames takes in what a census has found, but for jobs that go. What cannot be read may
// name any blob, and is in unknown.
func (n *names) addNames(ctx context.Context, census *removal.Inventory, going map[job.Path]bool) error {
	n.unknown = census.Unreadable()
	for _, j := range census.Jobs() {
		if going[j.Path] || !j.There || j.Removed {
			continue
		}
		if err := n.addJobNames(ctx, j); err != nil && !n.noteUnreadable(ctx, err) {
			return err
		}
	}
	for _, t := range census.Tasks() {
		if err := n.addTaskNames(ctx, t); err != nil && !n.noteUnreadable(ctx, err) {
			return err
		}
	}
	return nil
}

// noteUnreadable notes what could not be read, unless we were told to stop.
func (n *names) noteUnreadable(ctx context.Context, err error) bool {
	if context.Cause(ctx) != nil {
		return false
	}
	n.unknown = append(n.unknown, err)
	return true
}

// whyNotKnown is why no blob may go, in one line; "" when all that is named is known.
func (n *names) whyNotKnown() string {
	if len(n.unknown) == 0 {
		return ""
	}
	more := ""
	if others := len(n.unknown) - 1; others > 0 {
		more = fmt.Sprintf(", and %d more", others)
	}
	return fmt.Sprintf("what cannot be read may name them: %v%s", n.unknown[0], more)
}

func (n *names) addJobNames(ctx context.Context, j *removal.Counted) error {
	if j.Job.Code.Blob != "" {
		n.addBlobName(store.Digest(j.Job.Code.Blob))
	}
	for _, code := range j.Codes {
		n.addBlobName(code)
	}
	for _, name := range slices.Sorted(maps.Keys(j.Job.Inputs)) {
		if _, err := n.addListNames(ctx, store.Digest(j.Job.Inputs[name])); err != nil {
			return fmt.Errorf("read inputs of job %s: %w", j.Path.Job, err)
		}
	}
	for _, m := range append([]job.Manifest{j.Job.Manifest}, j.More...) {
		if err := n.addItemNames(ctx, m); err != nil {
			return fmt.Errorf("read items of job %s: %w", j.Path.Job, err)
		}
	}
	for _, list := range j.Outputs {
		if _, err := n.addListNames(ctx, list); err != nil {
			return fmt.Errorf("read outputs of job %s: %w", j.Path.Job, err)
		}
	}
	return nil
}

func (n *names) addTaskNames(ctx context.Context, t *removal.CountedTask) error {
	for _, rank := range slices.Sorted(maps.Keys(t.Generations)) {
		if err := n.addStateNames(ctx, t.Generations[rank]); err != nil {
			return fmt.Errorf("read state of task %s, node %d: %w", t.Path.Task, rank, err)
		}
		for _, d := range t.Restoring[rank].Lists() { // the newest whole one may be another by now
			if _, err := n.addListNames(ctx, d); err != nil {
				return fmt.Errorf("read state of task %s, node %d: %w", t.Path.Task, rank, err)
			}
		}
	}
	// What ranks that share a state began with: the newest that is whole, by the
	// same rule. What they have saved since were named above.
	var begun []protocol.Saved
	for _, b := range t.Begun {
		begun = append(begun, protocol.Saved{State: b.State})
	}
	if err := n.addStateNames(ctx, begun); err != nil {
		return fmt.Errorf("read state of task %s: %w", t.Path.Task, err)
	}
	return nil
}

// addStateNames names the newest generation that is whole, which is what the next attempt
// begins with (R6), and those after it: a saver may be about to complete them.
func (n *names) addStateNames(ctx context.Context, newestFirst []protocol.Saved) error {
	for _, s := range newestFirst {
		whole := true
		for _, d := range s.Lists() {
			w, err := n.addListNames(ctx, d)
			if err != nil {
				return err
			}
			for _, k := range n.lists[d] {
				if !w {
					break
				}
				if w, err = n.store.HasBlob(ctx, k.digest()); err != nil {
					return err
				}
			}
			whole = whole && w
		}
		if whole {
			return nil
		}
	}
	return nil
}

func (n *names) addBlobName(d store.Digest) {
	if k, ok := keyOf(d); ok {
		n.set[k] = struct{}{}
	}
}

// addListNames names a list of files and all that it holds. there is false when the list
// is not in the store: then it is named alone. One that is there and cannot be read
// is an error: its blobs are not known, and must not go.
func (n *names) addListNames(ctx context.Context, d store.Digest) (there bool, err error) {
	n.addBlobName(d)
	if _, read := n.lists[d]; read {
		return true, nil
	}
	t, err := tree.LoadTree(ctx, n.store, d)
	if errors.Is(err, store.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	keys := make([]key, 0, len(t.Files))
	for _, d := range t.Blobs() {
		if k, ok := keyOf(d); ok {
			n.set[k] = struct{}{}
			keys = append(keys, k)
		}
	}
	n.lists[d] = keys
	return true, nil
}

// addItemNames names the files that items name. A list that is gone names nothing: no
// agent could find a file by it.
func (n *names) addItemNames(ctx context.Context, m job.Manifest) error {
	if m.Files == nil || n.items[m.Files.Key] {
		return nil
	}
	for d, err := range manifest.Blobs(ctx, n.store, m) {
		if errors.Is(err, store.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		n.addBlobName(d)
	}
	n.items[m.Files.Key] = true
	return nil
}

// listUnnamed lists the blobs that nothing names, stored before a time.
func (n *names) listUnnamed(ctx context.Context, before time.Time) (found []blob, err error) {
	const prefix = "blobs/"
	for o, err := range n.store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list blobs: %w", err)
		}
		k, ok := keyOf(store.Digest(strings.TrimPrefix(o.Key, prefix)))
		if _, named := n.set[k]; ok && !named && o.Time.Before(before) {
			found = append(found, blob{key: k, size: o.Size, at: o.Time.Unix()})
		}
	}
	return found, nil
}
