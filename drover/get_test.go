package drover

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

var done = protocol.Exit{Verdict: protocol.Done}

func (d *desk) get(j *Job, dir string) Got {
	d.t.Helper()
	got, err := j.Get(d.t.Context(), dir, GetOptions{})
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
	want := fileTree{"model/w": "0", "model/same": "=", "model/x": "a file", "model/only0": "0", "model/only1": "1", "model/empty/in": "!",
		"output/a/b": "1", "files/note": "n", "logs/logs0": "", "logs/logs1": ""}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
	wantGot := Got{Dir: dir, Notes: []string{"node 0 and node 1 both wrote model/w: node 0's is here", "node 0 and node 1 both wrote model/x/y: node 0's is here"},
		Parts: []Part{{Name: "model", Path: dir + "/model", Files: 6, Bytes: 11}, {Name: "output", Path: dir + "/output", Files: 1, Bytes: 1}, {Name: "files", Path: dir + "/files", Files: 1, Bytes: 1}, {Name: "logs", Path: dir + "/logs", Files: 2, Bytes: 0}}}
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
	write(t, dir, fileTree{"mine": "m", "model/mine": "m", "model/mine-too/mine": "m", "files/mine": "m", "logs/logs7": "m"})

	second := d.submit("demo", "digits", 1)
	d.end(second, done, outputs{"model": {"kept": "2", "to-folder/x": "2", "to-file": "2", "new": "2"}})
	d.get(second, dir)
	want := fileTree{"mine": "m", "model/mine": "m", "model/mine-too/mine": "m", "files/mine": "m", "logs/logs7": "m",
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
	line := func(names ...string) (text string) {
		for _, name := range names {
			text += string(bundle.Brought{Path: name, Size: 5, SHA256: digestOf("stays")}.Line())
			text += string(bundle.Brought{Path: name, For: "model/x", Size: 5, SHA256: digestOf("stays")}.Line())
		}
		return text
	}
	for name, receipt := range map[string]string{
		"above":         line("../outside", "model/../../outside", "model/w"),
		"at root":       line("ROOT/outside"),
		"a link":        line("model/link/outside", "link/outside"),
		"itself":        line(".", "", "/", "model/.."),
		"damaged":       `{"files":`,
		"without a sum": `{"path":"mine"}` + "\n" + `{"path":"model/mine","size":5}` + "\n",
		"an older one":  `{"job":"a/b/c","files":["mine","model/mine"]}`,
	} {
		root := t.TempDir()
		dir := filepath.Join(root, "out")
		write(t, root, fileTree{"outside": "stays", "out/mine": "stays", "out/model/mine": "stays", "out/" + bundle.Receipt: strings.ReplaceAll(receipt, "ROOT", root)})
		d.check(os.Symlink(root, filepath.Join(dir, "link")))
		d.check(os.Symlink(root, filepath.Join(dir, "model", "link")))
		d.get(j, dir)
		for _, file := range []string{"outside", "out/mine", "out/model/mine", "out/link", "out/model/link"} {
			if _, err := os.Lstat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: it took %s away", name, file)
			}
		}
	}
}

func digestOf(text string) store.Digest {
	sum := sha256.Sum256([]byte(text))
	return store.Digest(hex.EncodeToString(sum[:]))
}

func TestHostileNamesStayInTheFolder(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	strange := fileTree{"-rf": "1", "a b\n$(c)": "2", "ä/\xff": "3", "...": "4", "*": "5", `c:\x`: "6"}
	j := d.submit("demo", "strange", 1)
	d.end(j, done, outputs{"model": strange})
	dir := t.TempDir()
	d.get(j, dir)
	want := fileTree{"output/": "", "logs/logs0": ""}
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
		if _, err := j.Get(t.Context(), filepath.Join(root, "out"), GetOptions{}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", name, err)
		}
		if diff := cmp.Diff(fileTree{}, read(t, root)); diff != "" {
			t.Errorf("%q left (-want +got):\n%s", name, diff)
		}
	}
}

func TestGetOfAJobThatRunsBringsWhatThereIs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit("demo", "digits", 2)
	dir := t.TempDir()
	empty := fileTree{"model/": "", "output/": "", "logs/logs0": "", "logs/logs1": ""}
	d.get(j, dir)
	if diff := cmp.Diff(empty, read(t, dir)); diff != "" {
		t.Errorf("before it began (-want +got):\n%s", diff)
	}
	agents := d.members(j)
	e := done
	e.Outputs = map[string]store.Digest{"model": d.put(fileTree{"w": "1"})}
	d.check(agents[1].Ended(t.Context(), e))
	d.get(j, dir)
	if diff := cmp.Diff(fileTree{"model/w": "1", "output/": "", "logs/logs0": "", "logs/logs1": ""}, read(t, dir)); diff != "" {
		t.Errorf("when one of two had ended (-want +got):\n%s", diff)
	}
}

func TestGetSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit("demo", "digits", 1)
	d.end(j, done, outputs{})
	root := t.TempDir()
	write(t, root, fileTree{"file": ""})
	if _, err := j.Get(t.Context(), filepath.Join(root, "file"), GetOptions{}); fault.KindOf(err) != fault.Denied || fault.Hint(err) == "" {
		t.Errorf("into a file: %v", err)
	}
	gone := d.newJob(job.Path{Project: "demo", Task: "digits", Job: "zzzz"})
	if _, err := gone.Get(t.Context(), root, GetOptions{}); fault.KindOf(err) != fault.Missing || fault.Hint(err) == "" {
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
	got, err := first.Get(t.Context(), dir, GetOptions{Parts: []string{"logs", "model"}})
	d.check(err)
	want := fileTree{"model/old": "1", "model/kept": "1", "logs/logs0": ""}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" || len(got.Parts) != 2 {
		t.Errorf("%d parts, the folder (-want +got):\n%s", len(got.Parts), diff)
	}
	second := d.submit("demo", "digits", 1)
	d.end(second, done, outputs{"model": {"kept": "2"}, "output": {"o": "2"}})
	_, err = second.Get(t.Context(), dir, GetOptions{Parts: []string{"output"}})
	d.check(err)
	want["output/o"] = "2"
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("after another part (-want +got):\n%s", diff)
	}
	// The job that the model's files came from is not forgotten by that.
	_, err = second.Get(t.Context(), dir, GetOptions{Parts: []string{"model"}})
	d.check(err)
	delete(want, "model/old")
	want["model/kept"] = "2"
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("after the model again (-want +got):\n%s", diff)
	}
}

// What an earlier Get did not bring, or what has changed since, stays; the new file is
// beside it. The same again makes no second copy.
func TestGetReplacesAndRemovesNothingOfTheUsers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	dir := t.TempDir()
	write(t, dir, fileTree{"model/m.bin": "mine", "model/.rc": "mine", "model/dir": "mine", "model/a": "mine", "output": "mine", "logs/logs0": "mine", "model/tofile/mine": "m"})
	d.check(os.Symlink("a", filepath.Join(dir, "model", "link")))
	first := d.submit("demo", "digits", 1)
	d.end(first, done, outputs{"model": {"m.bin": "1", ".rc": "1", "dir/f": "1", "a": "mine", "link": "1", "tofile": "1", "new": "1"}, "output": {"o": "1"}})
	id := d.short(first)
	got := d.get(first, dir)
	mine := fileTree{"model/m.bin": "mine", "model/.rc": "mine", "model/dir": "mine", "model/a": "mine", "output": "mine", "logs/logs0": "mine", "model/tofile/mine": "m", "model/link": "mine"}
	want := maps.Clone(mine)
	maps.Copy(want, fileTree{"model/m." + id + ".bin": "1", "model/.rc." + id: "1", "model/dir." + id + "/f": "1", "model/link." + id: "1", "model/tofile." + id: "1",
		"model/new": "1", "output." + id + "/o": "1", "logs/logs0." + id: ""})
	check := func(what string) {
		t.Helper()
		if diff := cmp.Diff(want, read(t, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if to, err := os.Readlink(filepath.Join(dir, "model", "link")); to != "a" {
			t.Errorf("%s: the link leads to %q, %v", what, to, err)
		}
	}
	check("the folder")
	if got.Kept != 7 || len(got.Beside) != 7 || got.Beside[0].Name != "model/.rc" || got.Removed != 0 {
		t.Errorf("it says %+v", got.Changes)
	}
	d.get(first, dir)
	check("the same again")

	// The copy beside it is edited too: that is the user's now.
	write(t, dir, fileTree{"model/m." + id + ".bin": "edited", "model/new": "2"})
	want["model/m."+id+".bin"], want["model/m."+id+"-2.bin"] = "edited", "1"
	want["model/new"], want["model/new."+id] = "2", "1"
	d.get(first, dir)
	check("after an edit")

	second := d.submit("demo", "digits", 1)
	d.end(second, done, outputs{"model": {"m.bin": "2"}})
	got = d.get(second, dir)
	other := d.short(second)
	want = maps.Clone(mine)
	maps.Copy(want, fileTree{"model/m." + id + ".bin": "edited", "model/new": "2", "model/m." + other + ".bin": "2", "output." + other + "/": "", "logs/logs0." + other: ""})
	delete(want, "output."+other+"/") // what an earlier one left of it is no folder of ours to remove
	found := read(t, dir)
	for name := range found {
		if strings.HasSuffix(name, "/") {
			delete(found, name)
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("another job (-want +got):\n%s", diff)
	}
	if got.Removed != 8 || len(got.Gone) != 8 {
		t.Errorf("it says %+v", got.Changes)
	}

	// The user's file is moved away: the name is free.
	d.check(os.Rename(filepath.Join(dir, "model/m.bin"), filepath.Join(dir, "moved")))
	d.get(second, dir)
	if found := read(t, dir); found["model/m.bin"] != "2" || found["model/m."+other+".bin"] != "" {
		t.Errorf("when the name is free: %v", found)
	}
	// Overwrite replaces files, and no folder that holds any.
	write(t, dir, fileTree{"model/m.bin": "mine again"})
	_, err := first.Get(t.Context(), dir, GetOptions{Overwrite: true})
	d.check(err)
	found = read(t, dir)
	for name, text := range map[string]string{"model/m.bin": "1", "model/link": "1", "model/dir/f": "1", "output/o": "1", "logs/logs0": "", "model/tofile/mine": "m", "model/tofile." + id: "1"} {
		if is, there := found[name]; is != text || !there {
			t.Errorf("overwritten: %s is %q", name, is)
		}
	}
}

// What a killed Get was completing goes with the next one.
func TestGetClearsAwayWhatAKilledOneLeft(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	dir := t.TempDir()
	write(t, dir, fileTree{bundle.Workshop + "/model/half": "x", bundle.Receipt: string(bundle.ReceiptHead("a/b/c")) +
		string(bundle.Brought{Path: "model/old", Size: 1, SHA256: digestOf("1")}.Line()) + `{"path":"model/w","si`, "model/old": "1", "model/w": "mine"})
	j := d.submit("demo", "digits", 1)
	d.end(j, done, outputs{"model": {"w": "1"}})
	d.get(j, dir)
	want := fileTree{"model/w": "mine", "model/w." + d.short(j): "1", "output/": "", "logs/logs0": ""}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
}

// A link in the folder leads nowhere that is written to.
func TestGetFollowsNoLinkInTheFolder(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	root := t.TempDir()
	write(t, root, fileTree{"other/o": "mine", "other/sub/x": "mine", "out/output/x": "mine"})
	for _, link := range []string{"model", "output/sub"} {
		d.check(os.Symlink(filepath.Join(root, "other"), filepath.Join(root, "out", link)))
	}
	j := d.submit("demo", "digits", 1)
	d.end(j, done, outputs{"model": {"o": "1", "sub/x": "1"}, "output": {"sub/o": "1"}})
	for _, o := range []GetOptions{{}, {}, {Overwrite: true}} {
		_, err := j.Get(t.Context(), filepath.Join(root, "out"), o)
		d.check(err)
		if diff := cmp.Diff(fileTree{"o": "mine", "sub/x": "mine"}, read(t, filepath.Join(root, "other"))); diff != "" {
			t.Fatalf("outside (-want +got):\n%s", diff)
		}
		model, output := "model."+d.short(j), "output/sub."+d.short(j)
		if o.Overwrite {
			model, output = "model", "output/sub"
		}
		for name, text := range map[string]string{model + "/o": "1", model + "/sub/x": "1", output + "/o": "1", "output/x": "mine"} {
			if b, err := os.ReadFile(filepath.Join(root, "out", name)); string(b) != text {
				t.Errorf("%+v: %s is %q, %v", o, name, b, err)
			}
		}
	}
}
