package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// cuts are the packs of items with small files of these sizes, by the first and last.
func cuts(names []string, size func(string) int64) (packs []string) {
	var c Cut
	from := 0
	for i, name := range names {
		if c.After(name, size(name)) || i == len(names)-1 {
			packs = append(packs, names[from]+" "+names[i])
			from = i + 1
		}
	}
	return packs
}

func named(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("/data/%05d.bin", i))
	}
	return names
}

func TestPacksEndWhereTheItemsSay(t *testing.T) {
	for _, size := range []int64{0, 1, 4 << 10, 100 << 10, PackedFile} {
		names := named(40_000)
		sum, packs := int64(0), cuts(names, func(string) int64 { return size })
		for range names {
			sum += size + itemWeight
		}
		mean := sum / int64(len(packs))
		if mean < minPack || mean > maxPack {
			t.Errorf("of %d bytes: %d packs of %d bytes", size, len(packs), mean)
		}
		var c Cut
		in := int64(0)
		for _, name := range names {
			if in += size + itemWeight; in > maxPack {
				t.Fatalf("of %d bytes: a pack of %d", size, in)
			}
			if c.After(name, size) {
				in = 0
			}
		}
	}
}

// After an item more, less or larger, wherever, the other packs are the same but for a
// few beside it.
func TestAChangedItemLeavesTheOtherPacksAlone(t *testing.T) {
	names, size := named(20_000), func(string) int64 { return 4 << 10 }
	before := map[string]bool{}
	for _, p := range cuts(names, size) {
		before[p] = true
	}
	worst := 0
	for n := range 60 {
		r := rand.New(rand.NewPCG(1, uint64(n)))
		at := r.IntN(len(names))
		now, sizes := append([]string(nil), names...), size
		switch n % 3 {
		case 0:
			now = append(now[:at:at], now[at+1:]...)
		case 1:
			now = append(now[:at:at], append([]string{fmt.Sprintf("/data/new %d", n)}, now[at:]...)...)
		case 2:
			grown := now[at]
			sizes = func(name string) int64 {
				if name == grown {
					return 200 << 10
				}
				return size(name)
			}
		}
		other := 0
		for _, p := range cuts(now, sizes) {
			if !before[p] {
				other++
			}
		}
		worst = max(worst, other)
	}
	if worst > 6 || len(before) < 15 {
		t.Errorf("of %d packs %d are others", len(before), worst)
	}
}

// packs is a store that counts reads, and may spoil one.
type packs struct {
	store.Bucket
	mu     sync.Mutex
	reads  int
	spoilt int   // so many reads come with a wrong byte
	fail   error // the next read's
}

func (p *packs) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	if err := p.fail; err != nil {
		p.fail = nil
		return nil, err
	}
	r, err := p.Bucket.Get(ctx, key, off, n)
	if err != nil || p.spoilt == 0 {
		return r, err
	}
	p.spoilt--
	body, err := io.ReadAll(r)
	for i := range body {
		body[i] ^= 1
	}
	return io.NopCloser(bytes.NewReader(body)), err
}

// stowed stores contents in one pack.
func stowed(t *testing.T, contents ...string) (*packs, *store.Store, []File) {
	t.Helper()
	b := &packs{Bucket: mem.New()}
	s := store.New(b, store.Options{Clock: &storetest.Clock{}})
	var p Pack
	var files []File
	for _, text := range contents {
		d, _, err := store.New(mem.New(), store.Options{}).PutBlob(t.Context(), strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Field: Whole, Blob: d, Size: int64(len(text)), Off: p.Add(d, []byte(text))})
	}
	name := p.Digest()
	if d, n, err := s.PutBlob(t.Context(), bytes.NewReader(p.Bytes())); d != name || n != int64(p.Len()) || err != nil {
		t.Fatalf("the pack %s is the blob %s of %d bytes: %v", name, d, n, err)
	}
	for i := range files {
		files[i].Pack = name
	}
	b.reads = 0
	return b, s, files
}

func content(ctx context.Context, s *Stored, f File) (string, error) {
	r, err := s.Open(ctx, f)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

func TestFilesOfAPackAreReadInWindows(t *testing.T) {
	var contents []string
	for i := range 1000 {
		contents = append(contents, strings.Repeat(fmt.Sprint(i, " "), 1+i%3000))
	}
	contents = append(contents, "", contents[7], strings.Repeat("x", PackedFile), strings.Repeat("y", PackedFile))
	b, s, files := stowed(t, contents...)
	r := NewStored(s)
	var hands sync.WaitGroup
	for i, f := range files {
		hands.Go(func() {
			if got, err := content(t.Context(), r, f); err != nil || got != contents[i] {
				t.Errorf("file %d is %d bytes, not %d: %v", i, len(got), len(contents[i]), err)
			}
		})
	}
	hands.Wait()
	last := files[len(files)-1]
	if most := int((last.Off+last.Size)/windowSize) + 1; b.reads > most || files[1001].Off != files[7].Off {
		t.Errorf("%d reads of %d windows", b.reads, most)
	}
}

func TestAPackThatIsNotWhatItWas(t *testing.T) {
	b, s, files := stowed(t, "one", "two", "three")
	r := NewStored(s)
	b.spoilt = 1
	if got, err := content(t.Context(), r, files[1]); got != "two" || err != nil {
		t.Errorf("spoilt on the way: %q, %v", got, err)
	}
	b.spoilt, r = 9, NewStored(s)
	if _, err := content(t.Context(), r, files[1]); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("spoilt: %v", err)
	}
	b.spoilt = 0
	if got, err := content(t.Context(), r, files[2]); got != "three" || err != nil {
		t.Errorf("afterwards: %q, %v", got, err)
	}
	r, b.fail = NewStored(s), fmt.Errorf("away: %w", context.Canceled)
	if _, err := content(t.Context(), r, files[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
	if got, err := content(t.Context(), r, files[0]); got != "one" || err != nil {
		t.Errorf("afterwards: %q, %v", got, err)
	}
	far := files[0]
	far.Off = 5 << 20
	if _, err := content(t.Context(), r, far); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("beyond its end: %v", err)
	}
	if err := s.Delete(t.Context(), "blobs/"+string(files[0].Pack)); err != nil {
		t.Fatal(err)
	}
	if _, err := content(t.Context(), NewStored(s), files[0]); !errors.Is(err, store.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
}

func TestALineTellsOfFilesInPacks(t *testing.T) {
	d, pack := store.Digest(fmt.Sprintf("%064x", 1)), store.Digest(fmt.Sprintf("%064x", 2))
	files := []File{{Field: Whole, Blob: d, Size: 3, Pack: pack, Off: 4096}, {Field: 0, Blob: d, Exec: true, Pack: pack}, {Field: 1, Blob: d, Size: 1 << 40}}
	var line []byte
	for i, f := range files {
		if i > 0 {
			line = append(line, ' ')
		}
		line = f.appendTo(line)
	}
	got, err := ParseFiles(string(line))
	if diff := cmp.Diff(files, got); diff != "" || err != nil {
		t.Errorf("%s: %v\n%s", line, err, diff)
	}
	if files[0].Held() != pack || files[2].Held() != d {
		t.Error("a file is held by another blob")
	}
	for _, wrong := range []string{
		":" + string(d) + ":3:::4096", ":" + string(d) + ":3::" + string(pack) + ":-1", ":" + string(d) + ":3::" + string(pack) + ":",
		":" + string(d) + ":300000::" + string(pack) + ":0", ":" + string(d) + ":3:y:" + string(pack) + ":0", ":" + string(d) + ":3::" + string(pack) + ":99999999999",
	} {
		if got, err := ParseFiles(wrong); err == nil {
			t.Errorf("%s is %+v", wrong, got)
		}
	}
}

// slow is a store with reads of blobs that break off in its own words when they are
// called off.
type slow struct {
	*packs
	begun chan struct{}
	ctx   context.Context
}

func (b *slow) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := b.packs.Get(ctx, key, off, n)
	if err != nil || b.begun == nil {
		return r, err
	}
	close(b.begun)
	b.begun, b.ctx = nil, ctx
	return b, r.Close()
}

func (b *slow) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, errors.New("connection reset")
}

func (b *slow) Close() error { return nil }

// A download that is called off takes no other file along that lies in the same window.
func TestWhoWaitsForAWindowThatIsCalledOffReadsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, files := stowed(t, "one", "two")
		begun := make(chan struct{})
		r := NewStored(store.New(&slow{packs: b, begun: begun}, store.Options{Clock: &storetest.Clock{}}))
		first, stop := context.WithCancel(t.Context())
		var hands sync.WaitGroup
		hands.Go(func() {
			if got, err := content(first, r, files[0]); err == nil {
				t.Errorf("called off: %q", got)
			}
		})
		<-begun
		hands.Go(func() {
			if got, err := content(t.Context(), r, files[1]); got != "two" || err != nil {
				t.Errorf("beside it: %q, %v", got, err)
			}
		})
		synctest.Wait() // it waits for the window
		stop()
		hands.Wait()
	})
}
