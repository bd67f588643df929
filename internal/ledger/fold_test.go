package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// Rule L3 of docs/protocol.md: what was not allowed when it was written does not count.
func TestARunsFoldIgnoresWhatWasNotAllowed(t *testing.T) {
	placed := protocol.JobEntry{Placed: &protocol.Placed{Placement: 1, Agents: 1}}
	for _, row := range []struct {
		name     string
		entries  []protocol.JobEntry
		ignored  []int
		attempt  int
		settled  job.State // "" while it has not
		stopping bool
	}{
		{"nothing", nil, nil, 0, "", false},
		{"in order", []protocol.JobEntry{placed, opened(1, protocol.First), opened(2, protocol.Lost), ended(2, job.Succeeded)}, nil, 2, job.Succeeded, false},
		{"the first is not 1", []protocol.JobEntry{opened(2, protocol.First), opened(1, protocol.First)}, []int{0}, 1, "", false},
		{"one left out", []protocol.JobEntry{opened(1, protocol.First), opened(3, protocol.Lost)}, []int{1}, 1, "", false},
		{"opened twice", []protocol.JobEntry{opened(1, protocol.First), opened(2, protocol.Lost), opened(2, protocol.Notice)}, []int{2}, 2, "", false},
		{"one of long ago", []protocol.JobEntry{opened(1, protocol.First), opened(2, protocol.Lost), opened(1, protocol.First)}, []int{2}, 2, "", false},
		{"settled for an old attempt", []protocol.JobEntry{opened(1, protocol.First), opened(2, protocol.Lost), ended(1, job.Succeeded)}, []int{2}, 2, "", false},
		{"settled for one to come", []protocol.JobEntry{opened(1, protocol.First), ended(2, job.Succeeded)}, []int{1}, 1, "", false},
		{"settled twice", []protocol.JobEntry{opened(1, protocol.First), ended(1, job.Failed), ended(1, job.Succeeded)}, []int{2}, 1, job.Failed, false},
		{"cancelled without a stop", []protocol.JobEntry{opened(1, protocol.First), ended(1, job.Cancelled)}, []int{1}, 1, "", false},
		{"after the end", []protocol.JobEntry{opened(1, protocol.First), ended(1, job.Succeeded), opened(2, protocol.Lost), cancelled1, failing1, placed}, []int{2, 3, 4, 5}, 1, job.Succeeded, false},
		{"after a cancel nothing is opened", []protocol.JobEntry{opened(1, protocol.First), cancelled1, opened(2, protocol.Lost)}, []int{2}, 1, "", true},
		{"after a cancel it does not succeed", []protocol.JobEntry{opened(1, protocol.First), cancelled1, ended(1, job.Succeeded)}, []int{2}, 1, "", true},
		{"after a cancel it does not fail", []protocol.JobEntry{opened(1, protocol.First), cancelled1, ended(1, job.Failed)}, []int{2}, 1, "", true},
		{"a cancel is settled", []protocol.JobEntry{opened(1, protocol.First), cancelled1, ended(1, job.Cancelled)}, nil, 1, job.Cancelled, true},
		{"a cancel is settled, whatever the attempt", []protocol.JobEntry{opened(1, protocol.First), cancelled1, ended(0, job.Cancelled)}, nil, 1, job.Cancelled, true},
		{"the lower stop wins", []protocol.JobEntry{opened(1, protocol.First), cancelled1, failing1, cancelled1}, []int{2, 3}, 1, "", true},
		{"failing is not cancelled", []protocol.JobEntry{opened(1, protocol.First), failing1, ended(1, job.Cancelled), ended(1, job.Failed)}, []int{2}, 1, job.Failed, true},
		{"an entry that says nothing", []protocol.JobEntry{{}, opened(1, protocol.First)}, nil, 1, "", false},
	} {
		r := runs.FoldRun(row.entries)
		if diff := cmp.Diff(row.ignored, r.Ignored); diff != "" {
			t.Errorf("%s: ignored entries (-want +got):\n%s", row.name, diff)
		}
		state := job.State("")
		if r.Settled != nil {
			state = r.Settled.State
		}
		if r.Attempt() != row.attempt || state != row.settled || (r.Stop != nil) != row.stopping {
			t.Errorf("%s: attempt %d, settled %q, stop %v", row.name, r.Attempt(), state, r.Stop)
		}
	}
}

func TestOnlyWhatWasLostOrHadNoticeIsAnInterruption(t *testing.T) {
	r := runs.FoldRun([]protocol.JobEntry{opened(1, protocol.First), opened(2, protocol.Lost), opened(3, protocol.Notice), opened(4, protocol.Asked), opened(5, protocol.Failure), opened(6, protocol.Lost)})
	if r.Interruptions() != 3 || r.Failures() != 1 {
		t.Errorf("%d interruptions and %d failures, want 3 and 1", r.Interruptions(), r.Failures())
	}
}

func TestATasksFoldKnowsWhoIsLive(t *testing.T) {
	sub := func(id string) protocol.TaskEntry { return protocol.TaskEntry{Submitted: &protocol.Submitted{Job: id}} }
	end := func(id string) protocol.TaskEntry { return protocol.TaskEntry{Closed: &protocol.Closed{Job: id}} }
	for _, row := range []struct {
		name    string
		entries []protocol.TaskEntry
		live    string
		jobs    []tasks.Place
	}{
		{"never used", nil, "", nil},
		{"one is live", []protocol.TaskEntry{sub("a")}, "a", []tasks.Place{{Job: "a", Place: 0}}},
		{"one has ended", []protocol.TaskEntry{sub("a"), end("a")}, "", []tasks.Place{{Job: "a", Place: 0}}},
		{"the next one", []protocol.TaskEntry{sub("a"), end("a"), sub("b")}, "b", []tasks.Place{{Job: "a", Place: 0}, {Job: "b", Place: 2}}},
		{"a second one beside a live one does not count", []protocol.TaskEntry{sub("a"), sub("b"), end("a"), sub("c")}, "c", []tasks.Place{{Job: "a", Place: 0}, {Job: "c", Place: 3}}},
		{"who is not live cannot be closed", []protocol.TaskEntry{sub("a"), end("b")}, "a", []tasks.Place{{Job: "a", Place: 0}}},
		{"closed before it began", []protocol.TaskEntry{end("a"), sub("a")}, "a", []tasks.Place{{Job: "a", Place: 1}}},
	} {
		got := tasks.FoldTask(row.entries)
		if diff := cmp.Diff(tasks.Task{Jobs: row.jobs, Live: row.live}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
	task := tasks.FoldTask([]protocol.TaskEntry{sub("a"), end("a"), sub("b")})
	if place, ok := task.PlaceOf("b"); place != 2 || !ok || task.Newest() != "b" {
		t.Errorf("b is at %d (%t), the newest is %s", place, ok, task.Newest())
	}
	if _, ok := task.PlaceOf("c"); ok || (tasks.Task{}).Newest() != "" {
		t.Error("a job that never was has a place")
	}
}

func TestAnAppendThatWasNotQuickestTellsWhoWas(t *testing.T) {
	d := newDesk(t)
	slow, quick := d.TaskLog(job.Path{Project: "demo", Task: "digits"}, "slow"), d.TaskLog(job.Path{Project: "demo", Task: "digits"}, "quick")
	d.check(slow.Read(t.Context()))
	mine, err := quick.Append(t.Context(), protocol.TaskEntry{Submitted: &protocol.Submitted{Job: "first"}})
	if d.check(err); !mine {
		t.Fatal("the only writer was not the quickest")
	}
	mine, err = slow.Append(t.Context(), protocol.TaskEntry{Submitted: &protocol.Submitted{Job: "second"}})
	d.check(err)
	if mine || len(slow.Entries) != 1 || slow.Entries[0].By != "quick" || slow.Entries[0].Submitted.Job != "first" {
		t.Fatalf("mine %t, and read %+v", mine, slow.Entries)
	}
	mine, err = slow.Append(t.Context(), protocol.TaskEntry{Closed: &protocol.Closed{Job: "first"}})
	d.check(err)
	d.check(quick.Read(t.Context()))
	if diff := cmp.Diff(slow.Entries, quick.Entries); !mine || diff != "" || len(quick.Entries) != 2 {
		t.Errorf("mine %t, and they read differently:\n%s", mine, diff)
	}
	if e := quick.Entries[0]; e.V != protocol.Format || e.Nonce == "" || e.Nonce == quick.Entries[1].Nonce || !e.At.Equal(d.clock.Now()) {
		t.Errorf("an entry does not say who wrote it and when: %+v", e)
	}
}

// A store of an older or a newer format is refused in one sentence that says which format this
// drover reads, and with the drover to use instead.
func TestWhatADroverOfAnotherFormatWroteIsRefused(t *testing.T) {
	for format, hint := range map[int]string{
		protocol.Format + 1: "Use the newer drover that wrote it.",
		protocol.Format - 1: "Use the older drover that wrote it, or another store: --store.",
	} {
		of := map[string]any{"v": format}
		refused := func(name string, err error) {
			t.Helper()
			want := fmt.Sprintf("it has format %d, and this drover reads format %d", format, protocol.Format)
			if fault.KindOf(err) != fault.Invalid || fault.Hint(err) != hint || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: %v with the hint %q, want %s with %q", name, err, fault.Hint(err), want, hint)
			}
		}
		d := newDesk(t)
		j := d.submit(nil)
		d.create(protocol.JobDir(j.Path())+"/log/00000000", of)
		_, err := views.ReadReport(t.Context(), d.World, j.Path())
		refused("an entry of a job's log", err)
		_, err = control.CancelJob(t.Context(), d.World, j.Path(), "me", "")
		refused("a cancel", err)

		d = newDesk(t)
		j = d.submit(nil)
		d.write(j, opened(1, protocol.First))
		d.create(protocol.AttemptKey(j.Path(), 1, "join", 0), of)
		_, err = views.ReadReport(t.Context(), d.World, j.Path())
		refused("a join", err)

		d = newDesk(t)
		d.create("demo/digits/log/00000000", of)
		_, err = tasks.ReadTask(t.Context(), d.World, job.Path{Project: "demo", Task: "digits"})
		refused("an entry of a task's log", err)

		d.create("demo/digits/abcd/job.json", of)
		_, err = tasks.LoadJob(t.Context(), d.World, job.Path{Project: "demo", Task: "digits", Job: "abcd"})
		refused("a job", err)
	}
}

func TestWhatNobodyCouldHaveWrittenIsOurBug(t *testing.T) {
	d := newDesk(t)
	if _, _, err := d.Store.CreateOnce(t.Context(), "demo/digits/log/00000000", []byte("{")); err != nil {
		t.Fatal(err)
	}
	_, err := tasks.ReadTask(t.Context(), d.World, job.Path{Project: "demo", Task: "digits"})
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Bug || f.Hint == "" {
		t.Error(err)
	}
}

// The ids in job.json become names of folders and words of commands.
func TestARecordOfAnotherJobIsNotRead(t *testing.T) {
	for name, change := range map[string]func(j *job.Job){
		"another id":            func(j *job.Job) { j.ID = "../../etc" },
		"another task":          func(j *job.Job) { j.Spec.Task = "x\x1b[2J" },
		"another project":       func(j *job.Job) { j.Spec.Project = ".." },
		"a short id that leads": func(j *job.Job) { j.Short = "../.ssh" },
		"none":                  func(j *job.Job) { j.Short = "" },
	} {
		d := newDesk(t)
		j := job.Job{V: job.Format, Spec: job.Spec{Project: "demo", Task: "digits", Nodes: 1}}
		d.check(tasks.NameJob(t.Context(), d.World, &j))
		path := j.Path()
		change(&j)
		d.create(protocol.JobKey(path), j)
		_, err := tasks.LoadJob(t.Context(), d.World, path)
		if !errors.Is(err, protocol.ErrUnreadable) || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
