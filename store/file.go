package store

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// PutFile writes body under key, from its beginning, and replaces what was there.
// Constant memory; body is read again after an unclear answer.
func (s *Store) PutFile(ctx context.Context, key string, body io.ReadSeeker) error {
	return s.retryRequest(ctx, "put", key, func() error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("put %s: %w", key, err)
		}
		return s.bucket.Put(ctx, key, body)
	})
}

// CreateFile writes body under key, from its beginning, unless key holds an object. It does
// not tell its own object from another writer's, so it is for content that is the same from
// every writer. Constant memory; body is read again after an unclear answer.
func (s *Store) CreateFile(ctx context.Context, key string, body io.ReadSeeker) error {
	err := s.retryRequest(ctx, "create", key, func() error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("create %s: %w", key, err)
		}
		return s.bucket.Create(ctx, key, body)
	})
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}
