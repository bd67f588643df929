package maprunner

import (
	"context"
	"sync"
)

// indexQueue stores indexes beside the loop.
type indexQueue struct {
	*shared
	waiting chan func(context.Context) error
	storing sync.WaitGroup
}

// maxIndexes may wait before the loop does.
const maxIndexes = 16

// queueIndex has indexes stored beside the loop, which waits for the store often enough.
func (q *indexQueue) queueIndex(store func(context.Context) error) { q.waiting <- store }

// storeIndexes stores them until the loop is over.
func (q *indexQueue) storeIndexes() {
	for store := range q.waiting {
		_ = store(q.life) // a store that is full loses nothing by it
	}
}

// startStoring begins to store indexes.
func (q *indexQueue) startStoring() { q.storing.Go(q.storeIndexes) }

// finishStoring ends when the indexes that wait are stored; with err, why the map runner
// ends, without waiting for the store.
func (q *indexQueue) finishStoring(err error) {
	if close(q.waiting); err != nil {
		q.cancel()
	}
	q.storing.Wait()
}
