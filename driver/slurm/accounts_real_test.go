package slurm

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/driver/slurm/slurmd"
	"github.com/drover-run/drover/job"
)

// private points SLURM_CONF at another cluster, until the test's end; it may break it.
func private(t *testing.T, env ...string) (dir string) {
	t.Helper()
	slurmd.Use(t) // or it would point there later
	dir = fmt.Sprintf("/tmp/drover-slurm-%d-%s", os.Getpid(), rand.Text()[:4])
	t.Setenv("SLURM_CONF", slurmd.Start(t, dir, env...))
	return dir
}

// another is a second placement on the same cluster.
func (d *stage) another(t *testing.T) *stage {
	var id [job.IDBytes]byte
	rand.Read(id[:]) // never fails
	other := &stage{New(d.dir), driver.Handle{Target: Name, Job: job.ID(id), Placement: 1}}
	t.Cleanup(func() { _ = other.Stop(context.Background(), other.handle, 0, true) })
	return other
}

// minderOf is the process that minds an agent.
func minderOf(t *testing.T, d *stage, i int) (minder, agent int) {
	t.Helper()
	dir, _ := d.placementFolder(d.handle)
	agent = records.Heard(dir, i).Up.PID
	return parentOf(t, agent), agent
}

// vanish ends an agent and its minder at once: neither notes anything.
func vanish(t *testing.T, d *stage, i int) {
	t.Helper()
	minder, agent := minderOf(t, d, i)
	kill(t, minder, agent)
}

func kill(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// loseNode is a machine that loses its power, as far as Slurm and its agent can see.
func loseNode(t *testing.T, dir string, d *stage, i int) (node string) {
	t.Helper()
	base, _ := d.placementFolder(d.handle)
	node = records.Heard(base, i).Up.Node
	minder, agent := minderOf(t, d, i)
	kill(t, daemon(t, dir, "slurmd."+node), parentOf(t, minder), minder, agent) // slurmd, slurmstepd
	return node
}

// daemon is the process of one of a cluster's daemons.
func daemon(t *testing.T, dir, name string) (pid int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "run", name+".pid"))
	if err == nil {
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[1])
	return n
}

// An agent of which slurmctld knows nothing any more, and which noted no end, is judged
// by what Slurm has written down of it; where it writes nothing down, as lost.
func TestRealAgentsThatSlurmHasForgottenAreJudgedByItsAccounts(t *testing.T) {
	dir := private(t, "ACCOUNTS=yes", "MIN_JOB_AGE=2")
	d := real(t)
	r := d.scripted(t, 4, `"Stay":true,"Deaf":true`)
	r.Needs.CPUs = 4 // each has a node of its own
	startAll(t, d, r)
	unborn := d.another(t)
	r = unborn.scripted(t, 3, `"Stay":true`)
	r.Needs.Args = []string{"--begin=now+1hour"}
	start(t, unborn, r)
	vanish(t, d, 0)
	slurms(t, "scontrol", "update", "jobid="+queueID(t, d, 1), "Requeue=0")
	slurms(t, "scontrol", "update", "nodename="+loseNode(t, dir, d, 1), "state=down", "reason=test")
	slurms(t, "scancel", queueID(t, d, 2)) // its minder hears it, and is killed with the deaf agent before that has ended
	var pending records.Submitted
	base, _ := unborn.placementFolder(unborn.handle)
	if err := folder.ReadJSON(records.JobFile(base, 0), &pending); err != nil {
		t.Fatal(err)
	}
	slurms(t, "scancel", records.Itoa(pending.ID))
	left := queueID(t, d, 3)
	for begin := time.Now(); slurms(t, "squeue", "--noheader", "--array", "--states=all", "--format=%F_%K") != left; {
		if time.Since(begin) > 70*time.Second {
			t.Fatalf("Slurm still knows\n%s", slurms(t, "squeue", "--array", "--states=all"))
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Log(slurms(t, "sacct", "-X", "-P", "-n", "-S", "2020-01-01", "--format=JobID,State,ExitCode,NodeList,JobName"))
	check := func(how string, d *stage, want ...string) {
		t.Helper()
		begin := time.Now()
		all, err := d.Status(t.Context(), d.handle)
		if err != nil || len(all) != len(want) {
			t.Fatalf("%s: %+v, %v", how, all, err)
		}
		for i, m := range all {
			state, words, _ := strings.Cut(want[i], ": ")
			if string(m.State) != state || !strings.Contains(m.Reason, words) {
				t.Errorf("%s: agent %d is %s: %s; want %s", how, i, m.State, m.Reason, want[i])
			}
		}
		t.Logf("%s: asked in %s", how, time.Since(begin))
	}
	anew := func(d *stage) *stage { return &stage{New(d.dir), d.handle} }
	const lost, never = "lost: it died without reporting why, and Slurm no longer knows its job", "lost: its agent never started, and Slurm no longer knows its job"
	const byHand, cancelled = "ended: cancelled in Slurm, by hand", "ended: cancelled in Slurm, before it began"
	check("sacct", anew(d), "lost: Slurm calls it FAILED", "taken: Slurm calls it NODE_FAIL", byHand, "running: ")
	check("sacct", anew(unborn), cancelled, cancelled, cancelled)
	without := t.TempDir()
	for _, name := range []string{"sbatch", "squeue", "scancel", "scontrol", "sinfo"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(without, name)); err != nil {
			t.Fatal(err)
		}
	}
	poor := anew(d)
	poor.path = without
	check("no sacct", poor, lost, lost, byHand, "running: ")
	kill(t, daemon(t, dir, "slurmdbd"))
	check("no slurmdbd", anew(d), lost, lost, byHand, "running: ")
	check("no slurmdbd", anew(unborn), never, never, never)
}
