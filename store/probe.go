package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/drover-run/drover/fault"
)

// racers is how many writers create the probe's key at once: enough to catch nearly always a
// server that first looks and then writes, and few enough to be cheap.
const racers = 4

// late is what a writer sends after one racer has won.
var late = []byte("late\n")

// Probe refuses, as fault.Invalid, a store that lets two writers win, does not show what was
// written or cannot list: on such a store drover could keep no promise. It writes one small
// object under probe/ and removes it, in racers + 4 requests. Any other error says that the
// store could not be reached or gave no clear answer.
func (s *Store) Probe(ctx context.Context) error {
	var nonce [16]byte
	s.mu.Lock()
	_, err := io.ReadFull(s.rand, nonce[:])
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("probe store %s: draw a random number: %w", s, err)
	}
	key := "probe/" + hex.EncodeToString(nonce[:])
	why, err := s.probeCreates(ctx, key)
	// A caller without the right to delete can work here too; gc removes what is left.
	_ = s.bucket.Delete(context.WithoutCancel(ctx), key)
	if err != nil {
		return fmt.Errorf("probe store %s: %w", s, err)
	}
	if why != "" {
		return fault.New(fault.Invalid,
			"Try `--store` with a folder, or with a bucket whose server honours If-None-Match.",
			"probe store %s: %s", s, why)
	}
	return nil
}

// probeCreates lets racers create key at once, then one more writer, and reads which won.
func (s *Store) probeCreates(ctx context.Context, key string) (why string, err error) {
	var mine [racers]bool
	var errs [racers]error
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() { mine[i], errs[i] = s.createsFirst(ctx, key, racer(key, i)) })
	}
	all.Wait()
	for _, err := range errs { // the first error stands for all
		if err != nil {
			return "", err
		}
	}
	replaced, err := s.createsFirst(ctx, key, late)
	if err != nil {
		return "", err
	}
	held, err := s.Get(ctx, key)
	switch {
	case errors.Is(err, ErrNotExist):
		return "an object that was just written is not shown", nil
	case err != nil:
		return "", err
	case replaced:
		return "create-if-absent replaced an object", nil
	case bytes.Equal(held, late):
		return "an object changed after it was written", nil
	}
	for _, err := range s.ListBy(ctx, key, 1) { // the listing may be incomplete, but must not be refused
		if err != nil {
			return "", err
		}
	}
	winners := 0
	for i := range racers {
		// A racer that gets ErrExists may have made the object itself, when an answer was lost.
		if mine[i] || bytes.Equal(held, racer(key, i)) {
			winners++
		}
	}
	if winners != 1 {
		return fmt.Sprintf("%d of %d writers of one object were told that it is theirs", winners, racers), nil
	}
	return "", nil
}

// createsFirst says whether the bucket answers that a create of key was the first.
func (s *Store) createsFirst(ctx context.Context, key string, body []byte) (bool, error) {
	for try := 0; ; try++ {
		err := s.bucket.Create(ctx, key, bytes.NewReader(body))
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, ErrExists):
			return false, nil
		case !mayRetry(err):
			return false, err
		}
		if err := s.pauseBeforeTry(ctx, try); err != nil {
			return false, err
		}
	}
}

// racer is what writer i of a race sends.
func racer(key string, i int) []byte { return fmt.Appendf(nil, "%s %d\n", key, i) }
