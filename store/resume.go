package store

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Resumer is what a Bucket may have beside: a large write that was ended is resumed
// by the next writer.
type Resumer interface {
	// PutOn is Put, of a large body, that goes on where an earlier one of that key was
	// ended, by what that one told begun last: at, "" if there was none. Before the
	// first byte goes, begun is told what a later one goes on with; its error ends it.
	//
	// Nothing of the earlier body is taken for this one that is not: it may be another.
	// there is how much of it was. After an error what was sent stays, for a later
	// PutOn or Drop; after success nothing does. Two at once for one key and at end
	// well, and may send more than once. Errors as for Put.
	PutOn(ctx context.Context, key string, body io.ReadSeeker, at string, begun func(at string) error) (there int64, err error)
	// Drop throws away what a PutOn has left. That nothing is left is not an error.
	Drop(ctx context.Context, key, at string) error
}

// Bookmark is where a process that sends a large file notes for the next one how far it
// is. Only one process at a time has it.
type Bookmark interface {
	Read() (at string) // "": it says nothing
	Write(at string) error
}

// PutFileOn is PutFile of a body that is gone on with after this process has ended,
// where the bucket can do that. there is how many of its bytes an earlier one had sent.
func (s *Store) PutFileOn(ctx context.Context, key string, body io.ReadSeeker, mark Bookmark) (there int64, err error) {
	r, ok := s.bucket.(Resumer)
	if !ok {
		return 0, s.PutFile(ctx, key, body)
	}
	err = s.retryRequest(ctx, "put", key, func() (err error) {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("put %s: %w", key, err)
		}
		there, err = r.PutOn(ctx, key, body, mark.Read(), mark.Write)
		return err
	})
	return there, err
}

// Drop is Resumer.Drop. A bucket that is none says errors.ErrUnsupported.
func (s *Store) Drop(ctx context.Context, key, at string) error {
	r, ok := s.bucket.(Resumer)
	if !ok {
		return fmt.Errorf("drop what was sent of %s to %s: %w", key, s, errors.ErrUnsupported)
	}
	return s.retryRequest(ctx, "drop", key, func() error { return r.Drop(ctx, key, at) })
}
