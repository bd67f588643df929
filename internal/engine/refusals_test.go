package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/inputs"
	"github.com/drover-run/drover/job"
)

// refused compares all of an error.
func refused(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || err.Error() != text || fault.Hint(err) != hint {
		t.Errorf("%v (%v)\n  %s\nwant %s (%v)\n  %s", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}

func TestCommandsThatNoItemsCanFill(t *testing.T) {
	for name, row := range map[string]struct {
		change     func(*job.Spec)
		items      string
		text, hint string
	}{
		"a placeholder of a stream": {func(s *job.Spec) { s.Stream, s.Args = true, []string{"{}"} }, "a\n",
			"check command: a stream program starts before there is an item to put into its arguments", "Leave the placeholder out, and use item.value; or leave out --stream."},
		"one output for all": {func(s *job.Spec) { s.Out = []string{"out/result.txt"} }, "a\n",
			`read --out "out/result.txt": all items would write the same name`, "Put the item's number into it: --out 'out/result-{n}.txt'"},
		"a password": {func(s *job.Spec) { s.Fetch = true }, "https://host/a\nhttps://ann:secret@host/b\n",
			"check items: item 2 is an address with a user's name or password in it, and items are stored as they are",
			"Leave it out of the address; without --fetch the program can get the file itself, with a password from --secret NAME."},
		"an image where programs run as they are": {func(s *job.Spec) { s.Container.Image = "python:3.12" }, "a\n",
			"place job on mem: it runs programs on the machine as it is, not in an image", "Leave out the options for an image."},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.Caller.Stdin = strings.NewReader(row.items)
			p, err := d.Plan(t.Context(), spec(func(s *job.Spec) { s.Verb, s.From = job.Map, "-" }, row.change), false)
			if err == nil {
				d.check(p.Close())
			}
			refused(t, err, fault.Invalid, row.text, row.hint)
		})
	}
}

func TestInputsThatAreNotThereYet(t *testing.T) {
	d := newDesk(t)
	live := d.load(d.submit(spec(named)))
	_, err := d.Plan(t.Context(), spec(func(s *job.Spec) { s.Task, s.Inputs = "next", []job.Input{{Name: "model", Path: "task:digits/model"}} }), false)
	refused(t, err, fault.Invalid, "read input model: task digits has not ended: job "+live.Short+" is pending", "Wait for it: drover wait "+live.Short+".")
	_, err = d.Plan(t.Context(), spec(func(s *job.Spec) { s.Task, s.Inputs = "next", []job.Input{{Name: "data", Path: "s3://bucket/data"}} }), false)
	refused(t, err, fault.Invalid, "read input data: open s3://bucket: this program opens no buckets", "Give drover.Options an OpenPlace.")

	_, err = d.Inputs.PutState(t.Context(), job.Path{Project: "demo", Task: "digits"}, 0, t.TempDir())
	refused(t, err, fault.Invalid, "put state of task digits: job "+live.Short+" is live", "Wait for it with drover wait "+live.Short+", or end it with drover cancel "+live.Short+".")
}

func TestCodeIsNotFoundInAFolderWithoutTheProgram(t *testing.T) {
	d := newDesk(t)
	started := t.TempDir()
	if err := os.WriteFile(filepath.Join(started, "work.sh"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	j := job.Job{Short: "7fk2", Host: d.Caller.Host, Folder: started, Spec: job.Spec{Program: "./work.sh", On: mem.Name}}
	_, err := d.FindCode(t.Context(), j, nil)
	refused(t, err, fault.Invalid, "find code of job 7fk2 in "+d.dir+": there is no ./work.sh, which its command names",
		"Change to a folder that has the program, as the one where it was started had: cd "+started+"; or run the command anew for another job.")
}

func TestATemporaryFolderThatIsGone(t *testing.T) {
	d := newDesk(t)
	j := d.load(d.submit(spec(named)))
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "gone"))
	const hint = "Free some space, or set TMPDIR."
	if _, err := d.Inputs.ReadJobSource(t.Context(), j, false); fault.KindOf(err) != fault.Full || !strings.HasPrefix(err.Error(), "read source of job "+j.Short+": ") || fault.Hint(err) != hint {
		t.Errorf("%v\n  %s", err, fault.Hint(err))
	}
	if err := d.Inputs.StoreArchive(t.Context(), &inputs.Feed{Archive: "code.tar.gz"}); fault.KindOf(err) != fault.Full || !strings.HasPrefix(err.Error(), "make code.tar.gz: ") || fault.Hint(err) != hint {
		t.Errorf("%v\n  %s", err, fault.Hint(err))
	}
}

func TestCallsInAWrongOrderAreFaultsOfDrover(t *testing.T) {
	d := newDesk(t)
	p, s := Plan{Spec: job.Spec{Task: "digits"}}, Plan{}
	refused(t, d.newPlanner().chooseItems(t.Context(), &p, &s, nil), fault.Bug, "choose items: the plan of task digits was closed", "")
}
