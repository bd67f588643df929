package mem_test

import (
	"testing"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

func TestBucketKeepsEveryPromise(t *testing.T) {
	handles := func(*testing.T) (first, second store.Bucket) {
		b := mem.New()
		return b, b
	}
	storetest.Run(t, handles)
	storetest.RunPieces(t, handles)
	storetest.RunResumes(t, handles, 1<<20, 8<<20)
}

func TestObjectsAreDatedByTheClockGiven(t *testing.T) {
	clock := &storetest.Clock{}
	_ = clock.Sleep(t.Context(), 90e9)
	s := store.New(mem.At(clock), store.Options{Clock: clock})
	if err := s.Put(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	for o, err := range s.List(t.Context(), "") {
		if err != nil || !o.Time.Equal(clock.Now()) {
			t.Errorf("dated %v, %v; want %v", o.Time, err, clock.Now())
		}
	}
}
