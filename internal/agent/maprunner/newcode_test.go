package maprunner

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// heeds is set once an agent's heartbeat says that it begins nothing more.
func heeds(then func(*Config, *Prepared)) (rests *atomic.Bool, change func(*Config, *Prepared)) {
	rests = new(atomic.Bool)
	return rests, func(c *Config, k *Prepared) {
		c.ChangeHeartbeat = func(_ bool, change func(*protocol.Heartbeat)) {
			var b protocol.Heartbeat
			if change(&b); b.Phase == protocol.Resting {
				rests.Store(true)
			}
		}
		if then != nil {
			then(c, k)
		}
	}
}

// recode gives the live map new code.
func (s *site) recode(digest string) {
	s.t.Helper()
	stands, err := control.AmendMap(s.t.Context(), s.World, s.job.Path(), "cli-1", protocol.Amended{Code: &protocol.Code{Code: job.Code{Digest: digest}}})
	if s.check(err); !stands {
		s.t.Fatal("it has ended")
	}
}

// next starts an agent as an engine does now: with the job as it binds what begins.
func (s *site) next(slots int, change func(*Config, *Prepared)) *agent {
	s.t.Helper()
	m, err := chunks.ReadMap(s.t.Context(), s.World, s.job)
	s.check(err)
	return s.start(slots, func(c *Config, k *Prepared) {
		c.Job = m.Bind(s.job)
		k.Environ = append(k.Environ, "CODE="+c.Job.Code.Digest)
		if change != nil {
			change(c, k)
		}
	})
}

// heads counts the first words that items printed.
func (s *site) heads() map[string]int {
	said := map[string]int{}
	for _, r := range s.results() {
		head := ""
		if r.Result != nil {
			head, _, _ = strings.Cut(r.Result.Head, " ")
		}
		said[head]++
	}
	return said
}

func TestWhoHasOldCodeLetsItsItemsEndAndGivesTheRestBack(t *testing.T) {
	t.Parallel()
	s := newRange(t, shell(`if [ -z "$CODE" ]; then echo $1 >>ran; while [ ! -e go ]; do sleep 0.01; done; fi; echo ${CODE:-old} $1`), 30, 1)
	var mu sync.Mutex
	touched := map[string]bool{} // chunks
	s.bucket.wrote = func(key string) {
		if _, chunk, ok := strings.Cut(key, "/chunks/"); ok {
			mu.Lock()
			defer mu.Unlock()
			touched[filepath.Dir(chunk)] = true
		}
	}
	chunks := func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(touched)
	}
	k := attached.NewMapKeeper(s.World, s.job, "cli-1")
	if w, err := k.Poll(t.Context(), nil); err != nil || !w.Start || w.Placed.Placement != 1 {
		t.Fatalf("the keeper asks for %+v, %v", w, err)
	}
	rests, change := heeds(nil)
	a := s.start(2, change)
	a.wait(func() bool {
		ran, _ := os.ReadFile(filepath.Join(a.code, "ran"))
		return strings.Count(string(ran), "\n") == 2
	})
	s.recode("new")
	a.wait(rests.Load)
	before := chunks()
	s.check(os.WriteFile(filepath.Join(a.code, "go"), nil, 0o600))
	a.leave(fault.ExitLater)
	if diff := cmp.Diff(before, chunks()); diff != "" {
		t.Errorf("it claims chunks for which it has old code:\n%s", diff)
	}
	if !a.noted("leaving: the job has new code") {
		t.Errorf("it notes %q", a.notes)
	}
	if diff := cmp.Diff(map[string]int{"old": 2, "": 28}, s.heads()); diff != "" {
		t.Errorf("when it has left (-want +got):\n%s", diff)
	}
	s.untroubled()

	w, err := k.Poll(t.Context(), []attached.Machine{{Placement: 1, Index: 1}})
	if err != nil || !w.Start || w.Placed.Placement != 2 {
		t.Fatalf("the keeper asks for %+v, %v", w, err)
	}
	s.next(2, nil).leave(0)
	s.wants(job.Succeeded, job.Tally{Items: 30, Succeeded: 30})
	if diff := cmp.Diff(map[string]int{"old": 2, "new": 28}, s.heads()); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
	s.untroubled()
}

// untroubled says that no item has anything but its own results behind it.
func (s *site) untroubled() {
	s.t.Helper()
	for _, r := range s.results() {
		if r.Carry != (protocol.Carry{}) {
			s.t.Errorf("item %d has %+v behind it", r.N, r.Carry)
		}
	}
}

func TestProgramsThatStayLeaveWithTheirOldCode(t *testing.T) {
	t.Parallel()
	s := newRange(t, python(`
new = os.environ.get("CODE", "old")
for item in drover.items():
    open("here-%s-%d" % (me, item.n), "w").close()
    while new == "old" and not os.path.exists("go"): time.sleep(0.01)
    item.done(new + " " + me)
`), 400, 20)
	rests, change := heeds(module(t))
	a := s.start(2, change)
	a.wait(func() bool {
		here, err := filepath.Glob(filepath.Join(a.code, "here-*"))
		return err == nil && len(here) == 2
	})
	s.recode("new")
	a.wait(rests.Load)
	s.check(os.WriteFile(filepath.Join(a.code, "go"), nil, 0o600))
	a.leave(fault.ExitLater)
	old := s.heads()["old"]
	if old < 2 || old == 400 {
		t.Errorf("%d items ended with old code", old)
	}
	s.untroubled()
	s.next(2, module(t)).leave(0)
	s.wants(job.Succeeded, job.Tally{Items: 400, Succeeded: 400})
	if diff := cmp.Diff(map[string]int{"old": old, "new": 400 - old}, s.heads()); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

func TestNewCodeIsNoReasonToGoWhile(t *testing.T) {
	t.Parallel()
	gone := func(t *testing.T, a *agent) { // before it has run anything
		t.Helper()
		a.leave(fault.ExitLater)
		if n := a.s.open(); n != 9 {
			t.Errorf("%d of 9 items are open", n)
		}
	}
	echo := command("echo", "{}")
	t.Run("it is paused", func(t *testing.T) {
		t.Parallel()
		s := newRange(t, echo, 9, 3)
		var reads atomic.Int64
		s.bucket.asked = func(key string) {
			if strings.Contains(key, s.job.ID+"/log/") {
				reads.Add(1)
			}
		}
		_, err := control.PauseMap(t.Context(), s.World, s.job.Path(), "cli-1", protocol.Paused{})
		s.check(err)
		rests, change := heeds(nil)
		a := s.start(2, change)
		a.wait(rests.Load)
		s.recode("new")
		from := reads.Load()
		a.wait(func() bool { return reads.Load() > from+2 }) // it has read of that, and stays
		_, err = control.ContinueMap(t.Context(), s.World, s.job.Path(), "cli-1")
		s.check(err)
		gone(t, a)
	})
	t.Run("it is the code that the agent has", func(t *testing.T) {
		t.Parallel()
		s := newRange(t, echo, 9, 3)
		s.recode("new")
		s.next(2, nil).leave(0)
		s.wants(job.Succeeded, job.Tally{Items: 9, Succeeded: 9})
	})
	t.Run("the job is stopped", func(t *testing.T) {
		t.Parallel()
		s := newRange(t, shell(`: >hangs; exec sleep 1000`), 9, 3)
		a := s.start(2, nil)
		a.begun("hangs")
		s.recode("new")
		_, err := control.CancelJob(t.Context(), s.World, s.job.Path(), "cli-1", "enough")
		s.check(err)
		a.leave(0)
		s.wants(job.Cancelled, job.Tally{Items: 9, Cancelled: 9})
	})
}

// An agent that still prepares does not do so to the end for code that is not wanted any more.
func TestWhoPreparesOldCodeLeavesAtOnce(t *testing.T) {
	t.Parallel()
	s := newRange(t, command("echo", "{}"), 9, 3)
	unneeded := make(chan struct{}, 9)
	a := s.start(2, func(c *Config, _ *Prepared) {
		c.Prepared, c.CancelPreparation = nil, func() { unneeded <- struct{}{} }
	})
	s.recode("new")
	a.leave(fault.ExitLater)
	if len(unneeded) == 0 {
		t.Error("it goes on with what nobody needs")
	}
	s.untroubled()
}
