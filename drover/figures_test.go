package drover

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

func TestASpreadIsThatOfAllValuesWithinTwoPercent(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"even":      func() float64 { return dice.Float64() },
		"long tail": func() float64 { return math.Exp(3 * dice.NormFloat64()) },
		"memory":    func() float64 { return 1e6 * (1 + 4000*dice.Float64()) },
		"alike":     func() float64 { return 0.7 },
	} {
		values := make([]float64, 10_000)
		parts := [3]Spread{}
		for i := range values {
			values[i] = draw()
			parts[i%3].addValue(values[i], i+1)
		}
		var s Spread
		for _, p := range parts {
			s.mergeSpread(p)
		}
		most := slices.Index(values, slices.Max(values)) + 1
		slices.Sort(values)
		for _, share := range []float64{0.01, 0.25, 0.5, 0.95, 0.999, 1} {
			want := values[max(int(math.Ceil(share*1e4)), 1)-1]
			if got := s.Quantile(share); math.Abs(got-want) > 0.02*want {
				t.Errorf("%s: quantile %g is %g, want %g", name, share, got, want)
			}
		}
		if s.Count != 10_000 || s.Min != values[0] || s.Max != values[9999] || s.MaxItem != most {
			t.Errorf("%s: %d values from %g to %g, of item %d", name, s.Count, s.Min, s.Max, s.MaxItem)
		}
		for _, n := range []int{1, 8, 24} {
			sum, last := 0, 0.0
			for _, b := range s.Histogram(n) {
				sum += b.Items
				if b.UpTo <= last {
					t.Errorf("%s: a bar up to %g after %g", name, b.UpTo, last)
				}
				last = b.UpTo
			}
			if sum != 10_000 || last != s.Max || len(s.Histogram(n)) > n {
				t.Errorf("%s: %d bars with %d items up to %g", name, len(s.Histogram(n)), sum, last)
			}
		}
	}
}

func TestASpreadOfNothing(t *testing.T) {
	t.Parallel()
	var s Spread
	s.addValue(math.NaN(), 1)
	s.addValue(math.Inf(1), 1)
	s.addValue(-1, 1)
	if s.Count != 0 || s.Quantile(0.5) != 0 || s.Histogram(8) != nil {
		t.Errorf("%+v", s)
	}
	s.addValue(0, 7)
	s.addValue(0, 3)
	if s.Quantile(0.5) != 0 || len(s.Histogram(8)) != 1 || s.MaxItem != 3 {
		t.Errorf("of zeros: %+v", s)
	}
}

// naive sums up what Results gives.
func (d *desk) naive(j *Job) (f Figures) {
	d.t.Helper()
	var g grouping
	for _, r := range d.results(j) {
		if r.State != job.ItemSucceeded && r.State != job.ItemFailed {
			continue
		}
		f.Seconds.addValue(r.Seconds, r.Item)
		f.CPU.addValue(r.CPU, r.Item)
		f.Memory.addValue(float64(r.MaxRSS), r.Item)
		f.Cores.addValue(r.CPU/r.Seconds, r.Item)
		if r.State != job.ItemSucceeded {
			g.addResult(r)
		}
	}
	f.Groups = g.sortedGroups()
	return f
}

func (d *desk) checkFigures(j *Job, when string) {
	d.t.Helper()
	got, err := j.Figures(d.t.Context())
	d.check(err)
	if diff := cmp.Diff(d.naive(j), got, cmpopts.EquateApprox(1e-9, 0), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Figures{}, "Limits")); diff != "" {
		d.t.Errorf("%s (-by results +figures):\n%s", when, diff)
	}
}

// uneven gives each item its own figures; the fail-th of ten fail.
func uneven(fail int) func(mapagent.Try) protocol.Result {
	return func(try mapagent.Try) protocol.Result {
		r := tried(try, "", 0)
		r.Wall, r.CPU, r.MaxRSS = int64(try.Item)*100_000, int64(try.Item)*1000, int64(try.Item)<<20
		if try.Item%10 == fail {
			r.Failed, r.Code, r.Why = true, 3, fmt.Sprintf("no town of number %d", try.Item)
		}
		return r
	}
}

// rememberedFiles are the names of summaries that a client has kept.
func (d *desk) rememberedFiles() []string {
	d.t.Helper()
	files, err := filepath.Glob(filepath.Join(d.engine.Caller.Cache, "figures", "*"))
	d.check(err)
	return files
}

func TestFiguresAreThoseOfTheResults(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const many = notWorthIt + 200
	j := d.submitChunks("many", "", strings.Repeat("item\n", many), 300, func(s *job.Spec) { s.Slots = 2 })
	if f, err := j.Figures(t.Context()); err != nil || f.Seconds.Count != 0 || len(d.rememberedFiles()) > 0 {
		t.Fatalf("before: %+v, %v", f, err)
	}
	d.work(j, "1-0-a", uneven(4))
	d.checkFigures(j, "first")
	if n := len(d.rememberedFiles()); n != 1 {
		t.Fatalf("%d files are kept", n)
	}
	d.checkFigures(j, "remembered")

	// Another round changes what was summed up.
	again, err := j.Retry(t.Context(), RetryOptions{Items: [][2]int{{1, 100}}})
	if d.check(err); again != 10 {
		t.Fatalf("%d run again", again)
	}
	d.checkFigures(j, "asked for again")
	d.work(j, "1-0-b", uneven(99))
	d.checkFigures(j, "after another round")
	d.checkFigures(j, "remembered after another round")
	if f, err := j.Figures(t.Context()); err != nil || len(f.Groups) != 1 || f.Groups[0].Items != many/10-10 || f.Seconds.Count != many {
		t.Errorf("%+v, %v", f.Groups, err)
	}
	file := d.rememberedFiles()[0]
	for _, text := range []string{"", "{", `{"v":99}`, `{"v":1,"seals":["x"],"seconds":{"count":7}}`} {
		d.check(os.WriteFile(file, []byte(text), 0o600))
		d.checkFigures(j, fmt.Sprintf("after a file of %q", text))
	}
}

func TestFiguresOfALiveMapAreThoseOfItsResults(t *testing.T) {
	t.Parallel()
	for size, handed := range map[int]bool{15: false, 40: true} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			testFiguresOfALiveMap(t, size, handed)
		})
	}
}

func testFiguresOfALiveMap(t *testing.T, size int, handed bool) {
	d := newDesk(t)
	j := d.submitChunks("live", "", strings.Repeat("item\n", 60), size, nil)
	ctx := t.Context()
	rec, err := j.Spec(ctx)
	d.check(err)
	most := 0 // chunks that there were
	together := func(when string, outcome func(mapagent.Try) protocol.Result, names ...string) {
		var members []*mapagent.MapMember
		for i, name := range names {
			members = append(members, mapagent.NewMapMember(d.world, rec, name, protocol.Host{Boot: "here", PID: i + 1}, mapagent.MapOptions{Slots: 2, Near: true}))
			members[i].Ready()
		}
		for round := 0; round == 0 || members[0].Map().Settled == nil; round++ {
			for _, m := range members {
				_, err := m.Poll(ctx)
				d.check(err)
				for _, h := range m.Owned() {
					if t, ok := h.Next(); ok {
						h.Done(outcome(t))
					}
					_, err := h.Flush(ctx)
					d.check(err)
				}
				_, err = m.Seek(ctx)
				d.check(err)
			}
			s, err := j.Status(ctx)
			d.check(err)
			most = max(most, s.Chunks)
			d.checkFigures(j, fmt.Sprintf("%s, after round %d", when, round))
		}
	}
	together("at first", uneven(4), "1-0-a", "1-1-b", "1-2-c")
	if most > (60+size-1)/size != handed {
		t.Fatalf("%d chunks of %d items, handed over %t", most, size, handed)
	}
	if _, err := j.Retry(ctx, RetryOptions{}); err != nil {
		t.Fatal(err)
	}
	together("again", uneven(99), "2-0-a", "2-1-b")
}

func TestOldSummariesAreForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range rememberedMost + 7 {
		write(t, dir, fileTree{fmt.Sprintf("%03d.json", i): ""})
		when := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).AddDate(0, 0, -i)
		if err := os.Chtimes(filepath.Join(dir, fmt.Sprintf("%03d.json", i)), when, when); err != nil {
			t.Fatal(err)
		}
	}
	forget(dir)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != rememberedMost || left[len(left)-1].Name() != fmt.Sprintf("%03d.json", rememberedMost-1) {
		t.Errorf("%d are left, %v", len(left), err)
	}
}

// someFigures are n items that used so much each, and one that used most.
func someFigures(n int, l job.Limits, usual, most float64, cores float64) (f Figures) {
	for i := range n {
		f.Memory.addValue(usual, i+1)
		f.Cores.addValue(cores, i+1)
	}
	f.Memory.addValue(most, n+1)
	f.Limits = l
	return f
}

func TestAdviceIsGivenWhenItChangesSomething(t *testing.T) {
	t.Parallel()
	const mb, gb = 1 << 20, 1 << 30
	for name, row := range map[string]struct {
		f      Figures
		cores  int
		memory int64
		want   string
	}{
		"too much memory": {someFigures(100, job.Limits{Memory: 4 * gb}, 200*mb, 300*mb, 1), 16, 16 * gb,
			"no item had a process of more than 300 MB of the 4 GB asked for: --memory 384M would let 16 run at once on a worker, not 4"},
		"a few need much": {someFigures(100, job.Limits{Memory: 4 * gb}, 200*mb, 3900*mb, 1), 64, 16 * gb,
			"95 % of items had no process of more than 200 MB of the 4 GB asked for (item 101: 3.8 GB; drover retry --memory 4G runs such again): --memory 256M would let 64 run at once on a worker, not 4"},
		"too many cores": {someFigures(100, job.Limits{CPUs: 4}, mb, mb, 0.9), 8, 16 * gb,
			"95 % of items kept at most 0.9 of 4 cores busy: --cpus 1 would let 8 run at once on a worker, not 2"},
		"both": {someFigures(100, job.Limits{CPUs: 4, Memory: 4 * gb}, mb, mb, 0.9), 8, 16 * gb,
			"no item had a process of more than 1 MB of the 4 GB asked for, and 95 % of items kept at most 0.9 of 4 cores busy: --memory 64M --cpus 1 would let 8 run at once on a worker, not 2"},
		"nothing was asked for": {someFigures(100, job.Limits{}, mb, mb, 0.9), 8, 16 * gb, ""},
		"the cores are fewer":   {someFigures(100, job.Limits{Memory: 4 * gb}, mb, mb, 1), 2, 16 * gb, ""},
		"it is used":            {someFigures(100, job.Limits{Memory: 4 * gb}, 3*gb, 3*gb, 1), 64, 16 * gb, ""},
		"too few items":         {someFigures(10, job.Limits{Memory: 4 * gb}, mb, mb, 1), 64, 16 * gb, ""},
	} {
		got := row.f.computeAdvice(row.cores, row.memory)
		if got == nil {
			got = &Advice{}
		}
		if got.Text != row.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got.Text, row.want)
		}
	}
}
