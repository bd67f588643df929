package engine

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/job"
)

func TestAHitBefallsTheProcessThatIsMeant(t *testing.T) {
	d := newDesk(t)
	j := job.Job{ID: "j", Spec: job.Spec{On: mem.Name}}
	for _, row := range []struct {
		hit  Hit
		want syscall.Signal
	}{{HitKill, syscall.SIGKILL}, {HitTerm, syscall.SIGTERM}} {
		cmd := exec.Command("sleep", "1000")
		d.check(cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		id, err := process.Of(cmd.Process.Pid)
		d.check(err)
		b := protocol.Heartbeat{Agent: "1-0-a", Host: protocol.Host(id)}
		if did, err := d.Strike(t.Context(), j, b, row.hit, 0, 0); !did || err != nil {
			t.Fatalf("%s: %v, %v", row.hit, did, err)
		}
		_ = cmd.Wait()
		if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != row.want {
			t.Errorf("%s ended it by %s", row.hit, ws.Signal())
		}
		// Its number may be another's by now.
		if did, err := d.Strike(t.Context(), j, b, row.hit, 0, 0); did || err != nil {
			t.Errorf("%s hit what had ended: %v", row.hit, err)
		}
	}
}

func TestAPauseEnds(t *testing.T) {
	d := newDesk(t)
	cmd := exec.Command("sh", "-c", "read line; exit 7")
	in, err := cmd.StdinPipe()
	d.check(err)
	d.check(cmd.Start())
	id, err := process.Of(cmd.Process.Pid)
	d.check(err)
	b := protocol.Heartbeat{Agent: "1-0-a", Host: protocol.Host(id)}
	if did, err := d.Strike(t.Context(), job.Job{}, b, HitPause, 0, time.Millisecond); !did || err != nil {
		t.Fatal(did, err)
	}
	_, err = in.Write([]byte("go on\n"))
	d.check(err)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("it ended with %d", code)
	}
}

func TestNobodyElseIsHit(t *testing.T) {
	d := newDesk(t)
	self := protocol.Host(process.Self())
	other, younger := self, self
	other.Boot = "another machine"
	younger.Start++
	for _, h := range []protocol.Host{other, younger, {PID: os.Getpid()}, {}} {
		for _, hit := range []Hit{HitKill, HitTerm, HitNotice, HitPause, HitProgram} {
			if did, err := d.Strike(t.Context(), job.Job{}, protocol.Heartbeat{Agent: "1-0-a", Host: h}, hit, 0, 0); did || err != nil {
				t.Errorf("%s hit %v: %v", hit, h, err)
			}
		}
	}
	if did, err := d.Strike(t.Context(), job.Job{}, protocol.Heartbeat{Agent: "1-0-a", Host: self}, HitProgram, 3, 0); did || err != nil {
		t.Errorf("a program of one that has none: %v", err)
	}
	if _, err := d.Strike(t.Context(), job.Job{}, protocol.Heartbeat{Agent: "1-0-a", Host: self}, "hail", 0, 0); err == nil {
		t.Error("hail is a hit")
	}
}

func TestSlotsAreThoseThatAnAgentWillHave(t *testing.T) {
	plan := func(change func(*Plan)) *Plan {
		p := &Plan{Spec: job.Spec{Verb: job.Map}}
		p.Offer.Cores, p.Offer.Memory = 8, 16<<30
		change(p)
		return p
	}
	got := []int{
		Slots(plan(func(p *Plan) {})),
		Slots(plan(func(p *Plan) { p.Spec.Slots = 30 })),
		Slots(plan(func(p *Plan) { p.Spec.CPUs = 3 })),
		Slots(plan(func(p *Plan) { p.Spec.CPUs = 0.5 })),
		Slots(plan(func(p *Plan) { p.Spec.Memory = 5 << 30 })),
		Slots(plan(func(p *Plan) { p.Spec.Memory = 50 << 30 })),
		Slots(plan(func(p *Plan) { p.Offer.Cores = 0 })),
	}
	if want := []int{8, 30, 2, 16, 3, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
