package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// submitMap makes a map of the items 1 to n.
func (p *place) submitMap(spec job.Spec, n int, files map[string]string) job.Job {
	p.t.Helper()
	spec.Project, spec.Task, spec.Verb, spec.From = "demo", "sums", job.Map, fmt.Sprintf("1-%d", n)
	spec, err := spec.Normal()
	p.check(err)
	list, err := items.Collect(p.t.Context(), items.Source{From: spec.From}, p.t.TempDir())
	p.check(err)
	m, err := list.Put(p.t.Context(), p.Store, "")
	p.check(err)
	j := job.Job{V: job.Format, Spec: spec, At: time.Now().UTC(), Manifest: job.Manifest(m), ChunkSize: chunks.ChunkSize(n, spec.Workers)}
	j.Code = p.code(spec.Program, files)
	p.check(tasks.NameJob(p.t.Context(), p.World, &j))
	_, mine, err := tasks.SubmitJob(p.t.Context(), p.World, j, "cli-1")
	if p.check(err); !mine {
		p.t.Fatal("another job is live")
	}
	return j
}

// ofMap is how a map stands, and what each item printed to stdout.
func (p *place) ofMap(j job.Job) (views.MapReport, []string) {
	p.t.Helper()
	v := views.NewMapView(p.World, j)
	rep, err := v.Refresh(p.t.Context())
	p.check(err)
	var heads []string
	p.check(v.Each(p.t.Context(), func(r views.ItemReport) error {
		heads = append(heads, "")
		if r.Result != nil {
			heads[len(heads)-1] = r.Result.Head
		}
		return nil
	}))
	return rep, heads
}

func TestAnAgentDoesAMap(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.environ = append(p.environ, "MY_KEY=secret-value-1")
	spec := job.Spec{Program: "work.sh", Args: []string{"{}", "a b"}, Env: map[string]string{"MINE": "yes"}, Secrets: map[string]string{"KEY": "env:MY_KEY"}}
	j := p.submitMap(spec, 50, map[string]string{"data.txt": "beside\n", "work.sh": `
echo "$1|$2|$DROVER_ITEM|$(cat data.txt)|$MINE|$KEY|$DROVER_JOB|$DROVER_TASK|${SM_MODEL_DIR-none}|${MY_KEY-none}|$SM_NUM_CPUS"
[ "$1" != 7 ] || echo left >result.txt`})
	p.start(j, nil).leave(0)
	rep, heads := p.ofMap(j)
	if s := rep.Map.Settled; s == nil || s.State != job.Succeeded || *s.Tally != (job.Tally{Items: 50, Succeeded: 50}) {
		t.Fatalf("settled %+v", s)
	}
	for i, got := range heads {
		want := fmt.Sprintf("%d|a b|%d|beside|yes|[redacted KEY]|%s|sums|none|none|1\n", i+1, i+1, j.ID)
		if got != want {
			t.Errorf("item %d printed %q, want %q", i+1, got, want)
		}
	}
	if said := p.said(j, record.Agent); !strings.Contains(said, "items left 1 file in their working folder, such as result.txt") {
		t.Errorf("nothing is said of what was left: %q", said)
	}
	if len(rep.Heartbeats) > 0 && rep.Heartbeats[0].Phase != protocol.Left {
		t.Errorf("its last heartbeat: %+v", rep.Heartbeats[0])
	}
	task, err := tasks.ReadTask(t.Context(), p.World, j.Path())
	if p.check(err); task.Live != "" {
		t.Error("the task's log does not know that the job has settled")
	}
	p.nothingLeft()
}

func TestAMapWhoseProgramIsNowhereFails(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submitMap(job.Spec{Program: "no-such-program", Args: []string{"{}"}}, 9, nil)
	p.start(j, nil).leave(0)
	rep, _ := p.ofMap(j)
	if s := rep.Map.Settled; s == nil || s.State != job.Failed || s.Code != fault.ExitDrover || !strings.Contains(s.Reason, `"no-such-program" is not on PATH`) {
		t.Errorf("settled %+v", s)
	}
	p.nothingLeft()
}

func TestAMapThatIsCancelledWhileItWaitsForRoomEnds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submitMap(job.Spec{Program: "echo", Args: []string{"{}"}, Limits: job.Limits{CPUs: 1}}, 9, nil)
	asked := make(chan node.Wish, 1)
	w := p.start(j, func(c *node.Config) {
		c.Machine.Room = func(ctx context.Context, w node.Wish, _ func(string)) (node.Room, error) {
			asked <- w
			<-ctx.Done()
			return node.Room{}, context.Cause(ctx)
		}
	})
	if wish := <-asked; wish.CPUs != 2 || wish.Nodes != 1 {
		t.Errorf("it wishes for %+v", wish)
	}
	_, err := control.CancelJob(t.Context(), p.World, j.Path(), "cli-1", "enough")
	p.check(err)
	w.leave(0)
	rep, _ := p.ofMap(j)
	if s := rep.Map.Settled; s == nil || s.State != job.Cancelled {
		t.Errorf("settled %+v", s)
	}
	p.nothingLeft()
}

func TestAMapsAgentLeavesForNewCode(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	gate := t.TempDir()
	spec := job.Spec{Program: "work.sh", Args: []string{"{}", gate}, Items: job.Items{Slots: 2}}
	j := p.submitMap(spec, 9, map[string]string{"work.sh": `: >"$2/began-$1"; while [ ! -e "$2/go" ]; do sleep 0.01; done; echo old`})
	w := p.start(j, nil)
	p.until("two items run", func() bool {
		began, err := filepath.Glob(filepath.Join(gate, "began-*"))
		return err == nil && len(began) == 2
	})
	code := protocol.Code{Code: p.code("work.sh", map[string]string{"word": "new", "work.sh": `cat word`})}
	_, err := control.AmendMap(t.Context(), p.World, j.Path(), "cli-1", protocol.Amended{Code: &code})
	p.check(err)
	p.until("it begins no more", func() bool {
		rep, _ := p.ofMap(j)
		return len(rep.Heartbeats) > 0 && rep.Heartbeats[0].Phase == protocol.Resting
	})
	write(t, gate, map[string]string{"go": ""})
	w.leave(fault.ExitLater)
	p.nothingLeft()
	p.start(j, nil).leave(0)
	rep, heads := p.ofMap(j)
	if s := rep.Map.Settled; s == nil || s.State != job.Succeeded {
		t.Errorf("settled %+v", s)
	}
	said := map[string]int{}
	for _, head := range heads {
		said[strings.TrimSpace(head)]++
	}
	if diff := cmp.Diff(map[string]int{"old": 2, "new": 7}, said); diff != "" {
		t.Errorf("what items printed (-want +got):\n%s", diff)
	}
	p.nothingLeft()
}

func TestAMapsAgentLeavesWhenItIsAsked(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submitMap(job.Spec{Program: "sh", Args: []string{"-c", `[ "$FAST" ] || exec sleep 1000`}, Items: job.Items{Slots: 2}}, 9, nil)
	w := p.start(j, nil)
	p.until("items run", func() bool {
		rep, _ := p.ofMap(j)
		return rep.Flight > 0
	})
	w.notice <- node.Notice{Asked: true, Why: "asked to stop"}
	w.leave(0)
	p.environ = append(p.environ, "FAST=1")
	p.start(j, nil).leave(0)
	rep, _ := p.ofMap(j)
	if s := rep.Map.Settled; s == nil || s.State != job.Succeeded {
		t.Errorf("settled %+v", s)
	}
	p.nothingLeft()
}
