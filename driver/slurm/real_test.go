package slurm

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/node"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/driver/slurm/slurmd"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// slurms runs one of Slurm's commands.
func slurms(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// stage is a driver on the test's cluster and its only placement, which is taken away
// at the end.
type stage struct {
	*Driver
	handle driver.Handle
}

func real(t *testing.T) *stage {
	slurmd.Use(t)
	var id [job.IDBytes]byte
	rand.Read(id[:]) // never fails
	d := &stage{New(t.TempDir()), driver.Handle{Target: Name, Job: job.ID(id), Placement: 1}}
	t.Cleanup(func() {
		if err := d.Stop(context.Background(), d.handle, 0, true); err != nil {
			t.Error(err)
		}
		drivertest.Until(t, "the placement is removed", func() bool { return len(fresh(t, d)) == 0 })
	})
	return d
}

// scripted is a request for agents that act a script: its JSON, less the braces.
func (d *stage) scripted(t *testing.T, agents int, script string) driver.Request {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	marks := t.TempDir()
	return driver.Request{Job: d.handle.Job, Placement: 1, Agents: agents, Needs: driver.Needs{Agents: agents}, Run: driver.Boot{Binary: program, Store: marks, Job: "suite/task/job",
		Env: []string{`DROVER_DRIVERTEST={"Marks":"` + marks + `",` + script + `}`}}}
}

// fresh is Status as another process would see it.
func fresh(t *testing.T, d *stage) []driver.Member {
	t.Helper()
	m, err := New(d.dir).Status(context.Background(), d.handle)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// until waits for something true of all members.
func until(t *testing.T, d *stage, what string, is func([]driver.Member) bool) (all []driver.Member) {
	t.Helper()
	drivertest.Until(t, what, func() bool { all = fresh(t, d); return is(all) })
	return all
}

func allAre(state driver.State) func([]driver.Member) bool {
	return func(all []driver.Member) bool {
		for _, m := range all {
			if m.State != state {
				return false
			}
		}
		return len(all) > 0
	}
}

func start(t *testing.T, d *stage, r driver.Request) {
	t.Helper()
	if _, err := d.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// startAll starts r and waits until all of its agents run and hear what they are told:
// one that is asked to end before it listens ends as processes do, and not as its script
// says.
func startAll(t *testing.T, d *stage, r driver.Request) {
	t.Helper()
	start(t, d, r)
	until(t, d, "all run", allAre(driver.Running))
	drivertest.Until(t, "all listen", func() bool {
		marks, err := os.ReadDir(r.Run.Store)
		if err != nil {
			t.Fatal(err)
		}
		return len(marks) >= r.Agents
	})
}

// jobOf is Slurm's id of an agent's task.
func jobOf(t *testing.T, d *stage, i int) string {
	t.Helper()
	dir, _ := d.placementFolder(d.handle)
	n := records.Heard(dir, i)
	if n.Up == nil {
		t.Fatalf("agent %d is not up", i)
	}
	return records.Itoa(n.Up.Job)
}

// It is not parallel: a task that was requeued comes after all others.
func TestRealATaskThatSlurmRequeuesIsAnotherAgent(t *testing.T) {
	d := real(t)
	startAll(t, d, d.scripted(t, 2, `"Stay":true,"Code":75`))
	slurms(t, "scontrol", "requeue", queueID(t, d, 1))
	// Slurm may show the new one before the old one's minder has found out why.
	all := until(t, d, "another one waits in its place", func(all []driver.Member) bool {
		return len(all) == 3 && all[1].Code == 75 && all[2].State == driver.Waiting
	})
	if all[0].State != driver.Running || all[1].State != driver.Taken || !strings.Contains(all[1].Reason, "requeued") {
		t.Errorf("members are %+v, want the second taken, and a third that waits", all)
	}
	// Slurm has it wait for some seconds. The test must not hurry it: in the second in which a node
	// has ended a job it refuses to begin it, and the job has failed.
	until(t, d, "it runs again", func(all []driver.Member) bool { return len(all) == 3 && all[2].State == driver.Running })
}

// queueID is how Slurm calls the task that agent base is in.
func queueID(t *testing.T, d *stage, base int) string {
	dir, _ := d.placementFolder(d.handle)
	n := records.Heard(dir, base)
	return fmt.Sprintf("%d_%d", n.Up.Slurm, base)
}

func TestRealAnAgentThatIsCancelledByHandHasEnded(t *testing.T) {
	t.Parallel()
	d := real(t)
	startAll(t, d, d.scripted(t, 1, `"Stay":true,"Deaf":true`))
	slurms(t, "scancel", jobOf(t, d, 0))
	all := until(t, d, "it has ended", allAre(driver.Ended))
	if len(all) != 1 || !strings.Contains(all[0].Reason, "by hand") {
		t.Errorf("members are %+v, want one that was ended by hand", all)
	}
}

func TestRealAPendingTaskSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	d := real(t)
	r := d.scripted(t, 1, `"Stay":true`)
	r.Needs.Args = []string{"--begin=now+1hour"}
	start(t, d, r)
	all := until(t, d, "Slurm has looked at it", func(all []driver.Member) bool {
		return len(all) == 1 && strings.Contains(all[0].Reason, "BeginTime")
	})
	if all[0].State != driver.Waiting {
		t.Errorf("the member is %+v, want it waiting", all[0])
	}
	if err := d.Stop(t.Context(), d.handle, time.Hour, false); err != nil {
		t.Fatal(err)
	}
	until(t, d, "it has ended", allAre(driver.Ended))
}

func TestRealNodesOfOneJobGetSlurmsSignalsThemselves(t *testing.T) {
	t.Parallel()
	d := real(t)
	r := d.scripted(t, 2, `"Stay":true,"Code":7`)
	r.Needs.Place.Nodes = 2
	startAll(t, d, r)
	job := jobOf(t, d, 0)
	drivertest.Until(t, "srun is gone", func() bool {
		dir, _ := d.placementFolder(d.handle)
		out, _ := exec.Command("pgrep", "-f", "srun .*"+dir).Output()
		return len(out) == 0
	})
	slurms(t, "scancel", job)
	for i, m := range until(t, d, "both have ended", allAre(driver.Ended)) {
		if m.Code != 7 {
			t.Errorf("agent %d is %+v, want it ended by itself with 7: it was asked", i, m)
		}
	}
}

func TestRealAnAgentLeavesBeforeItsTimeIsOver(t *testing.T) {
	t.Parallel()
	d := real(t)
	r := d.scripted(t, 1, `"Stay":true`)
	r.Needs.Args = []string{"--time=1"}
	startAll(t, d, r)
	dir, _ := d.placementFolder(d.handle)
	var n node.Notice
	for begin := time.Now(); n.Why == "" && time.Since(begin) < 55*time.Second; { // it is told a fifth of a minute before the end
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
		}
		_ = folder.ReadJSON(records.NoticeFile(dir, 0), &n)
	}
	if n.Asked || !strings.Contains(n.Why, "time limit") {
		t.Errorf("it was told %+v", n)
	}
}

func TestRealAJobThatWasSubmittedTwiceRunsOnce(t *testing.T) {
	t.Parallel()
	d := real(t)
	r := d.scripted(t, 1, `"Stay":true`)
	startAll(t, d, r)
	dir, _ := d.placementFolder(d.handle)
	second := slurms(t, "sbatch", "--parsable", "--wait", "--chdir=/", "--output="+filepath.Join(dir, "twice"), records.ScriptFile(dir, 0))
	text, err := os.ReadFile(filepath.Join(dir, "twice"))
	if err != nil || !strings.Contains(string(text), "submitted twice") {
		t.Errorf("job %s said %q, %v", second, text, err)
	}
	if marks, _ := filepath.Glob(filepath.Join(r.Run.Store, "1-0-*")); len(marks) != 1 {
		t.Errorf("the agent was started %d times", len(marks))
	}
}

func TestRealAStarterThatDiedAfterItSubmittedIsTakenOver(t *testing.T) {
	t.Parallel()
	d := real(t)
	r := d.scripted(t, 1, `"Stay":true`)
	start(t, d, r)
	dir, _ := d.placementFolder(d.handle)
	var was records.Submitted
	if err := folder.ReadJSON(records.JobFile(dir, 0), &was); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(records.JobFile(dir, 0)); err != nil { // it died before it could note the answer
		t.Fatal(err)
	}
	start(t, &stage{New(d.dir), d.handle}, r)
	var is records.Submitted
	if err := folder.ReadJSON(records.JobFile(dir, 0), &is); err != nil || is != was {
		t.Errorf("the second starter noted %+v, %v; the first had %+v", is, err, was)
	}
}

func TestRealWhatSlurmRefusesIsAFaultThatLeavesNothing(t *testing.T) {
	t.Parallel()
	slurmd.Use(t)
	for name, c := range map[string]struct {
		needs driver.Needs
		kind  fault.Kind
		words string
	}{
		"partition": {driver.Needs{Detail: "nope"}, fault.Invalid, "invalid partition"},
		"memory":    {driver.Needs{Memory: 1 << 50}, fault.Invalid, "Memory"},
		"gpus":      {driver.Needs{GPUs: 9}, fault.Invalid, "not available"},
		"option":    {driver.Needs{Args: []string{"--bogus"}}, fault.Invalid, "--bogus"},
		"ours":      {driver.Needs{Args: []string{"--array=1-3"}}, fault.Invalid, "--array"},
	} {
		d := real(t)
		r := d.scripted(t, 1, `"Stay":true`)
		r.Needs = c.needs
		_, err := d.Start(t.Context(), r)
		if fault.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.words) || fault.Hint(err) == "" {
			t.Errorf("%s: Start gives %v, hint %q", name, err, fault.Hint(err))
		}
		if held, err := d.List(t.Context()); err != nil || len(held) != 0 {
			t.Errorf("%s: List has %v, %v after it", name, held, err)
		}
	}
}

func TestRealPlacementsLargerThanAnArrayTakeSeveral(t *testing.T) {
	t.Parallel()
	d := real(t)
	d.conf = &config{MaxArray: 2}
	start(t, d, d.scripted(t, 5, `"Code":3`))
	all := until(t, d, "all have ended", allAre(driver.Ended))
	for i, m := range all {
		if m.Code != 3 || m.Index != i {
			t.Errorf("agent %d is %+v", i, m)
		}
	}
	if len(all) != 5 {
		t.Errorf("there are %d of 5", len(all))
	}
}

func TestRealPartitionsAreOffered(t *testing.T) {
	t.Parallel()
	slurmd.Use(t)
	d := New(t.TempDir())
	for name, c := range map[string]struct {
		needs driver.Needs
		words string
	}{
		"default":    {driver.Needs{Agents: 2}, ""},
		"named":      {driver.Needs{Agents: 2, Detail: "spot"}, ""},
		"unknown":    {driver.Needs{Agents: 2, Detail: "nope"}, `no partition "nope"`},
		"down":       {driver.Needs{Agents: 1, Detail: "closed"}, "is not up"},
		"too long":   {driver.Needs{Agents: 1, Detail: "short", Time: time.Hour}, "allows 2m, and 1h10m is asked for"},
		"many nodes": {driver.Needs{Agents: 5, Place: driver.Place{Nodes: 5}}, "has 4 nodes"},
		"gpus":       {driver.Needs{Agents: 1, GPUs: 3}, "2 GPUs"},
	} {
		c.needs.CPUs = 1
		o, err := d.Offer(t.Context(), c.needs)
		if err != nil || o.Fits != (c.words == "") || !strings.Contains(o.Reason, c.words) || !o.Fits && o.Hint == "" {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		if len(o.Choices) != 5 || !o.Choices[0].Default || o.Choices[0].Detail != "main" {
			t.Errorf("%s: choices are %+v", name, o.Choices)
		}
	}
}
