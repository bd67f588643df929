package env

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/envtest"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
	"github.com/drover-run/drover/internal/ledger/commitseed"
)

// offline is a request that pip can serve from wheels made here.
func offline(t testing.TB, requirements string) requirements.Request {
	t.Helper()
	r := request(t, requirements)
	links := t.TempDir()
	wheel(t, links, "alpha", "1.0", "beta>=2")
	wheel(t, links, "alpha", "0.9", "beta<2")
	wheel(t, links, "beta", "2.1")
	wheelWith(t, links, "future", "1.0", []string{"Requires-Python: >=9.0"}, nil)
	r.Environ = append(r.Environ, "PIP_FIND_LINKS="+links)
	return r
}

func build(t testing.TB, r requirements.Request) (Ready, envtest.Journal) {
	t.Helper()
	var j envtest.Journal
	ready, err := Build(t.Context(), resolve(t, r), j.Log)
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(j, "\n"))
	}
	return ready, j
}

// python runs a line in a ready interpreter as a script would be run.
func python(t testing.TB, r requirements.Request, ready Ready, line string) string {
	t.Helper()
	cmd := exec.Command(ready.Interpreter, "-c", line)
	cmd.Env = append(r.Environ, ready.Environ...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestAnEnvironmentIsBuiltOnceAndUsedAgain(t *testing.T) {
	t.Parallel()
	r := offline(t, "alpha\n")
	mine := t.TempDir()
	envtest.Write(t, filepath.Join(mine, "mine.py"), "HERE = 'yes'\n")
	r.Environ = append(r.Environ, "PYTHONPATH="+mine)

	p := resolve(t, r)
	if !p.Build || p.Source != requirements.SourceRequirements || p.Why != "building from requirements.txt: alpha is not in "+r.Python {
		t.Errorf("plan = %+v", p)
	}
	ready, j := build(t, r)
	if ready.Interpreter != p.Interpreter || j.Count("Successfully installed") != 1 {
		t.Errorf("interpreter = %s, log:\n%s", ready.Interpreter, strings.Join(j, "\n"))
	}
	got := python(t, r, ready, "import alpha, beta, mine, os, shutil; print(alpha.VERSION, beta.VERSION, mine.HERE, os.environ['VIRTUAL_ENV'], shutil.which('python'))")
	home := filepath.Join(r.Cache, "envs", p.Digest[:12])
	if want := fmt.Sprintf("1.0 2.1 yes %s %s/bin/python", home, home); got != want {
		t.Errorf("the script sees %q, want %q", got, want)
	}

	again, err := Build(t.Context(), p, func(line string) { t.Errorf("a second build says %q", line) })
	if err != nil || again.Interpreter != ready.Interpreter {
		t.Errorf("second build: %+v, %v", again, err)
	}
	later := resolve(t, r)
	if later.Build || later.Why != "built from requirements.txt: alpha is not in "+r.Python {
		t.Errorf("later plan = %+v", later)
	}

	// A script started from inside it stays in it, and takes it for what it is.
	r.Python, r.Environ = "", append(r.Environ, "VIRTUAL_ENV="+home)
	inside := resolve(t, r)
	if inside.Source != requirements.SourceActive || !strings.HasSuffix(inside.Why, ", venv) has the one requirement of requirements.txt") {
		t.Errorf("inside, why = %q", inside.Why)
	}
	ready, err = Build(t.Context(), inside, nil)
	if err != nil || python(t, r, ready, "import os; print(os.environ['VIRTUAL_ENV'])") != home {
		t.Errorf("inside: %+v, %v", ready, err)
	}
}

func TestTwoBuildersMakeOneEnvironment(t *testing.T) {
	t.Parallel()
	r := offline(t, "alpha\n")
	p := resolve(t, r)
	journals := make([]envtest.Journal, 3)
	errs := make([]error, len(journals))
	var wg sync.WaitGroup
	for i := range journals {
		wg.Go(func() { _, errs[i] = Build(t.Context(), p, journals[i].Log) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	built := 0
	for _, j := range journals {
		built += j.Count("Successfully installed")
	}
	if built != 1 {
		t.Errorf("%d builds, want 1", built)
	}
}

func TestAWaitingBuilderSaysForWhomAndCanBeStopped(t *testing.T) {
	t.Parallel()
	r := offline(t, "alpha\n")
	p := resolve(t, r)
	if err := os.MkdirAll(envs(r.Cache), 0o755); err != nil {
		t.Fatal(err)
	}
	held, err := lock(t.Context(), p.environFolder()+lockEnd, "requirements.txt of /work", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var j envtest.Journal
	_, err = Build(ctx, p, func(line string) { j.Log(line); cancel() })
	want := fmt.Sprintf("waiting for process %d (requirements.txt of /work), which builds the same environment", os.Getpid())
	if len(j) != 1 || j[0] != want || !errors.Is(err, context.Canceled) {
		t.Errorf("log %q, err %v", j, err)
	}
}

// deathEnviron asks this test binary to be a builder that stops dead at a line.
const deathEnviron = "DROVER_TEST_BUILD_UNTIL"

func TestMain(m *testing.M) {
	if until := os.Getenv(deathEnviron); until != "" {
		buildUntil(until)
	}
	if os.Getenv(holdEnviron) != "" {
		holdUntilKilled()
	}
	os.Exit(m.Run())
}

// buildUntil builds, and never returns from logging the line that begins with until.
func buildUntil(until string) {
	p, err := Resolve(context.Background(), requestOf())
	if err == nil {
		_, err = Build(context.Background(), p, func(line string) {
			if strings.HasPrefix(line, until) {
				fmt.Println("reached")
				select {}
			}
		})
	}
	fmt.Println("ended", err)
	os.Exit(1)
}

// requestOf is the request that the parent put into the environment.
func requestOf() requirements.Request {
	return requirements.Request{Dir: os.Getenv("T_DIR"), Script: "train.py", Python: os.Getenv("T_PYTHON"), Cache: os.Getenv("T_CACHE"), Environ: os.Environ()}
}

// killed starts a builder and kills it when it logs a line; its process id.
func killed(t *testing.T, r requirements.Request, until string) int {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(r.Environ, deathEnviron+"="+until, "T_DIR="+r.Dir, "T_PYTHON="+r.Python, "T_CACHE="+r.Cache)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if line != "reached\n" {
		t.Fatalf("the builder said %q", line)
	}
	return cmd.Process.Pid
}

func TestABuilderKilledAnywhereLeavesNothingThatIsUsed(t *testing.T) {
	for i, until := range []string{"building environment", "fetching uv", "Installing collected", "Successfully installed", "built "} {
		t.Run(until, func(t *testing.T) {
			if !commitseed.Plays(i) {
				t.Skip("another commit plays it, and test-long")
			}
			t.Parallel()
			r := offline(t, "alpha\n")
			killed(t, r, until)
			if p := resolve(t, r); !p.Build {
				t.Error("what the killed builder left counts as built")
			}
			if got, _ := List(r.Cache); len(got) != 0 {
				t.Errorf("List = %+v", got)
			}
			ready, j := build(t, r)
			if got := python(t, r, ready, "import alpha, beta; print(alpha.VERSION, beta.VERSION)"); got != "1.0 2.1" {
				t.Errorf("after the kill the script sees %q", got)
			}
			if j.Count("Successfully installed") != 1 {
				t.Errorf("log:\n%s", strings.Join(j, "\n"))
			}
			if got, err := Broken(r.Cache); err != nil || len(got) != 0 {
				t.Errorf("Broken = %+v, %v", got, err)
			}
		})
	}
}

func TestAHalfBuiltEnvironmentIsListedAndRebuilt(t *testing.T) {
	t.Parallel()
	r := offline(t, "alpha\n")
	p := resolve(t, r)
	ready, _ := build(t, r)
	list, err := List(r.Cache)
	if err != nil || len(list) != 1 {
		t.Fatalf("List = %+v, %v", list, err)
	}
	b := list[0]
	if b.Digest != p.Digest[:12] || b.Path != p.environFolder() || b.Size == 0 || b.Made.IsZero() || b.Used.Before(b.Made) || b.From != filepath.Join(r.Dir, "requirements.txt") {
		t.Errorf("built = %+v", b)
	}
	if err := os.Remove(filepath.Join(b.Path, marker)); err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(b.Path, "stray")
	envtest.Write(t, stray, "of the half-built one")
	broken, err := Broken(r.Cache)
	if err != nil || len(broken) != 1 || broken[0].Digest != b.Digest || broken[0].Size == 0 {
		t.Errorf("Broken = %+v, %v", broken, err)
	}
	if !resolve(t, r).Build {
		t.Error("without its marker it counts as built")
	}
	build(t, r)
	if _, err := os.Stat(stray); err == nil {
		t.Error("the new environment was built into the old one")
	}
	// Its interpreter is gone: what stands on it is of no use.
	os.Remove(ready.Interpreter)
	if !resolve(t, r).Build {
		t.Error("without its interpreter it counts as built")
	}
	if err := Remove(t.Context(), r.Cache, b.Digest); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.Path); err == nil {
		t.Error("Remove left it")
	}
}

func TestListsOfNoCacheAreEmpty(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "none")
	list, err := List(cache)
	broken, err2 := Broken(cache)
	if len(list)+len(broken) != 0 || err != nil || err2 != nil {
		t.Errorf("%v, %v, %v, %v", list, broken, err, err2)
	}
}

func TestABuildThatCannotSucceedNamesTheLine(t *testing.T) {
	for _, c := range []struct{ name, requirements, want string }{
		{"no such package", "# ours\nalpha\nnosuch-xyz\n", `build environment: requirements.txt line 3: no package "nosuch-xyz" in the index`},
		{"a conflict", "alpha==1.0\nbeta<2\n", "build environment: requirements.txt: its requirements contradict each other"},
		{"another Python", "future==1.0\n", `build environment: requirements.txt line 1: "future==1.0" needs Python >=9.0, this is VERSION`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := offline(t, c.requirements)
			if c.name == "a conflict" {
				links := strings.TrimPrefix(r.Environ[len(r.Environ)-1], "PIP_FIND_LINKS=")
				wheel(t, links, "beta", "1.0")
			}
			p := resolve(t, r)
			var j envtest.Journal
			_, err := Build(t.Context(), p, j.Log)
			if want := strings.ReplaceAll(c.want, "VERSION", p.self.Version); err == nil || err.Error() != want {
				t.Errorf("err = %v\nwant  %s\nlog:\n%s", err, want, strings.Join(j, "\n"))
			}
			if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
				t.Errorf("kind %s, hint %q", fault.KindOf(err), fault.Hint(err))
			}
			if _, err := os.Stat(p.environFolder()); err == nil {
				t.Error("half an environment was left")
			}
		})
	}
}

func TestAStoppedBuildEndsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	r := offline(t, "alpha\n")
	p := resolve(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Build(ctx, p, func(line string) {
		if strings.HasPrefix(line, "Processing") {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "build environment: ") {
		t.Errorf("err = %v", err)
	}
	if _, err := os.Stat(p.environFolder()); err == nil {
		t.Error("half an environment was left")
	}
}

// gatedUV stands for uv on PATH. The first time, it stops between making the
// environment and filling it, until the test writes to its gate.
const gatedUV = `#!/bin/sh
case "$1" in
--version) echo "uv 0.99.0" ;;
venv) shift 3; exec "$1" -m venv --without-pip "$2" ;;
pip) echo writing; shift 2
	if [ -p GATE ]; then read -r _ <GATE; rm GATE; fi
	exec REAL -m pip --python "$2" install -r "$4" ;;
esac
`

func TestAKilledBuildersToolIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := offline(t, "alpha\n")
	bin := t.TempDir()
	gate := filepath.Join(bin, "gate")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	envtest.Write(t, filepath.Join(bin, "uv"), strings.NewReplacer("GATE", gate, "REAL", r.Python).Replace(gatedUV))
	r.Environ = append(r.Environ, "PATH="+bin+":"+tools.Variable(r.Environ, "PATH"))
	pid := killed(t, r, "writing")

	var j envtest.Journal
	ready, err := Build(t.Context(), resolve(t, r), func(line string) {
		j.Log(line)
		if len(j) == 1 { // the orphan may go on
			if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("waiting for process %d (requirements.txt of %s), which builds the same environment", pid, r.Dir); j[0] != want {
		t.Errorf("the next builder begins with %q, want %q", j[0], want)
	}
	if got := python(t, r, ready, "import alpha; print(alpha.VERSION)"); got != "1.0" {
		t.Errorf("the script sees %q", got)
	}
}

// uvScript stands for uv in a wheel: it notes how it was called and lets venv
// and pip do the work.
const uvScript = `#!/bin/sh
case "$1" in
--version) echo "uv 0.99.0"; exit ;;
venv) echo venv >>NOTES; shift 3; base=$1; exec "$base" -m venv --without-pip "$2" ;;
pip) echo "install links=$UV_FIND_LINKS path=$PYTHONPATH $*" >>NOTES; shift 2
	exec REAL -m pip --python "$2" install -r "$4" ;;
esac
`

func TestUVIsFetchedOnceIntoTheCache(t *testing.T) {
	t.Parallel()
	r := offline(t, "alpha\n")
	r.Environ = append(r.Environ, "PYTHONPATH="+t.TempDir())
	notes := filepath.Join(t.TempDir(), "notes")
	links := tools.Variable(r.Environ, "PIP_FIND_LINKS")
	script := strings.NewReplacer("NOTES", notes, "REAL", r.Python).Replace(uvScript)
	wheelWith(t, links, "uv", "0.99.0", nil, map[string]string{"uv-0.99.0.data/scripts/uv": script})

	var j envtest.Journal
	for _, requirements := range []string{"alpha\n", "beta\n"} {
		envtest.Write(t, filepath.Join(r.Dir, "requirements.txt"), requirements)
		_, one := build(t, r)
		j = append(j, one...)
	}
	if j.Count("fetching uv, once") != 1 || j.Count("with uv 0.99.0 in ") != 2 {
		t.Errorf("log:\n%s", strings.Join(j, "\n"))
	}
	got := envtest.Read(t, notes)
	if strings.Count(got, "venv\n") != 2 || strings.Count(got, "links="+links+" path= pip install --python ") != 2 || strings.Count(got, " --no-index\n") != 2 {
		t.Errorf("uv was called so:\n%s", got)
	}
}
