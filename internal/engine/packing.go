package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/store"
)

// eachItemFiles gives the stored files of each item of a list. The packs that it names are on
// their way then: all is there when it has ended without an error.
func (u *uploader) eachItemFiles(ctx context.Context, l *manifest.List) iter.Seq2[[]manifest.File, error] {
	return func(yield func([]manifest.File, error) bool) {
		ctx, stop := context.WithCancelCause(ctx)
		s := &packing{uploader: u, stop: stop, turns: make(chan struct{}, packHands)}
		defer s.hands.Wait()
		defer stop(nil)
		var batch [][]wanted
		var cut manifest.Cut
		flush := func() bool {
			if err := s.sendBatch(ctx, batch); err != nil {
				yield(nil, err)
				return false
			}
			for _, found := range batch {
				var files []manifest.File
				for _, w := range found {
					files = append(files, w.File)
				}
				if !yield(files, nil) {
					return false
				}
			}
			batch = batch[:0]
			return true
		}
		for it, err := range l.Reader().Range(ctx, 1, l.Count()) {
			if err != nil {
				yield(nil, err)
				return
			}
			found, _ := u.findItemFiles(it)
			small := int64(0)
			for _, w := range found {
				if w.Size <= manifest.PackedFile {
					small += w.Size
				}
			}
			if batch = append(batch, found); cut.After(it.Text, small) && !flush() {
				return
			}
		}
		if !flush() {
			return
		}
		s.hands.Wait()
		if err := context.Cause(ctx); err != nil {
			yield(nil, err)
		}
	}
}

// packing is the files of a list on their way.
type packing struct {
	*uploader
	stop  context.CancelCauseFunc
	hands sync.WaitGroup
	turns chan struct{} // of packs
}

// packed is a small file that was read, or a large one that was stored.
type packed struct {
	wanted
	content []byte // nil of a large one
}

// sendBatch stores the files of some items, each path once, and fills in what they are. The
// small ones of them are a pack.
func (s *packing) sendBatch(ctx context.Context, batch [][]wanted) error {
	if len(s.known) > mostKnown {
		clear(s.known)
		clear(s.had)
	}
	var todo []*packed
	for _, found := range batch {
		for _, w := range found {
			if _, done := s.known[w.path]; done {
				s.tell.AddSame(w.Size)
				continue
			}
			s.known[w.path] = w.File
			todo = append(todo, &packed{wanted: w})
		}
	}
	if err := s.readFiles(ctx, todo); err != nil {
		return err
	}
	if err := s.packFiles(ctx, todo); err != nil {
		return err
	}
	for _, found := range batch {
		for i, w := range found {
			found[i].File = s.known[w.path]
			found[i].Field, found[i].Exec = w.Field, w.Exec
		}
	}
	return nil
}

// readFiles reads small files and stores large ones, many at once.
func (s *packing) readFiles(ctx context.Context, todo []*packed) error {
	var hands sync.WaitGroup
	turns := make(chan struct{}, uploadHands)
	for _, f := range todo {
		turns <- struct{}{}
		hands.Go(func() { // ends with the file, or with ctx
			defer func() { <-turns }()
			if ctx.Err() != nil {
				return
			}
			if err := s.storeOneFile(ctx, f); err != nil {
				s.stop(err)
			}
		})
	}
	hands.Wait()
	return context.Cause(ctx)
}

// packFiles puts what was read into packs and sends these.
func (s *packing) packFiles(ctx context.Context, todo []*packed) error {
	p := &manifest.Pack{}
	var in []*packed
	for _, f := range todo {
		if f.content == nil {
			s.known[f.path] = f.File
			continue
		}
		if had, is := s.had[f.Blob]; is {
			s.known[f.path] = had
			s.tell.AddSame(f.Size)
			continue
		}
		f.Off, f.content = p.Add(f.Blob, f.content), nil
		if in = append(in, f); p.Full() {
			if err := s.storePack(ctx, p, in); err != nil {
				return err
			}
			p, in = &manifest.Pack{}, nil
		}
	}
	return s.storePack(ctx, p, in)
}

// storePack names a pack, and sends it when one of those before has arrived.
func (s *packing) storePack(ctx context.Context, p *manifest.Pack, in []*packed) error {
	if len(in) == 0 {
		return nil
	}
	name, bytesOf := p.Digest(), int64(0)
	for _, f := range in {
		bytesOf += f.Size
		if f.Blob != name { // else it has the blob for itself
			f.Pack = name
		}
		s.known[f.path], s.had[f.Blob] = f.File, f.File
	}
	select {
	case s.turns <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.hands.Go(func() { // ends with the pack, or with ctx
		defer func() { <-s.turns }()
		body := s.tell.CountingBody(bytes.NewReader(p.Bytes()))
		if _, _, err := s.store.PutBlob(ctx, body); err != nil {
			s.stop(fmt.Errorf("store %s with %s more: %w", in[0].path, plural(len(in)-1, "small file"), err))
			return
		}
		body.CountSent(int64(len(in)), bytesOf)
	})
	return nil
}

// storeOneFile reads a small file whole, and stores another one.
func (s *packing) storeOneFile(ctx context.Context, f *packed) error {
	file, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "Check its permissions, or leave it out.", "read item")
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return fault.New(fault.Invalid, "Run it again.", "read item %s: it is not a file any more", f.path)
	}
	if f.Size <= manifest.PackedFile {
		content := make([]byte, 0, f.Size+bytes.MinRead)
		b := bytes.NewBuffer(content)
		if _, err := b.ReadFrom(io.LimitReader(file, manifest.PackedFile+1)); err != nil {
			return fmt.Errorf("store %s: %w", f.path, err)
		}
		if b.Len() <= manifest.PackedFile { // it has not grown since
			sum := sha256.Sum256(b.Bytes())
			f.Blob, f.Size, f.content = store.Digest(hex.EncodeToString(sum[:])), int64(b.Len()), b.Bytes()
			return nil
		}
	}
	body := s.tell.CountingBody(file)
	if f.Blob, f.Size, err = s.store.PutBlob(ctx, body); err != nil {
		return fmt.Errorf("store %s: %w", f.path, err)
	}
	body.CountSent(1, f.Size)
	return nil
}
