package metric

import (
	"errors"
	"iter"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/store/mem"
)

func TestSamplesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		w := newWriter(t, d, 2, 3, "a")
		full := Sample{CPU: 1.5, Memory: 1 << 40, MemoryLimit: 5, DiskRead: 1, DiskWritten: 2, NetIn: 3, NetOut: 4, Disk: 6,
			GPU: []GPUSample{{0, 99.5, 1, 2, 300.25}, {1, math.NaN(), 0, 0, math.Inf(1)}}}
		for range 3 {
			if !RecordSample(w, full) || !RecordSample(w, Sample{CPU: math.Inf(-1)}) {
				t.Fatal("a sample was dropped")
			}
			time.Sleep(5 * time.Second)
		}
		recordtest.CloseWriter(t, w)
		full.GPU[1] = GPUSample{Index: 1}
		n := 0
		for s, err := range Samples(record.Read(t.Context(), d, recordtest.Prefix, record.Filter{})) {
			want := NodeSample{2, 3, "a", Sample{}}
			if n%2 == 0 {
				want.Sample = full
			}
			want.Time = recordtest.BubbleStart.Add(time.Duration(n/2) * 5 * time.Second)
			if diff := cmp.Diff(want, s); err != nil || diff != "" {
				t.Errorf("sample %d: %v\n%s", n, err, diff)
			}
			n++
		}
		if n != 6 {
			t.Errorf("%d samples of 6", n)
		}
	})
}

func TestADamagedSampleIsSaidAndPassedOver(t *testing.T) {
	in := iter.Seq2[record.Frame, error](func(yield func(record.Frame, error) bool) {
		_ = yield(record.Frame{Stream: record.Usage, Data: []byte("{")}, nil) && yield(record.Frame{Stream: record.Stdout, Data: []byte("x")}, nil) && yield(record.Frame{Stream: record.Usage, Data: []byte(`{"cpu":2}`)}, nil)
	})
	var errs, good int
	for s, err := range Samples(in) {
		switch {
		case errors.Is(err, record.ErrDamaged):
			errs++
		case err == nil && s.CPU == 2:
			good++
		}
	}
	if errs != 1 || good != 1 {
		t.Errorf("%d errors and %d samples", errs, good)
	}
}
