package items

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// bad is a bucket whose reads go wrong: the first times reads of a key that ends
// so, each by break.
type bad struct {
	*mem.Bucket
	mu    sync.Mutex
	end   string
	times int
	harm  func(text []byte) ([]byte, error)
	gets  int
}

func (b *bad) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := b.Bucket.Get(ctx, key, off, n)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || !strings.HasSuffix(key, b.end) {
		return r, err
	}
	b.gets++
	if b.times == 0 {
		return r, nil
	}
	b.times--
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if text, err = b.harm(text); err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

// harms are what may happen to bytes on their way or where they lie.
var harms = map[string]func(text []byte) ([]byte, error){
	"flipped": func(text []byte) ([]byte, error) { text[len(text)/2] ^= 1; return text, nil },
	"cut":     func(text []byte) ([]byte, error) { return text[:len(text)/2], nil },
	"zeros":   func(text []byte) ([]byte, error) { return make([]byte, len(text)), nil },
	"empty":   func([]byte) ([]byte, error) { return nil, nil },
	"gone":    func([]byte) ([]byte, error) { return nil, store.ErrNotExist },
}

func TestADamagedPartIsLostAndNamed(t *testing.T) {
	lines := noise(6000, 1000)
	for name, harm := range harms {
		b := &bad{Bucket: mem.New(), end: ".zst", harm: harm}
		s := store.New(b, store.Options{})
		m, err := listOf(t, lines...).Put(t.Context(), s, "items")
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(t.Context(), s, m, 1)
		if err != nil {
			t.Fatal(err)
		}
		b.times = -1
		_, err = r.One(t.Context(), 6000)
		if fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), "read item 6000: read items: items/part-") {
			t.Errorf("%s: %v", name, err)
		}

		b.times = 1 // on the way alone: it is asked for once more
		if it, err := r.One(t.Context(), 6000); err != nil || it.Text != lines[5999] {
			t.Errorf("%s once: %v", name, err)
		}
		b.times = 1
		if diff := cmp.Diff(lines, texts(t, r)); diff != "" {
			t.Errorf("%s once: all: %.300s", name, diff)
		}
	}
}

func TestADamagedIndexIsLostAndNamed(t *testing.T) {
	for name, harm := range harms {
		b := &bad{Bucket: mem.New(), end: ".json", harm: harm}
		s := store.New(b, store.Options{})
		m, err := listOf(t, "a", "b").Put(t.Context(), s, "items")
		if err != nil {
			t.Fatal(err)
		}
		b.times = -1
		if _, err := Open(t.Context(), s, m, 1); fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), m.Key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPutSaysWhatTheStoreHolds(t *testing.T) {
	for _, end := range []string{".zst", ".json"} {
		b := &bad{Bucket: mem.New(), end: end, times: 1, harm: harms["flipped"]}
		_, err := listOf(t, "a", "b").Put(t.Context(), store.New(b, store.Options{}), "items")
		if fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), "is damaged") || fault.Hint(err) == "" {
			t.Errorf("%s: %v", end, err)
		}
	}
}

func TestADeniedReadIsNotALostOne(t *testing.T) {
	denied := fault.New(fault.Denied, "Log in.", "get: not allowed")
	b := &bad{Bucket: mem.New(), end: ".zst", harm: func([]byte) ([]byte, error) { return nil, denied }}
	s := store.New(b, store.Options{})
	m, err := listOf(t, "a", "b").Put(t.Context(), s, "items")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), s, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.times = -1
	if _, err := r.One(t.Context(), 1); fault.KindOf(err) != fault.Denied || fault.Hint(err) != "Log in." {
		t.Error(err)
	}
}

func TestOnlyTheBlocksNeededAreRead(t *testing.T) {
	lines := noise(6000, 1000)
	b := &bad{Bucket: mem.New(), end: ".zst"}
	s := store.New(b, store.Options{})
	m, err := listOf(t, lines...).Put(t.Context(), s, "items")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), s, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	reads := func(from, to int) int {
		t.Helper()
		before := b.gets
		for _, err := range r.Range(t.Context(), from, to) {
			if err != nil {
				t.Fatal(err)
			}
		}
		return b.gets - before
	}
	if b.gets = 0; reads(1, 6000) != 2 {
		t.Errorf("two parts took %d requests", b.gets)
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
	for _, l := range []*List{listOf(t, "a", "b"), newRange(span{1, 2, 1})} {
		_, r := stored(t, l, 5)
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
	lines := noise(2000, 1000)
	_, r := stored(t, listOf(t, lines...), 1)
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
	good, err := listOf(t, "a", "b").Put(t.Context(), s, "items")
	if err != nil {
		t.Fatal(err)
	}
	other := good
	other.Digest = strings.Repeat("0", 64)
	more := good
	more.Count = 3
	csv := good
	csv.Format = CSV
	for name, m := range map[string]Manifest{
		"no key": {Count: 2}, "another digest": other, "another count": more, "another format": csv,
		"gone": {Key: "items/index-" + strings.Repeat("0", 32) + ".json", Count: 1},
	} {
		if _, err := Open(t.Context(), s, m, 1); err == nil {
			t.Errorf("%s was opened", name)
		}
	}
	for name, m := range map[string]Manifest{
		"negative": {Count: -1}, "range of less": {Count: 9, From: 1, To: 8, Step: 1}, "range backwards": {Count: 0, From: 9, To: 1, Step: 1},
		"range from below": {Count: 3, From: -1, To: 1, Step: 1},
	} {
		if _, err := Open(t.Context(), s, m, 1); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(t.Context(), s, good, 0); fault.KindOf(err) != fault.Invalid {
		t.Errorf("items from number 0: %v", err)
	}
}

func TestAManifestIsSmallJSON(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	for _, l := range []*List{collected(t, CSV, "a,b\n1,2\n"), newRange(span{0, 9, 3})} {
		want, err := l.Put(t.Context(), s, "items")
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Manifest
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		r, err := Open(t.Context(), s, got, 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(allItems(t, l.Reader()), allItems(t, r)); diff != "" {
			t.Error(diff)
		}
	}
}

// FuzzIndex reads what may lie under an index's key: whatever it says, no block is
// outside its part and none too large.
func FuzzIndex(f *testing.F) {
	l, err := build(f.TempDir(), Lines, func(p *packer) error { return errors.Join(add(p, "a"), add(p, "b")) })
	if err != nil {
		f.Fatal(err)
	}
	defer l.Close()
	text, err := json.Marshal(l.index)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"v":1,"format":"lines","count":1,"parts":[{"name":"part-00000000000000000000000000000000.zst","blocks":[{"n":1,"len":-1,"raw":9999999999}]}]}`))
	f.Add([]byte(`{"v":1,"format":"csv","count":0,"parts":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var x index
		if json.Unmarshal(text, &x) != nil || x.check() != nil {
			return
		}
		r := newReader(Manifest{Count: x.Count, Format: x.Format}, 1)
		r.fill(&x)
		if r.starts[len(r.starts)-1] != x.Count {
			t.Fatalf("%s: %v", text, r.starts)
		}
		for i, b := range r.blocks {
			if b.Packed > maxPacked || b.Raw > maxRaw || b.off < 0 || r.starts[i+1] <= r.starts[i] {
				t.Fatalf("%s: %+v", text, b)
			}
		}
	})
}

// FuzzBlock unpacks what may lie in a part, with a checksum that holds.
func FuzzBlock(f *testing.F) {
	f.Add([]byte{1, 'a', 0, 2, 'b', 'c'}, 3)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x7f}, 1)
	f.Add([]byte{200}, 2)
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		items := string(raw)
		length := 0
		for range min(n, len(raw)) {
			text, rest, err := next(items)
			if err != nil {
				return
			}
			length += len(text)
			items = rest
		}
		if length+len(items) > len(raw) {
			t.Fatalf("%q gave %d bytes", raw, length)
		}
	})
}

func TestAListThatIsClosedGivesNoItems(t *testing.T) {
	l := listOf(t, "a", "b")
	r := l.Reader()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.One(t.Context(), 1); err == nil || !errors.Is(err, os.ErrInvalid) {
		t.Error(err)
	}
}
