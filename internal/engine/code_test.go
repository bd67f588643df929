package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/engine/code"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/proc/written"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

func (d *desk) plain(name, text string) {
	d.t.Helper()
	full := filepath.Join(d.dir, name)
	d.check(os.MkdirAll(filepath.Dir(full), 0o755))
	d.check(os.WriteFile(full, []byte(text), 0o644))
}

// leftOf plans a command, and gives what it leaves out, and why.
func (d *desk) leftOf(s job.Spec) map[string]string {
	d.t.Helper()
	p, err := d.Plan(d.t.Context(), s, false)
	d.check(err)
	left := map[string]string{}
	for _, l := range p.Code.Left {
		left[l.Name] = l.Why
	}
	return left
}

func TestALogIsNoCodeUnlessTheCommandMayNeedIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.Caller.State = t.TempDir()
	d.plain("nohup.out", "#!/bin/sh\n") // as the program it says what runs it
	d.plain("deep/job.out", "x")
	d.plain("former.csv", "x")
	d.plain("results/a.bin", "x")
	d.plain("results/run.py", "x")
	d.plain("results.txt", "code: it is not in the folder results")
	d.plain(".drover.json", string(bundle.ReceiptHead("p/t/j"))+string(bundle.Brought{Path: "model/m.bin", SHA256: "x"}.Line()))
	d.plain("model/m.bin", "x")
	d.plain("model/mine.bin", "x")
	d.plain(".drover-part/3", "x")
	d.write(map[string]string{"a.out": "#!/bin/sh\n"}) // may be executed
	former, _ := written.FileAt(filepath.Join(d.dir, "former.csv"))
	d.check(written.Memory{Path: filepath.Join(d.Caller.State, written.MemoryName)}.Add(former))
	out := func(s *job.Spec) { s.Output = "results" }

	every := map[string]string{"nohup.out": code.LogByName, "deep/job.out": code.LogByName, "former.csv": code.FormerOutput, "results/": code.InOutput,
		".drover.json": code.BroughtHome, "model/m.bin": code.BroughtHome}
	if diff := cmp.Diff(every, d.leftOf(spec(out))); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	for _, row := range []struct {
		name   string
		change func(*job.Spec)
		kept   string
	}{
		{"an argument", func(s *job.Spec) { s.Args = []string{"nohup.out"} }, "nohup.out"},
		{"a flag's value", func(s *job.Spec) { s.Args = []string{"--table=former.csv"} }, "former.csv"},
		{"a word of a line", func(s *job.Spec) { s.Args = []string{"-c", "sort <deep/job.out|head"} }, "deep/job.out"},
		{"a dependency", func(s *job.Spec) { s.Deps = []string{"former.csv"} }, "former.csv"},
		{"an output that is not a folder in it", func(s *job.Spec) { s.Output = "." }, "results/"},
		{"the program", func(s *job.Spec) { s.Program = "./nohup.out" }, "nohup.out"},
	} {
		left := d.leftOf(spec(out, row.change))
		if left[row.kept] != "" || len(left) != len(every)-1 {
			t.Errorf("%s: %v", row.name, left)
		}
	}
	d.plain(".droverignore", "!deep/\n!former.csv\n")
	if left := d.leftOf(spec(out)); left["deep/job.out"]+left["former.csv"] != "" || left["nohup.out"] == "" {
		t.Errorf("brought back, and yet: %v", left)
	}
}

func TestAFileThatChangesWhileItIsReadIsLeftOutUnlessItIsCode(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.plain("grows.txt", "x")
	d.plain("other.txt", "x")
	p, err := d.Plan(t.Context(), spec(), false)
	d.check(err)
	d.check(os.Remove(filepath.Join(d.dir, "grows.txt"))) // as a file does that cannot be read to its end
	path, err := d.Submit(t.Context(), &p)
	d.check(err)
	j := d.look(path).Job
	if want := (job.Code{Blob: j.Code.Blob, Digest: j.Code.Digest, Script: "train.sh", LeftOut: []string{"grows.txt"}, Files: 2, Bytes: j.Code.Bytes, Root: j.Code.Root}); d.dir != j.Code.Root || !cmp.Equal(want, j.Code) {
		t.Errorf("the code is %+v", j.Code)
	}
	if !strings.Contains(p.Note, "left out: grows.txt (being written)") {
		t.Errorf("the note is %q", p.Note)
	}
	d.plain("helper.py", "x")
	p, err = d.Plan(t.Context(), spec(named), false)
	d.check(err)
	d.check(os.Remove(filepath.Join(d.dir, "helper.py")))
	if _, err := d.Submit(t.Context(), &p); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), `pack code: "helper.py": being written`) {
		t.Errorf("a script that is being written: %v", err)
	}
}

func TestWhatIsLeftOutMakesNoOtherCode(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.plain("run.out", "x")
	d.plain("data.txt", "x")
	first := d.submit(spec(named))
	succeeded(d, first)
	d.check(os.Rename(filepath.Join(d.dir, "run.out"), filepath.Join(d.dir, "was.out")))
	p, err := d.Plan(t.Context(), spec(named), false)
	if d.check(err); p.Action != report.ActionSkip {
		t.Errorf("another log's name: it would %s (%s)", p.Action, p.Note)
	}
	d.check(os.Rename(filepath.Join(d.dir, "data.txt"), filepath.Join(d.dir, "data.out"))) // code then, a log by its name now
	p, err = d.Plan(t.Context(), spec(named), false)
	if d.check(err); p.Action != report.ActionStart || !strings.HasSuffix(p.Note, " (data.txt)") {
		t.Errorf("it would %s (%s)", p.Action, p.Note)
	}
	d.plain("data.txt", "x")
	d.plain(".droverignore", "!was.out\n") // a log then, code now
	p, err = d.Plan(t.Context(), spec(named), false)
	if d.check(err); p.Action != report.ActionStart || !strings.HasSuffix(p.Note, " (.droverignore, was.out)") {
		t.Errorf("it would %s (%s)", p.Action, p.Note)
	}
}

func TestARunThatIsAskedToTakeNewCodeDoesNotAttachToTheOld(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first := d.submit(spec(named))
	running(d, first)
	newCode := func(s *job.Spec) { s.NewCode = true }
	p, err := d.Plan(t.Context(), spec(named, newCode), false)
	if d.check(err); p.Action != report.ActionAttach {
		t.Errorf("with the same code it would %s", p.Action)
	}
	d.write(map[string]string{"train.sh": "#!/bin/sh\necho better\n"})
	if _, err = d.Plan(t.Context(), spec(named, newCode), false); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "it is live, and runs the code as it was") {
		t.Errorf("%v", err)
	}
}

// A command that comes while its map is being stopped, with no agent there, does what
// one does that comes when it has ended.
func TestAMapThatIsBeingStoppedGoesOnOnceItHasEnded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.plain("items.txt", "1\n2\n")
	first := d.submit(mapping())
	_, err := control.CancelJob(t.Context(), d.World, first, "cli-9", "enough")
	d.check(err)
	p, err := d.Plan(t.Context(), mapping(), false)
	d.check(err)
	defer p.Close()
	if p.Action != report.ActionReopen || p.Items.Again != 2 || !strings.Contains(p.Note, "is stopping (enough); what had no success runs again once it has ended") {
		t.Errorf("it would %s %d items (%s)", p.Action, p.Items.Again, p.Note)
	}
	second, err := d.Submit(t.Context(), &p)
	if d.check(err); second != first {
		t.Errorf("it is job %s after %s", second, first)
	}
	if rep := d.look(first); rep.Run.Settled != nil || rep.Run.Stop != nil {
		t.Errorf("it has not begun anew: %+v", rep.Run)
	}
}
