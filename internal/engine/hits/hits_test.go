package hits

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

// target is a session with a driver in memory.
type target struct {
	*session.Session
	*testing.T
}

func newTarget(t *testing.T) target {
	d := mem.New(nil)
	t.Cleanup(d.Close)
	w := protocol.World{Store: store.New(storemem.New(), store.Options{})}
	return target{&session.Session{World: w, Drivers: map[string]driver.Opened{mem.Name: mem.Open(d)}}, t}
}

func (d target) check(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func TestAHitBefallsTheProcessThatIsMeant(t *testing.T) {
	d := newTarget(t)
	j := job.Job{ID: "j", Spec: job.Spec{On: mem.Name}}
	for _, row := range []struct {
		hit  Hit
		want syscall.Signal
	}{{Kill, syscall.SIGKILL}, {Term, syscall.SIGTERM}} {
		cmd := exec.Command("sleep", "1000")
		d.check(cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		id, err := process.Of(cmd.Process.Pid)
		d.check(err)
		b := protocol.Heartbeat{Agent: "1-0-a", Host: protocol.Host(id)}
		if did, err := Strike(t.Context(), d.Session, j, b, row.hit, 0, 0); !did || err != nil {
			t.Fatalf("%s: %v, %v", row.hit, did, err)
		}
		_ = cmd.Wait()
		if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != row.want {
			t.Errorf("%s ended it by %s", row.hit, ws.Signal())
		}
		// Its number may be another's by now.
		if did, err := Strike(t.Context(), d.Session, j, b, row.hit, 0, 0); did || err != nil {
			t.Errorf("%s hit what had ended: %v", row.hit, err)
		}
	}
}

func TestAPauseEnds(t *testing.T) {
	d := newTarget(t)
	cmd := exec.Command("sh", "-c", "read line; exit 7")
	in, err := cmd.StdinPipe()
	d.check(err)
	d.check(cmd.Start())
	id, err := process.Of(cmd.Process.Pid)
	d.check(err)
	b := protocol.Heartbeat{Agent: "1-0-a", Host: protocol.Host(id)}
	if did, err := Strike(t.Context(), d.Session, job.Job{}, b, Pause, 0, time.Millisecond); !did || err != nil {
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
	d := newTarget(t)
	self := protocol.Host(process.Self())
	other, younger := self, self
	other.Boot = "another machine"
	younger.Start++
	for _, h := range []protocol.Host{other, younger, {PID: os.Getpid()}, {}} {
		for _, hit := range []Hit{Kill, Term, Notice, Pause, Program} {
			if did, err := Strike(t.Context(), d.Session, job.Job{}, protocol.Heartbeat{Agent: "1-0-a", Host: h}, hit, 0, 0); did || err != nil {
				t.Errorf("%s hit %v: %v", hit, h, err)
			}
		}
	}
	if did, err := Strike(t.Context(), d.Session, job.Job{}, protocol.Heartbeat{Agent: "1-0-a", Host: self}, Program, 3, 0); did || err != nil {
		t.Errorf("a program of one that has none: %v", err)
	}
	if _, err := Strike(t.Context(), d.Session, job.Job{}, protocol.Heartbeat{Agent: "1-0-a", Host: self}, "hail", 0, 0); fault.KindOf(err) != fault.Bug || err.Error() != `strike agent 1-0-a: "hail" is not a hit` {
		t.Errorf("hail: %v", err)
	}
}
