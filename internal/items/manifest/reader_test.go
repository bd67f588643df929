package manifest_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/itemstest"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

func TestADamagedPartIsLostAndNamed(t *testing.T) {
	lines := itemstest.Incompressible(6000, 1000)
	for name, harm := range itemstest.Harms {
		b := &itemstest.FaultyBucket{Bucket: mem.New(), Suffix: ".zst", Harm: harm}
		s := store.New(b, store.Options{})
		m, err := itemstest.ListOf(t, lines...).Put(t.Context(), s, "items")
		if err != nil {
			t.Fatal(err)
		}
		r, err := manifest.Open(t.Context(), s, m, 1)
		if err != nil {
			t.Fatal(err)
		}
		b.Times = -1
		_, err = r.One(t.Context(), 6000)
		if fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), "read item 6000: read items: items/part-") {
			t.Errorf("%s: %v", name, err)
		}

		b.Times = 1 // on the way alone: it is asked for once more
		if it, err := r.One(t.Context(), 6000); err != nil || it.Text != lines[5999] {
			t.Errorf("%s once: %v", name, err)
		}
		b.Times = 1
		if diff := cmp.Diff(lines, itemstest.ReadTexts(t, r)); diff != "" {
			t.Errorf("%s once: all: %.300s", name, diff)
		}
	}
}

func TestADamagedIndexIsLostAndNamed(t *testing.T) {
	for name, harm := range itemstest.Harms {
		b := &itemstest.FaultyBucket{Bucket: mem.New(), Suffix: ".json", Harm: harm}
		s := store.New(b, store.Options{})
		m, err := itemstest.ListOf(t, "a", "b").Put(t.Context(), s, "items")
		if err != nil {
			t.Fatal(err)
		}
		b.Times = -1
		if _, err := manifest.Open(t.Context(), s, m, 1); fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), m.Key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPutSaysWhatTheStoreHolds(t *testing.T) {
	for _, end := range []string{".zst", ".json"} {
		b := &itemstest.FaultyBucket{Bucket: mem.New(), Suffix: end, Times: 1, Harm: itemstest.Harms["flipped"]}
		_, err := itemstest.ListOf(t, "a", "b").Put(t.Context(), store.New(b, store.Options{}), "items")
		if fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), "is damaged") || fault.Hint(err) == "" {
			t.Errorf("%s: %v", end, err)
		}
	}
}

func TestADeniedReadIsNotALostOne(t *testing.T) {
	denied := fault.New(fault.Denied, "Log in.", "get: not allowed")
	b := &itemstest.FaultyBucket{Bucket: mem.New(), Suffix: ".zst", Harm: func([]byte) ([]byte, error) { return nil, denied }}
	s := store.New(b, store.Options{})
	m, err := itemstest.ListOf(t, "a", "b").Put(t.Context(), s, "items")
	if err != nil {
		t.Fatal(err)
	}
	r, err := manifest.Open(t.Context(), s, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.Times = -1
	if _, err := r.One(t.Context(), 1); fault.KindOf(err) != fault.Denied || fault.Hint(err) != "Log in." {
		t.Error(err)
	}
}

func TestOnlyTheBlocksNeededAreRead(t *testing.T) {
	lines := itemstest.Incompressible(6000, 1000)
	b := &itemstest.FaultyBucket{Bucket: mem.New(), Suffix: ".zst"}
	s := store.New(b, store.Options{})
	m, err := itemstest.ListOf(t, lines...).Put(t.Context(), s, "items")
	if err != nil {
		t.Fatal(err)
	}
	r, err := manifest.Open(t.Context(), s, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	reads := func(from, to int) int {
		t.Helper()
		before := b.Gets
		for _, err := range r.Range(t.Context(), from, to) {
			if err != nil {
				t.Fatal(err)
			}
		}
		return b.Gets - before
	}
	if b.Gets = 0; reads(1, 6000) != 2 {
		t.Errorf("two parts took %d requests", b.Gets)
	}
	if n := reads(5999, 6000); n != 0 {
		t.Errorf("the block read last was read again, in %d requests", n)
	}
	if n := reads(1, 200); n != 1 {
		t.Errorf("a block took %d requests", n)
	}
	if n := reads(201, 240); n != 0 {
		t.Errorf("the same block took %d requests more", n)
	}
	if n := reads(4000, 3999); n != 0 {
		t.Errorf("no items took %d requests", n)
	}
}

func TestNumbersThatAreNotThereAreABug(t *testing.T) {
	for _, l := range []*manifest.List{itemstest.ListOf(t, "a", "b"), manifest.NewRange(manifest.Range{From: 1, To: 2, Step: 1})} {
		_, r := itemstest.Store(t, mem.New(), l, 5)
		for _, c := range [][2]int{{4, 5}, {5, 7}, {7, 8}, {6, 4}, {0, 0}} {
			n := 0
			for _, err := range r.Range(t.Context(), c[0], c[1]) {
				if n++; fault.KindOf(err) != fault.Bug {
					t.Errorf("%v: %v", c, err)
				}
			}
			if n != 1 {
				t.Errorf("%v gave %d answers", c, n)
			}
		}
	}
}

func TestManyMayReadAtOnce(t *testing.T) {
	lines := itemstest.Incompressible(2000, 1000)
	_, r := itemstest.Store(t, mem.New(), itemstest.ListOf(t, lines...), 1)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := g; i < len(lines); i += 37 {
				if it, err := r.One(t.Context(), i+1); err != nil || it.Text != lines[i] {
					t.Errorf("item %d: %v", i+1, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestAManifestThatCannotBeIsRefused(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	good, err := itemstest.ListOf(t, "a", "b").Put(t.Context(), s, "items")
	if err != nil {
		t.Fatal(err)
	}
	other := good
	other.Digest = strings.Repeat("0", 64)
	more := good
	more.Count = 3
	csv := good
	csv.Format = manifest.CSV
	for name, m := range map[string]manifest.Manifest{
		"no key": {Count: 2}, "another digest": other, "another count": more, "another format": csv,
		"gone": {Key: "items/index-" + strings.Repeat("0", 32) + ".json", Count: 1},
	} {
		if _, err := manifest.Open(t.Context(), s, m, 1); err == nil {
			t.Errorf("%s was opened", name)
		}
	}
	for name, m := range map[string]manifest.Manifest{
		"negative": {Count: -1}, "range of less": {Count: 9, From: 1, To: 8, Step: 1}, "range backwards": {Count: 0, From: 9, To: 1, Step: 1},
		"range from below": {Count: 3, From: -1, To: 1, Step: 1},
	} {
		if _, err := manifest.Open(t.Context(), s, m, 1); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := manifest.Open(t.Context(), s, good, 0); fault.KindOf(err) != fault.Invalid {
		t.Errorf("items from number 0: %v", err)
	}
}

func TestAManifestIsSmallJSON(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	for _, l := range []*manifest.List{collected(t, manifest.CSV, "a,b\n1,2\n"), manifest.NewRange(manifest.Range{From: 0, To: 9, Step: 3})} {
		want, err := l.Put(t.Context(), s, "items")
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got manifest.Manifest
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		r, err := manifest.Open(t.Context(), s, got, 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(itemstest.ReadItems(t, l.Reader()), itemstest.ReadItems(t, r)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAListThatIsClosedGivesNoItems(t *testing.T) {
	l := itemstest.ListOf(t, "a", "b")
	r := l.Reader()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.One(t.Context(), 1); err == nil || !errors.Is(err, os.ErrInvalid) {
		t.Error(err)
	}
}
