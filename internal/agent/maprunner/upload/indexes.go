package upload

import (
	"context"
	"sync"
)

// Indexes stores indexes beside a loop that waits for the store often enough.
type Indexes struct {
	waiting chan func(context.Context) error
	storing sync.WaitGroup
}

// maxIndexes may wait before the loop does.
const maxIndexes = 16

// NewIndexes stores nothing yet.
func NewIndexes() *Indexes {
	return &Indexes{waiting: make(chan func(context.Context) error, maxIndexes)}
}

// Add has an index stored, in the order of the calls.
func (x *Indexes) Add(store func(context.Context) error) { x.waiting <- store }

// Start begins to store, until Finish.
func (x *Indexes) Start(ctx context.Context) {
	x.storing.Go(func() {
		for store := range x.waiting {
			_ = store(ctx) // a store that is full loses nothing by it
		}
	})
}

// Finish ends when all that was added is stored, or ctx of Start is done.
func (x *Indexes) Finish() {
	close(x.waiting)
	x.storing.Wait()
}
