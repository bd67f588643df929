package drover

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

var done = ledger.Exit{Verdict: ledger.Done}

func (d *desk) get(j *Job, dir string) Got {
	d.t.Helper()
	got, err := j.Get(d.t.Context(), dir)
	d.check(err)
	return got
}

func TestGetMergesWhatTheNodesMade(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit("demo", "digits", 2)
	d.end(j, done,
		outputs{"model": {"w": "0", "same": "=", "x": "a file", "only0": "0", "empty/": ""}, "output": {"a/b": "1"}},
		outputs{"model": {"w": "1", "same": "=", "x/y": "below a file", "only1": "1", "empty/in": "!"}, "files": {"note": "n"}})
	dir := filepath.Join(t.TempDir(), "a", "out")
	got := d.get(j, dir)
	want := tree{"model/w": "0", "model/same": "=", "model/x": "a file", "model/only0": "0", "model/only1": "1", "model/empty/in": "!",
		"output/a/b": "1", "files/note": "n", "logs/logs0": "", "logs/logs1": ""}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
	wantGot := Got{Dir: dir, Notes: []string{"node 0 and node 1 both wrote model/w: node 0's is here", "node 0 and node 1 both wrote model/x/y: node 0's is here"},
		Parts: []Part{{"model", dir + "/model", 6, 11}, {"output", dir + "/output", 1, 1}, {"files", dir + "/files", 1, 1}, {"logs", dir + "/logs", 2, 0}}}
	if diff := cmp.Diff(wantGot, got); diff != "" {
		t.Errorf("it says (-want +got):\n%s", diff)
	}
}

// What an earlier Get brought goes when it is not among the outputs any more;
// what it did not bring stays, whatever it is called.
func TestGetTakesAwayWhatAnEarlierOneBroughtAndNothingElse(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	dir := t.TempDir()
	first := d.submit("demo", "digits", 2)
	d.end(first, done, outputs{"model": {"old": "1", "deep/er/old": "1", "kept": "1", "to-folder": "1", "to-file/x": "1", "mine-too/old": "1"}, "files": {"gone": "1"}}, outputs{})
	d.get(first, dir)
	write(t, dir, tree{"mine": "m", "model/mine": "m", "model/mine-too/mine": "m", "files/mine": "m", "logs/logs7": "m"})

	second := d.submit("demo", "digits", 1)
	d.end(second, done, outputs{"model": {"kept": "2", "to-folder/x": "2", "to-file": "2", "new": "2"}})
	d.get(second, dir)
	want := tree{"mine": "m", "model/mine": "m", "model/mine-too/mine": "m", "files/mine": "m", "logs/logs7": "m",
		"model/kept": "2", "model/to-folder/x": "2", "model/to-file": "2", "model/new": "2", "output/": "", "logs/logs0": ""}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
	d.get(second, dir)
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("the same again (-want +got):\n%s", diff)
	}
}

func TestAReceiptCannotNameWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit("demo", "digits", 1)
	d.end(j, done, outputs{"model": {"w": "1"}})
	for name, receipt := range map[string]string{
		"above":   `{"files":["../outside","model/../../outside","model/w"]}`,
		"at root": `{"files":["` + "ROOT" + `/outside"]}`,
		"a link":  `{"files":["link/outside"]}`,
		"itself":  `{"files":[".","","/","model/.."]}`,
		"damaged": `{"files":`,
	} {
		root := t.TempDir()
		dir := filepath.Join(root, "out")
		write(t, root, tree{"outside": "stays", "out/" + receiptName: strings.ReplaceAll(receipt, "ROOT", root)})
		d.check(os.Symlink(root, filepath.Join(dir, "link")))
		d.get(j, dir)
		if got, err := os.ReadFile(filepath.Join(root, "outside")); err != nil || string(got) != "stays" {
			t.Errorf("%s: it took away a file outside (%v)", name, err)
		}
	}
}

func TestHostileNamesStayInTheFolder(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	strange := tree{"-rf": "1", "a b\n$(c)": "2", "ä/\xff": "3", "...": "4", "*": "5", `c:\x`: "6"}
	j := d.submit("demo", "strange", 1)
	d.end(j, done, outputs{"model": strange})
	dir := t.TempDir()
	d.get(j, dir)
	want := tree{"output/": "", "logs/logs0": ""}
	for name, text := range strange {
		want["model/"+name] = text
	}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
	for i, name := range []string{"../up", "a/../../up", "/abs", "a//b", "./a"} {
		j := d.submit("demo", "hostile-"+string(rune('a'+i)), 1)
		d.end(j, done, outputs{"model": {name: "x"}})
		root := t.TempDir()
		if _, err := j.Get(t.Context(), filepath.Join(root, "out")); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", name, err)
		}
		if diff := cmp.Diff(tree{"out/": ""}, read(t, root)); diff != "" {
			t.Errorf("%q left (-want +got):\n%s", name, diff)
		}
	}
}

func TestGetOfAJobThatRunsBringsWhatThereIs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit("demo", "digits", 2)
	dir := t.TempDir()
	empty := tree{"model/": "", "output/": "", "logs/logs0": "", "logs/logs1": ""}
	d.get(j, dir)
	if diff := cmp.Diff(empty, read(t, dir)); diff != "" {
		t.Errorf("before it began (-want +got):\n%s", diff)
	}
	agents := d.members(j)
	e := done
	e.Outputs = map[string]store.Digest{"model": d.put(tree{"w": "1"})}
	d.check(agents[1].Ended(t.Context(), e))
	d.get(j, dir)
	if diff := cmp.Diff(tree{"model/w": "1", "output/": "", "logs/logs0": "", "logs/logs1": ""}, read(t, dir)); diff != "" {
		t.Errorf("when one of two had ended (-want +got):\n%s", diff)
	}
}

func TestGetSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit("demo", "digits", 1)
	d.end(j, done, outputs{})
	root := t.TempDir()
	write(t, root, tree{"file": ""})
	if _, err := j.Get(t.Context(), filepath.Join(root, "file")); fault.KindOf(err) != fault.Denied || fault.Hint(err) == "" {
		t.Errorf("into a file: %v", err)
	}
	gone := d.job(job.Path{Project: "demo", Task: "digits", Job: "zzzz"})
	if _, err := gone.Get(t.Context(), root); fault.KindOf(err) != fault.Missing || fault.Hint(err) == "" {
		t.Errorf("of no job: %v", err)
	}
	if _, err := gone.Status(t.Context()); fault.KindOf(err) != fault.Missing {
		t.Errorf("the status of no job: %v", err)
	}
}

// Of the parts only those that were asked for are brought; what an earlier Get has
// brought of the others stays.
func TestGetBringsThePartsThatAreWanted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	dir := t.TempDir()
	first := d.submit("demo", "digits", 1)
	d.end(first, done, outputs{"model": {"old": "1", "kept": "1"}, "output": {"o": "1"}, "files": {"f": "1"}})
	got, err := first.Get(t.Context(), dir, "logs", "model")
	d.check(err)
	want := tree{"model/old": "1", "model/kept": "1", "logs/logs0": ""}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" || len(got.Parts) != 2 {
		t.Errorf("%d parts, the folder (-want +got):\n%s", len(got.Parts), diff)
	}
	second := d.submit("demo", "digits", 1)
	d.end(second, done, outputs{"model": {"kept": "2"}, "output": {"o": "2"}})
	_, err = second.Get(t.Context(), dir, "output")
	d.check(err)
	want["output/o"] = "2"
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("after another part (-want +got):\n%s", diff)
	}
	// Whose the model's files are is not forgotten by that.
	_, err = second.Get(t.Context(), dir, "model")
	d.check(err)
	delete(want, "model/old")
	want["model/kept"] = "2"
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("after the model again (-want +got):\n%s", diff)
	}
}

func TestAReceiptOfVeryManyFilesIsCompared(t *testing.T) {
	t.Parallel()
	const n = 200_000 // each with each would take minutes
	var was, now receipt
	for i := range n {
		was.Files = append(was.Files, fmt.Sprintf("model/%07d", i))
		now.Files = append(now.Files, fmt.Sprintf("model/%07d", n-i))
	}
	if diff := cmp.Diff([]string{"model/0000000"}, was.without(now)); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
}
