package items

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
)

// numbered is a pipe of n lines such as a list of files would have.
type numbered struct {
	n, at int
	left  []byte
	form  func(b []byte, i int) []byte
}

func paths(n int) *numbered {
	return &numbered{n: n, form: func(b []byte, i int) []byte {
		b = append(b, "/data/pictures/2026/"...)
		b = strconv.AppendInt(b, int64(i%977), 10)
		b = append(b, "/IMG_"...)
		b = strconv.AppendInt(b, int64(i)*7919, 36)
		return append(b, ".jpg\n"...)
	}}
}

func (s *numbered) Read(to []byte) (int, error) {
	for len(s.left) < len(to) && s.at < s.n {
		s.left = s.form(s.left, s.at)
		s.at++
	}
	if len(s.left) == 0 {
		return 0, io.EOF
	}
	n := copy(to, s.left)
	s.left = append(s.left[:0], s.left[n:]...)
	return n, nil
}

// peak collects garbage and keeps the largest heap seen.
type peak struct{ heap uint64 }

func (p *peak) look() {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	p.heap = max(p.heap, m.HeapAlloc)
}

func opened(t testing.TB) *store.Store {
	t.Helper()
	b, err := dir.Open(t.TempDir(), dir.OS)
	if err != nil {
		t.Fatal(err)
	}
	return store.New(b, store.Options{})
}

// walk does all that is done with a list of n lines, looking at the heap on the
// way: collected, stored, read, compared with a shorter one.
func walk(t testing.TB, n int, p *peak) {
	t.Helper()
	ctx, s := t.Context(), opened(t)
	l, err := Collect(ctx, Source{From: "-", Stdin: paths(n)}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.look()
	m, err := l.Put(ctx, s, "items")
	if err != nil {
		t.Fatal(err)
	}
	p.look()
	r, err := manifest.Open(ctx, s, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	count(ctx, t, r, p)
	shorter, err := Collect(ctx, Source{From: "-", Stdin: paths(n - n/4)}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer shorter.Close()
	fresh, gone, err := manifest.New(ctx, l, []*manifest.Reader{shorter.Reader()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if fresh.Count() != n/4 || gone != 0 {
		t.Errorf("%d new, %d gone", fresh.Count(), gone)
	}
	p.look()
}

func count(ctx context.Context, t testing.TB, r *manifest.Reader, p *peak) {
	t.Helper()
	n := 0
	for _, err := range r.Range(ctx, r.First(), r.Last()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%500_000 == 0 {
			p.look()
		}
	}
	if n != r.Manifest().Count {
		t.Errorf("%d items of %d", n, r.Manifest().Count)
	}
}

// TestTwoMillionLinesTakeNoMoreMemoryThanFew bounds what is held, not what the
// collector of garbage happens to have left.
func TestTwoMillionLinesTakeNoMoreMemoryThanFew(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's memory is not ours, and it takes half a minute")
	}
	var before, p peak
	before.look()
	walk(t, 2_000_000, &p)
	// Encoder, decoder, buffers and a block; 2 million lines are 90 MB.
	if grown := int64(p.heap) - int64(before.heap); grown > 16<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
}

// TestRealTenMillionLines is the promise: under 100 MB of RSS.
func TestRealTenMillionLines(t *testing.T) {
	if os.Getenv("DROVER_TEST_REAL") == "" {
		t.Skip("set DROVER_TEST_REAL=1: it takes a minute")
	}
	debug.FreeOSMemory()
	var p peak
	walk(t, 10_000_000, &p)
	if runtime.GOOS != "linux" {
		return
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	rss, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("peak RSS %d MB, of heap %d MB", rss>>10, p.heap>>20)
	if rss >= 100<<10 && !raceEnabled {
		t.Errorf("peak RSS %d MB", rss>>10)
	}
}

const benchLines = 1_000_000

func benchList(b *testing.B, format string, in io.Reader) *manifest.List {
	b.Helper()
	l, err := Collect(b.Context(), Source{From: "-", Format: format, Stdin: in}, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return l
}

// BenchmarkCollect reads 1 million lines a round.
func BenchmarkCollect(b *testing.B) {
	for b.Loop() {
		benchList(b, manifest.Lines, paths(benchLines)).Close()
	}
	b.ReportMetric(benchLines*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// BenchmarkRead reads 1 million items a round out of a folder.
func BenchmarkRead(b *testing.B) {
	for format, in := range map[string]*numbered{
		manifest.Lines: paths(benchLines),
		manifest.CSV:   {n: benchLines, form: func(t []byte, i int) []byte { return fmt.Appendf(t, "%d,name %d,%d.5\n", i, i, i) }},
		manifest.JSONL: {n: benchLines, form: func(t []byte, i int) []byte { return fmt.Appendf(t, "{\"id\":%d,\"name\":\"name %d\"}\n", i, i) }},
	} {
		b.Run(format, func(b *testing.B) {
			s := opened(b)
			m, err := benchList(b, format, in).Put(b.Context(), s, "items")
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for b.Loop() {
				r, err := manifest.Open(b.Context(), s, m, 1)
				if err != nil {
					b.Fatal(err)
				}
				for _, err := range r.Range(b.Context(), 1, r.Last()) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

// BenchmarkNew compares 1 million lines with 1 million.
func BenchmarkNew(b *testing.B) {
	l, old := benchList(b, manifest.Lines, paths(benchLines)), benchList(b, manifest.Lines, paths(benchLines-1))
	for b.Loop() {
		fresh, _, err := manifest.New(b.Context(), l, []*manifest.Reader{old.Reader()}, b.TempDir())
		if err != nil || fresh.Count() != 1 {
			b.Fatal(err)
		}
		fresh.Close()
	}
	b.ReportMetric(benchLines*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
