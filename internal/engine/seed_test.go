package engine

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// seed makes a command one by the rules of ssm.
func seed(s *job.Spec) { s.Task, s.Named, s.Rules = "ex3-1", true, job.SSM }

func processing(s *job.Spec) { s.Verb = job.Process }

func cleanState(s *job.Spec) { s.CleanState = true }

// TestASecondCommandOfTheSeed: a task is complete when its last job is, whatever has
// changed since.
func TestASecondCommandOfTheSeed(t *testing.T) {
	edit := func(d *desk, _ *job.Spec) { d.write(map[string]string{"train.sh": "#!/bin/sh\necho better\n"}) }
	as := func(change func(*job.Spec)) func(*desk, *job.Spec) {
		return func(_ *desk, s *job.Spec) { change(s) }
	}
	args := as(func(s *job.Spec) { s.Args, s.Nodes = []string{"--lr", "1"}, 3 })
	const force = true
	for _, row := range []struct {
		name       string
		first      job.Spec
		state      func(*desk, job.Path)
		change     func(*desk, *job.Spec)
		force      bool
		want       report.Action
		note       string
		stateSince int
		refused    string
	}{
		{"succeeded", spec(seed), succeeded, nil, false, report.ActionSkip, "complete since ", 0, ""},
		{"succeeded, edited", spec(seed), succeeded, edit, false, report.ActionSkip, "--force_running runs it again", 0, ""},
		{"succeeded, another command", spec(seed), succeeded, args, false, report.ActionSkip, "complete since ", 0, ""},
		{"succeeded, with --cs alone", spec(seed), succeeded, as(cleanState), false, report.ActionSkip, "--clean_state alone does not", 1, ""},
		{"succeeded, forced", spec(seed), succeeded, nil, force, report.ActionStart, "runs the task again", 0, ""},
		{"succeeded, forced, with --cs", spec(seed), succeeded, as(cleanState), force, report.ActionStart, "", 1, ""},
		{"succeeded, as processing", spec(seed), succeeded, as(processing), false, report.ActionStart, "", 0, ""},
		{"processing succeeded, as training", spec(seed, processing), succeeded, as(func(s *job.Spec) { s.Verb, s.Results = "", nil }), false, report.ActionStart, "", 0, ""},
		{"processing succeeded", spec(seed, processing), succeeded, nil, false, report.ActionSkip, "complete since ", 0, ""},
		{"failed", spec(seed), failed, nil, false, report.ActionStart, "failed; this is a new one", 0, ""},
		{"failed, with --cs", spec(seed), failed, as(cleanState), false, report.ActionStart, "failed", 1, ""},
		{"cancelled", spec(seed), cancelled, nil, false, report.ActionStart, "was cancelled", 0, ""},
		{"running", spec(seed), running, nil, false, report.ActionAttach, "already running since", 0, ""},
		{"running, forced", spec(seed), running, nil, force, report.ActionAttach, "already running since", 0, ""},
		{"running, another command", spec(seed), running, args, false, "", "", 0, "is live with another command"},
		{"running, as processing", spec(seed), running, as(processing), force, "", "", 0, "is live with another command"},
		{"interrupted", spec(seed), interrupted, nil, false, report.ActionResume, "it continues", 0, ""},
		{"interrupted, forced", spec(seed), interrupted, nil, force, report.ActionResume, "it continues", 0, ""},
		{"interrupted, edited", spec(seed), interrupted, edit, false, report.ActionReplace, "code changed", 0, ""},
		{"interrupted, with --cs", spec(seed), interrupted, as(cleanState), false, report.ActionReplace, "with an empty state", 1, ""},
		{"interrupted, begun with --cs", spec(seed, cleanState), interrupted, nil, false, report.ActionResume, "it continues", 1, ""},
		{"by drover's own rules", spec(named), succeeded, as(func(s *job.Spec) { s.Rules, s.Args = job.SSM, []string{"x"} }), false, report.ActionSkip, "complete since ", 0, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			first := d.submit(row.first)
			row.state(d, first)
			second := row.first
			if row.change != nil {
				row.change(d, &second)
			}
			p, err := d.Plan(t.Context(), second, row.force)
			if row.refused != "" {
				if err == nil || !strings.Contains(err.Error(), row.refused) {
					t.Errorf("it is not refused: %v", err)
				}
				return
			}
			if d.check(err); p.Action != row.want || !strings.Contains(p.Note, row.note) || p.stateSince != row.stateSince {
				t.Errorf("it would %s: %q, state since %d; want %s: %q, %d", p.Action, p.Note, p.stateSince, row.want, row.note, row.stateSince)
			}
			if row.want == report.ActionReplace || row.want == report.ActionAttach {
				return
			}
			path, err := d.Submit(t.Context(), &p)
			if d.check(err); (path == first) == (row.want == report.ActionStart) {
				t.Errorf("it is job %s after %s", path, first)
			}
		})
	}
}

// TestATaskOfTwoTypesCompletesTwice: its training jobs and its processing jobs.
func TestATaskOfTwoTypesCompletesTwice(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	training := d.submit(spec(seed))
	succeeded(d, training)
	process := d.submit(spec(seed, processing))
	failed(d, process)
	for name, row := range map[string]struct {
		spec job.Spec
		want report.Action
		path job.Path
	}{"training": {spec(seed), report.ActionSkip, training}, "processing": {spec(seed, processing), report.ActionStart, process}} {
		p, err := d.Plan(t.Context(), row.spec, false)
		if d.check(err); p.Action != row.want || p.Job != row.path {
			t.Errorf("%s would %s %s, want %s %s", name, p.Action, p.Job, row.want, row.path)
		}
	}
	// Newest of all is what others are chained to, as there.
	in := job.Input{Name: "m", Path: "task:ex3-1/model"}
	if _, err := d.Inputs.Find(t.Context(), in, spec(seed), false); err == nil || !strings.Contains(err.Error(), "is failed") {
		t.Errorf("its model is had though its last job failed: %v", err)
	}
}

// leaves gives a job's exit the outputs that its rank leaves, as files by name.
func (d *desk) leaves(outputs map[string]map[string]string) program {
	return func(ctx context.Context, _, rank int) protocol.Exit {
		e := protocol.Exit{Verdict: protocol.Done, Outputs: map[string]store.Digest{}}
		for name, files := range outputs {
			e.Outputs[name] = d.list(files)
		}
		return e
	}
}

// list stores files and their list.
func (d *desk) list(files map[string]string) store.Digest {
	dir := d.t.TempDir()
	for name, text := range files {
		d.check(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		d.check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	listing, err := tree.Save(d.t.Context(), d.World.Store, dir, tree.SaveOptions{})
	d.check(err)
	list, err := tree.PutTree(d.t.Context(), d.World.Store, listing)
	d.check(err)
	return list
}

// given are the files of an input as a job is given it, by name.
func (d *desk) given(p job.Path, input string) map[string]string {
	d.t.Helper()
	j, err := tasks.LoadJob(d.t.Context(), d.World, p)
	d.check(err)
	listing, err := tree.LoadTree(d.t.Context(), d.World.Store, store.Digest(j.Inputs[input]))
	d.check(err)
	found := map[string]string{}
	for _, f := range listing.Files {
		r, err := d.World.Store.OpenBlob(d.t.Context(), f.SHA256)
		d.check(err)
		text, err := io.ReadAll(r)
		d.check(err)
		r.Close()
		found[f.Path] = string(text)
	}
	return found
}

// unpacked are the files of a tar.gz.
func unpacked(t *testing.T, archive string) map[string]string {
	t.Helper()
	zr, err := gzip.NewReader(strings.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = string(text)
	}
}

// TestInputsOfOtherTasksAreWhatTheSeedGives: archives of a training job, files of a
// processing job, files where a folder of it is named.
func TestInputsOfOtherTasksAreWhatTheSeedGives(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.does(d.leaves(map[string]map[string]string{"model": {"a/m": "1"}, "output": {"o": "2"}}))
	for _, s := range []job.Spec{spec(seed), spec(seed, processing, func(s *job.Spec) { s.Task = "clean" })} {
		_, err := d.Attend(t.Context(), d.submit(s))
		d.check(err)
	}
	second := spec(seed, func(s *job.Spec) {
		s.Task, s.Nodes = "ex3-2", 2
		s.Inputs = []job.Input{{Name: "ex3_1_model", Path: "task:ex3-1/model", Sharded: true}, {Name: "ex3_1_output", Path: "task:ex3-1/output"},
			{Name: "part", Path: "task:ex3-1/model", Subdir: "a"}, {Name: "clean", Path: "task:clean/output"}, {Name: "code", Path: "task:ex3-1/source"}}
	})
	p := d.submit(second)
	for input, want := range map[string]map[string]string{
		"part": {"m": "1"}, "clean": {"o": "2"}, "code": {"train.sh": "#!/bin/sh\necho hello\n"},
	} {
		if diff := cmp.Diff(want, d.given(p, input)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", input, diff)
		}
	}
	for input, want := range map[string]map[string]map[string]string{
		"ex3_1_model": {"model.tar.gz": {"a/m": "1"}}, "ex3_1_output": {"output.tar.gz": {"o": "2"}},
	} {
		got := map[string]map[string]string{}
		for name, text := range d.given(p, input) {
			got[name] = unpacked(t, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", input, diff)
		}
	}
	// The same command once more finds the same, and attaches.
	again, err := d.Plan(t.Context(), second, false)
	if d.check(err); again.Action != report.ActionAttach || len(again.differences(d.look(p).Job, nil).allChanges()) > 0 {
		t.Errorf("it would %s, for %v", again.Action, again.differences(d.look(p).Job, nil).allChanges())
	}
}

// TestAStateNeedsNoSuccess, nor a job.
func TestAStateNeedsNoSuccess(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := job.Input{Name: "s", Path: "task:ex3-1/state"}
	read := func() (tree.Tree, error) {
		f, err := d.Inputs.Find(t.Context(), in, spec(seed), false)
		return f.Tree, err
	}
	if _, err := read(); err == nil || !strings.Contains(err.Error(), "task ex3-1 has no state") {
		t.Errorf("a task that never was: %v", err)
	}
	byHand := t.TempDir()
	d.check(os.WriteFile(filepath.Join(byHand, "h"), []byte("h"), 0o644))
	_, err := d.Inputs.PutState(t.Context(), job.Path{Project: "demo", Task: "ex3-1"}, 0, byHand)
	d.check(err)
	if listing, err := read(); err != nil || len(listing.Files) != 1 || listing.Files[0].Path != "h" {
		t.Errorf("what was stored with drover put: %v, %v", listing, err)
	}
	p := d.submit(spec(seed, func(s *job.Spec) { s.Nodes = 2 }))
	d.share(p, map[string]string{"algo-1/a": "1", "algo-2/b": "stale"}, map[string]string{"algo-2/b": "2"})
	if listing, err := read(); err != nil || len(listing.Files) != 3 { // h, a, b: while its job is live
		t.Errorf("what its ranks have saved: %v, %v", listing.Files, err)
	}
	failed(d, p)
	listing, err := read()
	if d.check(err); len(listing.Files) != 3 {
		t.Errorf("after a failure: %v", listing.Files)
	}
	_, err = d.Inputs.PutState(t.Context(), job.Path{Project: "demo", Task: "ex3-1"}, 0, "")
	d.check(err)
	if _, err := read(); err == nil {
		t.Error("a state that was emptied is had")
	}
}

// share has ranks of a job begin with what there is and save what they have made of
// it: these files beside those.
func (d *desk) share(p job.Path, ranks ...map[string]string) {
	d.t.Helper()
	ctx := d.t.Context()
	task, err := tasks.ReadTask(ctx, d.World, p)
	d.check(err)
	place, _ := task.PlaceOf(p.Job)
	own := []string{"algo-1", "algo-2", "algo-3"}[:len(ranks)]
	for rank, files := range ranks {
		agent := "1-0-" + own[rank]
		g, _, err := states.RestoreState(ctx, d.World, p, rank, protocol.Restored{Job: p.Job, Submission: place, Attempt: 1, Agent: agent}, 0, d.Inputs.StateIsComplete(ctx))
		d.check(err)
		var base tree.Tree
		b, err := states.BeginShared(ctx, d.World, p, protocol.Begun{Job: p.Job, Submission: place, Attempt: 1, Agent: agent, Own: own}, -1, d.Inputs.StateIsComplete(ctx),
			func(s states.Shared) (store.Digest, int64, error) {
				if base, err = d.Inputs.ReadUnitedTree(ctx, s); err != nil {
					return "", 0, err
				}
				list, err := tree.PutTree(ctx, d.World.Store, base)
				return list, 0, err
			})
		d.check(err)
		base, err = tree.LoadTree(ctx, d.World.Store, b.State)
		d.check(err)
		made, err := tree.LoadTree(ctx, d.World.Store, d.list(files))
		d.check(err)
		both, _ := tree.Merge([]tree.Named{{Tree: made}, {Tree: base}})
		list, err := tree.PutTree(ctx, d.World.Store, both)
		d.check(err)
		d.check(g.Save(ctx, protocol.Saved{State: list}))
	}
}

// TestGCKeepsASharedState: what its ranks began with, and what they have saved.
func TestGCKeepsASharedState(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	one := d.submit(spec(seed, func(s *job.Spec) { s.Nodes = 2 }))
	d.share(one, map[string]string{"algo-1/a": "1"}, map[string]string{"algo-2/b": "2"})
	succeeded(d, one)
	two, err := d.Plan(t.Context(), spec(seed), true)
	d.check(err)
	path, err := d.Submit(t.Context(), &two)
	d.check(err)
	d.share(path, map[string]string{"c": "3"})
	want, err := d.Inputs.StateOf(t.Context(), path, 1)
	if d.check(err); len(want.Files) != 3 {
		t.Fatalf("the state is %v", want.Files)
	}
	s, err := states.ReadShared(t.Context(), d.World, path, d.Inputs.StateIsComplete(t.Context()))
	d.check(err)
	d.gcKeeps(append(want.Blobs(), s.Begun.State)...) // the last is the list that its ranks began with
}
