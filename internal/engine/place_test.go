package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// What a container was asked for reaches the place, at Start as in the plan.
func TestAPlaceHearsOfTheContainer(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = mem.Contained(d.mem)
	spec := job.Spec{Project: "demo", Program: "train.sh", On: mem.Name, Nodes: 2,
		Container: job.Container{Image: "debian:12", Shm: 1 << 30, Mounts: []string{"data:/data:ro"}}}
	want := driver.Place{Image: "debian:12", Nodes: 2, Shm: 1 << 30, Mounts: []job.Mount{{Source: filepath.Join(d.dir, "data"), Target: "/data", ReadOnly: true}}}
	if diff := cmp.Diff(want, d.askedOf(d.mem, spec).Place); diff != "" {
		t.Error(diff)
	}
}

// askedOf is what a place is asked for when a job is put there.
func (d *desk) askedOf(place driver.Driver, s job.Spec) driver.Needs {
	heard := make(chan driver.Request, 1)
	o := d.Drivers[mem.Name]
	o.Driver = listening{place, heard}
	d.Drivers[mem.Name] = o
	p, err := d.Plan(d.t.Context(), s, false)
	d.check(err)
	path, err := d.Submit(d.t.Context(), &p)
	d.check(err)
	_, err = d.Attend(d.t.Context(), path)
	d.check(err)
	return (<-heard).Needs
}

type listening struct {
	driver.Driver
	heard chan driver.Request
}

func (l listening) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	l.heard <- r
	return l.Driver.Start(ctx, r)
}

// How many items a map runs at once reaches the place, which may have to ask for as many
// cores; of a run there are none.
func TestAPlaceHearsHowManyItemsRunAtOnce(t *testing.T) {
	of := func(verb job.Verb, cpus float64) driver.Needs {
		return needs(job.Spec{Verb: verb, On: mem.Name, Nodes: 1, Items: job.Items{Workers: 2, Slots: 8}, Limits: job.Limits{CPUs: cpus}})
	}
	if n := of(job.Map, 0); n.Slots != 8 || n.CPUs != 0 {
		t.Errorf("a map with -j 8 asks for %+v", n)
	}
	if n := of(job.Map, 0.5); n.Slots != 8 || n.CPUs != 4 {
		t.Errorf("a map with -j 8 --cpus 0.5 asks for %+v", n)
	}
	if n := of(job.Run, 0); n.Slots != 0 {
		t.Errorf("a run asks for %+v", n)
	}
}

// A target that runs programs as they are refuses an image, except from command lines of
// the seed, which name an image that means nothing here.
func TestAnImageNeedsContainers(t *testing.T) {
	d := newDesk(t)
	spec := job.Spec{Project: "demo", Program: "train.sh", On: mem.Name, Container: job.Container{Framework: "pytorch"}}
	_, err := d.Plan(t.Context(), spec, false)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Invalid || !strings.Contains(err.Error(), "not in an image") {
		t.Errorf("got %v", err)
	}
	spec.Rules = job.SSM
	_, err = d.Plan(t.Context(), spec, false)
	d.check(err)
}

// What is no file here may be one of the image's; a script that is mistyped, and
// what runs on the machine as it is, may not.
func TestAProgramOfTheImageIsNotLookedForHere(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		program, image string
		contain, ok    bool
	}{
		{"/app-of-the-image", "debian:12", false, false},
		{"/app-of-the-image", "", true, false},
		{"/app-of-the-image", "debian:12", true, true},
		{"app-of-the-image", "debian:12", true, true},
		{"trian.py", "debian:12", true, false},
		{"./app-of-the-image", "debian:12", true, false},
	} {
		if c.contain {
			d.Drivers[mem.Name] = mem.Contained(d.mem)
		}
		_, err := d.Plan(t.Context(), job.Spec{Project: "demo", Program: c.program, On: mem.Name, Container: job.Container{Image: c.image}}, false)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Folders that items lie in are shown to a place apart; items that lie elsewhere
// make another job.
func TestAPlaceApartSeesTheItems(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = mem.Contained(d.mem)
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "c.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	d.write(map[string]string{"in/a.txt": "a", "in/deep/b.txt": "b", "items.txt": "in/a.txt\nin/deep/b.txt\nno/such.txt\nhttps://x/y\n"})
	spec := job.Spec{Project: "demo", Task: "t", Named: true, Verb: job.Map, Program: "train.sh", Args: []string{"{}"}, On: mem.Name, Items: job.Items{From: "items.txt"}}
	path := d.submit(spec)
	if diff := cmp.Diff([]string{filepath.Join(d.dir, "in")}, d.load(path).Seen); diff != "" {
		t.Error(diff)
	}
	d.check(liveness.WriteHeartbeat(t.Context(), d.World, path, protocol.Heartbeat{Agent: "1-0-x", Phase: "running"}))
	d.write(map[string]string{"items.txt": "in/a.txt\nin/deep/b.txt\n" + filepath.Join(elsewhere, "c.txt") + "\n"})
	more, err := d.Plan(t.Context(), spec, false)
	d.check(err)
	defer more.Close()
	if _, err = d.Submit(t.Context(), &more); err == nil || !strings.Contains(err.Error(), "do not see "+elsewhere) {
		t.Errorf("%s: %v", more.Action, err)
	}
}

// A file:// address is percent-encoded, and names the folder that it decodes to.
func TestAPlaceApartSeesWhatAddressesName(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = mem.Contained(d.mem)
	d.write(map[string]string{"a b/x.txt": "a", "50%/y.txt": "b", "gr\u00fcn/z.txt": "c", "d%20/v.txt": "d", "e%20f/w.txt": "e",
		"items.txt": strings.Join([]string{"file://DIR/a%20b/x.txt", "file://localhostDIR/50%25/y.txt", "file://DIR/gr%C3%BCn/z.txt", "d%20/v.txt", "file://DIR/e%20f/w.txt"}, "\n") + "\n"})
	text, err := os.ReadFile(filepath.Join(d.dir, "items.txt"))
	d.check(err)
	d.write(map[string]string{"items.txt": strings.ReplaceAll(string(text), "DIR", d.dir)})
	spec := job.Spec{Project: "demo", Task: "t", Named: true, Verb: job.Map, Program: "train.sh", Args: []string{"{}"}, On: mem.Name, Items: job.Items{From: "items.txt"}}
	j := d.load(d.submit(spec))
	var want []string
	for _, name := range []string{"50%", "a b", "d%20", "gr\u00fcn"} { // and there is no "e f"
		want = append(want, filepath.Join(d.dir, name))
	}
	if diff := cmp.Diff(want, j.Seen); diff != "" {
		t.Error(diff)
	}
}

func TestSeenFoldersAreFew(t *testing.T) {
	e := New(session.Session{Caller: session.Caller{Home: "/home/ann"}}, Passes{})
	many := map[string]bool{"/data/x/y": true, "/other": true}
	for i := range 100 {
		many[filepath.Join("/data/x/y/z", string(rune('a'+i)))] = true
		many[filepath.Join("/pics", string(rune('a'+i)), "raw")] = true
	}
	got, err := e.newPlanner().narrowFolders(many)
	if diff := cmp.Diff([]string{"/data", "/other", "/pics"}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, all := range []string{"/", "/home/ann", "/usr/bin", "/etc"} {
		if _, err := e.newPlanner().narrowFolders(map[string]bool{all: true, "/data": true}); err == nil {
			t.Errorf("%s is shown", all)
		}
	}
}

// A Dockerfile is built once the job is about to be submitted; what it was built
// from is compared by the next command.
func TestADockerfileIsBuiltAtSubmit(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = mem.Contained(d.mem)
	d.write(map[string]string{"Dockerfile": "FROM base:1\nRUN true\n"})
	spec := job.Spec{Project: "demo", Task: "t", Named: true, Program: "train.sh", On: mem.Name, Container: job.Container{Dockerfile: "Dockerfile"}}
	if _, err := d.Plan(t.Context(), spec, false); err == nil || !strings.Contains(err.Error(), "nothing that can build one") {
		t.Errorf("without a builder: %v", err)
	}
	built := 0
	d.Images.Build = func(_ context.Context, p *image.Plan) (string, error) {
		built++
		return "made:" + p.Digest[:6], nil
	}
	run := func() Plan {
		p, err := d.Plan(t.Context(), spec, false)
		d.check(err)
		path, err := d.Submit(t.Context(), &p)
		d.check(err)
		_, err = d.Attend(t.Context(), path)
		d.check(err)
		return p
	}
	p := run()
	j := d.load(job.Path{Project: "demo", Task: "t", Job: d.newest("demo", "t")})
	if built != 1 || j.Image != "made:"+p.Image.Built[:6] || j.ImageBuilt != p.Image.Built {
		t.Errorf("built %d times; the job has %q, %q", built, j.Image, j.ImageBuilt)
	}
	if p := run(); p.Action != report.ActionSkip || built != 1 {
		t.Errorf("again: %s, built %d times", p.Action, built)
	}
	d.write(map[string]string{"Dockerfile": "FROM base:1\nRUN false\n"})
	if p := run(); p.Action != report.ActionStart || built != 2 || !strings.Contains(p.Note, "image") {
		t.Errorf("changed: %s, built %d times: %s", p.Action, built, p.Note)
	}
}

// A submit that is interrupted while its image is built, also when the builder does not
// heed that, has made no job.
func TestAnInterruptedBuildLeavesNoJob(t *testing.T) {
	for _, heeds := range []bool{true, false} {
		d := newDesk(t)
		d.Drivers[mem.Name] = mem.Contained(d.mem)
		d.write(map[string]string{"Dockerfile": "FROM base:1\nRUN true\n"})
		told := errors.New("Ctrl-C")
		ctx, end := context.WithCancelCause(t.Context())
		d.Images.Build = func(ctx context.Context, p *image.Plan) (string, error) {
			if end(told); heeds {
				return "", context.Cause(ctx)
			}
			return p.Reference, nil
		}
		p, err := d.Plan(ctx, job.Spec{Project: "demo", Task: "t", Named: true, Program: "train.sh", On: mem.Name, Container: job.Container{Dockerfile: "Dockerfile"}}, false)
		d.check(err)
		if _, err := d.Submit(ctx, &p); !errors.Is(err, told) {
			t.Errorf("heeds %v: %v", heeds, err)
		}
		if task, err := tasks.ReadTask(t.Context(), d.World, job.Path{Project: "demo", Task: "t"}); err != nil || len(task.Jobs) > 0 {
			t.Errorf("heeds %v: it has jobs %v, %v", heeds, task.Jobs, err)
		}
	}
}

func TestADifferenceOfMountsIsNotOneOfTheImage(t *testing.T) {
	old := job.Job{Spec: job.Spec{Container: job.Container{Image: "a:1"}}}
	for want, c := range map[string]job.Container{
		"":                          {Image: "a:1"},
		"--image (a:1, now a:2)":    {Image: "a:2"},
		"--mount (none, now /d:/d)": {Image: "a:1", Mounts: []string{"/d:/d"}},
	} {
		p := Plan{Spec: job.Spec{Container: c}}
		if got := strings.Join(p.differences(old, nil).allChanges(), ", "); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

// The plan says the name that Build will give. Another base under the same name does
// not make another job, another archive does.
func TestAPlanNamesTheImageThatIsBuilt(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = mem.Contained(d.mem)
	digest := "sha256:1"
	d.Images.Build = func(_ context.Context, p *image.Plan) (string, error) { return p.Reference, nil }
	d.Images.Pin = func(_ context.Context, p *image.Plan) error {
		return p.Pin(map[string]string{p.Bases()[0]: digest})
	}
	for _, c := range []struct {
		box   job.Container
		again report.Action
	}{
		{job.Container{Dockerfile: "FROM base:1\nRUN true"}, report.ActionSkip},
		{job.Container{Image: "tar:./base.tar"}, report.ActionStart},
	} {
		digest = "sha256:1"
		spec := job.Spec{Project: "demo", Task: "t" + c.box.Image[:min(3, len(c.box.Image))], Named: true, Program: "train.sh", On: mem.Name, Container: c.box}
		p, err := d.Plan(t.Context(), spec, false)
		d.check(err)
		ref := p.Image.Reference
		path, err := d.Submit(t.Context(), &p)
		d.check(err)
		_, err = d.Attend(t.Context(), path)
		d.check(err)
		j := d.load(path)
		if j.Image != ref || !strings.HasPrefix(ref, "drover/demo-") || !strings.HasPrefix(p.Image.Why, ref) {
			t.Errorf("the plan says %q (%s), the job has %q", ref, p.Image.Why, j.Image)
		}
		digest = "sha256:2"
		p, err = d.Plan(t.Context(), spec, false)
		d.check(err)
		if p.Action != c.again {
			t.Errorf("with another base under %+v: %s, want %s", c.box, p.Action, c.again)
		}
	}
}

func (d *desk) newest(project, task string) string {
	d.t.Helper()
	found, err := tasks.ReadTask(d.t.Context(), d.World, job.Path{Project: project, Task: task})
	d.check(err)
	return found.Newest()
}

// A map's agent has what its items need that run at once: as many as were asked for,
// else as the place has room for, if that is known from afar. GPUs are not counted.
func TestAMapsAgentHasWhatItsItemsNeedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		slots, gpus int
		cores       int // of the place
		want        driver.Needs
	}{
		"as asked for":       {3, 1, 0, driver.Needs{CPUs: 6, Memory: 12 << 30, GPUs: 3}},
		"as there is room":   {0, 0, 8, driver.Needs{CPUs: 8, Memory: 16 << 30}},
		"as memory allows":   {0, 0, 64, driver.Needs{CPUs: 14, Memory: 28 << 30}},
		"one where GPUs say": {0, 1, 8, driver.Needs{CPUs: 2, Memory: 4 << 30, GPUs: 1}},
		"one from afar":      {0, 0, 0, driver.Needs{CPUs: 2, Memory: 4 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			spec := job.Spec{Project: "demo", Verb: job.Map, Program: "train.sh", Args: []string{"{}"}, On: mem.Name, Items: job.Items{From: "1-9", Slots: c.slots}}
			spec.CPUs, spec.Memory, spec.GPUs = 2, 4<<30, c.gpus
			n := d.askedOf(roomy{d.mem, driver.Offer{Fits: true, Cores: c.cores, Memory: 30 << 30}}, spec)
			if diff := cmp.Diff(c.want, driver.Needs{CPUs: n.CPUs, Memory: n.Memory, GPUs: n.GPUs}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// roomy is a place that offers what it is told to.
type roomy struct {
	driver.Driver
	offer driver.Offer
}

func (r roomy) Offer(context.Context, driver.Needs) (driver.Offer, error) { return r.offer, nil }

func TestSlotsAreThoseThatAnAgentWillHave(t *testing.T) {
	plan := func(change func(*Plan)) *Plan {
		p := &Plan{Spec: job.Spec{Verb: job.Map}}
		p.Offer.Cores, p.Offer.Memory = 8, 16<<30
		change(p)
		return p
	}
	got := []int{
		Slots(plan(func(p *Plan) {})),
		Slots(plan(func(p *Plan) { p.Spec.Slots = 30 })),
		Slots(plan(func(p *Plan) { p.Spec.CPUs = 3 })),
		Slots(plan(func(p *Plan) { p.Spec.CPUs = 0.5 })),
		Slots(plan(func(p *Plan) { p.Spec.Memory = 5 << 30 })),
		Slots(plan(func(p *Plan) { p.Spec.Memory = 50 << 30 })),
		Slots(plan(func(p *Plan) { p.Offer.Cores = 0 })),
	}
	if want := []int{8, 30, 2, 16, 3, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
