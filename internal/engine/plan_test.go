package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// The states in which a second command may find the job of the first.
func pending(*desk, job.Path) {}

func settled(e protocol.Exit) func(*desk, job.Path) {
	return func(d *desk, p job.Path) {
		d.does(func(context.Context, int, int) protocol.Exit { return e })
		_, err := d.Attend(d.t.Context(), p)
		d.check(err)
	}
}

var (
	succeeded = settled(protocol.Exit{Verdict: protocol.Done})
	failed    = settled(protocol.Exit{Verdict: protocol.Broke, Code: 3, Reason: "exit status 3"})
)

func cancelled(d *desk, p job.Path) {
	_, err := d.Cancel(d.t.Context(), p, "enough")
	d.check(err)
}

// interrupted: it began, and has no agents.
func interrupted(d *desk, p job.Path) {
	m := d.member(p)
	for range 2 {
		_, err := m.Poll(d.t.Context())
		d.check(err)
	}
}

func running(d *desk, p job.Path) {
	interrupted(d, p)
	d.check(liveness.WriteHeartbeat(d.t.Context(), d.World, p, protocol.Heartbeat{Agent: "1-0-x", Phase: "running"}))
}

// stopping: it runs, and a user has cancelled it.
func stopping(d *desk, p job.Path) {
	running(d, p)
	_, err := control.CancelJob(d.t.Context(), d.World, p, "cli-9", "wrong data")
	d.check(err)
}

func (d *desk) member(p job.Path) *runagent.Member {
	d.t.Helper()
	j, err := tasks.LoadJob(d.t.Context(), d.World, p)
	d.check(err)
	m := runagent.NewMember(d.World, j, liveness.NewAgentID(d.World, 1, 0), protocol.Join{Host: ghost})
	m.Ready()
	return m
}

// DESIGN section 7: what a second command does.
func TestASecondCommand(t *testing.T) {
	edit := func(d *desk, _ *job.Spec) { d.write(map[string]string{"train.sh": "#!/bin/sh\necho better\n"}) }
	data := func(s *job.Spec) { s.Inputs = []job.Input{{Name: "data", Path: "data.csv"}} }
	newData := func(d *desk, _ *job.Spec) { d.write(map[string]string{"data.csv": "3,4\n"}) }
	args := func(_ *desk, s *job.Spec) { s.Args = []string{"--lr", "1"} }
	env := func(_ *desk, s *job.Spec) { s.Env = map[string]string{"A": "b"} }
	elsewhere := func(_ *desk, s *job.Spec) { s.Output = "out2" }
	const force = true

	for _, row := range []struct {
		name    string
		first   job.Spec
		state   func(*desk, job.Path) // nil: there was none
		change  func(*desk, *job.Spec)
		force   bool
		want    report.Action
		note    string // a part of it
		since   int    // checkpoints count from this place on
		changed []string
		refused string // the fault's text, a part of it
	}{
		{"no first one", spec(), nil, nil, false, report.ActionStart, "", 0, nil, ""},
		{"submitted", spec(), pending, nil, false, report.ActionAttach, "already running since", 0, nil, ""},
		{"running", spec(), running, nil, false, report.ActionAttach, "already running since", 0, nil, ""},
		{"running, results elsewhere", spec(named), running, elsewhere, false, report.ActionAttach, "already running since", 0, nil, ""},
		{"running, edited", spec(), running, edit, false, report.ActionAttach, "it runs the code as it was then", 0, nil, ""},
		{"running, new data", spec(data), running, newData, false, report.ActionAttach, "it runs the code as it was then", 0, nil, ""},
		{"running, another command of that name", spec(named), running, args, false, "", "", 0, nil, "is live with another command: arguments changed"},
		{"running, forced", spec(), running, nil, force, "", "", 0, nil, "has not ended (running)"},
		{"stopping", spec(), stopping, nil, false, report.ActionReplace, "is stopping (wrong data); a new one starts once it has ended", 0, nil, ""},
		{"interrupted", spec(), interrupted, nil, false, report.ActionResume, "it continues", 0, nil, ""},
		{"interrupted, a task by name", spec(named), interrupted, nil, false, report.ActionResume, "it continues", 0, nil, ""},
		{"interrupted, edited", spec(), interrupted, edit, false, report.ActionReplace, "code changed", 0, nil, ""},
		{"interrupted, new data", spec(data), interrupted, newData, false, report.ActionReplace, "input data changed", 0, nil, ""},
		{"interrupted, another command of that name", spec(named), interrupted, args, false, "", "", 0, nil, "was interrupted, and is another command: arguments changed"},
		{"interrupted, forced", spec(), interrupted, nil, force, "", "", 0, nil, "has not ended (interrupted)"},
		{"failed", spec(), failed, nil, false, report.ActionStart, "failed; this is a new one", 0, nil, ""},
		{"failed, a task by name", spec(named), failed, nil, false, report.ActionStart, "failed; this is a new one", 0, nil, ""},
		{"failed, forced", spec(), failed, nil, force, report.ActionStart, "failed", 1, nil, ""},
		{"cancelled", spec(named), cancelled, nil, false, report.ActionStart, "was cancelled; this is a new one", 0, nil, ""},
		{"succeeded", spec(), succeeded, nil, false, report.ActionStart, "", 1, nil, ""},
		{"succeeded, edited", spec(), succeeded, edit, false, report.ActionStart, "", 1, []string{"code"}, ""},
		{"succeeded, a task by name", spec(named), succeeded, nil, false, report.ActionSkip, "complete since ", 1, nil, ""},
		{"succeeded, by name, results elsewhere", spec(named), succeeded, elsewhere, false, report.ActionSkip, "--force runs it again", 1, nil, ""},
		{"succeeded, by name, forced", spec(named), succeeded, nil, force, report.ActionStart, "", 1, nil, ""},
		{"succeeded, by name, edited", spec(named), succeeded, edit, false, report.ActionStart, "running again: code changed", 1, []string{"code"}, ""},
		{"succeeded, by name, new data", spec(named, data), succeeded, newData, false, report.ActionStart, "input data changed", 1, []string{"input data"}, ""},
		{"succeeded, by name, other arguments", spec(named), succeeded, args, false, report.ActionStart, "arguments changed", 1, []string{"arguments"}, ""},
		{"succeeded, by name, other variables", spec(named), succeeded, env, false, report.ActionStart, "variable A changed", 1, []string{"variable A"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.write(map[string]string{"data.csv": "1,2\n", ".droverignore": "data.csv\n"}) // or it were code as well
			first := job.Path{}
			if row.state != nil {
				first = d.submit(row.first)
				row.state(d, first)
			}
			second := row.first
			if row.change != nil {
				row.change(d, &second)
			}
			p, err := d.Plan(t.Context(), second, row.force)
			if row.refused != "" {
				if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), row.refused) || fault.Hint(err) == "" {
					t.Errorf("%v, want %s", err, row.refused)
				}
				return
			}
			d.check(err)
			if p.Action != row.want || !strings.Contains(p.Note, row.note) || row.note == "" && p.Note != "" || p.since != row.since {
				t.Errorf("it would %s since %d, saying %q", p.Action, p.since, p.Note)
			}
			if diff := cmp.Diff(row.changed, p.Changed); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
			if p.Job != first {
				t.Errorf("the job before is %s, want %s", p.Job, first)
			}
			if row.state != nil && row.want != report.ActionReplace {
				path, err := d.Submit(t.Context(), &p)
				if d.check(err); (path == first) != (row.want != report.ActionStart) {
					t.Errorf("it is job %s after %s", path, first)
				}
			}
		})
	}
}

func TestAReplacedJobIsCancelledAndItsCheckpointsGoOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.submit(spec())
	d.check(d.generation(first))
	interrupted(d, first) // and the agent it had is known to be gone
	d.write(map[string]string{"train.sh": "#!/bin/sh\necho better\n"})
	second := d.submit(spec())
	if rep := d.look(first); second == first || rep.State != job.Cancelled || rep.Run.Settled.Reason != "replaced by a new job with changed code" {
		t.Fatalf("the first is %s: %+v; the second is %s", rep.State, rep.Run.Settled, second)
	}
	rep := d.look(second)
	all := func(protocol.Saved) (bool, error) { return true, nil }
	me := protocol.Restored{Job: second.Job, Submission: 2, Attempt: 1, Agent: "1-0-new"}
	_, saved, err := states.RestoreState(t.Context(), d.World, second, 0, me, rep.Job.Since, all)
	if d.check(err); saved == nil || saved.Job != first.Job || saved.Checkpoints == "" {
		t.Errorf("it begins with %+v", saved)
	}
}

// generation saves one checkpoint of a job.
func (d *desk) generation(p job.Path) error {
	d.t.Helper()
	none := func(protocol.Saved) (bool, error) { return true, nil }
	g, _, err := states.RestoreState(d.t.Context(), d.World, p, 0, protocol.Restored{Job: p.Job, Attempt: 1, Agent: "1-0-old"}, 0, none)
	if err != nil {
		return err
	}
	return g.Save(d.t.Context(), protocol.Saved{Checkpoints: "c"})
}

func TestARemovedJobIsForgotten(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.submit(spec(named))
	succeeded(d, first)
	d.check(d.World.Store.Delete(t.Context(), first.String()+"/job.json"))
	p, err := d.Plan(t.Context(), spec(named), false)
	if d.check(err); p.Action != report.ActionStart {
		t.Errorf("it would %s", p.Action)
	}
}

func TestWhatDiffersIsSaidInWords(t *testing.T) {
	t.Parallel()
	base := job.Job{Spec: job.Spec{Verb: job.Run, Program: "a.py", Nodes: 1, Inputs: []job.Input{{Name: "data", Path: "d"}}},
		Code: job.Code{Digest: "c"}, Contents: map[string]string{"data": "x"}, Environment: "e"}
	for _, row := range []struct {
		name   string
		change func(*Plan)
		want   []string
	}{
		{"nothing", func(*Plan) {}, nil},
		{"the program", func(p *Plan) { p.Spec.Program = "b.py" }, []string{"program"}},
		{"the verb", func(p *Plan) { p.Spec.Verb = job.Shell }, []string{"verb"}},
		{"the code", func(p *Plan) { p.Digest = "d" }, []string{"code"}},
		{"the arguments", func(p *Plan) { p.Spec.Args = []string{""} }, []string{"arguments"}},
		{"which inputs", func(p *Plan) { p.Spec.Inputs = nil }, []string{"inputs"}},
		{"what an input holds", func(p *Plan) { p.Contents = map[string]string{"data": "y"} }, []string{"input data"}},
		{"the variables", func(p *Plan) { p.Spec.Env = map[string]string{"A": "1"} }, []string{"variable A"}},
		{"the environment", func(p *Plan) { p.Environment.Digest = "f" }, []string{"Python environment"}},
		{"an environment that is not known here", func(p *Plan) { p.Environment = env.Plan{} }, nil},
		{"the nodes", func(p *Plan) { p.Spec.Nodes = 2 }, []string{"number of nodes"}},
		{"much", func(p *Plan) { p.Digest = "d"; p.Spec.Args = []string{"x"}; p.Spec.Nodes = 3 }, []string{"arguments", "number of nodes", "code"}},
		{"the settings", func(p *Plan) { p.Spec.Timeout, p.Spec.Retries, p.Spec.On = 1e9, 1, "x" }, []string{"--retries (none, now 1)", "--timeout (none, now 1s)", "--on (none, now x)"}},
		{"what does not count", func(p *Plan) { p.Spec.Output, p.Spec.Tags, p.Spec.Priority = "o", map[string]string{"a": "b"}, 1 }, nil},
	} {
		p := Plan{Spec: base.Spec, Digest: "c", Contents: base.Contents, Environment: env.Plan{Digest: "e"}}
		row.change(&p)
		if diff := cmp.Diff(row.want, p.differences(base, nil).allChanges()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

func TestAPlanRefusesBeforeAnythingIsChanged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, row := range []struct {
		name   string
		change func(*job.Spec)
		kind   fault.Kind
		text   string
	}{
		{"a target there is not", func(s *job.Spec) { s.On = "moon" }, fault.Invalid, `choose target: "moon" is unknown`},
		{"more than the target has", func(s *job.Spec) { s.On, s.Nodes = "mem", 1001 }, fault.Invalid, "check job: 1001 nodes"},
		{"no script", func(s *job.Spec) { s.Program = "trian.sh" }, fault.Invalid, `read script: "trian.sh" is not there`},
		{"no program", func(s *job.Spec) { s.Program = "" }, fault.Invalid, "no script or program given"},
		{"an input that is not there", func(s *job.Spec) { s.Inputs = []job.Input{{Name: "data", Path: "gone"}} }, fault.Invalid, `read input data: "gone" is not there`},
	} {
		_, err := d.Plan(t.Context(), spec(row.change), false)
		if fault.KindOf(err) != row.kind || err == nil || !strings.Contains(err.Error(), row.text) || fault.Hint(err) == "" {
			t.Errorf("%s: %v (%s)", row.name, err, fault.Hint(err))
		}
	}
	for o, err := range d.World.Store.List(t.Context(), "") {
		t.Errorf("the store holds %s (%v)", o.Key, err)
	}
}

func TestAPlanChangesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write(map[string]string{"data/x.csv": "1\n"})
	p, err := d.Plan(t.Context(), spec(func(s *job.Spec) { s.Inputs = []job.Input{{Name: "data", Path: "data"}} }), false)
	d.check(err)
	if p.Script != "train.sh" || p.Digest == "" || p.Contents["data"] == "" || !p.Offer.Fits {
		t.Errorf("%+v", p)
	}
	for o, err := range d.World.Store.List(t.Context(), "") {
		t.Errorf("the store holds %s (%v)", o.Key, err)
	}
}

func TestAnInputThatIsOneFileIsAFolderThatHoldsIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write(map[string]string{"data/x.csv": "1\n", "data/y.csv": "2\n", "data/sub/z": "3\n"})
	d.check(os.Symlink("data/x.csv", filepath.Join(d.dir, "link.csv")))
	for path, want := range map[string][]string{
		"data/x.csv": {"x.csv"},
		"link.csv":   {"x.csv"},
		"data":       {"sub/z", "x.csv", "y.csv"},
		"data/":      {"sub/z", "x.csv", "y.csv"},
	} {
		f, err := d.Inputs.Find(t.Context(), job.Input{Name: "data", Path: path}, spec(), false)
		tree := f.Tree
		d.check(err)
		var got []string
		for _, f := range tree.Files {
			got = append(got, f.Path)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(tree.Dirs)+len(tree.Links) > 0 {
			t.Errorf("%s (-want +got):\n%s%v%v", path, diff, tree.Dirs, tree.Links)
		}
	}
	if _, err := d.Inputs.Find(t.Context(), job.Input{Name: "data", Path: "gone"}, spec(), false); err == nil {
		t.Error("an input that is not there was saved")
	}
}

// Two submits race on one number: the loser attaches (rule T1 of docs/protocol.md).
func TestSubmitsThatRaceMakeOneJob(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const commands = 8
	paths := make([]job.Path, commands)
	plans := make([]Plan, commands)
	errs := make([]error, commands)
	for i := range commands { // all decide before the first one acts
		p, err := d.Plan(t.Context(), spec(named), false)
		if d.check(err); p.Action != report.ActionStart {
			t.Fatalf("it would %s", p.Action)
		}
		plans[i] = p
	}
	var all sync.WaitGroup
	for i := range commands {
		all.Go(func() { paths[i], errs[i] = d.other("cli-"+string(rune('a'+i))).Submit(t.Context(), &plans[i]) })
	}
	all.Wait()
	started := 0
	for i, p := range plans {
		d.check(errs[i])
		if paths[i] != paths[0] {
			t.Errorf("job %s and job %s", paths[0], paths[i])
		}
		switch {
		case p.Action == report.ActionStart:
			started++
		case p.Action != report.ActionAttach || !strings.Contains(p.Note, "was started a moment ago") || p.Job != paths[0]:
			t.Errorf("it would %s, saying %q", p.Action, p.Note)
		}
	}
	if started != 1 {
		t.Errorf("%d of them say that they started it", started)
	}
	jobs, err := views.ListJobs(t.Context(), d.World, "")
	if d.check(err); len(jobs) != 1 {
		t.Errorf("there are %d jobs", len(jobs))
	}
}

func TestASubmitThatLosesToAnotherCommandIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	slow, err := d.Plan(t.Context(), spec(named, func(s *job.Spec) { s.Args = []string{"other"} }), false)
	d.check(err)
	winner := d.submit(spec(named))
	if _, err := d.Submit(t.Context(), &slow); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "was started a moment ago with another command") || fault.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	jobs, err := views.ListJobs(t.Context(), d.World, "")
	if diff := cmp.Diff([]job.Path{winner}, jobs); err != nil || diff != "" {
		t.Errorf("jobs (-want +got): %v\n%s", err, diff)
	}
}

func TestAJobSaysWhoStartedItAndWhatWasShipped(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write(map[string]string{"data.csv": "1\n"})
	path := d.submit(spec(func(s *job.Spec) { s.Inputs = []job.Input{{Name: "data", Path: "data.csv"}} }))
	j := d.look(path).Job
	if j.User != "ann" || j.Host != "desk" || j.Folder != d.dir || j.Drover != "test" || j.Code.Script != "train.sh" || j.Code.Files != 2 || j.Code.Blob == "" || j.At.IsZero() {
		t.Errorf("%+v", j)
	}
	if j.Inputs["data"] == "" || j.Contents["data"] == "" || j.Short != j.ID[:job.MinShort] {
		t.Errorf("%+v", j)
	}
}
