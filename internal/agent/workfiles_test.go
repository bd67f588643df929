package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/agent/workspace"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// counting is a program that knows nothing of checkpoints and writes beside itself.
const counting = `if [ -f ckpt/epoch ]; then find . -mindepth 1 | LC_ALL=C sort; cat ckpt/epoch data.txt; exit 0; fi
mkdir -p ckpt __pycache__ made; echo 7 >ckpt/epoch; echo more >>data.txt; echo x >__pycache__/y; rm -rf gone.txt lib; echo now a file >lib
rm -r link; mkdir link; echo in >link/in; ln -s ckpt/epoch new; ln -s /etc/passwd out; rm kept/x; printf 'n' >"$(printf 'a b\n$(c)')"
trap 'exit 5' TERM; echo >$GATE0; while :; do sleep 1000 & wait $!; done`

var counted = map[string]string{"data.txt": "one\n", "same.txt": "same\n", "gone.txt": "gone\n", "lib/a": "a", "kept/x": "x", "kept/y": "y", "link/shipped": "s"}

// What a program makes or changes in its working folder is there for the next
// attempt, also where it has made a file of a folder that was shipped; what it has
// deleted of the code is there again.
func TestFilesOfTheWorkingFolderAreThereForTheNextAttempt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up := newGate(t)
	j := p.submit(shell(counting, up), counted)
	w := p.start(j, nil)
	up.wait()
	w.notice <- node.Notice{Asked: true, Why: "asked to stop"}
	w.leave(0)
	rep := p.run(j)
	if rep.State != job.Succeeded || rep.Run.Attempt() != 2 {
		t.Fatalf("it is %s, attempts %+v", rep.State, rep.Run.Attempts)
	}
	want := "$(c)\n./a b\n./ckpt\n./ckpt/epoch\n./data.txt\n./gone.txt\n./kept\n./kept/x\n./kept/y\n./lib\n./link\n./link/in\n./link/shipped\n./new\n./same.txt\n7\none\nmore\n"
	if diff := cmp.Diff(want, p.said(j, record.Stdout)); diff != "" {
		t.Errorf("the second attempt found (-want +got):\n%s", diff)
	}
	if notes := p.said(j, record.Agent); !strings.Contains(notes, "restored files of the working folder: 5 files") {
		t.Errorf("notes:\n%s", notes)
	}
	// What the second attempt had from the first comes home with what it made itself.
	got := p.output(rep.Run.Exits[0], "files")
	if got["ckpt/epoch"] != "7\n" || got["lib"] != "now a file\n" || got["same.txt"] != "" || got["gone.txt"] != "" {
		t.Errorf("files %v", got)
	}
	p.nothingLeft()
}

// They are saved while the program runs, and one that is open all the time, such as a
// log, holds up no other.
func TestFilesOfTheWorkingFolderAreSavedWhileTheProgramRuns(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up, done := newGate(t), newGate(t)
	j := p.submit(shell(`exec 3>>train.log; echo began >&3; echo 1 >epoch; echo >$GATE0; read x <$GATE1`, up, done), nil)
	w := p.start(j, nil)
	up.wait()
	var saved *protocol.Saved
	p.until("a generation", func() (ok bool) {
		var err error
		saved, err = states.ReadState(t.Context(), p.World, j.Path(), 0, func(protocol.Saved) (bool, error) { return true, nil })
		p.check(err)
		return saved != nil
	})
	got := p.output(protocol.Exit{Outputs: map[string]store.Digest{"files": saved.Files}}, "files")
	if diff := cmp.Diff(map[string]string{"epoch": "1\n"}, got); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	done.open()
	w.leave(0)
	if diff := cmp.Diff(map[string]string{"epoch": "1\n", "train.log": "began\n"}, p.output(p.look(j).Run.Exits[0], "files")); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// A new job takes over what the program of one that failed has made beside itself, but
// for a file of the code that the user has changed since; after a success it begins
// with the code alone.
func TestANewJobTakesFilesOverAndNewCodeWins(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	line := `cat step conf mine added 2>/dev/null; echo 3 >step; echo program >conf; echo program >mine; echo program >added; [ -f good ]`
	old := map[string]string{"conf": "shipped\n", "mine": "shipped\n"}
	if rep := p.run(p.submit(shell(line), old)); rep.State != job.Failed {
		t.Fatalf("it is %s", rep.State)
	}
	j := p.submit(shell(line), map[string]string{"conf": "edited\n", "mine": "shipped\n", "added": "new\n", "good": ""})
	if rep := p.run(j); rep.State != job.Succeeded {
		t.Fatalf("it is %s: %+v", rep.State, rep.Run.Exits[0])
	}
	if out := p.said(j, record.Stdout); out != "3\nedited\nprogram\nnew\n" {
		t.Errorf("with new code it found %q", out)
	}
	if notes := p.said(j, record.Agent); !strings.Contains(notes, `2 files of the new code stay as shipped, and what the program had made of them is not restored: "added", "conf"`) {
		t.Errorf("notes:\n%s", notes)
	}
	next := p.submitSince(shell(line), map[string]string{"conf": "edited\n", "good": ""}, 3)
	if rep := p.run(next); rep.State != job.Succeeded {
		t.Fatalf("it is %s", rep.State)
	}
	if out := p.said(next, record.Stdout); out != "edited\n" {
		t.Errorf("after a success it found %q", out)
	}
}

// Each node has its own, and what a node has made is its own again after another was
// lost.
func TestEachNodeFindsItsOwnFilesAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	up := newGate(t)
	spec := shell(`if [ -f mine ]; then cat mine; exit 0; fi; echo of $DROVER_RANK >mine; trap 'exit 5' TERM; echo >$GATE0; while :; do sleep 1000 & wait $!; done`, up)
	spec.Nodes = 2
	j := p.submit(spec, nil)
	one, two := p.start(j, nil), p.start(j, nil)
	up.wait()
	up.wait()
	one.notice <- node.Notice{Asked: true, Why: "asked to stop"}
	two.notice <- node.Notice{Asked: true, Why: "asked to stop"}
	one.leave(0)
	two.leave(0)
	one, two = p.start(j, nil), p.start(j, nil)
	one.leave(0)
	two.leave(0)
	rep := p.look(j)
	if rep.State != job.Succeeded {
		t.Fatalf("it is %s", rep.State)
	}
	for rank, want := range []string{"of 0\n", "of 1\n"} {
		if got := p.output(rep.Run.Exits[rank], "files")["mine"]; got != want {
			t.Errorf("node %d found %q", rank, got)
		}
	}
}

// BenchmarkALookAtManyFiles is what the saver costs where nothing has changed: a code
// folder of as many files as may be shipped.
func BenchmarkALookAtManyFiles(b *testing.B) {
	dir := b.TempDir()
	for i := range 10_000 {
		name := filepath.Join(dir, "package", string(rune('a'+i%20)), "m"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+strconv.Itoa(i)+".py")
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	s, err := workspace.TakeSnapshot(dir)
	if err != nil {
		b.Fatal(err)
	}
	w := workspace.WorkFiles{Dir: dir, As: dir, Code: dir, Shipped: s.HoldsUnchanged}
	f := savedFolder(w)
	f.left = func(dir string) (string, string) { return dir, "" }
	b.ResetTimer()
	for b.Loop() {
		if got, err := f.saveFiles(b.Context(), nil, false); err != nil || got.changed {
			b.Fatal(got, err)
		}
	}
}
