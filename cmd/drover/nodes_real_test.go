package main_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// debian is the interpreter that has torch 1.13 and mpi4py for Open MPI:
// apt-get install python3-torch python3-mpi4py. They are not in any environment
// that drover could build from the package index in a test's time.
const debian = "/usr/bin/python3"

func TestRealTorchTwoNodesOneModel(t *testing.T) {
	onlyReal(t)
	h := withTorch(t)
	alone := h.train(t, 1, "ddp/train.py")
	together := h.train(t, 2, "ddp/train.py", "--nodes", "2", "--launcher", "torch")
	if !strings.Contains(together[0].text, "rank 0 of 2\n") || !strings.Contains(together[1].text, "rank 1 of 2\n") {
		t.Errorf("they are no group of two:\n%s%s", together[0].text, together[1].text)
	}
	sameLoss(t, alone[0], together...)
}

func TestRealTorchrun(t *testing.T) {
	onlyReal(t)
	h := withTorch(t)
	alone := h.train(t, 1, "ddp/train.py")
	for _, nodes := range []int{1, 2} {
		// With torchrun 1.13 on Python 3.11, processes start only if their stderr is also
		// written to a file.
		got := h.train(t, nodes, "ddp/train.py", "--nodes", strconv.Itoa(nodes), "--procs-per-node", "2", "--launcher", "torchrun",
			"--env", "PET_REDIRECTS=2", "--env", "PET_TEE=2", "--env", "TMPDIR="+t.TempDir())
		for rank, l := range got {
			if want := "rank " + strconv.Itoa(2*rank) + " of " + strconv.Itoa(2*nodes) + "\n"; !strings.Contains(l.text, want) {
				t.Errorf("of %d nodes, %d does not say %q:\n%s", nodes, rank, want, l.text)
			}
		}
		sameLoss(t, alone[0], got...)
	}
}

func TestRealMPIExample(t *testing.T) {
	onlyReal(t)
	h := newHome(t)
	h.bring(t, "mpi")
	alone := h.train(t, 1, "mpi/train.py")
	together := h.train(t, 2, "mpi/train.py", "--nodes", "2", "--procs-per-node", "2", "--launcher", "mpi")
	fourRanks(t, together[0])
	sameLoss(t, alone[0], together[0])
}

// TestRealOpenMPI is the same with Debian's own Open MPI, which asks for a remote
// shell and gets drover's.
func TestRealOpenMPI(t *testing.T) {
	onlyReal(t)
	out, err := exec.CommandContext(t.Context(), debian, "-c", "from mpi4py import MPI; print(MPI.Get_library_version())").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "Open MPI") {
		t.Fatalf("apt-get install openmpi-bin python3-mpi4py: %v\n%s", err, out)
	}
	h := newHome(t)
	h.bring(t, "mpi")
	h.environ = append(h.environ, "DROVER_PYTHON="+debian)
	if err := os.Remove(filepath.Join(h.work, "mpi", "requirements.txt")); err != nil {
		t.Fatal(err)
	}
	alone := h.train(t, 1, "mpi/train.py")
	together := h.train(t, 2, "mpi/train.py", "--nodes", "2", "--procs-per-node", "2", "--launcher", "mpi")
	fourRanks(t, together[0])
	sameLoss(t, alone[0], together[0])
}

// fourRanks sees that each node has run two.
func fourRanks(t *testing.T, l trained) {
	t.Helper()
	for _, want := range []string{"rank 0 of 4 on algo-1", "rank 1 of 4 on algo-1", "rank 2 of 4 on algo-2", "rank 3 of 4 on algo-2"} {
		if strings.Count(l.text, want+"\n") != 1 {
			t.Errorf("it does not say %q once:\n%s", want, l.text)
		}
	}
}

// The example trains where tensorflow is, which is too large for a test.
func TestTheTFExampleFindsItsCluster(t *testing.T) {
	h := newHome(t)
	h.bring(t, "tf")
	out, _ := h.drover(t, 0, "run", "-q", "--no-env", "--nodes", "2", "--launcher", "tf", "tf/train.py", "--show")
	said := regexp.MustCompile(`(?m)^\[(\d)\] worker (\d) of 2: (127\.0\.0\.1:\d+) (127\.0\.0\.1:\d+)$`).FindAllStringSubmatch(out, -1)
	if len(said) != 2 {
		t.Fatalf("two workers, two addresses each, were to be said:\n%s", out)
	}
	for _, s := range said {
		if s[1] != s[2] || s[3] == s[4] || s[3] != said[0][3] || s[4] != said[0][4] {
			t.Errorf("node %s is worker %s of %s and %s:\n%s", s[1], s[2], s[3], s[4], out)
		}
	}
}

// withTorch is a home with examples/ddp, on a machine with torch.
func withTorch(t *testing.T) home {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), debian, "-c", "import torch").CombinedOutput(); err != nil {
		t.Fatalf("apt-get install python3-torch: %v\n%s", err, out)
	}
	h := newHome(t)
	h.bring(t, "ddp")
	h.environ = append(h.environ, "DROVER_PYTHON="+debian)
	return h
}

// trained is what one node printed.
type trained struct {
	text string
	loss map[string]float64 // by epoch
}

var epochLine = regexp.MustCompile(`(?m)^epoch=(\d+) loss=([0-9.]+) `)

// train runs two epochs of a script, which must leave one model, and gives what
// its nodes printed.
func (h home) train(t *testing.T, nodes int, script string, flags ...string) []trained {
	t.Helper()
	out := t.TempDir()
	h.drover(t, 0, append(append([]string{"run", "-q", "-o", out}, flags...), script, "--epochs", "2")...)
	models, err := filepath.Glob(filepath.Join(out, "model", "*"))
	if err != nil || len(models) != 1 {
		t.Errorf("it left the models %s, %v", models, err)
	}
	var all []trained
	for rank := range nodes {
		text, err := os.ReadFile(filepath.Join(out, "logs", "logs"+strconv.Itoa(rank)))
		if err != nil {
			t.Fatal(err)
		}
		l := trained{text: string(text), loss: map[string]float64{}}
		for _, found := range epochLine.FindAllStringSubmatch(l.text, -1) {
			if l.loss[found[1]], err = strconv.ParseFloat(found[2], 64); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, l)
	}
	return all
}

// sameLoss sees that it makes no difference how many train: equal on the nodes of
// one job, and but for rounding on one.
func sameLoss(t *testing.T, alone trained, nodes ...trained) {
	t.Helper()
	if len(alone.loss) != 2 {
		t.Fatalf("one process printed no loss for two epochs:\n%s", alone.text)
	}
	for rank, n := range nodes {
		if diff := cmp.Diff(nodes[0].loss, n.loss); diff != "" {
			t.Errorf("node %d has another loss than node 0 (-0 +%d):\n%s", rank, rank, diff)
		}
		for epoch, want := range alone.loss {
			if got, ok := n.loss[epoch]; !ok || math.Abs(got-want) > 1e-5*want {
				t.Errorf("in epoch %s the loss of node %d is %v, of one process %v", epoch, rank, got, want)
			}
		}
	}
}

// onlyReal is for tests that need what a machine may not have.
func onlyReal(t *testing.T) {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it")
	}
}

// home is a HOME, with its own store, caches and agents, and a folder to work in.
type home struct {
	work    string
	environ []string
}

// newHome makes one that reaches the package index. At the end of the test
// nothing may be alive that was started there.
func newHome(t *testing.T) home {
	t.Helper()
	dir := t.TempDir()
	env := &testscript.Env{WorkDir: dir, Vars: []string{
		"HOME=" + filepath.Join(dir, "home"), "USER=tester",
		"PATH=" + strings.Join([]string{built.dir, built.python, os.Getenv("PATH")}, string(os.PathListSeparator)),
	}}
	h := home{work: filepath.Join(dir, "work")}
	for _, folder := range []string{h.work, env.Getenv("HOME")} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := online(env); err != nil {
		t.Fatal(err)
	}
	h.environ = env.Vars
	t.Cleanup(func() {
		if left := leftovers(dir, patience); len(left) > 0 {
			t.Errorf("left running:\n%s", strings.Join(left, "\n"))
		}
	})
	return h
}

// finds has the home's commands find an account, or a project, by its variables.
func (h *home) finds(environ map[string]string) {
	for name, value := range environ {
		h.environ = append(h.environ, name+"="+value)
	}
}

// bring copies an example into the working folder.
func (h home) bring(t *testing.T, example string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(h.work, example), os.DirFS(filepath.Join("..", "..", "examples", example))); err != nil {
		t.Fatal(err)
	}
}

// drover runs it in the working folder; it must give that exit status.
func (h home) drover(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	c := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = h.work, h.environ, &out, &err
	failed, exit := c.Run(), &exec.ExitError{}
	if failed != nil && !errors.As(failed, &exit) {
		t.Fatal(failed)
	}
	if got := c.ProcessState.ExitCode(); got != want {
		t.Fatalf("drover %s gave %d, want %d\n%s%s", strings.Join(args, " "), got, want, &out, &err)
	}
	return out.String(), err.String()
}

func put(t *testing.T, file string, b []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
