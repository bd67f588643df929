package upload

import (
	"sync"
	"testing"
)

// The loop never waits for the uploaders, however many tries wait to be stored: they wait
// for the loop. Each is taken once.
func TestTheLoopNeverWaitsForWhatStoresOutputs(t *testing.T) {
	t.Parallel()
	const tries, uploaders = 20_000, 4 // a program that stays is sent up to 8,192 items ahead
	q, done := NewQueue[Outputs](), make(chan struct{})
	for range tries {
		q.Add(&Outputs{})
	}
	var mu sync.Mutex
	taken := map[*Outputs]bool{}
	var all sync.WaitGroup
	for range uploaders {
		all.Go(func() {
			for {
				next := q.Next(done)
				if next == nil {
					return
				}
				mu.Lock()
				if taken[next] {
					t.Error("one was taken twice")
				}
				if taken[next] = true; len(taken) == tries {
					close(done)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(taken) != tries {
		t.Errorf("%d were taken of %d", len(taken), tries)
	}
}
