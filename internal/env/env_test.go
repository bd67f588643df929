package env

import (
	"archive/zip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/env/envtest"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

// findPython is asked once: a version manager's shim takes a fifth of a second.
var findPython = sync.OnceValue(func() string {
	for _, name := range []string{"python3", "python"} {
		for _, path := range tools.FindAll(os.Environ(), name) {
			out, err := exec.Command(path, "-c", "import sys; print(sys.executable)").Output()
			if err == nil {
				return strings.TrimSpace(string(out))
			}
		}
	}
	return ""
})

// realPython is the interpreter all tests stand on. Without one they fail:
// a green run must mean that it was driven.
func realPython(t testing.TB) string {
	t.Helper()
	if findPython() == "" {
		t.Fatal("these tests need a python3 that runs")
	}
	return findPython()
}

// request is for a folder of its own, an empty cache, and an environment in
// which pip sees the wheels of links alone and no uv is found.
func request(t testing.TB, wants string) requirements.Request {
	t.Helper()
	r := requirements.Request{Dir: t.TempDir(), Script: "train.py", Python: realPython(t), Cache: filepath.Join(t.TempDir(), "cache")}
	if wants != "" {
		envtest.Write(t, filepath.Join(r.Dir, "requirements.txt"), wants)
	}
	r.Environ = []string{"PATH=" + pathWithoutUV(), "HOME=" + t.TempDir(), "PIP_NO_INDEX=1", "PIP_CONFIG_FILE=/dev/null", "LANG=C.UTF-8"}
	return r
}

func pathWithoutUV() string {
	var keep []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !tools.Runnable(filepath.Join(dir, "uv")) {
			keep = append(keep, dir)
		}
	}
	return strings.Join(keep, ":")
}

// install puts a package's metadata into a folder as an installer would.
func install(t testing.TB, site, name, version string, needs ...string) {
	t.Helper()
	meta := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version)
	for _, n := range needs {
		meta += "Requires-Dist: " + n + "\n"
	}
	base := strings.ReplaceAll(name, "-", "_")
	envtest.Write(t, filepath.Join(site, base+"-"+version+".dist-info", "METADATA"), meta)
}

// wheel makes a package that pip can install: one module with its version as VERSION.
func wheel(t testing.TB, links, name, version string, needs ...string) {
	t.Helper()
	wheelWith(t, links, name, version, needs, map[string]string{name + ".py": fmt.Sprintf("VERSION = %q\n", version)})
}

func wheelWith(t testing.TB, links, name, version string, meta []string, files map[string]string) {
	t.Helper()
	info := fmt.Sprintf("%s-%s.dist-info/", name, version)
	text := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version)
	for _, m := range meta {
		if !strings.HasPrefix(m, "Requires-Python") {
			m = "Requires-Dist: " + m
		}
		text += m + "\n"
	}
	all := map[string]string{
		info + "METADATA": text,
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: drover\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
	}
	record := info + "RECORD,,\n"
	for path, content := range files {
		all[path] = content
	}
	for path := range all {
		record += path + ",,\n"
	}
	all[info+"RECORD"] = record
	if err := os.MkdirAll(links, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(links, fmt.Sprintf("%s-%s-py3-none-any.whl", name, version)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for path, content := range all {
		h := &zip.FileHeader{Name: path, Method: zip.Deflate}
		h.SetMode(0o644)
		if strings.Contains(path, "/scripts/") {
			h.SetMode(0o755)
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

func resolve(t testing.TB, r requirements.Request) Plan {
	t.Helper()
	p, err := Resolve(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAProgramNeedsNoPython(t *testing.T) {
	r := request(t, "nosuch\n")
	r.Script, r.Environ, r.Python = "", nil, ""
	p := resolve(t, r)
	if p.Interpreter != "" || p.Source != requirements.SourceNone || p.Build || p.Digest != "" {
		t.Errorf("plan for a program: %+v", p)
	}
	ready, err := Build(t.Context(), p, nil)
	if err != nil || ready.Interpreter != "" || ready.Environ != nil {
		t.Errorf("Build = %+v, %v", ready, err)
	}
}

func TestCodeWithoutRequirementsRunsInTheActiveInterpreter(t *testing.T) {
	r := request(t, "")
	p := resolve(t, r)
	if p.Source != requirements.SourceActive || p.Interpreter != r.Python || p.Build {
		t.Errorf("plan = %+v", p)
	}
	if !strings.HasSuffix(p.Why, "no requirements file found") {
		t.Errorf("why = %q", p.Why)
	}
}

func TestNoEnvTakesTheInterpreterAsItIs(t *testing.T) {
	r := request(t, "nosuch-package\n-r nosuch.txt\n")
	r.NoEnv = true
	if p := resolve(t, r); p.Source != requirements.SourceActive || p.Build || !strings.HasSuffix(p.Why, "used as it is") {
		t.Errorf("plan = %+v", p)
	}
}

func TestWithoutAnyPythonAFaultSaysWhatToDo(t *testing.T) {
	var said faulttest.Sayings
	for _, python := range []string{"", "python9.9", "9.9", "/nosuch/python", "./nosuch"} {
		r := request(t, "")
		r.Python = python
		r.Environ = []string{"PATH=" + t.TempDir(), "VIRTUAL_ENV=" + t.TempDir()}
		_, err := Resolve(t.Context(), r)
		said.Error("--python="+python, err)
		if fault.KindOf(err) != fault.Missing || !strings.Contains(fault.Hint(err), "--python") {
			t.Errorf("--python %q: %v (%s), hint %q", python, err, fault.KindOf(err), fault.Hint(err))
		}
	}
	said.Compare(t, "no-python")
}

func TestTheActiveInterpreterIsJudgedByItsPackages(t *testing.T) {
	site := t.TempDir()
	install(t, site, "Foo_Bar", "1.5.0", "dep>=2; extra != 'none'", "absent-thing; extra == 'fast'", "dep[gpu]; extra == 'gpu'")
	install(t, site, "dep", "2.1", "deeper<3", "nosuch; extra == 'gpu'")
	install(t, site, "deeper", "2.0")
	install(t, site, "next", "3.0rc1")
	install(t, site, "broken", "1.0", "deeper>=9")
	install(t, site, "circle", "1.0", "elcric")
	install(t, site, "elcric", "1.0", "circle")
	for _, c := range []struct{ name, requirements, why string }{
		{"names are compared as the index does", "foo-bar\nFOO.BAR>=1,<2\n", "has all 2 requirements of requirements.txt"},
		{"one requirement", "dep\n", "has the one requirement of requirements.txt"},
		{"nothing asked for", "# nothing\n", "needs no packages"},
		{"a missing package", "dep\nnosuch-xyz>=1\n", "nosuch-xyz is not in PYTHON"},
		{"a version too low", "foo-bar>=2\n", "PYTHON has foo-bar 1.5.0, not foo-bar>=2"},
		{"another line for the same package", "dep\ndep>3\n", "PYTHON has dep 2.1, not dep>3"},
		{"a marker for elsewhere", "nosuch; python_version < '3'\ndep; sys_platform != 'plan9'\n", "has all 2 requirements of requirements.txt"},
		{"an extra that is not there", "foo-bar[fast]\n", "absent-thing, which foo-bar needs, is not in PYTHON"},
		{"an extra of an extra", "foo-bar[gpu]\n", "nosuch, which dep needs, is not in PYTHON"},
		{"a dependency too low", "broken\n", "PYTHON has deeper 2.0, broken needs deeper>=9"},
		{"a release candidate that is there", "next\n", "has the one requirement of requirements.txt"},
		{"packages that need each other", "circle\n", "has the one requirement of requirements.txt"},
		{"an included file", "-r more/base.txt\n", "nosuch-base is not in PYTHON"},
		{"constraints ask for nothing", "dep\n-c bounds.txt\n", "has the one requirement of requirements.txt"},
		{"constraints bind dependencies", "foo-bar\n--constraint=tight.txt\n", "PYTHON has deeper 2.0, dep needs deeper<2"},
		{"options of the installer", "--index-url https://example.org/simple\n-f links\n--pre\ndep --hash=sha256:00\n", "has the one requirement of requirements.txt"},
		{"an editable", "dep\n-e .\n", "requirements.txt line 2 names a path or an address, which only a build can use"},
		{"a path", "./pkg\n", "requirements.txt line 1 names a path or an address, which only a build can use"},
		{"an address", "dep @ https://example.org/dep-2.1.zip\n", "dep names a path or an address, which only a build can use"},
		{"an address for elsewhere", "dep @ https://example.org/dep-2.1.zip ; sys_platform == 'plan9'\n", "has the one requirement of requirements.txt"},
		{"an included address", "-r https://user:secret@example.org/r.txt\n", "requirements.txt line 1 names a path or an address, which only a build can use"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := request(t, c.requirements)
			envtest.Write(t, filepath.Join(r.Dir, "more", "base.txt"), "nosuch-base\n-r ../requirements.txt\n")
			envtest.Write(t, filepath.Join(r.Dir, "bounds.txt"), "nosuch<1\ndep<9\n")
			envtest.Write(t, filepath.Join(r.Dir, "tight.txt"), "deeper<2\n")
			// What would break the probe if the code folder were on its path.
			envtest.Write(t, filepath.Join(r.Dir, "json.py"), "raise SystemExit('shadowed')\n")
			r.Environ = append(r.Environ, "PYTHONPATH="+site)
			p := resolve(t, r)
			if want := strings.ReplaceAll(c.why, "PYTHON", r.Python); !strings.HasSuffix(p.Why, want) {
				t.Errorf("why = %q, want ... %q", p.Why, want)
			}
			if wantActive := strings.HasPrefix(c.why, "has ") || c.why == "needs no packages"; wantActive != (p.Source == requirements.SourceActive) || wantActive == p.Build {
				t.Errorf("source = %s, build = %t", p.Source, p.Build)
			}
		})
	}
}

func TestAnIncludeThatIsNotThereNamesItsLine(t *testing.T) {
	_, err := Resolve(t.Context(), request(t, "# base\n\n-r nosuch.txt\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "read requirements: requirements.txt line 3: open ") || fault.KindOf(err) != fault.Missing {
		t.Errorf("err = %v", err)
	}
}

// counting stands before the real interpreter and writes a line for each start.
func counting(t testing.TB, r *requirements.Request) (starts func() int) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "starts")
	python := filepath.Join(t.TempDir(), "python3")
	envtest.Write(t, python, fmt.Sprintf("#!/bin/sh\necho start >>%q\nexec %q \"$@\"\n", log, r.Python))
	r.Python = python
	return func() int {
		data, _ := os.ReadFile(log)
		return strings.Count(string(data), "\n")
	}
}

func TestAVerdictIsRememberedUntilWhatItRestsOnChanges(t *testing.T) {
	site := t.TempDir()
	install(t, site, "dep", "1.0")
	r := request(t, "dep\n")
	r.Environ = append(r.Environ, "PYTHONPATH="+site)
	real := r.Python
	starts := counting(t, &r)
	steps := []struct {
		name   string
		change func()
		starts int
		why    string
	}{
		{"first", func() {}, 1, "has the one requirement of requirements.txt"},
		{"nothing changed", func() {}, 1, "has the one requirement of requirements.txt"},
		{"another requirement", func() { envtest.Write(t, filepath.Join(r.Dir, "requirements.txt"), "dep\nother\n") }, 2, "other is not in " + real},
		{"a package installed", func() { install(t, site, "other", "2") }, 3, "has all 2 requirements of requirements.txt"},
		{"a package removed", func() { os.RemoveAll(filepath.Join(site, "other-2.dist-info")) }, 4, "other is not in " + real},
		{"nothing changed since", func() {}, 4, "other is not in " + real},
		{"a comment", func() { envtest.Write(t, filepath.Join(r.Dir, "requirements.txt"), "dep # ours\nother\n") }, 4, "other is not in " + real},
		{"another PYTHONPATH", func() { r.Environ = append(r.Environ, "PYTHONPATH=") }, 5, "dep is not in " + real},
		{"a version manager's file", func() { envtest.Write(t, filepath.Join(r.Dir, ".python-version"), "3.9\n") }, 6, "dep is not in " + real},
		{"an upgraded interpreter", func() { envtest.Write(t, r.Python, envtest.Read(t, r.Python)+"\n") }, 7, "dep is not in " + real},
		{"a torn verdict", func() { tear(t, r.Cache) }, 8, "dep is not in " + real},
	}
	for _, s := range steps {
		s.change()
		p := resolve(t, r)
		if n := starts(); n != s.starts || !strings.HasSuffix(p.Why, s.why) {
			t.Errorf("%s: %d starts, want %d; why = %q, want ... %q", s.name, n, s.starts, p.Why, s.why)
		}
	}
}

func tear(t testing.TB, cache string) {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(cache, "verdicts", "*.json"))
	if len(found) == 0 {
		t.Fatal("no verdict is remembered")
	}
	for _, file := range found {
		text := envtest.Read(t, file)
		envtest.Write(t, file, text[:len(text)/2])
	}
}

func TestTheActiveEnvironmentComesBeforePATH(t *testing.T) {
	r := request(t, "")
	real := r.Python
	r.Python = ""
	for _, name := range []string{"venv", "conda", "bin"} {
		envtest.Write(t, filepath.Join(r.Dir, name, "bin", "python"), fmt.Sprintf("#!/bin/sh\nexec %q \"$@\"\n", real))
		envtest.Write(t, filepath.Join(r.Dir, name, "bin", "python3"), "#!/bin/sh\necho no such version >&2; exit 127\n")
	}
	path := "PATH=" + filepath.Join(r.Dir, "bin", "bin")
	gone := "VIRTUAL_ENV=" + filepath.Join(r.Dir, "gone")
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{[]string{path, "VIRTUAL_ENV=" + filepath.Join(r.Dir, "venv"), "CONDA_PREFIX=" + filepath.Join(r.Dir, "conda")}, "venv/bin/python"},
		{[]string{path, gone, "CONDA_PREFIX=" + filepath.Join(r.Dir, "conda")}, "conda/bin/python"},
		{[]string{path, gone}, "bin/bin/python3"},
	} {
		r.Environ = c.environ
		found, err := candidates(r)
		if err != nil || found[0] != filepath.Join(r.Dir, c.want) {
			t.Errorf("%v: %v, %v; want %s first", c.environ, found, err, c.want)
		}
	}
	// The last one: a python3 that does not run is passed over for python.
	if p := resolve(t, r); p.Interpreter != real {
		t.Errorf("interpreter = %s, want %s", p.Interpreter, real)
	}
}

func TestTheDigestFollowsWhatDecidesThePackages(t *testing.T) {
	r := request(t, "nosuch\n./pkg\n")
	envtest.Write(t, filepath.Join(r.Dir, "pkg", "setup.py"), "one")
	first := resolve(t, r).Digest
	envtest.Write(t, filepath.Join(r.Dir, "requirements.txt"), "# a comment\nnosuch   # another\n\n./pkg\n")
	if d := resolve(t, r).Digest; d != first {
		t.Error("a comment changes the digest")
	}
	envtest.Write(t, filepath.Join(r.Dir, "pkg", "setup.py"), "more")
	changed := resolve(t, r).Digest
	if changed == first {
		t.Error("an edited local package does not change the digest")
	}
	bounds := filepath.Join(r.Dir, "bounds.txt")
	envtest.Write(t, bounds, "dep<1\n")
	r.Environ = append(r.Environ, "PIP_CONSTRAINT="+bounds)
	if resolve(t, r).Digest == changed {
		t.Error("a constraint of the caller's environment does not change the digest")
	}
}

func BenchmarkResolveWhenNothingChanged(b *testing.B) {
	r := request(b, strings.Repeat("packaging\npip\n", 20))
	resolve(b, r)
	for b.Loop() {
		resolve(b, r)
	}
}
