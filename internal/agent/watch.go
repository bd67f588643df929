package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// The pace of saving. A generation costs its bytes and a few requests, so the
// time between two follows what the last one took.
const (
	saveAtLeast = time.Second
	saveAtMost  = 10 * time.Minute
	saveShare   = 20       // saving takes at most a twentieth of the time
	saveSpeed   = 20 << 20 // and at most so many bytes a second on average
)

// saver saves state and checkpoints while the program runs.
type saver struct {
	a     *agent
	rank  int
	gens  *ledger.Generations
	quit  context.CancelFunc
	gone  chan struct{}
	pause time.Duration

	checkpoints, state folder
	saved              int
	in                 *watched // what gc may have taken since, too
	refused            string   // the last sentence of noteRefused
}

// folder is one of the two folders and what was last saved of it.
type folder struct {
	path string
	as   string // as the program sees it
	bare bool   // empty folders do not count
	left func(dir string) (folder, why string)
	// maxBytes is the most that it may hold to be stored; 0 is no limit.
	maxBytes int64
	cache    bundle.Cache
	digest   string       // of the tree that was stored last
	blob     store.Digest // of its list
	said     string       // the digest that the newest generation names
	need     []store.Digest
}

// kept is a folder as a generation names it.
type kept struct {
	digest string
	blob   store.Digest
}

// stands notes what the newest generation says of the folder.
func (f *folder) stands(k kept) { f.digest, f.said, f.blob = k.digest, k.digest, k.blob }

func (a *agent) startSaver(ctx context.Context) *saver {
	ctx, quit := context.WithCancel(ctx)
	s := &saver{a: a, rank: a.program.rank, gens: a.gens, in: &watched{Store: a.World.Store, w: a.World}, quit: quit, gone: make(chan struct{}), pause: max(a.Machine.SaveEvery, saveAtLeast)}
	s.checkpoints.path, s.state.path = a.paths().Checkpoints, a.paths().State
	s.checkpoints.as, s.state.as = a.seen().Checkpoints, a.seen().State
	s.state.bare = a.job.Spec.Rules == job.SSM // S3 has none
	s.checkpoints.left, s.state.left = a.left, a.left
	s.checkpoints.maxBytes, s.state.maxBytes = a.maxSaved(), a.maxSaved()
	s.checkpoints.stands(a.restored[0])
	s.state.stands(a.restored[1])
	go func() {
		defer close(s.gone)
		for {
			if store.System.Sleep(ctx, s.pause) != nil {
				return
			}
			err := s.save(ctx, false)
			switch {
			case err == nil || ctx.Err() != nil:
			case errors.Is(err, ledger.ErrFenced):
				return // the member's next Poll says why
			case errors.Is(err, bundle.ErrLimit):
				s.noteRefused(err)
			default:
				a.Log.Warn("checkpoint not saved", "err", err)
			}
		}
	}()
	return s
}

// noteRefused tells the user that what the program keeps is beyond a limit, while
// there may be time to mend that; once for each sentence.
func (s *saver) noteRefused(err error) {
	if text := err.Error(); text != s.refused {
		s.refused = text
		s.a.note("checkpoint not saved: %s", text)
	}
}

// finish ends the saver and saves what the program left, whole now that it has
// ended.
func (s *saver) finish(ctx context.Context) error {
	s.quit()
	<-s.gone
	err := s.save(ctx, true)
	if errors.Is(err, ledger.ErrFenced) {
		return nil
	}
	return err
}

// save adds a generation if anything has changed since the last one. settled
// says that the program has ended. A folder beyond a limit is bundle.ErrLimit once
// the other one is saved; what was stored of it last stands.
func (s *saver) save(ctx context.Context, settled bool) error {
	began := time.Now()
	changed, bytes := false, int64(0)
	var refused error
	for _, f := range []*folder{&s.checkpoints, &s.state} {
		c, n, err := f.save(ctx, s.in, settled)
		switch {
		case errors.Is(err, bundle.ErrLimit):
			refused = cmp.Or(refused, fmt.Errorf("store %s: %w", filepath.Base(f.path), err))
			continue
		case errors.Is(err, bundle.ErrChanging) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
			continue // what was stored of it last stands; the other folder may be quiet
		case err != nil:
			return err
		}
		changed, bytes = changed || c, bytes+n
	}
	s.rest(time.Since(began), 0) // to look through very many files takes long, too
	if !changed || s.gens == nil {
		return refused
	}
	err := s.gens.Save(ctx, ledger.Saved{Checkpoints: s.checkpoints.blob, State: s.state.blob, Bytes: bytes})
	if err != nil {
		return err
	}
	s.checkpoints.said, s.state.said = s.checkpoints.digest, s.state.digest
	if lost, err := s.assure(ctx); err != nil || lost {
		if err != nil {
			return err
		}
		return s.save(ctx, settled) // a generation of its own: this one may have changed since
	}
	s.saved++
	s.a.beat.set(func(b *ledger.Beat) { b.Saved, b.SavedAt = s.saved, time.Now().UTC() })
	who := ""
	if s.a.job.Spec.Nodes > 1 {
		who = fmt.Sprintf("node %d ", s.rank)
	}
	s.a.note("%ssaved checkpoint %d: %d bytes", who, s.saved, bytes)
	s.rest(time.Since(began), bytes)
	return refused
}

// rest sets the pause before the next look from what this one cost.
func (s *saver) rest(took time.Duration, bytes int64) {
	s.pause = min(saveAtMost, max(s.a.Machine.SaveEvery, saveAtLeast, saveShare*took, time.Duration(bytes/saveSpeed)*time.Second))
}

// assure looks whether gc has taken a blob of the generation that was just named.
// Then the next one stores everything anew.
func (s *saver) assure(ctx context.Context) (lost bool, err error) {
	folders := []*folder{&s.checkpoints, &s.state}
	need := func() (all []store.Digest, err error) {
		for _, f := range folders {
			all = append(all, f.need...)
		}
		return all, nil
	}
	sweeps, err := s.in.begin(ctx)
	if err != nil {
		return false, err
	}
	err = sweeps.Assure(ctx, need, func(_ context.Context, gone []store.Digest) error {
		lost = true
		for _, f := range folders {
			f.cache.Forget(gone...)
			f.digest, f.said, f.need = "gone", "", nil
		}
		return nil
	})
	if lost && errors.Is(err, ledger.ErrSwept) {
		err = nil // they are stored with the next generation
	}
	return lost, err
}

// save stores the folder's files, then its list. changed is false when it holds
// what the newest generation says; an empty folder that was always empty is no change.
func (f *folder) save(ctx context.Context, s *watched, settled bool) (changed bool, bytes int64, err error) {
	path, _ := f.left(f.path)
	if path == "" {
		return false, 0, fs.ErrNotExist // what was stored of it last stands
	}
	if settled {
		unlock(ctx, path)
	}
	tree, err := bundle.Save(ctx, s, path, bundle.SaveOptions{Settled: settled, As: f.as, Cache: &f.cache, MaxBytes: f.maxBytes})
	if err != nil {
		return false, 0, err
	}
	if f.bare {
		tree.Dirs = nil
	}
	digest := tree.Digest()
	if f.digest == "" && len(tree.Files)+len(tree.Links) == 0 {
		return false, 0, nil
	}
	if digest == f.digest { // stored before; not said, if the log refused the entry
		return digest != f.said, tree.Bytes(), nil
	}
	blob, err := bundle.PutTree(ctx, s, tree)
	if err != nil {
		return false, 0, err
	}
	f.digest, f.blob = digest, blob
	f.need = append(f.need[:0], blob)
	for _, file := range tree.Files {
		f.need = append(f.need, file.SHA256)
	}
	return true, tree.Bytes(), nil
}
