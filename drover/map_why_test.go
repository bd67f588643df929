package drover

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

func TestWaysToFailHaveTheirRemedies(t *testing.T) {
	t.Parallel()
	limits := job.Limits{Memory: 2 << 30}
	for _, row := range []struct {
		g      Group
		groups int
		l      job.Limits
		want   string
	}{
		{Group{Why: "exit status 137", Said: "out of memory: 2 GB limit", Pattern: "out of memory"}, 1, limits, "drover retry 7fk2 --error 'out of memory' --memory 4G"},
		{Group{Why: "exit status 137", Said: "out of memory: 2 GB limit", Pattern: "out of memory"}, 1, job.Limits{}, ""},
		{Group{Why: "exit status 124", Said: "timed out after 1m30s", Pattern: "timed out after"}, 1, limits, "drover retry 7fk2 --error 'timed out after' --timeout 3m0s"},
		{Group{Why: "quarantined: it was running each time an agent died", First: 7}, 2, limits, "drover items 7fk2 7 shows its end; drover retry 7fk2 --state quarantined runs such again"},
		{Group{Why: "exit status 1", Said: "can't open", Pattern: "can't open"}, 2, limits, `drover retry 7fk2 --error 'can'\''t open'`},
		{Group{Why: "exit status 1", Said: "can't open", Pattern: "can't open"}, 1, limits, ""},
		{Group{Why: "exit status 1"}, 2, limits, ""},
	} {
		if got := remedyCommand(row.g, "7fk2", row.groups, row.l, job.Duration(90*time.Second)); got != row.want {
			t.Errorf("%+v of %d: %q, want %q", row.g, row.groups, got, row.want)
		}
	}
}

func TestWhyALiveMapStandsWhereItDoes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	j := d.submitMap("live", "", strings.Repeat("x\n", 30), nil)
	rec, err := j.Spec(ctx)
	d.check(err)
	m := mapagent.NewMapMember(d.world, rec, "1-0-a", protocol.Host{Boot: "here", PID: 1}, mapagent.MapOptions{Slots: 2, Near: true})
	beat := protocol.Heartbeat{Agent: "1-0-a", Name: "desk", Phase: "running", Slots: 2, Flight: 2}
	say := func(change func(*protocol.Heartbeat)) {
		beat.Counter++
		change(&beat)
		d.check(liveness.WriteHeartbeat(ctx, d.world, j.path, beat))
	}
	says := func(answer, next string) Reason {
		t.Helper()
		w, err := j.Why(ctx)
		d.check(err)
		if w.Answer != answer || w.Next != strings.ReplaceAll(next, "ID", w.ID) {
			t.Errorf("%s: %q, next %q\n%q", w.State, w.Answer, w.Next, w.Detail)
		}
		return w
	}
	say(func(b *protocol.Heartbeat) {
		b.Phase, b.Queue, b.Flight = protocol.Queued, "it waits for 8 cores: job 3xw8 has them", 0
	})
	says("it waits for 8 cores: job 3xw8 has them", "drover status --watch ID")
	say(func(b *protocol.Heartbeat) { b.Phase, b.Queue, b.Note = "preparing", "", "building environment" })
	says("an agent is preparing: building environment", "drover status --watch ID")
	say(func(b *protocol.Heartbeat) { b.Phase, b.Note, b.Flight = "running", "", 2 })
	says("2 items run on 1 worker, 30 of 30 items are left", "drover status --watch ID")

	m.Ready()
	for range 2 { // a claim, then its items
		_, err = m.Poll(ctx)
		d.check(err)
		for _, h := range m.Owned() {
			for try, ok := h.Next(); ok; try, ok = h.Next() {
				h.Done(tried(try, "", map[int]int{2: 3}[try.Item%3]))
			}
			_, err = h.Flush(ctx)
			d.check(err)
		}
		_, err = m.Seek(ctx)
		d.check(err)
	}
	s, err := j.Status(ctx)
	d.check(err)
	if s.Items.Failed == 0 || len(s.Agents) != 1 || s.Agents[0].Host != "desk" || s.Agents[0].Slots != 2 {
		t.Fatalf("%+v", s)
	}
	w, err := j.Why(ctx)
	d.check(err)
	if !strings.HasPrefix(w.Next, "drover logs "+w.ID+" --item ") || len(w.Detail) != 1 || !strings.Contains(w.Detail[0], "× exit status 3, such as item ") {
		t.Errorf("with failures: %+v", w)
	}
	say(func(b *protocol.Heartbeat) { b.Phase, b.Flight, b.Asked = protocol.Left, 0, true })
	w, err = j.Why(ctx)
	d.check(err)
	if w.State != job.Interrupted || !strings.HasPrefix(w.Answer, "no agent is working on it: it was stopped by hand; ") || w.Next != "drover resume "+w.ID {
		t.Errorf("after Ctrl-C: %+v", w)
	}
}

func TestWhyAMapWasCancelled(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submitMap("never", "", strings.Repeat("x\n", 30), nil)
	if _, err := j.Stop(t.Context(), "wrong list"); err != nil {
		t.Fatal(err)
	}
	w, err := j.Why(t.Context())
	d.check(err)
	if w.Answer != "wrong list; 0 of 30 items had succeeded" || len(w.Detail) != 1 || w.Detail[0] != ("30 items were cancelled, and will not run: drover retry "+w.ID+" --state cancelled runs them, as does the command that started it, typed again") {
		t.Errorf("cancelled: %+v", w)
	}
}
