package env

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/envtest"
	"github.com/drover-run/drover/internal/env/requirements"
)

// indexed is a request against the real package index, as this machine's own pip
// settings name it. With a uv cache of its own, so that the first build is cold.
func indexed(t *testing.T, wants string) requirements.Request {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it: it downloads 60 MB")
	}
	r := requirements.Request{Dir: t.TempDir(), Script: "train.py", Python: realPython(t), Cache: filepath.Join(t.TempDir(), "cache")}
	envtest.Write(t, filepath.Join(r.Dir, "requirements.txt"), wants)
	r.Environ = append(os.Environ(), "UV_CACHE_DIR="+t.TempDir())
	return r
}

func TestRealTheDigitsExampleTrainsInAFreshEnvironment(t *testing.T) {
	code, err := filepath.Abs("../../examples/digits")
	if err != nil {
		t.Fatal(err)
	}
	r := indexed(t, envtest.Read(t, filepath.Join(code, "requirements.txt")))
	began := time.Now()
	lap := func(what string) {
		t.Logf("%6.2f s  %s", time.Since(began).Seconds(), what)
		began = time.Now()
	}
	p := resolve(t, r)
	lap("resolve: " + p.Why)
	ready, j := build(t, r)
	lap("build, cold, uv fetched: " + j[len(j)-1])
	train := func(want string) {
		cmd := exec.Command(ready.Interpreter, filepath.Join(code, "train.py"), "--epochs", "3")
		cmd.Dir, cmd.Env = t.TempDir(), append(r.Environ, ready.Environ...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%v: %s", err, out)
		}
		if _, err := os.Stat(filepath.Join(cmd.Dir, "model", "model.joblib")); err != nil {
			t.Error(err)
		}
	}
	train("epoch=3 loss=")
	lap("first training, 3 epochs")
	train("epoch=3 loss=")
	lap("second training")
	resolve(t, r)
	lap("resolve again")
	if err := Remove(t.Context(), r.Cache, p.Digest[:12]); err != nil {
		t.Fatal(err)
	}
	lap("remove")
	_, j = build(t, r)
	lap("build, uv and its cache warm: " + j[len(j)-1])
}

func TestRealUVsComplaintsAreUnderstood(t *testing.T) {
	for requirements, want := range map[string]string{
		"idna\nnosuch-xyz-drover\n":                           `build environment: requirements.txt line 2: no package "nosuch-xyz-drover" in the index`,
		"idna==99\n":                                          `build environment: requirements.txt line 1: the index has no "idna==99" for Python VERSION`,
		"urllib3<1.20\nrequests==2.31.0\n":                    "build environment: requirements.txt: its requirements contradict each other",
		"idna\n\nidna ==\n":                                   "build environment: requirements.txt line 3: it is not a requirement",
		"idna==3.10 --hash=sha256:" + strings.Repeat("0", 64): "build environment: requirements.txt line 1: the downloaded idna is not the file that its hash names",
	} {
		r := indexed(t, requirements)
		p := resolve(t, r)
		var j envtest.Journal
		_, err := Build(t.Context(), p, j.Log)
		want = strings.ReplaceAll(want, "VERSION", p.self.Version)
		if err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s\n%s", err, want, strings.Join(j, "\n"))
		}
	}
}

func TestRealAnIndexThatDoesNotAnswerIsSaid(t *testing.T) {
	r := indexed(t, "flit-core\n")
	r.Environ = append(r.Environ, "PIP_INDEX_URL=http://127.0.0.1:9/simple", "UV_DEFAULT_INDEX=http://127.0.0.1:9/simple", "UV_HTTP_RETRIES=0", "PIP_RETRIES=1")
	_, err := Build(t.Context(), resolve(t, r), nil)
	if fault.KindOf(err) != fault.Lost || err.Error() != "build environment: the package index does not answer" {
		t.Errorf("err = %v", err)
	}
}

// realUV is uv as drover would fetch it, to make locks with.
func realUV(t *testing.T, r requirements.Request) string {
	t.Helper()
	p := resolve(t, r)
	b := builder{plan: &p, log: func(line string) { t.Log(line) }}
	uv, err := b.findOrFetchUV(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return uv
}

func TestRealUVFollowsItsLocksAndSettings(t *testing.T) {
	const settings = "[tool.uv]\nexclude-newer = \"2024-01-01T00:00:00Z\"\n" // six 1.16.0 was the newest
	for _, c := range []struct {
		name, lock string
		files      map[string]string
	}{
		{"a project", "lock", map[string]string{"pyproject.toml": "[project]\nname = \"proj\"\nversion = \"1\"\nrequires-python = \">=3.9\"\ndependencies = [\"six\"]\n[dependency-groups]\ndev = [\"iniconfig\"]\n" + settings}},
		{"a script", "", map[string]string{"train.py": block("dependencies = ['six', 'iniconfig']", "[tool.uv]", "exclude-newer = '2024-01-01T00:00:00Z'")}},
		{"a script's lock", "lock --script train.py", map[string]string{"train.py": block("dependencies = ['six', 'iniconfig']", "[tool.uv]", "exclude-newer = '2024-01-01T00:00:00Z'")}},
		{"a project without a lock", "", map[string]string{"pyproject.toml": "[project]\nname = \"proj\"\nversion = \"1\"\ndependencies = [\"six\", \"iniconfig\"]\n" + settings}},
	} {
		r := indexed(t, "")
		for name, text := range c.files {
			envtest.Write(t, filepath.Join(r.Dir, name), text)
		}
		if err := os.Remove(filepath.Join(r.Dir, "requirements.txt")); err != nil {
			t.Fatal(err)
		}
		if c.lock != "" {
			cmd := exec.Command(realUV(t, r), append(strings.Fields(c.lock), "--python", r.Python)...)
			cmd.Dir, cmd.Env = r.Dir, r.Environ
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", c.name, err, out)
			}
		}
		// An interpreter that has neither, or it would do as it is.
		empty := filepath.Join(t.TempDir(), "empty")
		if out, err := exec.Command(r.Python, "-m", "venv", "--without-pip", empty).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		r.Python = empty
		before := filesBelow(t, r.Dir)
		ready, _ := build(t, r)
		if got := python(t, r, ready, "import six, iniconfig; print(six.__version__)"); got != "1.16.0" {
			t.Errorf("%s: the script sees six %s", c.name, got)
		}
		if !slices.Equal(before, filesBelow(t, r.Dir)) {
			t.Errorf("%s: the build left something in the code folder", c.name)
		}
		// What uv made from the lock is what the lock asks an interpreter for.
		r.Python = filepath.Dir(filepath.Dir(ready.Interpreter))
		if p := resolve(t, r); c.lock != "" && (p.Source != requirements.SourceActive || !strings.Contains(p.Why, " has all ")) {
			t.Errorf("%s: inside, why = %q", c.name, p.Why)
		}
	}
}

// filesBelow returns the paths below dir, in their order.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
