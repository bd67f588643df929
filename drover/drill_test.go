package drover

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/hits"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

func TestASeedMakesTheSameHits(t *testing.T) {
	type hit struct {
		Kind         hits.Hit
		After, Pause time.Duration
		Pick         uint64
	}
	draws := func(seed uint64, stream bool) (all []hit) {
		d := &drill{o: DrillOptions{Seed: seed}, r: DrillReport{Hits: map[string]int{}}, rate: hitRate{share: 50 * time.Millisecond, gap: 100 * time.Millisecond, start: time.Second}}
		random := d.newRandom()
		for range 200 {
			var h hit
			h.Kind, h.After, h.Pick, h.Pause = d.drawHit(random, job.Spec{Items: job.Items{Stream: stream}})
			d.r.Hits[string(h.Kind)]++
			all = append(all, h)
		}
		return all
	}
	one := draws(7, true)
	if diff := cmp.Diff(one, draws(7, true)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(one, draws(8, true)) {
		t.Error("two seeds make the same")
	}
	kinds := map[hits.Hit]int{}
	for i, h := range one {
		kinds[h.Kind]++
		least, most := 1100*time.Millisecond, 1200*time.Millisecond
		if i == 0 {
			least, most = 0, 25*time.Millisecond // half a share: one long item makes no gap before the first
		}
		if h.After < least || h.After > most || h.Pause <= 0 || h.Pause > longHalt {
			t.Errorf("hit %d: %+v", i, h)
		}
	}
	if len(kinds) != 5 {
		t.Errorf("kinds %v", kinds)
	}
	for _, h := range draws(7, false) {
		if h.Kind == hits.Program {
			t.Fatal("a program that does not stay is killed: that would be a failure of its own")
		}
	}
}

func TestJobsAreComparedItemByItem(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := func(task string, answer func(item int) string) *Job {
		j := d.submitMap(task, "", "a\nb\nc\nd\ne\n", nil)
		d.work(j, "1-0-a", func(try mapagent.Try) protocol.Result { return tried(try, answer(try.Item), 0) })
		return j
	}
	same := func(int) string { return "same" }
	calm := run("calm", same)
	if found, err := compareResults(t.Context(), calm, run("drill", same)); err != nil || len(found) > 0 {
		t.Errorf("%v: %+v", err, found)
	}
	odd := run("odd", func(item int) string { return map[bool]string{true: "other", false: "same"}[item == 4] })
	found, err := compareResults(t.Context(), calm, odd)
	d.check(err)
	if diff := cmp.Diff([]Difference{{Item: 4, Value: "d", What: "result", Before: "same", After: "other"}}, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	short := d.submitMap("short", "", "a\nb\n", nil)
	if _, err := compareResults(t.Context(), calm, short); err == nil {
		t.Error("other items are compared")
	}
}

func TestADrillThatHitNothingProvesNothing(t *testing.T) {
	r := DrillReport{Hits: map[string]int{}}
	if r.Same() {
		t.Error("without a hit")
	}
	r.Hits["SIGKILL"] = 1
	if !r.Same() {
		t.Error("with one")
	}
	if r.Findings = 1; r.Same() {
		t.Error("with a doubt")
	}
}

func TestADrillIsDoneOnThisMachine(t *testing.T) {
	p := &Plan{Spec: job.Spec{On: "mars"}}
	if _, err := p.Drill(t.Context(), DrillOptions{}); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("agents that live elsewhere: %v", err)
	}
	p.Properties.Attached = true
	if err := p.Drillable(); err != nil {
		t.Error(err)
	}
}

func TestItemsHaveTimeToEndBetweenTwoHits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submitMap("calm", "", "a\nb\nc\n", nil)
	d.work(j, "1-0-a", func(try mapagent.Try) protocol.Result { return tried(try, "", 0) })
	rate, err := rateOf(t.Context(), j, Status{MapStatus: &MapStatus{}})
	if d.check(err); rate.gap != 1500*time.Millisecond {
		t.Errorf("%v", rate)
	}
}
