package agent

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

func shell(line string, gates ...gate) job.Spec {
	s := job.Spec{Verb: job.Shell, Program: line, Env: map[string]string{}}
	for i, g := range gates {
		s.Env["GATE"+string(rune('0'+i))] = g.Path
	}
	return s
}

func TestWhatAProgramMakesIsStoredAndItsJobSettled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	line := `echo seen; echo heard >&2
mkdir -p __pycache__ .ipynb_checkpoints sub kept $SM_MODEL_DIR/deep
echo m >$SM_MODEL_DIR/deep/model.bin; echo o >$SM_OUTPUT_DATA_DIR/table.csv
echo new >sub/new.txt; echo more >>data.txt; echo x >__pycache__/y; echo x >.ipynb_checkpoints/z; echo x >old.pyc; rm gone.txt`
	j := p.submit(shell(line), map[string]string{"data.txt": "one\n", "same.txt": "same\n", "gone.txt": "gone\n", "kept/x": "x\n"})
	rep := p.run(j)
	want := &protocol.Settled{State: job.Succeeded, Attempt: 1}
	if diff := cmp.Diff(want, rep.Run.Settled); diff != "" {
		t.Errorf("settled (-want +got):\n%s", diff)
	}
	exit := rep.Run.Exits[0]
	if exit.Verdict != protocol.Done || exit.Code != 0 || exit.Started.IsZero() || exit.Ended.Before(exit.Started) || exit.MaxRSS == 0 {
		t.Errorf("exit %+v", exit)
	}
	for name, want := range map[string]map[string]string{
		"model":  {"deep/model.bin": "m\n"},
		"output": {"table.csv": "o\n"},
		"files":  {"sub/new.txt": "new\n", "data.txt": "one\nmore\n"},
	} {
		if diff := cmp.Diff(want, p.output(exit, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if out, err := p.said(j, record.Stdout), p.said(j, record.Stderr); out != "seen\n" || err != "heard\n" {
		t.Errorf("it printed %q and %q", out, err)
	}
	for file, member := range map[string]string{"model.tar.gz": "deep/model.bin", "output.tar.gz": "table.csv"} {
		if diff := cmp.Diff([]string{member}, p.archive(j, file)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	task, err := tasks.ReadTask(t.Context(), p.World, j.Path())
	if p.check(err); task.Live != "" {
		t.Error("the task's log does not know that the job has settled")
	}
	p.nothingLeft()
}

// archive lists the members of one of the job's archives.
func (p *place) archive(j job.Job, file string) (names []string) {
	p.t.Helper()
	r, err := p.Store.Open(p.t.Context(), protocol.OutputPrefix(j.Path())+"/"+file, 0, -1)
	p.check(err)
	defer r.Close()
	zr, err := gzip.NewReader(r)
	p.check(err)
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		p.check(err)
		names = append(names, h.Name)
	}
}

func TestHowAProgramEndsIsHowItsJobEnds(t *testing.T) {
	t.Parallel()
	raising := "import helper\nhelper.go()\n"
	for _, row := range []struct {
		name    string
		spec    job.Spec
		files   map[string]string
		verdict protocol.Verdict
		code    int
		signal  string
		reason  string
		hint    bool // it must have one
	}{
		{"a status of its own", shell("exit 3"), nil, protocol.Broke, 3, "", "exit status 3", false},
		{"a signal", shell("kill -9 $$"), nil, protocol.Broke, 137, "SIGKILL", "ended by SIGKILL", false},
		{"a failure file", shell(`printf ' out of luck\n' >$DROVER_FAILURE_FILE; exit 1`), nil, protocol.Broke, 1, "", "out of luck", false},
		{"a failure file with nothing in it", shell(`echo >$DROVER_FAILURE_FILE; exit 1`), nil, protocol.Broke, 1, "", "exit status 1", false},
		{"a traceback", job.Spec{Program: "train.py"}, map[string]string{"train.py": raising, "helper.py": "def go():\n    raise ValueError('bad thing')\n"},
			protocol.Broke, 1, "", "ValueError: bad thing at helper.py line 2 (exit status 1)", false},
		{"too late", job.Spec{Verb: job.Shell, Program: "exec sleep 1000", Timeout: job.Duration(50 * time.Millisecond)}, nil,
			protocol.TimedOut, fault.ExitTimeLimit, "SIGTERM", "time limit of 50ms reached", true},
		{"no such program", job.Spec{Program: "no-such-program"}, nil, protocol.Setup, fault.ExitDrover, "", `start program: "no-such-program" is not on PATH`, true},
		{"no such file", job.Spec{Program: "./no/such"}, map[string]string{"x": ""}, protocol.Setup, fault.ExitDrover, "", `/opt/ml/code/no/such" is not there`, true},
		{"no such interpreter", job.Spec{Program: "train.py", Python: "/no/such/python"}, map[string]string{"train.py": ""}, protocol.Setup, fault.ExitDrover, "", `/no/such/python`, true},
		{"requirements that cannot be read", job.Spec{Program: "train.py"}, map[string]string{"train.py": "", "requirements.txt": "-r more.txt\n"},
			protocol.Setup, fault.ExitDrover, "", "more.txt", false},
		{"no program of this system", job.Spec{Program: "prog.exe"}, map[string]string{"prog.exe": "\x7fELF\x02\x01\x00 nonsense"}, protocol.Setup, fault.ExitDrover, "", "prog.exe", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			rep := p.run(p.submit(row.spec, row.files))
			exit, settled := rep.Run.Exits[0], rep.Run.Settled
			if exit.Verdict != row.verdict || exit.Code != row.code || exit.Signal != row.signal || !strings.Contains(exit.Reason, row.reason) || row.hint && exit.Hint == "" {
				t.Errorf("exit %+v", exit)
			}
			want := &protocol.Settled{State: job.Failed, Attempt: 1, Code: exit.Code, Reason: exit.Reason, Hint: exit.Hint}
			if diff := cmp.Diff(want, settled); diff != "" {
				t.Errorf("settled (-want +got):\n%s", diff)
			}
			p.nothingLeft()
		})
	}
}

func TestAScriptRunsAsItWouldAtHome(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		spec  job.Spec
		files map[string]string
		want  string
	}{
		"by its interpreter": {job.Spec{Program: "sub/a.py", Args: []string{"spaces  and *"}},
			map[string]string{"sub/a.py": "import sys\nprint(sys.argv, open('x').read())\n", "x": "beside"}, "['sub/a.py', 'spaces  and *'] beside\n"},
		"by its first line":  {job.Spec{Program: "run", Args: []string{"a b"}}, map[string]string{"run": "#!/bin/sh\necho \"$#:$1\"\n"}, "1:a b\n"},
		"on PATH":            {job.Spec{Program: "printf", Args: []string{"%s|", "a", "b c"}}, nil, "a|b c|"},
		"by the shell":       {shell("echo $((6*7)) | tr 4 5"), nil, "52\n"},
		"without the caller": {shell(`echo "${OLDPWD-none}"; [ "$PWD" = "$(pwd -P)" ] && echo here`), nil, "none\nhere\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			j := p.submit(row.spec, row.files)
			if rep := p.run(j); rep.State != job.Succeeded {
				t.Errorf("%s: %+v", rep.State, rep.Run.Settled)
			}
			if got := p.said(j, record.Stdout); got != row.want {
				t.Errorf("it printed %q, want %q", got, row.want)
			}
		})
	}
}

func TestAShellScriptThatIsNotExecutableRunsAllTheSame(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.sh": "echo it runs\n"})
	p.check(os.Chmod(filepath.Join(dir, "a.sh"), 0o644))
	list, err := bundle.Scan(t.Context(), bundle.Source{Dir: dir})
	p.check(err)
	b, err := bundle.Put(t.Context(), p.Store, list)
	p.check(err)
	spec, err := job.Spec{Project: "demo", Task: "digits", Program: "a.sh"}.Normal()
	p.check(err)
	j := job.Job{V: job.Format, Spec: spec, Code: job.Code{Blob: string(b.Blob), Script: "a.sh"}}
	p.check(tasks.NameJob(t.Context(), p.World, &j))
	_, _, err = tasks.SubmitJob(t.Context(), p.World, j, "cli-1")
	p.check(err)
	p.run(j)
	if got := p.said(j, record.Stdout); got != "it runs\n" {
		t.Errorf("it printed %q", got)
	}
}

func TestInputsAreWhereTheProgramLooks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	data := t.TempDir()
	write(t, data, map[string]string{"a/b.csv": "1,2\n"})
	listing, err := tree.Save(t.Context(), p.Store, data, tree.SaveOptions{})
	p.check(err)
	d, err := tree.PutTree(t.Context(), p.Store, listing)
	p.check(err)
	for name, digest := range map[string]store.Digest{"there": d, "gone": store.Digest(strings.Repeat("0", 64))} {
		spec, err := job.Spec{Project: "demo", Task: name, Verb: job.Shell, Program: `cat "$SM_CHANNEL_DATA/a/b.csv"`,
			Inputs: []job.Input{{Name: "data", Path: "d"}}}.Normal()
		p.check(err)
		j := job.Job{V: job.Format, Spec: spec, Inputs: map[string]string{"data": string(digest)}}
		p.check(tasks.NameJob(t.Context(), p.World, &j))
		_, _, err = tasks.SubmitJob(t.Context(), p.World, j, "cli-1")
		p.check(err)
		rep := p.run(j)
		if out := p.said(j, record.Stdout); name == "there" && (rep.State != job.Succeeded || out != "1,2\n") {
			t.Errorf("%s, printed %q", rep.State, out)
		}
		if e := rep.Run.Exits[0]; name == "gone" && (e.Verdict != protocol.Setup || !strings.HasPrefix(e.Reason, "fetch input data: ")) {
			t.Errorf("an input that is gone: %+v", e)
		}
	}
}

// saving is a program that saves when it is asked to end, and goes on from there.
// It waits by "wait": a signal that comes just before a read of a fifo is open would
// be heard when that is, which is never.
const saving = `if [ -f $DROVER_CHECKPOINT_DIR/step ]; then echo from $(cat $DROVER_CHECKPOINT_DIR/step) state $(cat $DROVER_STATE_DIR/s); exit 0; fi
trap 'echo 7 >$DROVER_CHECKPOINT_DIR/step; echo kept >$DROVER_STATE_DIR/s; exit 5' TERM
echo >$GATE0; while :; do sleep 1000 & wait $!; done`

func TestNoticeSavesAndTheNextAgentGoesOn(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		notice  node.Notice
		status  int
		verdict protocol.Verdict
		cause   protocol.Cause
		free    int // interruptions counted
	}{
		"a person asks":    {node.Notice{Asked: true, Why: "asked to stop"}, 0, protocol.AskedToStop, protocol.Asked, 0},
		"the machine goes": {node.Notice{Why: "spot interruption in 120 s"}, fault.ExitLater, protocol.Interrupted, protocol.Notice, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			up, never := newGate(t), newGate(t)
			j := p.submit(shell(saving, up, never), nil)
			w := p.start(j, nil)
			up.wait()
			w.notice <- row.notice
			w.leave(row.status)
			rep := p.look(j)
			if e := rep.Run.Exits[0]; rep.State != job.Interrupted || e.Verdict != row.verdict || e.Reason != row.notice.Why || e.Code != 5 {
				t.Errorf("it is %s, exit %+v", rep.State, e)
			}
			p.nothingLeft()

			rep = p.run(j)
			if rep.State != job.Succeeded || rep.Run.Attempt() != 2 || rep.Run.Attempts[1].Cause != row.cause || rep.Run.Interruptions() != row.free {
				t.Errorf("it is %s, attempts %+v", rep.State, rep.Run.Attempts)
			}
			if out := p.said(j, record.Stdout); out != "from 7 state kept\n" {
				t.Errorf("the second attempt printed %q", out)
			}
			if notes := p.said(j, record.Agent); !strings.Contains(notes, "leaving: "+row.notice.Why) || !strings.Contains(notes, "restored checkpoints: 1 file") {
				t.Errorf("notes:\n%s", notes)
			}
		})
	}
}

func TestACheckpointIsSavedWhileTheProgramRuns(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	done := newGate(t)
	j := p.submit(shell(`echo 1 >$DROVER_CHECKPOINT_DIR/step; read x <$GATE0`, done), nil)
	w := p.start(j, nil)
	saved := func(protocol.Saved) (bool, error) { return true, nil }
	p.until("a generation", func() bool {
		s, err := states.ReadState(t.Context(), p.World, j.Path(), 0, saved)
		p.check(err)
		return s != nil
	})
	done.open()
	w.leave(0)
}

func TestACancelEndsTheProgramAndSettles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up, never := newGate(t), newGate(t)
	j := p.submit(shell(`trap 'echo bye >$SM_MODEL_DIR/last; exit 0' TERM; echo >$GATE0; while :; do sleep 1000 & wait $!; done`, up, never), nil)
	w := p.start(j, nil)
	up.wait()
	stands, err := control.CancelJob(t.Context(), p.World, j.Path(), "cli-1", "wrong data")
	if p.check(err); !stands {
		t.Fatal("it had already ended")
	}
	w.leave(0)
	rep := p.look(j)
	want := &protocol.Settled{State: job.Cancelled, Attempt: 1, Code: fault.ExitInterrupted, Reason: "wrong data"}
	if diff := cmp.Diff(want, rep.Run.Settled); diff != "" {
		t.Errorf("settled (-want +got):\n%s", diff)
	}
	if e := rep.Run.Exits[0]; e.Verdict != protocol.Halted || e.Reason != "the job was stopped" {
		t.Errorf("exit %+v", e)
	}
	if diff := cmp.Diff(map[string]string{"last": "bye\n"}, p.output(rep.Run.Exits[0], "model")); diff != "" {
		t.Errorf("what it left (-want +got):\n%s", diff)
	}
	p.nothingLeft()
}

// Rule R8 of docs/protocol.md: a node that has joined and not started its program ends at once when
// the run is cancelled. The run has two nodes, and the second never comes.
func TestACancelBeforeTheStartIsHeededAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	spec := shell("echo started")
	spec.Nodes = 2
	j := p.submit(spec, nil)
	w := p.start(j, nil)
	p.until("the first node has joined", func() bool { return len(p.look(j).Run.Joins) == 1 })
	stands, err := control.CancelJob(t.Context(), p.World, j.Path(), "cli-1", "wrong data")
	if p.check(err); !stands {
		t.Fatal("it had already ended")
	}
	w.leave(0)
	rep := p.look(j)
	if e := rep.Run.Exits[0]; e.Verdict != protocol.Halted || e.Reason != "the job was stopped" || !e.Started.IsZero() {
		t.Errorf("the node that waited for the other has left the exit %+v", e)
	}
	want := &protocol.Settled{State: job.Cancelled, Attempt: 1, Code: fault.ExitInterrupted, Reason: "wrong data"}
	if diff := cmp.Diff(want, rep.Run.Settled); diff != "" {
		t.Errorf("settled (-want +got):\n%s", diff)
	}
	if n := len(w.programs()); n != 0 {
		t.Errorf("%d programs ran", n)
	}
	p.nothingLeft()
}

func TestAProgramThatDoesNotEndIsKilledAfterItsGrace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up, never := newGate(t), newGate(t)
	spec := shell(`trap '' TERM; echo >$GATE0; while :; do read x <$GATE1; done`, up, never)
	spec.Grace = job.Duration(50 * time.Millisecond)
	j := p.submit(spec, nil)
	w := p.start(j, nil)
	up.wait()
	_, err := control.CancelJob(t.Context(), p.World, j.Path(), "cli-1", "")
	p.check(err)
	w.leave(0)
	if e := p.look(j).Run.Exits[0]; e.Signal != "SIGKILL" {
		t.Errorf("exit %+v", e)
	}
}

// Rule E6 of docs/protocol.md: without job.json an agent writes nothing and leaves with 0.
func TestAnAgentOfARemovedJobLeaves(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(job.Job{ID: "abcd2345", Spec: job.Spec{Project: "demo", Task: "never"}}, nil).leave(0)

	up, never := newGate(t), newGate(t)
	j := p.submit(shell(`echo >$GATE0; read x <$GATE1`, up, never), nil)
	w := p.start(j, nil)
	up.wait()
	p.check(p.Store.Delete(t.Context(), j.Path().String()[:len(j.Path().String())-len(j.ID)]+j.ID+"/job.json"))
	w.leave(0)
	for _, started := range w.programs() {
		select {
		case <-started.Done():
		default:
			t.Error("its program runs on")
		}
	}
	for o, err := range p.Store.List(t.Context(), j.Path().String()+"/attempts/1/exit/") {
		t.Errorf("it wrote %s (%v)", o.Key, err)
	}
	p.nothingLeft()
}

// A store with a removed folder takes nothing any more, so that nothing can be waited
// for: the output of the program, its usage, its end.
func TestAnAgentWhoseStoreWasRemovedLeaves(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"while its program prints": `echo >$GATE0; trap "" TERM; while :; do echo on; sleep 0.05; done`,
		"as its program ends":      `echo >$GATE0; read x <$GATE1`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			up, end := newGate(t), newGate(t)
			j := p.submit(shell(line, up, end), nil)
			w := p.start(j, nil)
			up.wait()
			gone := func(key string) error {
				return fault.New(fault.Missing, "", "create %s: the store's folder is gone", key)
			}
			p.bucket.set(func() { p.bucket.refuse = gone })
			p.check(p.Store.Delete(t.Context(), j.Path().String()+"/job.json"))
			if strings.Contains(line, "read") {
				end.open()
			}
			w.leave(0)
			for _, started := range w.programs() {
				select {
				case <-started.Done():
				default:
					t.Error("its program runs on")
				}
			}
			p.nothingLeft()
		})
	}
}

func TestAJobThatWasNeverSubmittedIsNotWorkedOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(shell("true"), nil)
	other := j
	other.ID = "zzzz2345"
	_, _, err := p.Store.CreateOnce(t.Context(), other.Path().String()+"/job.json", []byte(`{"v":2,"id":"zzzz2345"}`))
	p.check(err)
	w := p.start(other, nil)
	<-w.ended
	if w.status != fault.ExitDrover || w.err == nil {
		t.Errorf("it left with %d, %v", w.status, w.err)
	}
}

func TestASecondAgentForTheSameRankWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up, on := newGate(t), newGate(t)
	j := p.submit(shell(`echo >$GATE0; read x <$GATE1`, up, on), nil)
	first := p.start(j, nil)
	up.wait()
	second := p.start(j, nil)
	p.until("the second agent waits", func() bool {
		return slices.ContainsFunc(p.look(j).Heartbeats, func(b protocol.Heartbeat) bool { return b.Phase == "waiting" })
	})
	on.open()
	first.leave(0)
	second.leave(0)
	if n := len(first.programs()) + len(second.programs()); n != 1 {
		t.Errorf("%d programs ran", n)
	}
	if rep := p.look(j); rep.State != job.Succeeded || rep.Run.Attempt() != 1 {
		t.Errorf("%s after %d attempts", rep.State, rep.Run.Attempt())
	}
	p.nothingLeft()
}

// Rule R4 of docs/protocol.md: one that fails ends all, and all start again.
func TestOfTwoNodesBothStartAgainWhenOneFails(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up, never := newGate(t), newGate(t)
	spec := shell(`echo "$DROVER_RANK of $DROVER_NODES" >$SM_MODEL_DIR/node$DROVER_RANK; echo $DROVER_RANK >$SM_MODEL_DIR/both
[ $DROVER_ATTEMPT = 2 ] && { [ -f beside ] || exit 9; exit 0; }
echo x >beside
[ $DROVER_RANK = 1 ] && { trap 'exit 0' TERM; echo >$GATE0; while :; do sleep 1000 & wait $!; done; }
read x <$GATE0; exit 4`, up, never)
	spec.Nodes, spec.Retries = 2, 1
	j := p.submit(spec, nil)
	a, b := p.start(j, nil), p.start(j, nil)
	a.leave(0)
	b.leave(0)
	rep := p.look(j)
	if rep.State != job.Succeeded || rep.Run.Attempt() != 2 || rep.Run.Attempts[1].Cause != protocol.Failure || rep.Run.Failures() != 1 {
		t.Fatalf("%s, %+v", rep.State, rep.Run.Attempts)
	}
	exits, err := runs.ReadExits(t.Context(), p.World, j.Path(), 2, 1)
	p.check(err)
	if exits[0].Verdict != protocol.Broke || exits[0].Code != 4 || exits[1].Verdict != protocol.Halted || exits[1].Reason != "node 0 ended first" {
		t.Errorf("the first attempt: %+v", exits)
	}
	for rank, e := range rep.Run.Exits {
		if e.Verdict != protocol.Done || e.Agent != rep.Run.Attempts[1].Keep[rank] {
			t.Errorf("node %d in the second attempt: %+v", rank, e)
		}
	}
	if diff := cmp.Diff([]string{"both", "node0", "node1"}, p.archive(j, "model.tar.gz")); diff != "" {
		t.Errorf("model.tar.gz (-want +got):\n%s", diff)
	}
	p.nothingLeft()
}

// stranger is a process on this machine that has ended: ours, but for its age.
func stranger() protocol.Host {
	h := protocol.Host(process.Self())
	h.Start++
	return h
}

func TestWhatADeadAgentLeftIsSweptAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	never := newGate(t)
	const token = "dead-agents-tree"
	left, err := proc.Start(t.Context(), proc.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "read x <" + never.Path}, Token: token})
	p.check(err)
	defer func() { left.Kill(); left.Wait() }()
	leave := func(dir string, m mark) {
		a := newAgent(node.Config{Machine: node.Machine{Self: m.Host}})
		a.Own = filepath.Join(p.work, dir)
		p.check(os.MkdirAll(filepath.Join(a.Own, "opt"), 0o700))
		p.check(a.remains.leaveMark(m.Token))
	}
	leave("dead/1-0-a", mark{Host: stranger(), Token: token})
	leave("dead/1-1-b", mark{Host: stranger()})
	leave("both/1-0-c", mark{Host: stranger()})
	leave("both/1-1-d", mark{Host: protocol.Host(process.Self())})
	leave("elsewhere/1-0-e", mark{Host: protocol.Host{Boot: "another machine", PID: 1, Start: 1}})
	far, err := os.MkdirTemp("", "drover-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(far, "s"), filepath.Join(p.work, "dead/1-0-a/0.sock")); err != nil {
		t.Fatal(err)
	}
	write(t, p.work, map[string]string{"torn/1-0-f/mark.json": "{", "no/mark/here": ""})
	if rep := p.run(p.submit(shell("true"), nil)); rep.State != job.Succeeded {
		t.Errorf("%s", rep.State)
	}
	<-left.Done()
	found, err := filepath.Glob(filepath.Join(p.work, "*", "*"))
	p.check(err)
	for i := range found {
		found[i] = strings.TrimPrefix(found[i], p.work+"/")
	}
	if diff := cmp.Diff([]string{"both/1-1-d", "elsewhere/1-0-e", "no/mark", "torn/1-0-f"}, found); diff != "" {
		t.Errorf("what is there now (-want +got):\n%s", diff)
	}
	for _, gone := range []string{filepath.Join(p.work, "dead"), far} {
		if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s stays: %v", gone, err)
		}
	}
}

// An agent that must go while it prepares takes everything away first.
func TestNoticeWhilePreparing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(shell("true"), map[string]string{"x": "x"})
	var w *worker
	var once sync.Once
	asked, begun := make(chan struct{}), make(chan struct{})
	p.bucket.set(func() {
		p.bucket.before = func(ctx context.Context, key string) error {
			if strings.HasPrefix(key, "blobs/") {
				once.Do(func() {
					close(asked)
					<-ctx.Done()
					<-begun
					select { // an answer that comes late, and is waited for
					case <-w.ended:
						t.Error("it left while it was still fetching")
					case <-time.After(50 * time.Millisecond):
					}
				})
			}
			return nil
		}
	})
	w = p.start(j, nil)
	close(begun)
	<-asked
	w.notice <- node.Notice{Asked: true, Why: "asked to stop"}
	w.leave(0)
	if rep := p.look(j); rep.State != job.Interrupted || len(rep.Run.Joins) != 0 {
		t.Errorf("it is %s, joined by %v", rep.State, rep.Run.Joins)
	}
	p.nothingLeft()
	if rep := p.run(j); rep.State != job.Succeeded || rep.Run.Attempt() != 1 {
		t.Errorf("the next agent: %s, %d attempts", rep.State, rep.Run.Attempt())
	}
}

var errFull = fault.New(fault.Full, "Free some space.", "write blob: no space left on device")

// fill lets no blob be written any more.
func (p *place) fill(on bool) {
	p.bucket.set(func() {
		p.bucket.refuse = func(key string) error {
			if on && strings.HasPrefix(key, "blobs/") {
				return errFull
			}
			return nil
		}
	})
}

func TestResultsThatFindNoRoomFailTheJobNotTheProgram(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up, on := newGate(t), newGate(t)
	j := p.submit(shell(`echo x >$SM_MODEL_DIR/m; echo >$GATE0; read x <$GATE1`, up, on), nil)
	w := p.start(j, func(c *node.Config) { c.Machine.Patience = time.Nanosecond })
	up.wait()
	p.fill(true)
	on.open()
	w.leave(0)
	rep := p.look(j)
	if e := rep.Run.Exits[0]; e.Verdict != protocol.Setup || e.Code != fault.ExitDrover || !strings.Contains(e.Reason, "no space left") || e.Hint != "Free some space." {
		t.Errorf("exit %+v", e)
	}
	if rep.State != job.Failed {
		t.Errorf("it is %s", rep.State)
	}
	// The only copy of the model stays, where the exit says.
	_, root, _ := strings.Cut(strings.Join(rep.Run.Exits[0].Notes, ""), "kept in ")
	if b, err := os.ReadFile(filepath.Join(root, "opt/ml/model/m")); string(b) != "x\n" {
		t.Errorf("the model is not kept: %q, %v", b, err)
	}
}

func TestResultsWaitForRoom(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up, on := newGate(t), newGate(t)
	j := p.submit(shell(`echo x >$SM_MODEL_DIR/m; echo >$GATE0; read x <$GATE1`, up, on), nil)
	w := p.start(j, nil)
	up.wait()
	p.fill(true)
	on.open()
	p.until("it waits for room", func() bool {
		return slices.ContainsFunc(p.look(j).Heartbeats, func(b protocol.Heartbeat) bool { return strings.HasPrefix(b.Note, "waiting for room: ") })
	})
	p.fill(false)
	w.leave(0)
	rep := p.look(j)
	if diff := cmp.Diff(map[string]string{"m": "x\n"}, p.output(rep.Run.Exits[0], "model")); diff != "" || rep.State != job.Succeeded {
		t.Errorf("%s, its model (-want +got):\n%s", rep.State, diff)
	}
}

// Rules R3 and R5 of docs/protocol.md: an interruption is not a failure, also while a store is full.
func TestNoticeWhileResultsWaitForRoomIsAnInterruption(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up, on := newGate(t), newGate(t)
	j := p.submit(shell(`echo x >$SM_MODEL_DIR/m; echo >$GATE0; read x <$GATE1`, up, on), nil)
	w := p.start(j, nil)
	up.wait()
	p.fill(true)
	on.open()
	p.until("it waits for room", func() bool {
		return slices.ContainsFunc(p.look(j).Heartbeats, func(b protocol.Heartbeat) bool { return b.Note != "" })
	})
	w.notice <- node.Notice{Why: "the machine goes"}
	w.leave(fault.ExitLater)
	rep := p.look(j)
	if e := rep.Run.Exits[0]; rep.State != job.Interrupted || e.Verdict != protocol.Interrupted {
		t.Errorf("it is %s, exit %+v", rep.State, e)
	}
	p.keptFor(j)
}

// A machine that goes sooner than the program's grace is over kills the agent, too: the agent ends
// the program before that, and says so.
func TestAProgramThatIgnoresSIGTERMEndsBeforeItsAgent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up, never := newGate(t), newGate(t)
	spec := shell(`trap '' TERM; echo >$GATE0; read x <$GATE1`, up, never)
	spec.Grace = job.Duration(time.Hour)
	j := p.submit(spec, nil)
	w := p.start(j, nil)
	up.wait()
	w.notice <- node.Notice{Why: "the machine goes", Left: 200 * time.Millisecond}
	w.leave(fault.ExitLater)
	if rep := p.look(j); rep.State != job.Interrupted || rep.Run.Exits[0].Verdict != protocol.Interrupted || rep.Run.Exits[0].Signal != "SIGKILL" {
		t.Errorf("it is %s, exit %+v", rep.State, rep.Run.Exits[0])
	}
	p.nothingLeft()
}

// keptFor says that one folder of the job is kept for its next agent.
func (p *place) keptFor(j job.Job) {
	p.t.Helper()
	all := LeftFolders(p.work, func(protocol.Host) (gone, known bool) { return true, true })
	if len(all) != 1 || all[0].Job != j.Path() {
		p.t.Errorf("kept are %+v", all)
	}
}

func TestNoticeInAFullStoreIsAnInterruption(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up, never := newGate(t), newGate(t)
	j := p.submit(shell(saving, up, never), nil)
	w := p.start(j, func(c *node.Config) { c.Machine.Patience, c.Machine.Self = time.Nanosecond, stranger() })
	up.wait()
	p.fill(true)
	w.notice <- node.Notice{Why: "the machine goes"}
	w.leave(fault.ExitLater)
	rep := p.look(j)
	if e := rep.Run.Exits[0]; rep.State != job.Interrupted || e.Verdict != protocol.Interrupted || len(e.Notes) == 0 {
		t.Errorf("it is %s, exit %+v", rep.State, e)
	}
	// What there was no room for is there for the next attempt.
	p.fill(false)
	p.run(j)
	if out := p.said(j, record.Stdout); out != "from 7 state kept\n" {
		t.Errorf("the second attempt printed %q", out)
	}
	p.nothingLeft()
}

func TestAStoreThatIsLostTakesTheProgramWithIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up, never := newGate(t), newGate(t)
	j := p.submit(shell(`echo >$GATE0; read x <$GATE1`, up, never), nil)
	w := p.start(j, nil)
	up.wait()
	denied := fault.New(fault.Denied, "", "read job: not allowed any more")
	p.bucket.set(func() {
		p.bucket.before = func(_ context.Context, key string) error {
			if strings.HasSuffix(key, "/job.json") {
				return denied
			}
			return nil
		}
	})
	<-w.ended
	if w.status != fault.ExitDrover || !errors.Is(w.err, denied) {
		t.Errorf("it left with %d, %v", w.status, w.err)
	}
	for _, started := range w.programs() {
		select {
		case <-started.Done():
		default:
			t.Error("its program runs on")
		}
	}
	p.keptFor(j) // its files are nowhere else
}
