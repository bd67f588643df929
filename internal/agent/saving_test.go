package agent

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// deep makes folders in each other until a path through them is longer than a kernel takes.
const deep = `cd "$1"; d=ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd; i=0
while [ $i -lt 60 ]; do mkdir $d; cd -P ./$d; i=$((i+1)); done; echo x >leaf`

func TestARunWhoseResultsNobodyCouldBringHomeFails(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ where, reason string }{
		"model":       {"$SM_MODEL_DIR", "store model: "},
		"output":      {"$SM_OUTPUT_DATA_DIR", "store output: "},
		"files":       {".", "store files: "},
		"checkpoints": {"$SM_CHECKPOINT_DIR", "store checkpoints: "},
		"state":       {"$DROVER_STATE_DIR", "store state: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			script := `mkdir deep; echo o >"$SM_OUTPUT_DATA_DIR/table"; echo m >"$SM_MODEL_DIR/weights"; echo n >new; set -- "` + row.where + `"; ` + deep
			rep := p.run(p.submit(job.Spec{Verb: job.Shell, Program: script, NoMounts: true}, map[string]string{"x": "x"}))
			exit, settled := rep.Run.Exits[0], rep.Run.Settled
			if settled.State != job.Failed || exit.Verdict != protocol.Broke || !strings.Contains(settled.Reason, row.reason) || !strings.Contains(settled.Reason, "ddddddd") || !strings.Contains(settled.Hint, "tar -cf") {
				t.Errorf("it settled as %+v", settled)
			}
			stored := map[string]map[string]string{"model": {"weights": "m\n"}, "output": {"table": "o\n"}, "files": {"new": "n\n"}}
			for other, want := range stored {
				got := p.output(exit, other)
				delete(got, "deep/")
				if other == name {
					want = nil
				}
				if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
					t.Errorf("%s (-want +got):\n%s", other, diff)
				}
			}
			kept := strings.TrimPrefix(strings.Join(exit.Notes, ""), "it ended with 0, and what was not stored is kept in ")
			if _, err := os.Stat(filepath.Join(kept, "opt/ml")); err != nil || !strings.HasPrefix(kept, p.work) {
				t.Errorf("it is not kept where %q says: %v", exit.Notes, err)
			}
		})
	}
}

func TestHolesCountAsDisk(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const script = `truncate -s 3G "$SM_OUTPUT_DATA_DIR/sparse"; echo m >"$SM_MODEL_DIR/m"`
	rep := p.run(p.submit(job.Spec{Verb: job.Shell, Program: script, NoMounts: true, Limits: job.Limits{Disk: 100 << 20}}, nil))
	s, exit := rep.Run.Settled, rep.Run.Exits[0]
	if s.Code != 137 || s.Reason != "out of disk: 100 MB limit, 3 GB in its folders" || !strings.Contains(s.Hint, "--disk ") {
		t.Errorf("it settled as %+v", s)
	}
	if notes := strings.Join(exit.Notes, "\n"); exit.Outputs["output"] != "" || !strings.Contains(notes, `"sparse"`) {
		t.Errorf("stored %v, noted %q", exit.Outputs, notes)
	}
	if diff := cmp.Diff(map[string]string{"m": "m\n"}, p.output(exit, "model")); diff != "" {
		t.Errorf("model (-want +got):\n%s", diff)
	}
	p.nothingLeft()
}

func TestNothingIsStoredThatIsLargerThanItsFileSystem(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(job.Spec{Verb: job.Shell, Program: `truncate -s 3M "$SM_MODEL_DIR/sparse"`, NoMounts: true}, nil)
	p.start(j, func(c *node.Config) { c.Machine.Disk = 2 << 20 }).leave(0)
	s := p.look(j).Run.Settled
	if s.State != job.Failed || !strings.Contains(s.Reason, `3.1 MB, above 2.1 MB; the largest file is "sparse"`) || !strings.Contains(s.Hint, "--disk 64M") {
		t.Errorf("it settled as %+v", s)
	}
}

// huge leaves a file of holes that takes an hour to be read.
const huge = `truncate -s 1T "%/huge" || echo none`

func TestACancelEndsASave(t *testing.T) {
	t.Parallel()
	blocked := func(ctx context.Context, key string, body io.ReadSeeker) error {
		<-ctx.Done() // a server that is slow without end
		return context.Cause(ctx)
	}
	for name, row := range map[string]struct {
		script string
		upload bool // what is small is never stored
		stop   bool // the cancel ends the program, and what it leaves then is stored
	}{
		"of a model that is hashed":      {script: strings.ReplaceAll(huge, "%", "$SM_MODEL_DIR")},
		"of outputs that are hashed":     {script: strings.ReplaceAll(huge, "%", "$SM_OUTPUT_DATA_DIR")},
		"of files that are hashed":       {script: strings.ReplaceAll(huge, "%", ".")},
		"of checkpoints that are hashed": {script: strings.ReplaceAll(huge, "%", "$SM_CHECKPOINT_DIR")},
		"of state that is hashed":        {script: strings.ReplaceAll(huge, "%", "$DROVER_STATE_DIR")},
		"of a model that is sent":        {script: `echo m >"$SM_MODEL_DIR/m"`, upload: true},
		"of checkpoints that are sent":   {script: `echo m >"$SM_CHECKPOINT_DIR/m"`, upload: true},
		"of what a cancel has left":      {script: `trap 'truncate -s 1T "$SM_MODEL_DIR/huge"; exit 0' TERM; while :; do sleep 0.05; done`, stop: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			if row.upload {
				p.bucket.set(func() { p.bucket.create = blocked })
			}
			j := p.submit(job.Spec{Verb: job.Shell, Program: row.script, NoMounts: true, Grace: job.Duration(time.Second)}, nil)
			w := p.start(j, func(c *node.Config) { c.Machine.Disk = 1 << 50 })
			phase := "saving"
			if row.stop {
				phase = "running"
			}
			p.until("it is "+phase, func() bool {
				rep := p.look(j)
				return rep.Run.Settled != nil || len(rep.Living) == 1 && rep.Living[0].Phase == phase
			})
			if strings.Contains(p.printed(j), "none") {
				t.Skip("the file system takes no large files with holes")
			}
			if _, err := control.CancelJob(t.Context(), p.World, j.Path(), "cli-1", "enough"); err != nil {
				t.Fatal(err)
			}
			w.leave(0)
			rep := p.look(j)
			if rep.State != job.Cancelled {
				t.Errorf("it settled as %+v", rep.Run.Settled)
			}
			if exit := rep.Run.Exits[0]; exit.Verdict != protocol.Halted || !strings.Contains(strings.Join(exit.Notes, "\n"), "what it made last is not stored: the job was stopped") {
				t.Errorf("its exit is %+v", exit)
			}
			p.nothingLeft()
		})
	}
}

func TestARemovedJobEndsItsSave(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	began := make(chan struct{}, 8)
	p.bucket.set(func() {
		p.bucket.create = func(ctx context.Context, _ string, _ io.ReadSeeker) error {
			began <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		}
	})
	j := p.submit(shell(`echo m >"$SM_MODEL_DIR/m"`), nil)
	w := p.start(j, nil)
	select {
	case <-began:
	case <-time.After(patience):
		t.Fatal("nothing is stored")
	}
	p.check(p.Store.Delete(t.Context(), strings.TrimSuffix(protocol.LogsPrefix(j.Path()), "logs")+"job.json"))
	w.leave(0)
	for o, err := range p.Store.List(t.Context(), j.Path().String()+"/attempts/1/exit/") {
		t.Errorf("it wrote %s (%v)", o.Key, err)
	}
}

func TestASaveThatIsQuickEnoughOutlivesACancel(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	began, pass := make(chan struct{}, 8), make(chan struct{})
	p.bucket.set(func() {
		p.bucket.create = func(ctx context.Context, key string, body io.ReadSeeker) error {
			began <- struct{}{}
			select {
			case <-pass:
			case <-ctx.Done():
			}
			return errors.Join(context.Cause(ctx), p.bucket.Bucket.Create(ctx, key, body))
		}
	})
	j := p.submit(shell(`echo m >"$SM_MODEL_DIR/m"`), nil)
	w := p.start(j, nil)
	<-began
	if _, err := control.CancelJob(t.Context(), p.World, j.Path(), "cli-1", "enough"); err != nil {
		t.Fatal(err)
	}
	close(pass)
	w.leave(0)
	rep := p.look(j)
	if diff := cmp.Diff(map[string]string{"m": "m\n"}, p.output(rep.Run.Exits[0], "model")); diff != "" || rep.State != job.Cancelled {
		t.Errorf("%s: model (-want +got):\n%s", rep.State, diff)
	}
}
