package drover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	storemem "github.com/drover-run/drover/store/mem"
)

func TestFindReadsWhatPeopleCallJobs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if _, err := d.Find(t.Context(), "last", ""); fault.KindOf(err) != fault.Missing || fault.Hint(err) == "" {
		t.Errorf("the last of none: %v", err)
	}
	first := d.submit("demo", "digits", 1)
	d.end(first, done, outputs{})
	second := d.submit("demo", "digits", 1)
	other := d.submit("other", "digits", 1)
	// A task that is called like another project's job.
	alike := d.submit("demo", other.path.Job[:6], 1)
	full := func(j *Job) string { return j.path.Job }
	for _, row := range []struct {
		text, project string
		want          *Job
		kind          fault.Kind // when there is none
	}{
		{"last", "demo", alike, 0},
		{"last", "", alike, 0},
		{"digits", "demo", second, 0},
		{"digits", "other", other, 0},
		{"digits#1", "demo", first, 0},
		{"digits#2", "demo", second, 0},
		{"digits#3", "demo", nil, fault.Missing},
		{"demo/digits", "other", second, 0},
		{"demo/digits#1", "other", first, 0},
		{"other/digits", "", other, 0},
		{full(first), "demo", first, 0},
		{full(first)[:8], "other", first, 0}, // an id needs no project
		{full(first), "", first, 0},
		{full(other)[:6], "demo", alike, 0}, // a task of this project comes before an id
		{full(other)[:6], "other", other, 0},
		{full(other)[:6] + "#1", "demo", alike, 0},
		{"nothing", "demo", nil, fault.Missing},
		{"digits", "", nil, fault.Missing},
		{"demo/nothing", "", nil, fault.Missing},
		{"digits#0", "demo", nil, fault.Invalid},
		{"Digits", "demo", nil, fault.Missing}, // a name of its own
		{"", "demo", nil, fault.Invalid},
		{"../x", "demo", nil, fault.Invalid},
	} {
		j, err := d.Find(t.Context(), row.text, row.project)
		switch {
		case row.want == nil && (fault.KindOf(err) != row.kind || fault.Hint(err) == ""):
			t.Errorf("%q in %q: %v", row.text, row.project, err)
		case row.want != nil && (err != nil || j.Path() != row.want.path):
			t.Errorf("%q in %q is %v, want %s (%v)", row.text, row.project, j, row.want.path, err)
		}
	}
	for project, want := range map[string]int{"": 4, "demo": 3, "other": 1, "none": 0} {
		if jobs, err := d.Jobs(t.Context(), project); err != nil || len(jobs) != want {
			t.Errorf("%q has %d jobs (%v)", project, len(jobs), err)
		}
	}
}

func TestABeginningThatSeveralJobsHaveIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	begin := map[byte]bool{}
	for i := range 33 { // 32 letters begin an id
		j := d.submit("demo", "task"+strings.Repeat("x", i), 1) // no single letter: that would be a name
		if first := j.path.Job[0]; !begin[first] {
			begin[first] = true
			continue
		}
		_, err := d.Find(t.Context(), j.path.Job[:1], "demo")
		if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%q: %v", j.path.Job[:1], err)
		}
		return
	}
	t.Error("no two ids begin alike")
}

func TestOpenNeedsAStoreAndTargets(t *testing.T) {
	t.Parallel()
	d := map[string]driver.Opened{"mem": mem.Open(mem.New(nil))}
	for name, o := range map[string]Options{"nothing": {}, "no store": {Drivers: d}, "no targets": {Bucket: storemem.New()}} {
		if _, err := Open(t.Context(), o); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, err := Open(t.Context(), Options{Bucket: storemem.New(), Drivers: d})
	if err != nil || c.engine.Caller.Folder == "" || c.engine.Caller.Cache == "" || c.engine.Boot.Binary == "" || c.engine.Boot.Store != "mem:" {
		t.Errorf("%+v, %v", c, err)
	}
}

// Without HOME the cache lies in the temporary folder, under a name that other users
// know: the owner of that folder would decide what runs.
func TestOpenTakesNoCacheThatIsAnotherUsers(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	o := Options{Bucket: storemem.New(), Drivers: map[string]driver.Opened{"mem": mem.Open(mem.New(nil))}}
	base := filepath.Join(temp, fmt.Sprintf("drover-%d", os.Geteuid()))
	c, err := Open(t.Context(), o)
	if err != nil || filepath.Dir(c.engine.Caller.Cache) != base {
		t.Fatalf("%+v, %v", c, err)
	}
	if info, err := os.Lstat(base); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("it lies in %v, %v", info, err)
	}
	refused := func(why string) {
		t.Helper()
		if _, err := Open(t.Context(), o); fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), "Set HOME") {
			t.Errorf("a folder that is %s: %v", why, err)
		}
	}
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	refused("for all to write")
	if err := errors.Join(os.Remove(base), os.Symlink(t.TempDir(), base)); err != nil {
		t.Fatal(err)
	}
	refused("a link")
	if os.Geteuid() == 0 { // only root can make another user's
		if err := errors.Join(os.Remove(base), os.Mkdir(base, 0o700), os.Chown(base, 54321, 54321)); err != nil {
			t.Fatal(err)
		}
		refused("another user's")
	}
}

func TestDoctorOfAFreshStore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	says := func(area string) (texts []string) {
		for _, c := range d.Doctor(t.Context()) {
			if c.Area != area {
				continue
			}
			if !c.OK {
				t.Errorf("a problem: %+v", c)
			}
			texts = append(texts, c.Text)
		}
		return texts
	}
	if diff := cmp.Diff([]string{"mem: is readable, writable, and creates each object only once", "0 jobs, 0 live"}, says("store")); diff != "" {
		t.Errorf("store (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"mem answers, 0 placements"}, says("targets")); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	for o, err := range d.world.Store.List(t.Context(), "") {
		t.Errorf("it left %s (%v)", o.Key, err)
	}
	d.end(d.submit("demo", "ended", 1), done, outputs{})
	d.submit("demo", "waits", 1)
	left := d.submit("demo", "left", 1)
	d.members(left)
	s, err := left.Status(t.Context())
	d.check(err)
	never := job.Job{V: job.Format, Spec: job.Spec{Project: "demo", Task: "never"}}
	d.check(tasks.NameJob(t.Context(), d.world, &never))
	d.check(tasks.ProposeJob(t.Context(), d.world, never))
	texts := says("store")
	for _, want := range []string{"4 jobs, 1 live", "job " + s.ID + " (demo/left) is interrupted: drover resume " + s.ID + " goes on",
		"a submission that was interrupted left the id of a job that was never created: " + never.Path().String()} {
		if !slices.Contains(texts, want) {
			t.Errorf("it does not say %q but %q", want, texts)
		}
	}
}

func TestWhyAJobStandsWhereItDoes(t *testing.T) {
	t.Parallel()
	trace := "noise\nTraceback (most recent call last):\n  File \"train.py\", line 2\nValueError: bad\n"
	for name, row := range map[string]struct {
		state  func(*desk, *Job)
		want   job.State
		answer string
		detail []string
		next   string // ID stands for the job's
	}{
		"submitted": {func(*desk, *Job) {}, job.Pending, "no agent has been requested yet",
			[]string{"the command that submitted it ended before; drover resume goes on"}, "drover logs -f ID"},
		"running": {func(d *desk, j *Job) {
			m := d.members(j)[0]
			d.check(liveness.WriteHeartbeat(d.t.Context(), d.world, j.path, protocol.Heartbeat{Agent: m.ID, Name: "desk", Phase: "preparing", Note: "building environment"}))
		}, job.Starting, "an agent is preparing", nil, "drover logs -f ID"},
		"succeeded": {func(d *desk, j *Job) { d.end(j, done, outputs{}) }, job.Succeeded, "every node exited with status 0, and its outputs are stored", nil, "drover get ID -o out"},
		"failed": {func(d *desk, j *Job) {
			d.end(j, protocol.Exit{Verdict: protocol.Broke, Code: 1, Reason: "ValueError: bad (exit status 1)", Trace: trace}, outputs{})
		}, job.Failed, "ValueError: bad (exit status 1)", strings.Split(strings.TrimSpace(trace), "\n")[1:], "drover logs ID"},
		"asked to stop": {func(d *desk, j *Job) {
			d.check(d.members(j)[0].Ended(d.t.Context(), protocol.Exit{Verdict: protocol.AskedToStop, Reason: "Ctrl-C"}))
		}, job.Interrupted, "it was interrupted by hand: Ctrl-C", nil, "drover resume ID"},
		"notice": {func(d *desk, j *Job) {
			d.check(d.members(j)[0].Ended(d.t.Context(), protocol.Exit{Verdict: protocol.Interrupted, Reason: "spot"}))
		}, job.Interrupted, "node 0 was interrupted: spot", nil, "drover resume ID"},
		"lost": {func(d *desk, j *Job) { d.members(j) }, job.Interrupted, "no agent is working on it: its agents are gone", nil, "drover resume ID"},
		"cancelled": {func(d *desk, j *Job) {
			_, err := j.Stop(d.t.Context(), "wrong data")
			d.check(err)
		}, job.Cancelled, "wrong data", []string{"the command that started it, typed again, goes on from its checkpoints"}, "drover logs ID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			j := d.submit("demo", "digits", 1)
			row.state(d, j)
			w, err := j.Why(t.Context())
			d.check(err)
			if w.State != row.want || w.Answer != row.answer || w.Next != strings.ReplaceAll(row.next, "ID", w.ID) {
				t.Errorf("%+v", w)
			}
			if diff := cmp.Diff(row.detail, w.Detail); row.detail != nil && diff != "" {
				t.Errorf("detail (-want +got):\n%s", diff)
			}
		})
	}
}

// A target may start agents again by itself, as Kubernetes does: then no command is asked for.
func TestWhySaysWhatWillGoOnByItself(t *testing.T) {
	t.Parallel()
	before := Reason{ID: "7fk2", Answer: "node 0 was interrupted: spot", Next: "drover resume 7fk2"}
	for name, row := range map[string]struct {
		members []driver.Member
		err     error
		want    Reason
	}{
		"ended":    {members: []driver.Member{{State: driver.Taken, Reason: "spot"}}, want: before},
		"not told": {err: context.DeadlineExceeded, want: before},
		"waits again": {members: []driver.Member{{State: driver.Taken, Reason: "spot"}, {State: driver.Waiting, Reason: "Kueue holds the Job back", Hint: "Wait."}},
			want: Reason{ID: "7fk2", Answer: "Kueue holds the Job back", Detail: []string{"Wait.", "node 0 was interrupted: spot", "it goes on by itself: the target starts agents again"}, Next: "drover status --watch 7fk2"}},
	} {
		w := before
		w.explainReplacement(row.members, row.err)
		if diff := cmp.Diff(row.want, w); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAStatusTellsOfEveryNode(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit("demo", "digits", 3)
	states := func() (all []string) {
		t.Helper()
		s, err := j.Status(t.Context())
		d.check(err)
		for _, n := range s.Nodes {
			all = append(all, n.State)
		}
		return append(all, string(s.State))
	}
	if diff := cmp.Diff([]string{"pending", "pending", "pending", "PENDING"}, states()); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	agents := d.members(j)
	d.check(liveness.WriteHeartbeat(t.Context(), d.world, j.path, protocol.Heartbeat{Agent: agents[1].ID, Phase: "running", Saved: 2}))
	d.check(agents[2].Ended(t.Context(), done))
	if diff := cmp.Diff([]string{"lost", "running", "done", "RUNNING"}, states()); diff != "" {
		t.Errorf("half-way (-want +got):\n%s", diff)
	}
	d.check(agents[0].Ended(t.Context(), done))
	d.check(agents[1].Ended(t.Context(), protocol.Exit{Verdict: protocol.Broke, Code: 4, Reason: "exit status 4"}))
	_, err := agents[0].Poll(t.Context())
	d.check(err)
	s, err := j.Status(t.Context())
	d.check(err)
	if diff := cmp.Diff([]string{"done", "failed", "done", "FAILED"}, states()); diff != "" || *s.Code != 4 || s.Failures != 1 || s.Reason != "node 1: exit status 4" {
		t.Errorf("at the end %+v (-want +got):\n%s", s, diff)
	}
}
