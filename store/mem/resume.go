package mem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/drover-run/drover/store"
)

var _ store.Resumer = (*Bucket)(nil)

// PutOn implements store.Resumer.
func (b *Bucket) PutOn(ctx context.Context, key string, body io.ReadSeeker, at string, begun func(at string) error) (there int64, err error) {
	if err := store.CheckKey(key); err != nil {
		return 0, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("put %s in %s: %w", key, b, err)
	}
	b.mu.Lock()
	earlier, known := b.sent[at]
	if !known {
		b.serial++
		at = strconv.FormatInt(b.serial, 10)
		b.sent[at] = nil
	}
	b.mu.Unlock()
	if !known {
		if err := begun(at); err != nil {
			return 0, err
		}
	}
	var content []byte
	for block := make([]byte, 1<<20); ; {
		if err := context.Cause(ctx); err != nil {
			return there, err
		}
		n, err := io.ReadFull(body, block)
		if from := len(content); from+n <= len(earlier) && string(earlier[from:from+n]) == string(block[:n]) {
			there += int64(n)
		}
		content = append(content, block[:n]...)
		b.mu.Lock()
		if len(content) > len(b.sent[at]) || there < int64(len(content)) {
			b.sent[at] = content
		}
		b.mu.Unlock()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return there, fmt.Errorf("put %s in %s: %w", key, b, err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sent, at)
	return there, b.putObject("put", key, content)
}

// Drop implements store.Resumer.
func (b *Bucket) Drop(ctx context.Context, key, at string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sent, at)
	return nil
}
