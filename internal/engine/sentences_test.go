package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/engine/code"
	"github.com/drover-run/drover/job"
)

func TestAFileThatNothingRunsSaysWhatWould(t *testing.T) {
	d := newDesk(t)
	var said faulttest.Sayings
	for _, name := range []string{"sim.c", "sim.cc", "sim.cu", "sim.f90", "sim.go", "sim.rs", "Sim.java", "sim.lua", "sim.php", "sim.ts", "sim.m", "sim.do",
		"sim.sas", "sim.scm", "sim.tcl", "sim.awk", "notes.txt", "src/sim.c"} {
		d.write(map[string]string{name: "x\n"})
		d.check(os.Chmod(filepath.Join(d.dir, name), 0o644))
		err := code.Unrunnable(name, filepath.Join(d.dir, name))
		if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
		said.Error(name, err)
	}
	said.Compare(t, "unrunnable")
}

// A map's items run on one node each, whatever the script asks for.
func TestNodesOfAScriptMeanNothingForItems(t *testing.T) {
	said := driver.Said{Nodes: 3}
	agreed(job.Spec{Verb: job.Map}, &said)
	want := []string{"--nodes=3: An item runs on one node; --workers sets how many agents there are."}
	if diff := cmp.Diff(want, said.Left); diff != "" {
		t.Error(diff)
	}
}

func TestAnImageOnATargetWithoutContainersSaysWhere(t *testing.T) {
	d := newDesk(t)
	p := &Plan{Spec: job.Spec{On: "mem", Container: job.Container{Image: "a:1"}}}
	err := d.newPlanner().noContainers(p)
	if fault.KindOf(err) != fault.Invalid || fault.Hint(err) != "Leave out the options for an image." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
	d.Engine.Drivers["boxes"] = mem.Contained(d.mem)
	if err := d.newPlanner().noContainers(p); fault.Hint(err) != "Add --on boxes, or leave out the options for an image." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}

func TestACommandThatWasNotTypedIsTheSame(t *testing.T) {
	if got := (&Plan{}).typedWith("--force"); got != "the same with --force" {
		t.Errorf("it is %q", got)
	}
}

func TestATaskThatIsNotThereMayBeAnotherProjects(t *testing.T) {
	d := newDesk(t)
	_, _, err := d.Inputs.FindTaskInput(t.Context(), job.Input{Name: "model"}, job.TaskRef{Task: "train", What: "model"}, "demo", "", false)
	if fault.KindOf(err) != fault.Missing || err.Error() != "read input model: project demo has no task train" ||
		fault.Hint(err) != "drover status lists what there is; another project's is task:PROJECT/train/model." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}

func TestNotesOfPasswordsSayWhatToDo(t *testing.T) {
	d := newDesk(t)
	d.write(map[string]string{".netrc": "machine host login me password x\n", "requirements.txt": "numpy\n--index-url https://me:" + planted + "@host/simple\n"})
	p, err := d.Plan(t.Context(), job.Spec{Project: "demo", Task: "t", Verb: job.Run, Program: "train.sh", On: "mem"}, false)
	d.check(err)
	defer p.Close()
	notes := strings.Join(p.Code.Notes, "\n")
	for _, want := range []string{
		".netrc holds logins and is stored with the code, for every reader of the store: name it in .droverignore",
		"requirements.txt line 2 has a password in an address and is stored with the code, for every reader of the store: take it out and set PIP_INDEX_URL, or use ~/.netrc or --secret NAME",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("it notes\n%s\nwant %s", notes, want)
		}
	}
}
