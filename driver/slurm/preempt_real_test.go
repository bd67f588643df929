package slurm

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/slurm/records"
)

// soon waits for what Slurm does in its own time: it looks twice a minute which grace
// is over.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); {
		if time.Since(begin) > 90*time.Second {
			t.Fatalf("never seen that %s\n%s", what, slurms(t, "squeue", "--array", "--states=all"))
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

// takeAll is a job of another user that wants all nodes. It ends with the test.
func takeAll(t *testing.T) (id string) {
	t.Helper()
	id = slurms(t, "sbatch", "--parsable", "--exclusive", "--nodes=4", "--output=/dev/null", "--wrap=sleep 1000")
	t.Cleanup(func() {
		slurms(t, "scancel", id)
		drivertest.Until(t, "the other job has ended", func() bool {
			return slurms(t, "squeue", "--noheader", "--states=all", "--jobs="+id, "--format=%T") == "CANCELLED"
		})
	})
	return id
}

// Jobs that come before ours take our machines: an agent is told so, and either Slurm
// starts it again, or nothing of it is left. It does not count as an end of its own.
func TestRealPreemptedAgentsAreTold(t *testing.T) {
	private(t)
	d := map[string]*stage{"spot": real(t), "cheap": real(t)}
	for partition, d := range d {
		r := d.scripted(t, 1, `"Stay":true,"Code":75`)
		r.Needs.Detail, r.Needs.CPUs = partition, 4
		startAll(t, d, r)
	}
	other := takeAll(t)
	for partition, d := range d {
		dir, _ := d.placementFolder(d.handle)
		soon(t, "it is told", func() bool { return records.Heard(dir, 0).Outcome != nil })
		if n := records.Heard(dir, 0); !n.Taken || n.Asked || n.Why != "preempted in Slurm for another job" {
			t.Errorf("%s: its minder noted %+v", partition, n)
		}
	}
	soon(t, "the other job runs", func() bool {
		return slurms(t, "squeue", "--noheader", "--jobs="+other, "--format=%T") == "RUNNING"
	})
	taken := func(m driver.Member) bool { return m.State == driver.Taken && strings.Contains(m.Reason, "preempted") }
	all := until(t, d["spot"], "another one waits", func(all []driver.Member) bool {
		return len(all) == 2 && all[1].State == driver.Waiting
	})
	if !taken(all[0]) {
		t.Errorf("spot: the first is %+v", all[0])
	}
	if all := fresh(t, d["cheap"]); len(all) != 1 || !taken(all[0]) {
		t.Errorf("cheap: members are %+v", all)
	}
}

// Nodes of one job hear of it when the grace begins: Slurm signals a job's steps.
func TestRealPreemptedNodesOfOneJobHaveTheirGrace(t *testing.T) {
	private(t)
	d := real(t)
	r := d.scripted(t, 2, `"Stay":true,"Code":75`)
	r.Needs.Detail, r.Needs.CPUs, r.Needs.Place.Nodes = "cheap", 4, 2
	startAll(t, d, r)
	takeAll(t)
	dir, _ := d.placementFolder(d.handle)
	began := time.Now()
	soon(t, "both have gone", func() bool { return records.Heard(dir, 0).Outcome != nil && records.Heard(dir, 1).Outcome != nil })
	if after := time.Since(began); after > 15*time.Second { // its end is looked for twice a minute
		t.Errorf("they have gone after %s", after)
	}
	for i, m := range fresh(t, d)[:2] {
		if m.State != driver.Taken || m.Reason != "preempted in Slurm for another job" {
			out, _ := os.ReadFile(records.OutFile(dir, records.Heard(dir, i).Up.Slurm, i))
			t.Errorf("agent %d is %+v; Slurm wrote %q", i, m, out)
		}
	}
}

// A machine that is lost takes its agent with it, whether an administrator says so or
// slurmctld finds out; the others do not notice.
func TestRealAnAgentWhoseNodeIsLostIsTaken(t *testing.T) {
	dir := private(t, "NODE_TIMEOUT=15")
	d := real(t)
	r := d.scripted(t, 4, `"Stay":true,"Code":75`)
	r.Needs.CPUs = 4 // each has a node of its own
	startAll(t, d, r)
	base, _ := d.placementFolder(d.handle)
	silent := loseNode(t, dir, d, 0)
	slurms(t, "scontrol", "update", "nodename="+records.Heard(base, 1).Up.Node, "state=down", "reason=test")
	slurms(t, "scontrol", "update", "nodename="+loseNode(t, dir, d, 2), "state=down", "reason=test")
	soon(t, "slurmctld finds out", func() bool {
		return strings.HasPrefix(slurms(t, "sinfo", "--noheader", "--nodes="+silent, "--partition=main", "--format=%T"), "down")
	})
	// The node that was only called down comes back by itself, and may have one of them.
	all := until(t, d, "three others stand in the places of those", func(all []driver.Member) bool {
		return len(all) == 7 && all[4].State.Alive() && all[5].State.Alive() && all[6].State.Alive()
	})
	for i, want := range []string{"Slurm took its machine", "Slurm has taken a node down", "Slurm took its machine"} {
		if m := all[i]; m.State != driver.Taken || !strings.Contains(m.Reason, want) {
			t.Errorf("agent %d is %+v, want it taken: %s", i, m, want)
		}
	}
	if all[3].State != driver.Running {
		t.Errorf("agent 3 is %+v, and its node was left alone", all[3])
	}
}
