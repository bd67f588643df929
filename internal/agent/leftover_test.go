package agent

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// dies is an agent with a process that is gone to all others, which has saved nothing yet.
func dies(c *node.Config) { c.Machine.Self, c.Machine.SaveEvery = stranger(), time.Hour }

// die ends an agent as kill -9 would: it records nothing, and its folder stays.
func (w *worker) die() {
	w.stop()
	<-w.ended
}

// stepping is a program that writes a step of its own everywhere, and prints what it
// has found.
const stepping = `cat $DROVER_CHECKPOINT_DIR/step $DROVER_STATE_DIR/step step shipped; [ -f $DONE ] && exit 0
echo c$DROVER_ATTEMPT >$DROVER_CHECKPOINT_DIR/step; echo s$DROVER_ATTEMPT >$DROVER_STATE_DIR/step; echo f$DROVER_ATTEMPT >step; echo x >>shipped
trap 'exit 5' TERM; echo >$GATE0; while :; do sleep 1000 & wait $!; done`

// What a program had written when its agent was killed is there for the next attempt,
// though no generation had it.
func TestWhatADeadAgentLeftIsThereForTheNextAttempt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up := newGate(t)
	done := t.TempDir() + "/done"
	spec := shell(stepping, up)
	spec.Env["DONE"] = done
	j := p.submit(spec, map[string]string{"shipped": "one\n", "same": "same\n"})
	w := p.start(j, dies)
	up.wait()
	w.die()
	if s, err := states.ReadState(t.Context(), p.World, j.Path(), 0, func(protocol.Saved) (bool, error) { return true, nil }); err != nil || s != nil {
		t.Fatalf("it had saved %+v, %v: the test shows nothing", s, err)
	}
	write(t, strings.TrimSuffix(done, "/done"), map[string]string{"done": ""})
	rep := p.run(j)
	if rep.State != job.Succeeded || rep.Run.Attempt() != 2 {
		t.Fatalf("it is %s, attempts %+v", rep.State, rep.Run.Attempts)
	}
	if out := p.said(j, record.Stdout); !strings.HasSuffix(out, "c1\ns1\nf1\none\nx\n") {
		t.Errorf("they found %q", out)
	}
	if notes := p.said(j, record.Agent); !strings.Contains(notes, "saving what attempt 1 of job ") || !strings.Contains(notes, "restored files of the working folder: 2 files") {
		t.Errorf("notes:\n%s", notes)
	}
	p.nothingLeft()
}

// The same, where the folder is among those that the target says it has lost.
func TestWhatTheTargetHasLostIsThereForTheNextAttempt(t *testing.T) {
	t.Parallel()
	p, lost := newPlace(t), t.TempDir()
	up := newGate(t)
	done := t.TempDir() + "/done"
	spec := shell(stepping, up)
	spec.Env["DONE"] = done
	j := p.submit(spec, map[string]string{"shipped": "one\n"})
	w := p.start(j, dies)
	up.wait()
	w.die()
	agents, err := filepath.Glob(filepath.Join(p.work, j.ID, "*"))
	p.check(err)
	if len(agents) != 1 {
		t.Fatalf("these worked: %v", agents)
	}
	moved := filepath.Join(lost, j.ID, "docker-1-0")
	p.check(os.Mkdir(filepath.Dir(moved), 0o700))
	p.check(os.Rename(agents[0], moved))
	unknown := func(protocol.Host) (gone, known bool) { return false, false }
	if left := LeftFolders(lost, unknown); len(left) != 0 {
		t.Fatalf("without a word of its target these count: %+v", left)
	}
	p.check(os.WriteFile(filepath.Join(moved, driver.LostFile), nil, 0o600))
	if left := LeftFolders(lost, unknown); len(left) != 1 || left[0].Job != j.Path() {
		t.Fatalf("lost are %+v", left)
	}
	write(t, strings.TrimSuffix(done, "/done"), map[string]string{"done": ""})
	p.start(j, func(c *node.Config) { c.Machine.Lost = lost }).leave(0)
	if out := p.said(j, record.Stdout); !strings.HasSuffix(out, "c1\ns1\nf1\none\nx\n") {
		t.Errorf("they found %q", out)
	}
	if left := slices.Sorted(maps.Keys(texts(t, lost))); len(left) > 0 {
		t.Errorf("it has left %s", left)
	}
	p.nothingLeft()
}

// An attempt that has begun elsewhere has fenced it: its generation stands, and the
// folder goes when the job has ended.
func TestWhatADeadAgentLeftCoversNoNewerGeneration(t *testing.T) {
	t.Parallel()
	p, other := newPlace(t), t.TempDir()
	up := newGate(t)
	done := t.TempDir() + "/done"
	spec := shell(stepping, up)
	spec.Env["DONE"] = done
	j := p.submit(spec, map[string]string{"shipped": "one\n"})
	w := p.start(j, dies)
	up.wait()
	w.die()
	second := p.start(j, func(c *node.Config) { c.Machine.Work = other })
	up.wait()
	second.notice <- node.Notice{Asked: true, Why: "asked to stop"}
	second.leave(0)
	write(t, strings.TrimSuffix(done, "/done"), map[string]string{"done": ""})
	if rep := p.run(j); rep.State != job.Succeeded || rep.Run.Attempt() != 3 {
		t.Fatalf("it is %s, attempts %+v", rep.State, rep.Run.Attempts)
	}
	if out := p.said(j, record.Stdout); !strings.HasSuffix(out, "c2\ns2\nf2\none\nx\n") {
		t.Errorf("they found %q", out)
	}
	if notes := p.said(j, record.Agent); !strings.Contains(notes, "is not saved, and stays in "+p.work) {
		t.Errorf("notes:\n%s", notes)
	}
	p.nothingLeft()
}

// The agent of another job leaves the folder alone as long as its job has not ended.
func TestWhatADeadAgentLeftStaysUntilItsJobHasEnded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up := newGate(t)
	j := p.submit(shell(`echo 7 >step; echo >$GATE0; while :; do sleep 1000 & wait $!; done`, up), nil)
	w := p.start(j, dies)
	up.wait()
	w.die()
	spec, err := job.Spec{Project: "demo", Task: "other", Verb: job.Shell, Program: "true"}.Normal()
	p.check(err)
	another := func() {
		t.Helper()
		o := job.Job{V: job.Format, Spec: spec, At: time.Now().UTC()}
		p.check(tasks.NameJob(t.Context(), p.World, &o))
		_, _, err := tasks.SubmitJob(t.Context(), p.World, o, "cli-1")
		p.check(err)
		p.run(o)
	}
	another()
	gone := p.World.Gone
	if left := LeftFolders(p.work, gone); len(left) != 1 || left[0].Job != j.Path() || left[0].Store != p.Store.String() || left[0].Bytes == 0 {
		t.Fatalf("left are %+v", left)
	}
	_, err = control.CancelJob(t.Context(), p.World, j.Path(), "cli-1", "enough")
	p.check(err)
	p.start(j, func(c *node.Config) { c.Machine.Work = t.TempDir() }).leave(0) // it settles the job
	another()
	p.nothingLeft()
}
