package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/metric"
	"github.com/drover-run/drover/job"
)

func TestANodeGetsItsShareAndWhatLeadsThere(t *testing.T) {
	t.Parallel()
	var all tree.Tree
	for _, name := range []string{"a", "b", "sub/c", "sub/d", "Z"} {
		all.Files = append(all.Files, tree.File{Path: name})
	}
	all.Dirs = []string{"empty"}
	all.Links = []tree.Link{{Path: "to-a", Target: "a"}, {Path: "to-sub", Target: "sub"}, {Path: "sub/up", Target: "../b"}}
	for node, want := range [][]string{{"Z", "b", "sub/d"}, {"a", "sub/c"}} {
		got := share(all, node, 2)
		var names, links []string
		for _, f := range got.Files {
			names = append(names, f.Path)
		}
		for _, l := range got.Links {
			links = append(links, l.Path)
		}
		if diff := cmp.Diff(want, names); diff != "" || len(got.Dirs) != 1 {
			t.Errorf("node %d (-want +got):\n%s", node, diff)
		}
		if diff := cmp.Diff([][]string{{"to-sub", "sub/up"}, {"to-a", "to-sub"}}[node], links); diff != "" {
			t.Errorf("links of node %d (-want +got):\n%s", node, diff)
		}
	}
}

func TestAProgramWaitsForRoomAndGivesItBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(job.Spec{Program: "true", Limits: job.Limits{CPUs: 1}, GPUs: 2, Queue: "night", Priority: 3}, nil)
	granted, released := make(chan struct{}), make(chan struct{})
	var wish node.Wish
	w := p.start(j, func(c *node.Config) {
		c.Machine.Room = func(ctx context.Context, w node.Wish, told func(string)) (node.Room, error) {
			wish = w
			told("waits for 1 core: job abcd holds 2 of 2")
			select {
			case <-granted:
			case <-ctx.Done():
				return node.Room{}, context.Cause(ctx)
			}
			return node.Room{Cores: []int{0}, GPUs: 2, Pinned: "0,1", Release: func() { close(released) }}, nil
		}
	})
	p.until("it waits", func() bool {
		rep := p.look(j)
		return rep.State == job.Pending && len(rep.Living) == 1 && rep.Living[0].Phase == protocol.Queued && strings.Contains(rep.Living[0].Queue, "job abcd")
	})
	close(granted)
	w.leave(0)
	<-released
	if rep := p.look(j); rep.State != job.Succeeded {
		t.Errorf("it is %s: %+v", rep.State, rep.Run.Settled)
	}
	want := node.Wish{Job: j.ID, Label: "job " + j.Short, Nodes: 1, CPUs: 1, GPUs: 2, Queue: "night", Priority: 3}
	if diff := cmp.Diff(want, wish); diff != "" {
		t.Errorf("it wished for (-want +got):\n%s", diff)
	}
}

func TestACancelEndsTheWaitForRoom(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(job.Spec{Program: "true"}, nil)
	left := make(chan struct{})
	w := p.start(j, func(c *node.Config) {
		c.Machine.Room = func(ctx context.Context, _ node.Wish, told func(string)) (node.Room, error) {
			told("waits")
			<-ctx.Done()
			close(left)
			return node.Room{}, context.Cause(ctx)
		}
	})
	p.until("it waits", func() bool { rep := p.look(j); return len(rep.Living) == 1 && rep.Living[0].Queue != "" })
	if _, err := control.CancelJob(t.Context(), p.World, j.Path(), "cli-1", "enough"); err != nil {
		t.Fatal(err)
	}
	w.leave(0)
	<-left
	if rep := p.look(j); rep.State != job.Cancelled {
		t.Errorf("it is %s", rep.State)
	}
}

func TestARefusedRoomFailsTheJob(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(job.Spec{Program: "true"}, nil)
	p.start(j, func(c *node.Config) {
		c.Machine.Room = func(context.Context, node.Wish, func(string)) (node.Room, error) {
			return node.Room{}, errors.New("reserve 9 cores: this machine has 2")
		}
	}).leave(0)
	if s := p.look(j).Run.Settled; s == nil || !strings.Contains(s.Reason, "this machine has 2") {
		t.Errorf("it settled as %+v", s)
	}
}

func TestAProgramThatIsToEndFindsANotice(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const script = `trap 'cat "$DROVER_NOTICE"; exit 0' TERM; echo up; while :; do sleep 0.05; done`
	j := p.submit(job.Spec{Verb: job.Shell, Program: script, NoMounts: true}, nil)
	w := p.start(j, nil)
	p.until("it runs", func() bool { return p.printed(j) != "" })
	w.notice <- node.Notice{Why: "the machine goes"}
	w.leave(fault.ExitLater)
	if text := p.printed(j); !strings.Contains(text, "the machine goes\nends at 20") {
		t.Errorf("it read %q", text)
	}
}

// printed is what the job's program has printed, as far as it is stored.
func (p *place) printed(j job.Job) string {
	p.t.Helper()
	var all strings.Builder
	f := record.Filter{Streams: record.Stdout | record.Stderr}
	for fr, err := range record.Read(p.t.Context(), p.Store, protocol.LogsPrefix(j.Path()), f) {
		p.check(err)
		all.Write(fr.Data)
	}
	return all.String()
}

func TestMetricsAndSecretsOfAProgram(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.environ = append(p.environ, "HIDDEN=hush-hush-hush")
	const script = `echo "loss=0.5 $KEY"; printf 'acc=1'; echo "$KEY" >"$DROVER_FAILURE_FILE"; printenv HIDDEN; echo "gone $?" >&2; exit 3`
	j := p.submit(job.Spec{Verb: job.Shell, Program: script, NoMounts: true, Secrets: map[string]string{"KEY": "env:HIDDEN"}}, nil)
	rep := p.run(j)
	if text := p.printed(j); !strings.Contains(text, "loss=0.5 [redacted KEY]\n") || strings.Contains(text, "hush-hush") || !strings.Contains(text, "gone 1\n") {
		t.Errorf("it printed %q", text)
	}
	if s := rep.Run.Settled; s.Code != 3 || strings.Contains(s.Reason, "hush") || s.Reason == "" {
		t.Errorf("it settled as %+v", s)
	}
	series, err := metric.ReadSeries(record.Read(t.Context(), p.Store, protocol.MetricsPrefix(j.Path()), record.Filter{}))
	if err != nil || len(series) != 2 || series[0].Name != "acc" && series[1].Name != "acc" {
		t.Errorf("metrics: %+v, %v", series, err)
	}
	// A secret that is not here is said before anything runs.
	j = p.submit(job.Spec{Verb: job.Shell, Program: "echo ran", Secrets: map[string]string{"KEY": "env:NOSUCH"}}, nil)
	if s := p.run(j).Run.Settled; s.State != job.Failed || !strings.Contains(s.Reason, "NOSUCH") || p.printed(j) != "" {
		t.Errorf("without its secret it settled as %+v", s)
	}
}

func TestAProgramThatFillsItsDiskIsEnded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const script = `head -c 3000000 /dev/zero >big; while :; do sleep 0.05; done`
	j := p.submit(job.Spec{Verb: job.Shell, Program: script, NoMounts: true, Limits: job.Limits{Disk: 1 << 20}}, nil)
	s := p.run(j).Run.Settled
	if s.Code != 137 || s.Reason != "out of disk: 1 MB limit, 2.9 MB in its folders" || !strings.Contains(s.Hint, "--disk 64M") {
		t.Errorf("it settled as %+v", s)
	}
}
