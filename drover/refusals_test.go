package drover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	storemem "github.com/drover-run/drover/store/mem"
)

// refused compares all of an error.
func refused(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || err.Error() != text || fault.Hint(err) != hint {
		t.Errorf("%v (%v)\n  %s\nwant %s (%v)\n  %s", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}

func TestAClientWithoutAStoreOrAFolderIsNotOpened(t *testing.T) {
	_, err := Open(t.Context(), Options{Drivers: map[string]driver.Opened{mem.Name: mem.Open(&mem.Driver{})}})
	refused(t, err, fault.Invalid, "open client: no store or no targets", "Give drover.Options a Bucket and Drivers.")
	_, err = Open(t.Context(), Options{Bucket: storemem.New()})
	refused(t, err, fault.Invalid, "open client: no store or no targets", "Give drover.Options a Bucket and Drivers.")

	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Bucket: storemem.New(), Drivers: map[string]driver.Opened{mem.Name: mem.Open(&mem.Driver{})}})
	if fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "find the working folder: ") || fault.Hint(err) != "Change to a folder that is there." {
		t.Errorf("%v\n  %s", err, fault.Hint(err))
	}
}

func TestValuesThatAreNoItemsAreRefused(t *testing.T) {
	d := newDesk(t)
	for _, bad := range []string{"", "a\nb", "a\rb", "a\x00b"} {
		_, err := d.planMap(t.Context(), MapSpec{Spec: job.Spec{Project: "demo", Program: "true", On: mem.Name}, Values: []string{"good", bad}})
		refused(t, err, fault.Invalid, "plan map: value 2 is empty, or holds a line break or NUL", "Write such items as JSON lines into a file, and name it as From.")
	}
}

func TestWhatIsOfMapsIsRefusedForARun(t *testing.T) {
	d := newDesk(t)
	j := d.submit("demo", "train", 1)
	rec, err := j.Spec(t.Context())
	d.check(err)
	text, hint := "read output of item 3: job "+rec.Short+" is not a map", "drover logs "+rec.Short+" prints what it printed."
	for _, err := range j.Logs(t.Context(), LogOptions{Item: 3}) {
		refused(t, err, fault.Invalid, text, hint)
	}
	for _, err := range j.Lines(t.Context(), LogOptions{Item: 3}) {
		refused(t, err, fault.Invalid, text, hint)
	}
	_, err = j.Top(t.Context(), TopOptions{N: 0, By: "loss"})
	refused(t, err, fault.Invalid, `order results: by "loss", 0 of them: it needs a number of at least 1 and a name`, "")
}

func TestAgentsThatOneWordDoesNotName(t *testing.T) {
	d := newDesk(t)
	begins := func(task string, agents ...string) *Job {
		j := d.submitMap(task, "lines", "a\nb\nc\n", nil)
		for _, a := range agents {
			d.check(liveness.WriteHeartbeat(t.Context(), d.world, j.path, protocol.Heartbeat{Agent: a, Phase: "running"}))
		}
		return j
	}
	one := begins("one", "1-0-a", "1-1-b")
	_, err := one.DrainWorker(t.Context(), "1-", "enough")
	refused(t, err, fault.Invalid, `find agent: 2 agents begin with "1-"`, "drover worker ls shows the agents that live.")
	begins("two", "2-0-a")
	begins("three", "2-0-b")
	_, err = d.FindWorker(t.Context(), "2-0", "demo")
	refused(t, err, fault.Invalid, `find agent: several jobs have one that begins with "2-0"`, "Type more of it; drover worker ls shows the agents.")

	rec, err := one.Spec(t.Context())
	d.check(err)
	_, err = one.Beside(t.Context(), "1-0-a")
	refused(t, err, fault.Invalid, "attach to job "+rec.Short+": target mem cannot open a shell beside agent 1-0-a", "Look at what it prints: drover logs -f "+rec.Short+".")
}

func TestAMapThatIsBeingStoppedIsNotPaused(t *testing.T) {
	d := newDesk(t)
	j := d.submitMap("long", "lines", "a\nb\nc\n", nil)
	d.check(liveness.WriteHeartbeat(t.Context(), d.world, j.path, protocol.Heartbeat{Agent: "1-0-a", Phase: "running"}))
	_, err := control.CancelJob(t.Context(), d.world, j.path, "cli-9", "enough")
	d.check(err)
	rec, err := j.Spec(t.Context())
	d.check(err)
	_, err = j.Pause(t.Context(), "")
	refused(t, err, fault.Invalid, "pause job "+rec.Short+": it is being stopped", "Wait for its end: drover wait "+rec.Short+".")
}

func TestItemsAreNotRetriedBesideALiveJobOfTheSameTask(t *testing.T) {
	d := newDesk(t)
	old := d.submitMap("greet", "lines", "a\nb\n", nil)
	d.work(old, "1-0-a", func(n mapagent.Try) protocol.Result { return tried(n, "", 3) })
	live := d.submitMap("greet", "lines", "a\nb\nc\n", nil)
	was, err := old.Spec(t.Context())
	d.check(err)
	is, err := live.Spec(t.Context())
	d.check(err)
	_, err = old.Retry(t.Context(), RetryOptions{})
	refused(t, err, fault.Invalid, "retry items of job "+was.Short+": job "+is.ID+" of the same task is live", "Wait for it: drover wait "+is.ID+".")
}

func TestOutputsAreNotBroughtWhereSomethingElseIs(t *testing.T) {
	d := newDesk(t)
	const hint = "Choose another folder with -o."
	j := d.submitMap("write", "lines", "a\n", func(s *job.Spec) { s.Out = []string{"{}.txt"} })
	d.work(j, "1-0-a", func(n mapagent.Try) protocol.Result {
		r := tried(n, "", 0)
		r.Outputs, r.Try = []protocol.Output{d.output(j, n, "a.txt", "text")}, n.Name
		return r
	})
	run := d.submit("demo", "train", 1)
	d.end(run, protocol.Exit{Verdict: protocol.Done}, outputs{"model": fileTree{"m": "1"}})
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, dir, fileTree{"file": "", "items/a.txt/in-the-way": "", "marked/.drover.json/in-the-way": ""})
	get := map[string]func(dir string) error{
		"items": func(dir string) error { _, err := j.Get(t.Context(), dir, GetOptions{}); return err },
		"run":   func(dir string) error { _, err := run.Get(t.Context(), dir, GetOptions{}); return err },
	}
	for name, get := range get {
		refused(t, get(file), fault.Denied, "get outputs: make "+file+": mkdir "+file+": not a directory", hint)
		marked := filepath.Join(dir, "marked")
		if err := get(marked); fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), "get outputs: write into "+marked+": ") || fault.Hint(err) != hint {
			t.Errorf("%s: %v\n  %s", name, err, fault.Hint(err))
		}
	}
}

func TestADrillIsOnThisMachineAlone(t *testing.T) {
	for name, properties := range map[string]driver.Properties{"elsewhere": {}, "in containers": {Attached: true, Apart: true}} {
		p := &Plan{Spec: job.Spec{On: "slurm"}, Properties: properties}
		if err := p.Drillable(); fault.KindOf(err) != fault.Invalid || err.Error() != "plan drill: agents are killed on this machine alone, not on slurm" ||
			fault.Hint(err) != "Leave out --on: a drill runs its items on this machine, wherever all of them run." {
			t.Errorf("%s: %v\n  %s", name, err, fault.Hint(err))
		}
	}
}

func TestACacheThatCannotBeMadeIsRefused(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "gone", "too"))
	_, err := Open(t.Context(), Options{Bucket: storemem.New(), Drivers: map[string]driver.Opened{mem.Name: mem.Open(&mem.Driver{})}})
	if fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), "open client: find a cache: ") || fault.Hint(err) != "Set HOME, or give drover.Options a Cache." {
		t.Errorf("%v\n  %s", err, fault.Hint(err))
	}
}
