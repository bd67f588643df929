package upload

import (
	"sync"
)

// Queue holds the tries with outputs to store. It has no bound of its own:
// the loop, which adds to it, must never wait for the uploaders, as they wait for the loop
// to take what they have stored. A program that stays may answer thousands of items
// while the store is away.
type Queue[T any] struct {
	mu      sync.Mutex
	waiting []*T
	more    chan struct{} // holds a token while there may be tries that no uploader has taken
}

// NewQueue makes an empty queue.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{more: make(chan struct{}, 1)} }

// Add adds a try. It does not wait.
func (q *Queue[T]) Add(t *T) {
	q.mu.Lock()
	q.waiting = append(q.waiting, t)
	q.mu.Unlock()
	q.wakeWaiters()
}

func (q *Queue[T]) wakeWaiters() {
	select {
	case q.more <- struct{}{}:
	default: // an uploader is about to look
	}
}

// Next waits for a try, in the order in which they were added; nil once done is closed.
func (q *Queue[T]) Next(done <-chan struct{}) *T {
	for {
		select {
		case <-q.more:
		case <-done:
			return nil
		}
		q.mu.Lock()
		var t *T
		if len(q.waiting) > 0 {
			t, q.waiting = q.waiting[0], q.waiting[1:]
		}
		left := len(q.waiting)
		q.mu.Unlock()
		if left > 0 {
			q.wakeWaiters() // for another uploader
		}
		if t != nil {
			return t
		}
	}
}
