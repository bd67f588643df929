package resource

import (
	"os"
	"os/exec"
	"testing"

	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/proctest"
)

func TestWhatIsSharedIsCountedOnce(t *testing.T) {
	in, let, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := proctest.NewOutlet(t)
	// Ten shells that all have the same 20 MB.
	c := exec.Command("sh", "-c", `x=$(head -c 20000000 /dev/zero | tr '\0' x); exec 3<&0
		for i in 1 2 3 4 5 6 7 8 9; do (echo ready; read y <&3) & done; echo ready; wait`)
	c.Stdin, c.Stdout = in, out.W
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = c.Process.Kill(), c.Wait() }()
	out.WaitForLine("ready", 10)
	tree, err := process.Below(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	reader := &Meter{supervisor: os.Getpid(), limiter: &Limiter{limits: Limits{Memory: 150 * mib}}}
	if all := measure(tree).resident; all < 190*mib {
		t.Fatalf("they have %d, so this shows nothing", all)
	}
	if oom, _ := reader.limitsPassed(); oom || reader.seen.Peak < 19*mib {
		t.Errorf("they are beyond 150 MB with %d", reader.seen.Peak)
	}
	if u, err := reader.ReadUsage(); err != nil || u.Memory > 150*mib || u.Memory < 19*mib {
		t.Errorf("got %+v, %v", u, err)
	}
	let.Close()
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}
