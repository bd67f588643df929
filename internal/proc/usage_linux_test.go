package proc

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/proc/proctest"
	"github.com/drover-run/drover/internal/proc/resource"
)

func TestUsageIsTheWholeTrees(t *testing.T) {
	for name, l := range map[string]resource.Limits{"free": {}, "limited": {Memory: 500 * mib}} {
		t.Run(name, func(t *testing.T) {
			inEachCage(t, func(t *testing.T, c Command) {
				p, out := limit(t, c, l, hog(30)+" & "+hog(30)+" & wait")
				out.WaitForLine("held", 2)
				u, err := p.Usage()
				if err != nil {
					t.Fatal(err)
				}
				if u.Memory < 60*mib || u.Memory > 400*mib || u.Peak < u.Memory || u.Count != 3 || u.Threads < 3 { // of processor time they may have used less than the kernel counts
					t.Errorf("got %+v", u)
				}
				p.Kill()
				if e := p.Wait(); e.PeakMemory < 60*mib || e.OOM {
					t.Errorf("got %+v", e)
				}
				if _, err := p.Usage(); !errors.Is(err, os.ErrProcessDone) {
					t.Errorf("after the end: %v", err)
				}
			})
		})
	}
}

func TestUsageCountsWhatTheDeadUsed(t *testing.T) {
	hold, let, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	out := proctest.NewOutlet(t)
	c := shell(`sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo worked; read x`)
	c.Stdin, c.Stdout = hold, out.W
	p := start(t, c)
	out.WaitForLine("worked", 1)
	u, err := p.Usage()
	let.Close()
	e := p.Wait()
	if err != nil || u.CPU < 10*time.Millisecond || u.CPU > e.User+e.System+100*time.Millisecond {
		t.Errorf("got %+v, %v; the exit says %+v", u, err, e)
	}
}
