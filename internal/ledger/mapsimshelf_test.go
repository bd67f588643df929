package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/drover-run/drover/store"
)

// A shelf holds what a sorted list would, and gives it by pages.
func TestShelf(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	var s shelf
	want := map[string]bool{}
	for range 20_000 {
		key := fmt.Sprintf("p/%05d", rng.IntN(5000))
		if rng.IntN(4) == 0 {
			s.remove(key)
			delete(want, key)
			continue
		}
		s.put(store.Object{Key: key})
		want[key] = true
	}
	var keys, got []string
	for key := range want {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for after, more := "", true; more; {
		var page []store.Object
		if page, more = s.page(max("p/", after), after >= "p/", 1000); len(page) > 1000 || more && len(page) < 1000 {
			t.Fatalf("a page of %d, more: %t", len(page), more)
		}
		for _, o := range page {
			got, after = append(got, o.Key), o.Key
		}
	}
	if !slices.Equal(got, keys) {
		t.Fatalf("it gave %d of %d", len(got), len(keys))
	}
}
