package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/agent/workspace"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/states"
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

// saver saves checkpoints, state and the files that the program makes beside itself
// while it runs.
type saver struct {
	*node.Node
	rank  int
	gens  *states.Generations
	quit  context.CancelFunc
	gone  chan struct{}
	pause time.Duration

	checkpoints, state, files folder
	over                      bool // the working folder is saved no more
	saved                     int
	in                        *watched // what gc may have taken since, too
	refused                   string   // the last sentence of noteRefused
}

// savedFolders are those that a generation consists of.
func (s *saver) savedFolders() []*folder { return []*folder{&s.checkpoints, &s.state, &s.files} }

// folder is one of the three folders and what was last saved of it.
type folder struct {
	path string
	as   string // as the program sees it
	bare bool   // empty folders do not count
	// skip and skipFile are as in tree.SaveOptions.
	skip     func(name string) bool
	skipFile func(name string, info fs.FileInfo) bool
	// last are the versions of files that were stored last: of one that is being
	// written that version stands, and the others are stored all the same. Nil: nothing
	// is stored as long as one is being written.
	last map[string]tree.File
	left func(dir string) (folder, why string)
	// maxBytes is the most that it may hold to be stored; 0 is no limit.
	maxBytes int64
	cache    tree.Cache
	digest   string       // of the tree that was stored last
	blob     store.Digest // of its list
	said     string       // the digest that the newest generation names
	need     []store.Digest
}

// kept is a folder as a generation names it.
type kept struct {
	digest string
	blob   store.Digest
	tree   tree.Tree
}

// noteNewest notes what the newest generation says of the folder.
func (f *folder) noteNewest(k kept) {
	f.digest, f.said, f.blob = k.digest, k.digest, k.blob
	if k.blob != "" {
		f.recordNames(k.tree)
	}
}

// makeSaver makes a saver of what a program keeps, which saves when it is asked to.
func (r *rankState) makeSaver(rank int) *saver {
	s := &saver{Node: r.Node, rank: rank, gens: r.gens, in: &watched{Store: r.World.Store, w: r.World}, pause: max(r.Machine.SaveEvery, saveAtLeast)}
	s.checkpoints = folder{path: r.space.HostPaths().Checkpoints, as: r.space.ProgramPaths().Checkpoints}
	s.state = folder{path: r.space.HostPaths().State, as: r.space.ProgramPaths().State, bare: r.Job.Spec.Rules == job.SSM} // S3 has none
	s.files = savedFolder(r.space.WorkFiles())
	for i, f := range s.savedFolders() {
		f.left, f.maxBytes = r.space.LeftFolder, r.MaxStoredBytes()
		f.noteNewest(r.restored[i])
	}
	return s
}

// startSaver starts one that saves again and again while the program runs.
func (a *agent) startSaver(ctx context.Context) *saver {
	ctx, quit := context.WithCancel(ctx)
	s := a.state.makeSaver(a.program.rank)
	s.quit, s.gone = quit, make(chan struct{})
	go func() {
		defer close(s.gone)
		for {
			if store.System.Sleep(ctx, s.pause) != nil {
				return
			}
			err := s.saveGeneration(ctx, false)
			switch {
			case err == nil || ctx.Err() != nil:
			case errors.Is(err, states.ErrFenced):
				return // the member's next Poll says why
			case errors.Is(err, tree.ErrLimit):
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
		s.LogNote("checkpoint not saved: %s", text)
	}
}

// saveFinally ends the saver and saves what the program left, whole now that it has
// ended. over says that nothing goes on with it: what it made beside itself is then
// stored with its outputs alone.
func (s *saver) saveFinally(ctx context.Context, over bool) error {
	s.quit()
	<-s.gone
	s.over = over
	err := s.saveGeneration(ctx, true)
	if errors.Is(err, states.ErrFenced) {
		return nil
	}
	return err
}

// saveGeneration adds a generation if anything has changed since the last one. settled
// says that the program has ended. A folder beyond a limit is tree.ErrLimit once
// the others are saved; what was stored of it last stands.
func (s *saver) saveGeneration(ctx context.Context, settled bool) error {
	began := time.Now()
	var all stored
	var refused error
	for _, f := range s.savedFolders() {
		if s.over && f == &s.files {
			continue
		}
		one, err := f.saveFiles(ctx, s.in, settled)
		switch {
		case errors.Is(err, tree.ErrLimit):
			refused = cmp.Or(refused, fmt.Errorf("store %s: %w", filepath.Base(f.path), err))
			continue
		case errors.Is(err, tree.ErrChanging) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
			continue // what was stored of it last stands; the other folders may be quiet
		case err != nil:
			return err
		}
		if f != &s.files {
			all.kept = all.kept || one.changed
		}
		all.changed, all.bytes, all.sent = all.changed || one.changed, all.bytes+one.bytes, all.sent+one.sent
	}
	s.setNextPause(time.Since(began), 0) // to look through very many files takes long, too
	if !all.changed || s.gens == nil {
		return refused
	}
	err := s.gens.Save(ctx, protocol.Saved{Checkpoints: s.checkpoints.blob, State: s.state.blob, Files: s.files.blob,
		Code: store.Digest(s.Job.Code.Blob), Bytes: all.bytes})
	if err != nil {
		return err
	}
	for _, f := range s.savedFolders() {
		f.said = f.digest
	}
	if lost, err := s.blobsWereRemoved(ctx); err != nil || lost {
		if err != nil {
			return err
		}
		return s.saveGeneration(ctx, settled) // a generation of its own: this one may have changed since
	}
	s.noteSaved(all)
	s.setNextPause(time.Since(began), all.sent)
	return refused
}

// stored is what was saved of a folder, or of all.
type stored struct {
	changed bool  // it holds something else than the newest generation says
	bytes   int64 // of all its files
	sent    int64 // of those that were not in the generation before
	kept    bool  // checkpoints or state have changed, and not the working folder alone
}

// noteSaved tells of a generation. One of the working folder alone may be a log file
// that has grown, and counts as no checkpoint.
func (s *saver) noteSaved(all stored) {
	who := ""
	if s.Job.Spec.Nodes > 1 {
		who = fmt.Sprintf("node %d ", s.rank)
	}
	if !all.kept {
		s.LogNote("%ssaved files of the working folder: %d bytes", who, all.bytes)
		return
	}
	s.saved++
	s.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) { b.Saved, b.SavedAt = s.saved, time.Now().UTC() })
	s.LogNote("%ssaved checkpoint %d: %d bytes", who, s.saved, all.bytes)
}

// setNextPause sets the pause before the next look from what this one cost.
func (s *saver) setNextPause(took time.Duration, bytes int64) {
	s.pause = min(saveAtMost, max(s.Machine.SaveEvery, saveAtLeast, saveShare*took, time.Duration(bytes/saveSpeed)*time.Second))
}

// blobsWereRemoved looks whether gc has taken a blob of the generation that was just named.
// Then the next one stores everything anew.
func (s *saver) blobsWereRemoved(ctx context.Context) (lost bool, err error) {
	need := func() (all []store.Digest, err error) {
		for _, f := range s.savedFolders() {
			all = append(all, f.need...)
		}
		return all, nil
	}
	sweeps, err := s.in.watchRemovals(ctx)
	if err != nil {
		return false, err
	}
	err = sweeps.Assure(ctx, need, func(_ context.Context, gone []store.Digest) error {
		lost = true
		for _, f := range s.savedFolders() {
			f.forgetRemoved(gone)
		}
		return nil
	})
	if lost && errors.Is(err, removal.ErrSwept) {
		err = nil // they are stored with the next generation
	}
	return lost, err
}

// forgetRemoved has the next generation store what gc has taken.
func (f *folder) forgetRemoved(gone []store.Digest) {
	f.cache.Forget(gone...)
	f.digest, f.said, f.need = "gone", "", nil
	maps.DeleteFunc(f.last, func(_ string, file tree.File) bool { return slices.Contains(gone, file.SHA256) })
}

// saveFiles stores the folder's files, then its list. Nothing has changed when it holds
// what the newest generation says; an empty folder that was always empty is no change.
func (f *folder) saveFiles(ctx context.Context, s *watched, settled bool) (stored, error) {
	path, _ := f.left(f.path)
	if path == "" {
		return stored{}, fs.ErrNotExist // what was stored of it last stands
	}
	if settled {
		workspace.Unlock(ctx, path)
	}
	listing, err := tree.Save(ctx, s, path, tree.SaveOptions{Settled: settled, As: f.as, Skip: f.skip, SkipFile: f.skipFile, Cache: &f.cache, MaxBytes: f.maxBytes, Last: f.last})
	if err != nil {
		return stored{}, err
	}
	if f.bare {
		listing.Dirs = nil
	}
	digest := listing.Digest()
	if f.digest == "" && len(listing.Files)+len(listing.Links) == 0 {
		return stored{}, nil
	}
	if digest == f.digest { // stored before; not said, if the log refused the entry
		return stored{changed: digest != f.said, bytes: listing.Bytes()}, nil
	}
	blob, err := tree.PutTree(ctx, s, listing)
	if err != nil {
		return stored{}, err
	}
	f.digest, f.blob = digest, blob
	return stored{changed: true, bytes: listing.Bytes(), sent: f.recordNames(listing)}, nil
}

// recordNames notes what a tree that was stored consists of, and returns the bytes of the
// files that the one before did not have.
func (f *folder) recordNames(listing tree.Tree) (fresh int64) {
	before := make(map[store.Digest]bool, len(f.need))
	for _, d := range f.need {
		before[d] = true
	}
	f.need = append(f.need[:0], f.blob)
	if f.last != nil {
		clear(f.last)
	}
	for _, file := range listing.Files {
		f.need = append(f.need, file.SHA256)
		if !before[file.SHA256] {
			fresh += file.Size
		}
		if f.last != nil {
			f.last[file.Path] = file
		}
	}
	return fresh
}

// savedFolder is what the saver saves of these files. Folders in which nothing is new are those
// of the code.
func savedFolder(w workspace.WorkFiles) folder {
	return folder{path: w.Dir, as: w.As, bare: true, skip: workspace.NeverSaved, skipFile: w.Shipped, last: map[string]tree.File{}}
}
