package store

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Resumer are methods that a Bucket may have in addition: a later writer goes on with a large
// write that was interrupted.
type Resumer interface {
	// PutOn is Put, of a large body, that goes on where an earlier PutOn of that key was
	// interrupted. at is what the earlier one last passed to begun, "" if there was none.
	// Before the first byte is sent, begun gets the text with which a later PutOn can go on;
	// an error of begun ends the write.
	//
	// Bytes of the earlier write are used only where they equal those of this body, which may
	// be another one. there is how many bytes were used. After an error, what was sent stays
	// for a later PutOn or Drop; after success nothing stays. Two at once for one key and at
	// both succeed, and may send bytes twice. Errors as for Put.
	PutOn(ctx context.Context, key string, body io.ReadSeeker, at string, begun func(at string) error) (there int64, err error)
	// Drop deletes what an interrupted PutOn has left. It is no error if nothing is left.
	Drop(ctx context.Context, key, at string) error
}

// Bookmark is where a process that sends a large file records its progress for the next
// process. Only one process at a time has it.
type Bookmark interface {
	Read() (at string) // "": nothing is recorded
	Write(at string) error
}

// PutFileOn is PutFile of a body that, where the bucket is a Resumer, goes on where an
// earlier process was interrupted. there is how many of its bytes that process had sent.
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

// Drop is Resumer.Drop, or errors.ErrUnsupported where the bucket is no Resumer.
func (s *Store) Drop(ctx context.Context, key, at string) error {
	r, ok := s.bucket.(Resumer)
	if !ok {
		return fmt.Errorf("drop what was sent of %s to %s: %w", key, s, errors.ErrUnsupported)
	}
	return s.retryRequest(ctx, "drop", key, func() error { return r.Drop(ctx, key, at) })
}
