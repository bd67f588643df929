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

// racers is how many create the probe's key at once: enough that a server which
// looks first and writes then is caught nearly always, few enough to be cheap.
const racers = 8

// Probe refuses, as fault.Invalid, a store that lets two writers win or does not
// show what was written: nothing drover promises would hold on it. It writes two
// small objects under probe/ and removes them. An error that is no fault.Invalid
// says the store could not be asked.
func (s *Store) Probe(ctx context.Context) error {
	var nonce [16]byte
	s.mu.Lock()
	_, err := io.ReadFull(s.rand, nonce[:])
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("probe store %s: draw a random number: %w", s, err)
	}
	key := "probe/" + hex.EncodeToString(nonce[:])
	why, err := s.probe(ctx, key)
	for _, left := range []string{key + "/alone", key + "/race"} {
		// Who may not delete here can still work here, and gc sweeps strays.
		_ = s.bucket.Delete(context.WithoutCancel(ctx), left)
	}
	if err != nil {
		return fmt.Errorf("probe store %s: %w", s, err)
	}
	if why != "" {
		return fault.New(fault.Invalid,
			"Try --store with a folder, or with a bucket whose server honours If-None-Match.",
			"probe store %s: %s", s, why)
	}
	return nil
}

func (s *Store) probe(ctx context.Context, key string) (why string, err error) {
	if why, err := s.probeAlone(ctx, key+"/alone"); why != "" || err != nil {
		return why, err
	}
	return s.probeRace(ctx, key+"/race")
}

// probeAlone writes, reads, and tries to overwrite. It comes first: on a store
// that hides what was written a race would never end.
func (s *Store) probeAlone(ctx context.Context, key string) (why string, err error) {
	first := []byte(key + "\n")
	if _, _, err := s.CreateOnce(ctx, key, first); err != nil {
		return "", err
	}
	refused, err := s.refusesSecond(ctx, key)
	if err != nil {
		return "", err
	}
	held, err := s.Get(ctx, key)
	switch {
	case errors.Is(err, ErrNotExist):
		return "an object that was just written is not shown", nil
	case err != nil:
		return "", err
	case !refused:
		return "create-if-absent replaced an object", nil
	case !bytes.Equal(held, first):
		return "an object changed after it was written", nil
	}
	return "", nil
}

// refusesSecond creates key, which holds an object.
func (s *Store) refusesSecond(ctx context.Context, key string) (bool, error) {
	for try := 0; ; try++ {
		err := s.bucket.Create(ctx, key, bytes.NewReader([]byte("second\n")))
		if err == nil {
			return false, nil
		}
		if errors.Is(err, ErrExists) {
			return true, nil
		}
		if !mayRetry(err) {
			return false, err
		}
		if err := s.pause(ctx, try); err != nil {
			return false, err
		}
	}
}

// racer is what writer i of a race sends.
func racer(key string, i int) []byte { return fmt.Appendf(nil, "%s %d\n", key, i) }

func (s *Store) probeRace(ctx context.Context, key string) (why string, err error) {
	var mine [racers]bool
	var errs [racers]error
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() {
			err := s.bucket.Create(ctx, key, bytes.NewReader(racer(key, i)))
			if mine[i] = err == nil; !mine[i] && !errors.Is(err, ErrExists) {
				_, mine[i], errs[i] = s.CreateOnce(ctx, key, racer(key, i))
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return "", err
	}
	// Who is told that it exists may have made it himself: one look tells for all.
	held, err := s.Get(ctx, key)
	if err != nil {
		return "", err
	}
	for i := range racers {
		mine[i] = mine[i] || bytes.Equal(held, racer(key, i))
	}
	winners := 0
	for i := range racers {
		if mine[i] {
			winners++
		}
	}
	if winners != 1 {
		return fmt.Sprintf("%d of %d writers of one object were told that it is theirs", winners, racers), nil
	}
	return "", nil
}
