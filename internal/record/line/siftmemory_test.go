package line

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"testing"

	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// heap is what is held just now.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// droning is a depot of so many bytes of logs, which take hardly any room packed: what a
// search holds is its own. Each item prints a megabyte, a hundred of them by turns, and one
// line in each ten thousand says "needle".
func droning(t *testing.T, size int) *recordtest.Store {
	t.Helper()
	d := recordtest.NewStore(mem.New())
	w := makeWriter(t, record.Options{Store: d, ID: "w", Clock: store.System})
	var piece []byte
	for n := 0; len(piece) < 32<<10; n++ {
		piece = fmt.Appendf(piece, "epoch=%d loss=0.123\n", n%10)
	}
	needle := append([]byte("a needle\n"), piece...)
	piece = append(piece, "and a line that is open"...)
	for n := range size / len(piece) {
		text := piece
		if n%16 == 0 {
			text = needle
		}
		recordtest.WriteAll(t, w, record.Stdout, uint64(n%100+n/3200*100+1), text)
	}
	recordtest.CloseWriter(t, w)
	return d
}

// siftHeap is by how much the heap grows while all of it is looked through.
func siftHeap(t *testing.T, d *recordtest.Store, re string, around int) (grown int64, found int) {
	t.Helper()
	before := heap()
	for f, err := range Sift(context.Background(), d, recordtest.Prefix, record.Filter{}, nil, regexp.MustCompile(re), around, around) {
		if err != nil {
			t.Fatal(err)
		}
		if !f.Match {
			continue
		}
		if found++; found%100 == 1 {
			grown = max(grown, heap()-before)
		}
	}
	return grown, found
}

// siftMost is what a search may hold: the blocks that are read ahead, packed and not.
const siftMost = 32 << 20

func checkSiftHeap(t *testing.T, size int) {
	t.Helper()
	d := droning(t, size)
	packed := 0
	for o := range d.List(t.Context(), recordtest.Prefix+"/") {
		packed += int(o.Size)
	}
	for _, c := range []struct {
		re     string
		around int
	}{{"needle", 0}, {"needle", 2}, {"n[e]{2}dle", 0}} {
		grown, found := siftHeap(t, d, c.re, c.around)
		t.Logf("%q of %d MB (%d MB packed), %d around: %d found, the heap grew by %d MB", c.re, size>>20, packed>>20, c.around, found, grown>>20)
		if found < size>>20 || grown > siftMost {
			t.Errorf("%q, %d around: %d found, and the heap grew by %d MB", c.re, c.around, found, grown>>20)
		}
	}
}

// TestASearchHoldsLittle bounds what is held, not what the collector of garbage happens to
// have left.
func TestASearchHoldsLittle(t *testing.T) { checkSiftHeap(t, 4*siftMost) }

// TestRealASearchOfAGigabyteHoldsLittle: no more than of an eighth of that.
func TestRealASearchOfAGigabyteHoldsLittle(t *testing.T) {
	if os.Getenv("DROVER_TEST_REAL") == "" {
		t.Skip("set DROVER_TEST_REAL=1: it takes a while")
	}
	checkSiftHeap(t, 1<<30)
}
