package drover

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// naive sums up what Results gives.
func (d *desk) naive(j *Job) (f Figures) {
	d.t.Helper()
	failed := map[string]*Group{} // by status
	for _, r := range d.results(j) {
		if r.State != job.ItemSucceeded && r.State != job.ItemFailed {
			continue
		}
		f.Seconds.AddValue(r.Seconds, r.Item)
		f.CPU.AddValue(r.CPU, r.Item)
		f.Memory.AddValue(float64(r.MaxRSS), r.Item)
		f.Cores.AddValue(r.CPU/r.Seconds, r.Item)
		if r.State != job.ItemSucceeded {
			g := failed[r.Status()]
			if g == nil { // as uneven fails
				g = &Group{Why: r.Status(), Signature: "no town of number N", First: r.Item, Said: r.Reason, Pattern: "no town of number"}
				failed[g.Why] = g
			}
			g.Items++
		}
	}
	for _, g := range failed {
		f.Groups = append(f.Groups, *g)
	}
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
	const many = 1200 // more than are read again each time
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
