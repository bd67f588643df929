package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A driver outside of this module, with public packages alone, keeps every promise, and a
// main with it and nothing else runs a job: testdata/outside is that module.
func TestADriverOutsideOfThisModuleIsADriver(t *testing.T) {
	o := newOutside(t)
	o.run("go", "test", "-count=1", "./...")
}

func TestAMainWithADriverOfItsOwnRunsAJob(t *testing.T) {
	o := newOutside(t)
	o.run("go", "build", "-o", "outside", ".")
	script := filepath.Join(o.dir, "hello.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho hello from $1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out := o.run(filepath.Join(o.dir, "outside"), "run", "--on", "shed", "./hello.sh", "there"); !strings.Contains(out, "hello from there\n") {
		t.Errorf("it printed\n%s", out)
	}
	// Its machines see nothing of this one: the script, the program and the results go by the store.
	if out := o.run(filepath.Join(o.dir, "outside"), "run", "--on", "yard", "./hello.sh", "yard"); !strings.Contains(out, "hello from yard\n") {
		t.Errorf("it printed\n%s", out)
	}
	if out := o.run(filepath.Join(o.dir, "outside"), "map", "--on", "yard", "--workers", "2", "echo", "{}", ":::", "a", "b", "c"); !strings.Contains(out, "3 succeeded") {
		t.Errorf("it printed\n%s", out)
	}
	if out := o.run(filepath.Join(o.dir, "outside"), "target", "ls"); !strings.Contains(out, "the shed, on this machine") || strings.Contains(out, "slurm") {
		t.Errorf("its targets are\n%s", out)
	}
}

// target up makes what the target stands on, once; target down stops the agents first.
func TestATargetIsSetUpAndTakenDown(t *testing.T) {
	o := newOutside(t)
	o.run("go", "build", "-o", "outside", ".")
	drover := filepath.Join(o.dir, "outside")
	for _, step := range []struct{ args, want []string }{
		{strings.Fields("target up shed -p demo --plan"), []string{"demo-floor  missing  nothing", "floor demo-floor:\n    Write ", "roof demo-roof:"}},
		{strings.Fields("target up shed -p demo --yes"), []string{"2 pieces will be made", "made floor demo-floor", "made roof demo-roof", "target shed is set up   try it: drover target test shed"}},
		{strings.Fields("target up shed -p demo"), []string{"demo-floor  there", "target shed is set up: nothing is missing"}},
		{[]string{"run", "--on", "shed", "--detach", "-p", "demo", "-t", "wait", "sh", "-c", "sleep 600"}, []string{"wait"}},
		{strings.Fields("target down shed -p demo --plan"), []string{"demo-floor  there", "agents of job ", ", placement 1, will be stopped"}},
		{strings.Fields("down shed -p demo --yes"), []string{"2 pieces will be taken away", "took away roof demo-roof", "took away floor demo-floor", "target shed is taken away; the store is as it was"}},
		{strings.Fields("target down shed -p demo"), []string{"demo-floor  missing", "target shed: nothing is left to take away"}},
		{[]string{"status"}, []string{"wait", "interrupted"}},
	} {
		out := o.run(drover, step.args...)
		for _, want := range step.want {
			if !strings.Contains(out, want) {
				t.Errorf("drover %q: no %q in\n%s", step.args, want, out)
			}
		}
	}
	if out := o.fail(drover, "target", "up", "nowhere"); !strings.Contains(out, `"nowhere" is unknown`) {
		t.Errorf("it printed\n%s", out)
	}
	o.run(drover, "target", "up", "shed", "-p", "demo", "--yes")
	floors, err := filepath.Glob(filepath.Join(o.stateDir(), "drover", "shed", "setup", "stands-on", "demo-floor-*"))
	if err != nil || len(floors) != 1 {
		t.Fatalf("the floors are %v, %v", floors, err)
	}
	if err := os.WriteFile(floors[0], []byte("of another team"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := o.fail(drover, "target", "up", "shed", "-p", "demo", "-y"); !strings.Contains(out, "foreign: something else made it") || !strings.Contains(out, "set up shed: floor demo-floor: something else made it") {
		t.Errorf("it printed\n%s", out)
	}
	if out := o.fail(drover, "target", "up", "shed"); !strings.Contains(out, "ask before setting up: there is no terminal to ask at") {
		t.Errorf("it printed\n%s", out)
	}
}

// The example of the README, by that main. It installs what the example requires.
func TestRealTheDigitsExampleOutside(t *testing.T) {
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it")
	}
	o := newOutside(t)
	o.run("go", "build", "-o", "outside", ".")
	o.env = append(o.env, os.Environ()...)
	o.env = append(o.env, o.home...)
	for _, name := range []string{"train.py", "requirements.txt"} {
		text, err := os.ReadFile(filepath.Join("..", "examples", "digits", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(o.dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if out := o.run(filepath.Join(o.dir, "outside"), "run", "--on", "shed", "-o", "out", "train.py", "--epochs", "2"); !strings.Contains(out, "epoch=2 loss=") {
		t.Errorf("it printed\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(o.dir, "out", "model", "model.joblib")); err != nil {
		t.Error(err)
	}
}

// outside is a copy of the module; its go.mod requires this one as it stands here.
type outside struct {
	*testing.T
	dir  string
	env  []string
	home []string // what keeps drover's own folders apart
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{T: t, dir: t.TempDir(), env: os.Environ()}
	root, err := filepath.Abs("..")
	if err == nil {
		err = os.CopyFS(o.dir, os.DirFS(filepath.Join("testdata", "outside")))
	}
	text, rerr := os.ReadFile(filepath.Join(root, "go.mod"))
	sums, serr := os.ReadFile(filepath.Join(root, "go.sum"))
	for _, err := range []error{err, rerr, serr} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// What this module requires the other one does, so that nothing has to be fetched.
	lines := strings.Split(string(text), "\n")
	lines[0] = "module example.org/outside"
	lines = append(lines, "require github.com/drover-run/drover v0.0.0", "replace github.com/drover-run/drover => "+root)
	for name, text := range map[string]string{"go.mod": strings.Join(lines, "\n"), "go.sum": string(sums)} {
		if err := os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"} {
		o.home = append(o.home, name+"="+filepath.Join(t.TempDir(), "home"))
	}
	return o
}

// run runs a command in the module's folder, and returns all that it printed.
func (o *outside) run(name string, args ...string) string {
	o.Helper()
	out, err := o.try(name, args...)
	if err != nil {
		o.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// fail is run of a command that has to fail.
func (o *outside) fail(name string, args ...string) string {
	o.Helper()
	out, err := o.try(name, args...)
	if err == nil {
		o.Errorf("%s %s succeeds\n%s", name, strings.Join(args, " "), out)
	}
	return out
}

// stateDir is $XDG_STATE_HOME of its commands.
func (o *outside) stateDir() string {
	for _, kv := range o.home {
		if dir, ok := strings.CutPrefix(kv, "XDG_STATE_HOME="); ok {
			return dir
		}
	}
	return ""
}

func (o *outside) try(name string, args ...string) (string, error) {
	c := exec.CommandContext(o.Context(), name, args...)
	c.Dir, c.Env = o.dir, append(slices.Clone(o.env), "GOFLAGS=-mod=mod -tags=grpcnotrace", "GOPROXY=off", "GOWORK=off")
	if name != "go" {
		c.Env = append(c.Env, o.home...)
	}
	out, err := c.CombinedOutput()
	return string(out), err
}
