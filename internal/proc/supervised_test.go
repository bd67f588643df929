package proc

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/drover-run/drover/internal/proc/process"
)

func TestProgramsAreFoundBelowTheirMinders(t *testing.T) {
	p := start(t, shell("sleep 1000 & wait"))
	self := process.Self()
	found, err := process.Supervised(self)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(found, func(id process.Identity) bool { return id.PID == p.Pid() })
	if i < 0 {
		t.Fatalf("program %d is none of %v", p.Pid(), found)
	}
	if gone, known := found[i].Gone(); gone || !known {
		t.Errorf("%v: gone %v, known %v", found[i], gone, known)
	}
	if err := syscall.Kill(found[i].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := p.Wait(); e.Signal != syscall.SIGKILL {
		t.Errorf("it ended with %+v", e)
	}
	if gone, known := found[i].Gone(); !gone || !known {
		t.Errorf("once it has ended: gone %v, known %v", gone, known)
	}
	for _, id := range []process.Identity{found[i], {PID: os.Getpid()}, {}} {
		if below, err := process.Supervised(id); err != nil || len(below) > 0 {
			t.Errorf("below %v: %v, %v", id, below, err)
		}
	}
}
