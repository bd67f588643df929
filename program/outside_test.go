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
	if out := o.run(filepath.Join(o.dir, "outside"), "target", "ls"); !strings.Contains(out, "the shed, on this machine") || strings.Contains(out, "slurm") {
		t.Errorf("its targets are\n%s", out)
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

// outside is a copy of the module, whose go.mod requires this one as it stands here.
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
	c := exec.CommandContext(o.Context(), name, args...)
	c.Dir, c.Env = o.dir, append(slices.Clone(o.env), "GOFLAGS=-mod=mod -tags=grpcnotrace", "GOPROXY=off", "GOWORK=off")
	if name != "go" {
		c.Env = append(c.Env, o.home...)
	}
	out, err := c.CombinedOutput()
	if err != nil {
		o.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
