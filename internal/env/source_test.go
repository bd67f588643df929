package env

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/env/envtest"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

// block is a PEP 723 block of these lines.
func block(lines ...string) string {
	text := "#!/usr/bin/env python3\n# /// script\n"
	for _, l := range lines {
		text += strings.TrimRight("# "+l, " ") + "\n"
	}
	return text + "# ///\nimport alpha\n"
}

// lockOf is a uv.lock as uv 0.13.9 writes it, of a project that needs alpha,
// which needs beta.
const lockOf = `version = 1
revision = 5
requires-python = ">=3.8"

[[package]]
name = "alpha"
version = "1.0"
source = { registry = "https://pypi.org/simple" }
dependencies = [
    { name = "beta" },
]
wheels = [
    { url = "https://example.org/alpha-1.0-py3-none-any.whl", hash = "sha256:00" },
]

[[package]]
name = "beta"
version = "2.1"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "tests"
version = "3"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "proj"
version = "0.1.0"
source = { virtual = "." }
dependencies = [
    { name = "alpha" },
    { name = "absent", marker = "sys_platform == 'plan9'" },
]

[package.dev-dependencies]
dev = [
    { name = "tests" },
]
`

const projectOf = "[project]\nname = \"proj\"\nversion = \"0.1.0\"\ndependencies = [\n  \"alpha\",\n]\n"

const pipfileOf = `{"_meta": {"hash": {"sha256": "00"}, "pipfile-spec": 6, "requires": {}, "sources": [{"name": "pypi", "url": "https://pypi.org/simple", "verify_ssl": true}]},
"default": {"alpha": {"index": "pypi", "markers": "python_version >= '3.7'", "version": "==1.0"}, "beta": {"version": "==2.1"}}, "develop": {"nosuch": {"version": "==1"}}}`

// every way to ask for alpha, in the order in which they count.
var everyKind = []struct{ file, text, source, title string }{
	{"train.py", block(`dependencies = [`, `  "alpha",`, `]`), requirements.SourceScript, "the PEP 723 block of train.py"},
	{"uv.lock", lockOf, requirements.SourceUVLock, "uv.lock"},
	{"requirements.txt", "alpha\n", requirements.SourceRequirements, "requirements.txt"},
	{"pyproject.toml", projectOf, requirements.SourceProject, "pyproject.toml"},
	{"Pipfile.lock", pipfileOf, requirements.SourcePipfile, "Pipfile.lock"},
	{"environment.yml", "dependencies: [python, {pip: [alpha]}]\n", requirements.SourceConda, "environment.yml"},
}

func TestEachPlanSaysWhichFileAndWhy(t *testing.T) {
	t.Parallel()
	bare, full := t.TempDir(), t.TempDir()
	for _, p := range [][]string{{"alpha", "1.0", "beta>=2"}, {"beta", "2.1"}, {"tests", "3"}} {
		install(t, full, p[0], p[1], p[2:]...)
	}
	all := request(t, "")
	all.Environ = append(all.Environ, "PYTHONPATH="+bare, "PATH="+fakeConda(t, all.Python)+":"+tools.Variable(all.Environ, "PATH"))
	for i := len(everyKind) - 1; i >= 0; i-- {
		k := everyKind[i]
		envtest.Write(t, filepath.Join(all.Dir, k.file), k.text)
		if i == 2 { // a pyproject.toml stands beside each uv.lock
			envtest.Write(t, filepath.Join(all.Dir, "pyproject.toml"), projectOf)
		}
		p := resolve(t, all)
		why := "alpha is not in " + all.Python
		if k.source == requirements.SourceConda {
			why = all.Python + " is not in a conda environment"
		}
		if want := "building from " + k.title + ": " + why; p.Why != want || p.Source != k.source || !p.Build {
			t.Errorf("%s: %s, build %t, why = %q, want %q", k.file, p.Source, p.Build, p.Why, want)
		}
		if k.source == requirements.SourceConda {
			continue
		}
		r := all
		r.Environ = append(r.Environ, "PYTHONPATH="+full)
		count := map[string]string{requirements.SourceUVLock: "all 3 requirements of ", requirements.SourcePipfile: "all 2 requirements of "}[k.source]
		if count == "" {
			count = "the one requirement of "
		}
		if p := resolve(t, r); p.Source != requirements.SourceActive || p.Build || !strings.HasSuffix(p.Why, "has "+count+k.title) {
			t.Errorf("%s, satisfied: %s, build %t, why = %q", k.file, p.Source, p.Build, p.Why)
		}
	}
}

func TestAFileWithoutPackagesAsksForNothing(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"[tool.black]\nline-length = 100\n":               "no requirements file found; its pyproject.toml has no [project] with dependencies of its own",
		"[project]\nname = 'x'\nversion = '1'\n":          "no requirements file found; its pyproject.toml has no [project] with dependencies of its own",
		"[project]\ndynamic = ['dependencies']\n":         "no requirements file found; its pyproject.toml has no [project] with dependencies of its own",
		"[project]\ndependencies = []\n":                  "has all it needs: pyproject.toml needs no packages",
		"[project]\nrequires-python = '>=3.8, <4'\n":      "has all it needs: pyproject.toml needs no packages",
		"[project]\ndependencies = ['nosuch-build-me']":   "nosuch-build-me is not in PYTHON",
		"[project]\ndependencies = ['x @ file:///x.whl']": "x names a path or an address, which only a build can use",
	} {
		r := request(t, "")
		envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), text)
		if p := resolve(t, r); !strings.HasSuffix(p.Why, strings.ReplaceAll(why, "PYTHON", r.Python)) {
			t.Errorf("%q: why = %q, want ... %q", text, p.Why, why)
		}
	}
}

func TestPoetrysFilesAreSaidToBeUnread(t *testing.T) {
	r := request(t, "")
	envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), "[tool.poetry.dependencies]\nalpha = '^1'\n")
	envtest.Write(t, filepath.Join(r.Dir, "poetry.lock"), "")
	if p := resolve(t, r); p.Source != requirements.SourceActive || !strings.Contains(p.Why, "poetry export") {
		t.Errorf("plan = %+v", p)
	}
}

func TestABrokenFileIsNamedWithItsLine(t *testing.T) {
	var said faulttest.Sayings
	for _, c := range []struct{ file, text, want string }{
		{"train.py", "import x\n# /// script\n# dependencies = [\n#   \"alpha\",\n# ///\n", "train.py line 5: the end where a value should be"},
		{"train.py", "# /// script\n# dependencies = 'alpha'\n# ///\n", "train.py line 2: dependencies is not a list"},
		{"train.py", "# /// script\n# dependencies = ['a',\n#  1]\n# ///\n", "train.py line 3: dependencies holds something that is not text"},
		{"train.py", "# /// script\n#\n# dependencies = ['a', '--index-url=x']\n# ///\n", `train.py line 3: "--index-url=x" is not a requirement`},
		{"train.py", "# /// script\n# dependencies = ['a\\nb', \"a\\nb\"]\n# ///\n", `train.py line 2: "a\\nb" is not a requirement`},
		{"train.py", "# /// script\n# dependencies = ['https://u:secret@example.org/x.whl']\n# ///\n", `train.py line 2: "https://***@example.org/x.whl" is not a requirement`},
		{"train.py", "# /// script\n# dependencies = []\nimport x\n# ///\n", `train.py line 3: the block "# /// script" ends without a line "# ///"`},
		{"train.py", block("dependencies = []") + block("dependencies = []"), `train.py line 7: a second block "# /// script"`},
		{"train.py", block("requires-python = 'newest'"), `train.py line 3: "newest" is not a range of the Python versions`},
		{"pyproject.toml", "[project]\ndependencies = ['./here']\n", `pyproject.toml line 2: "./here" is not a requirement`},
		{"pyproject.toml", "[project]\nrequires-python = 3.9\n", "pyproject.toml line 2: requires-python is not text"},
		{"pyproject.toml", "[project\n", `pyproject.toml line 1: the end of the line where "]" should be`},
		{"uv.lock", "version = 1\n[[package]]\nversion = '1'\n", "uv.lock line 2: a package without a name"},
		{"Pipfile.lock", `{"default": {"a b": {"version": "==1"}}}`, `Pipfile.lock: "a b==1" is not a requirement`},
		{"Pipfile.lock", `{"default": {"-r": {"version": "==1"}}}`, `Pipfile.lock: "-r==1" is not a requirement`},
		{"Pipfile.lock", `{"default": {"a": {"version": "==1", "hashes": ["sha256:0\n-r x"]}}}`, `Pipfile.lock: "a==1" is not a requirement`},
		{"Pipfile.lock", `{`, "Pipfile.lock: unexpected end of JSON input"},
		{"environment.yml", "dependencies: [\n", "environment.yml: [1:15] sequence end token ']' not found"},
		{"environment.yml", "dependencies: [{pip: [1]}]\n", "environment.yml: its pip section holds something that is not text"},
	} {
		r := request(t, "")
		if c.file == "uv.lock" {
			envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), projectOf)
		}
		envtest.Write(t, filepath.Join(r.Dir, c.file), c.text)
		_, err := Resolve(t.Context(), r)
		said.Error(c.want, err)
		if err == nil || err.Error() != "read requirements: "+c.want || fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "--no-env") {
			t.Errorf("%v (%s), hint %q\nwant %s", err, fault.KindOf(err), fault.Hint(err), c.want)
		}
		r.NoEnv = true
		if m, err := requirements.Read(r); m != nil || err != nil {
			t.Errorf("%s: --no-env reads it: %v", c.file, err)
		}
	}
	said.Compare(t, "files")
}

func TestALockWithoutItsProjectIsRefused(t *testing.T) {
	r := request(t, "")
	envtest.Write(t, filepath.Join(r.Dir, "uv.lock"), lockOf)
	_, err := Resolve(t.Context(), r)
	if fault.KindOf(err) != fault.Missing || err.Error() != "read requirements: uv.lock: there is no pyproject.toml beside it" {
		t.Errorf("err = %v", err)
	}
}

func TestALockBindsWhatComesWithThePackages(t *testing.T) {
	for _, c := range []struct {
		name, change, to, why string
	}{
		{"the version of the lock", "version = \"2.1\"", "version = \"2.2\"", "PYTHON has beta 2.1, alpha needs beta==2.2"},
		{"a group that uv takes by default", "version = \"3\"", "version = \"4\"", "PYTHON has tests 3, not tests==4"},
		{"a version for elsewhere", "version = \"2.1\"", "version = \"9\"\nresolution-markers = [\n  \"python_version < '3'\", \"sys_platform == 'plan9'\",\n]", "has all 3 requirements of uv.lock"},
		{"an extra", "{ name = \"alpha\" }", "{ name = \"alpha\", extra = [\"fast\"] }", "absent-thing, which alpha needs, is not in PYTHON"},
		{"git", "name = \"beta\"\nversion = \"2.1\"\nsource = { registry = \"https://pypi.org/simple\" }", "name = \"beta\"\nversion = \"2.1\"\nsource = { git = \"https://example.org/b?rev=1#1\" }", "beta names a path or an address, which only a build can use"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			site := t.TempDir()
			install(t, site, "alpha", "1.0", "beta>=2", "absent-thing; extra == 'fast'")
			install(t, site, "beta", "2.1")
			install(t, site, "tests", "3")
			r := request(t, "")
			r.Environ = append(r.Environ, "PYTHONPATH="+site)
			envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), projectOf)
			text := strings.ReplaceAll(lockOf, c.change, c.to)
			if text == lockOf {
				t.Fatal("nothing is changed")
			}
			envtest.Write(t, filepath.Join(r.Dir, "uv.lock"), text)
			if p := resolve(t, r); !strings.HasSuffix(p.Why, strings.ReplaceAll(c.why, "PYTHON", r.Python)) {
				t.Errorf("why = %q, want ... %q", p.Why, c.why)
			}
		})
	}
}

func TestGroupsAreThoseOfTheProject(t *testing.T) {
	r := request(t, "")
	site := t.TempDir()
	install(t, site, "alpha", "1.0")
	r.Environ = append(r.Environ, "PYTHONPATH="+site)
	envtest.Write(t, filepath.Join(r.Dir, "uv.lock"), lockOf)
	envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), projectOf)
	if p := resolve(t, r); !strings.HasSuffix(p.Why, "tests is not in "+r.Python) {
		t.Errorf("why = %q", p.Why)
	}
	envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), projectOf+"[tool.uv]\ndefault-groups = []\n")
	if p := resolve(t, r); p.Source != requirements.SourceActive {
		t.Errorf("without the group, why = %q", p.Why)
	}
}

// fakePython is no interpreter: it answers the probe as a Python of that
// version without packages would.
func fakePython(t *testing.T, dir, name, version string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	envtest.Write(t, path, fmt.Sprintf("#!/bin/sh\necho '{\"self\": {\"executable\": %q, \"base\": %q, \"prefix\": \"/fake\", \"version\": %q}, \"missing\": {\"name\": \"alpha\"}}'\n", path, path, version))
	return path
}

func TestAnotherPythonIsTakenWhereTheFileDoesNotAllowTheFirst(t *testing.T) {
	bin := t.TempDir()
	old := fakePython(t, bin, "python3", "3.9.2")
	fakePython(t, bin, "python3.9", "3.9.2")
	fit := fakePython(t, bin, "python3.12", "3.12.1")
	fakePython(t, bin, "python3.13", "3.13.0")
	envtest.Write(t, filepath.Join(bin, "python3.11"), "#!/bin/sh\nexit 127\n")
	for file, text := range map[string]string{
		"pyproject.toml": "[project]\nrequires-python = '>=3.10,<3.13'\ndependencies = ['alpha']\n",
		"train.py":       block("requires-python = '>=3.10,<3.13'", "dependencies = ['alpha']"),
		"Pipfile.lock":   `{"_meta": {"requires": {"python_version": "3.12"}}, "default": {"alpha": {"version": "==1.0"}}}`,
	} {
		r := request(t, "")
		r.Python, r.Environ = "", []string{"PATH=" + bin}
		envtest.Write(t, filepath.Join(r.Dir, file), text)
		p := resolve(t, r)
		if p.self.Executable != fit || !p.Build || !strings.HasSuffix(p.Why, old+" is 3.9.2 and "+fit+" is 3.12.1") {
			t.Errorf("%s: %+v", file, p)
		}
		r.Python = old // named: then no other will do
		_, err := Resolve(t.Context(), r)
		if fault.KindOf(err) != fault.Invalid || !strings.HasSuffix(err.Error(), "but "+old+" is 3.9.2") || !strings.Contains(fault.Hint(err), "--python") {
			t.Errorf("%s: err = %v, hint %q", file, err, fault.Hint(err))
		}
	}
	r := request(t, "")
	envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), "[project]\n\nrequires-python = '>=3.99'\n")
	_, err := Resolve(t.Context(), r)
	if err == nil || !strings.HasPrefix(err.Error(), "resolve python: pyproject.toml line 3: it needs Python >=3.99, but "+r.Python) {
		t.Errorf("err = %v", err)
	}
}

func TestThePackagesOfAnActiveCondaEnvironmentAreJudged(t *testing.T) {
	t.Parallel()
	real := realPython(t)
	r := request(t, "")
	// A fake environment of conda: a prefix with its own list of packages, and
	// in it a Python that has the real one's library.
	prefix := t.TempDir()
	for _, p := range []string{"python-3.11.7-h1_0", "numpy-1.26.4-py311_0", "ca-certificates-2024a-h0_0"} {
		envtest.Write(t, filepath.Join(prefix, "conda-meta", p+".json"), "{}")
	}
	out, err := exec.Command(real, "-c", "import sys; print(sys.base_prefix)").Output()
	if err != nil {
		t.Fatal(err)
	}
	envtest.Write(t, filepath.Join(prefix, "pyvenv.cfg"), "home = "+filepath.Join(strings.TrimSpace(string(out)), "bin")+"\ninclude-system-site-packages = true\n")
	if err := os.MkdirAll(filepath.Join(prefix, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Python = filepath.Join(prefix, "bin", "python")
	if err := os.Symlink(real, r.Python); err != nil {
		t.Fatal(err)
	}
	r.Environ = append(r.Environ, "PATH="+fakeConda(t, real)+":"+tools.Variable(r.Environ, "PATH"))
	for deps, why := range map[string]string{
		"[python=3.11, numpy]":                                         "has all it needs: environment.yml needs no packages",
		"['conda-forge::numpy>=1.20,<2', python]":                      "has all it needs: environment.yml needs no packages",
		"[numpy=1.26, 'numpy 1.26.4', NumPy==1.26.*, ca-certificates]": "has all it needs: environment.yml needs no packages",
		"[numpy=1.27]":               r.Python + " has numpy 1.26.4, not numpy==1.27.*",
		"[scipy]":                    "scipy is not in " + r.Python,
		"['numpy=1.26=mkl']":         r.Python + ` may not do: "numpy=1.26=mkl" cannot be evaluated here`,
		"[numpy, {pip: [nosuch-x]}]": "nosuch-x is not in " + r.Python,
		"[{pip: [pip]}]":             "has the one requirement of environment.yml",
	} {
		envtest.Write(t, filepath.Join(r.Dir, "environment.yml"), "name: x\nchannels: [conda-forge]\ndependencies: "+deps+"\n")
		if p := resolve(t, r); !strings.HasSuffix(p.Why, why) {
			t.Errorf("%s: why = %q, want ... %q", deps, p.Why, why)
		}
	}
}

func TestWithoutCondaAFaultSaysWhatToDo(t *testing.T) {
	r := request(t, "")
	envtest.Write(t, filepath.Join(r.Dir, "environment.yaml"), "dependencies: [python]\n")
	_, err := Resolve(t.Context(), r)
	want := "build environment: environment.yaml: there is no micromamba, mamba or conda here"
	if fault.KindOf(err) != fault.Missing || err.Error() != want || !strings.Contains(fault.Hint(err), "micromamba") || !strings.Contains(fault.Hint(err), "--python") {
		t.Errorf("err = %v, hint %q", err, fault.Hint(err))
	}
	// With conda there need be no other Python at all.
	r.Python, r.Environ = "", []string{"PATH=" + fakeConda(t, realPython(t))}
	if p := resolve(t, r); !p.Build || p.Why != "building from environment.yaml: there is no python here" {
		t.Errorf("plan = %+v", p)
	}
	var f *fault.Fault
	if r.Python = "nosuch"; !errors.As(second(Resolve(t.Context(), r)), &f) || !strings.Contains(f.Text, `"nosuch"`) {
		t.Errorf("a --python that is not there is passed over")
	}
}

func second(_ Plan, err error) error { return err }

func TestNewTokensOfAnIndexBuildNothingNew(t *testing.T) {
	digests := map[string]bool{}
	for _, token := range []string{"one", "two"} {
		r := request(t, "--extra-index-url https://user:"+token+"@example.org/simple\nalpha @ https://"+token+"@example.org/alpha.whl\n")
		digests[resolve(t, r).Digest] = true
	}
	if len(digests) != 1 {
		t.Error("the digest follows a password")
	}
}

func TestTheSameCodeInAnotherFolderHasTheSameEnvironment(t *testing.T) {
	t.Parallel()
	for file, text := range map[string]string{
		"requirements.txt": "./pkg\nnosuch\n",
		"Pipfile.lock":     `{"default": {"pkg": {"path": "./pkg"}}}`,
		"train.py":         block("dependencies = ['nosuch', 'pkg']", "[tool.uv.sources]", "pkg = { path = 'pkg' }"),
	} {
		var digests []string
		for _, content := range []string{"one", "one", "two"} {
			r := request(t, "")
			envtest.Write(t, filepath.Join(r.Dir, file), text)
			envtest.Write(t, filepath.Join(r.Dir, "pkg", "setup.py"), content)
			digests = append(digests, resolve(t, r).Digest)
		}
		if digests[0] != digests[1] || digests[1] == digests[2] {
			t.Errorf("%s: digests %q", file, digests)
		}
	}
}
