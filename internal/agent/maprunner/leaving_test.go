package maprunner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// open counts the items that have no result.
func (s *site) open() (n int) {
	for _, r := range s.results() {
		if r.Result == nil {
			n++
		}
	}
	return n
}

func TestAnAgentThatMustGoGivesBackWhatItHas(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]node.Notice{"by a person": {Asked: true, Why: "asked to stop"}, "by its machine": {Why: "the machine goes"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRange(t, shell(`[ $1 -lt 100 ] || [ -n "$FAST" ] || { : >hangs; trap 'exit 0' TERM; while :; do sleep 0.01; done; }; echo $1`), 300, 300)
			a := s.start(4, nil)
			a.begun("hangs")
			a.notice <- n
			status := 75
			if n.Asked {
				status = 0
			}
			a.leave(status)
			if left := s.open(); left < 200 || left == 300 {
				t.Errorf("%d items are open", left)
			}
			want := 1
			if n.Asked {
				want = 0
			}
			for _, r := range s.results() {
				if r.Result == nil && r.N >= 100 && r.N < 103 && r.Interruptions > want {
					t.Errorf("item %d was interrupted %d times", r.N, r.Interruptions)
				}
			}
			b := s.start(4, func(_ *Config, k *Prepared) { k.Environ = append(k.Environ, "FAST=1") })
			b.leave(0)
			s.wants(job.Succeeded, job.Tally{Items: 300, Succeeded: 300})
		})
	}
}

func TestAnAgentThatIsFencedEndsItsItems(t *testing.T) {
	t.Parallel()
	s := newRange(t, shell(`[ -n "$FAST" ] || { echo $$ >>pids; : >hangs; exec sleep 1000; }; echo $1`), 8, 4)
	a := s.start(4, nil)
	a.begun("hangs")
	// The other one is told that every agent on this machine is dead.
	s.World.Gone = func(protocol.Host) (bool, bool) { return true, true }
	b := s.start(2, func(_ *Config, k *Prepared) { k.Environ = append(k.Environ, "FAST=1") })
	b.leave(0)
	a.leave(0)
	s.wants(job.Succeeded, job.Tally{Items: 8, Succeeded: 8})
	for _, r := range s.results() {
		if r.Agent != b.c.ID {
			t.Errorf("item %d is by %s", r.N, r.Agent)
		}
	}
}

func TestNothingIsLostWhileTheStoreIsFull(t *testing.T) {
	t.Parallel()
	s := newRange(t, command("echo", "{}"), 400, 50)
	var writes, refused atomic.Int64
	s.bucket.refuse = func(key string) error {
		if !strings.Contains(key, "/chunks/") && !strings.Contains(key, "/logs/") {
			return nil
		}
		if n := writes.Add(1); n > 6 && n <= 10 {
			refused.Add(1)
			return errFull(key)
		}
		return nil
	}
	a := s.start(3, nil)
	a.leave(0)
	s.wants(job.Succeeded, job.Tally{Items: 400, Succeeded: 400})
	if refused.Load() != 4 || !a.noted("waiting for room") {
		t.Errorf("refused %d times; notes %q", refused.Load(), a.notes)
	}
	for _, n := range []int{1, 399} {
		if got := s.said(n, 0); strings.TrimSpace(got) == "" {
			t.Errorf("what item %d printed is gone", n)
		}
	}
}

func TestAStoreThatStaysFullEndsTheAgentAndNotTheJob(t *testing.T) {
	t.Parallel()
	spec := shell(`echo $1 >"$2"`)
	spec.Args = append(spec.Args, "{out}")
	spec.Out = []string{"n{}"}
	s := newRange(t, spec, 40, 40)
	var full atomic.Bool
	var writes atomic.Int64
	s.bucket.refuse = func(key string) error {
		if strings.Contains(key, "/out/") && writes.Add(1) == 10 {
			full.Store(true)
		}
		if full.Load() && !strings.Contains(key, "/agents/") {
			return errFull(key)
		}
		return nil
	}
	a := s.start(2, func(c *Config, _ *Prepared) { c.Patience = 0 })
	select {
	case <-a.ended:
	case <-time.After(patience):
		t.Fatal("the agent does not leave")
	}
	if a.status != fault.ExitDrover || fault.KindOf(a.err) != fault.Full {
		t.Fatalf("it left with %d, %v", a.status, a.err)
	}
	full.Store(false)
	s.World.Gone = func(h protocol.Host) (bool, bool) { return true, true } // it was this process too
	s.run(2)
	s.wants(job.Succeeded, job.Tally{Items: 40, Succeeded: 40})
}

func TestAPausedJobStartsNothing(t *testing.T) {
	t.Parallel()
	s := newRange(t, shell(`echo $1 >>ran; while [ ! -e go ]; do sleep 0.01; done`), 30, 10)
	a := s.start(2, nil)
	a.wait(func() bool {
		ran, _ := os.ReadFile(filepath.Join(a.code, "ran"))
		return strings.Count(string(ran), "\n") == 2
	})
	_, err := control.PauseMap(t.Context(), s.World, s.job.Path(), "cli-1", protocol.Paused{Reason: "lunch"})
	s.check(err)
	a.wait(func() bool { return a.noted("the job is paused") })
	s.check(os.WriteFile(filepath.Join(a.code, "go"), nil, 0o600))
	a.wait(func() bool { // those two end; then it looks on, and starts nothing
		rep, err := views.NewMapView(s.World, s.job).Refresh(t.Context())
		s.check(err)
		return rep.Tally.Succeeded == 2
	})
	if ran, err := os.ReadFile(filepath.Join(a.code, "ran")); err != nil || strings.Count(string(ran), "\n") != 2 {
		t.Errorf("%q began (%v)", ran, err)
	}
	_, err = control.ContinueMap(t.Context(), s.World, s.job.Path(), "cli-1")
	s.check(err)
	a.leave(0)
	s.wants(job.Succeeded, job.Tally{Items: 30, Succeeded: 30})
}

// wait waits until something can be seen.
func (a *agent) wait(seen func() bool) {
	a.s.t.Helper()
	for limit := time.After(patience); !seen(); {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-a.ended:
			a.s.t.Fatalf("the agent left: %d, %v", a.status, a.err)
		case <-limit:
			a.s.t.Fatal("it does not come")
		}
	}
}

func TestACancelledJobEndsItsItems(t *testing.T) {
	t.Parallel()
	s := newRange(t, shell(`[ $1 != 1 ] || { echo one; exit 0; }; : >hangs; exec sleep 1000`), 30, 10)
	a := s.start(2, nil)
	a.begun("hangs")
	stands, err := control.CancelJob(t.Context(), s.World, s.job.Path(), "cli-1", "enough")
	if s.check(err); !stands {
		t.Fatal("it had ended")
	}
	a.leave(0)
	got := s.settled()
	if got.State != job.Cancelled || got.Tally.Open() != 0 || got.Tally.Failed != 0 || got.Tally.Cancelled < 28 {
		t.Errorf("settled %+v %+v", got, got.Tally)
	}
}

func TestADrainedJobLetsItsItemsEnd(t *testing.T) {
	t.Parallel()
	s := newRange(t, shell(`echo $1 >>ran; while [ ! -e go$1 ]; do sleep 0.01; done`), 30, 10)
	a := s.start(2, nil)
	a.wait(func() bool {
		ran, _ := os.ReadFile(filepath.Join(a.code, "ran"))
		return strings.Count(string(ran), "\n") == 2
	})
	stands, err := control.DrainJob(t.Context(), s.World, s.job.Path(), "cli-1", "enough")
	if s.check(err); !stands {
		t.Fatal("it had ended")
	}
	a.wait(func() bool { return a.noted("running items may finish") })
	ran, err := os.ReadFile(filepath.Join(a.code, "ran"))
	s.check(err)
	first, second, _ := strings.Cut(strings.TrimSpace(string(ran)), "\n")
	s.check(os.WriteFile(filepath.Join(a.code, "go"+first), nil, 0o600))
	a.wait(func() bool { // it is recorded while the other runs
		rep, err := views.NewMapView(s.World, s.job).Refresh(t.Context())
		s.check(err)
		return rep.Tally.Succeeded == 1
	})
	s.check(os.WriteFile(filepath.Join(a.code, "go"+second), nil, 0o600))
	a.leave(0)
	s.wants(job.Cancelled, job.Tally{Items: 30, Succeeded: 2, Cancelled: 28})
}

func TestACancelEndsWhatADrainLetRun(t *testing.T) {
	t.Parallel()
	s := newRange(t, shell(`: >hangs; exec sleep 1000`), 30, 10)
	a := s.start(2, nil)
	a.begun("hangs")
	_, err := control.DrainJob(t.Context(), s.World, s.job.Path(), "cli-1", "slowly")
	s.check(err)
	a.wait(func() bool { return a.noted("running items may finish") })
	stands, err := control.CancelJob(t.Context(), s.World, s.job.Path(), "cli-2", "at once")
	if s.check(err); !stands {
		t.Fatal("it had ended")
	}
	a.leave(0)
	s.wants(job.Cancelled, job.Tally{Items: 30, Cancelled: 30})
	if got := s.settled(); got.Reason != "at once" {
		t.Errorf("settled %+v", got)
	}
	if stands, err := control.DrainJob(t.Context(), s.World, s.job.Path(), "cli-3", "late"); err != nil || !stands {
		t.Errorf("drained again: %v, %v", stands, err)
	}
}

func TestWhatCannotBeRunFailsTheJob(t *testing.T) {
	t.Parallel()
	s := newRange(t, command("echo"), 30, 10)
	a := s.start(2, func(_ *Config, k *Prepared) {
		*k = Prepared{Failed: fault.New(fault.Missing, "", "start program: %q is not on PATH", "nowhere")}
	})
	a.leave(0)
	if got := s.settled(); got.State != job.Failed || got.Code != fault.ExitDrover || !strings.Contains(got.Reason, "not on PATH") {
		t.Errorf("settled %+v", got)
	}
}

func TestACrewEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newRange(t, command("sh", "-c", ": >hangs; exec sleep 1000"), 3, 0)
	a := s.start(2, nil)
	a.begun("hangs")
	a.stop()
	<-a.ended
	if !errors.Is(a.err, errStopped) {
		t.Errorf("it ended with %v", a.err)
	}
}
