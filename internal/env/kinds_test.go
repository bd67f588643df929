package env

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/envtest"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

// fakeMicromamba is no micromamba: for an environment it makes a virtual one,
// with what pip finds, and the folder that tells conda's from others.
const fakeMicromamba = `#!/bin/sh
case "$1" in
--version) echo "9.9.9"; exit ;;
create) shift ;;
*) echo "unexpected $*"; exit 2 ;;
esac
[ "$1" = --yes ] && [ "$2" = --prefix ] && [ "$4" = --file ] || { echo "unexpected $*"; exit 2; }
echo "solving $5"
if grep -q nosuch "$5"; then
	echo "error    libmamba Could not solve for environment specs"
	echo "    └─ nosuch-xyz =1 * does not exist (perhaps a typo or a missing channel)."
	exit 1
fi
mkdir -p "$3/conda-meta" && touch "$3/conda-meta/python-3.11.7-h0_0.json"
grep -q python "$5" || exit 0
REAL -I -m venv --without-pip "$3" && unzip "$3"
`

// unzip is what the fakes install alpha and beta with: pip takes a second to
// start, ten on a busy machine, and the tests of pip itself are elsewhere.
const unzip = `
unzip() {
	for wheel in "$PIP_FIND_LINKS"/alpha-1.0-*.whl "$PIP_FIND_LINKS"/beta-2.1-*.whl; do
		echo "Processing $wheel"
		"$1/bin/python" -I -m zipfile -e "$wheel" "$1"/lib/python*/site-packages || exit 1
	done
	echo "Successfully installed alpha beta"
}
`

// fakeConda is a folder for PATH with a fake micromamba.
func fakeConda(t testing.TB, real string) string {
	t.Helper()
	bin := t.TempDir()
	envtest.Write(t, filepath.Join(bin, "micromamba"), script(fakeMicromamba, real, ""))
	return bin
}

// script fills in a fake's interpreter and notes.
func script(text, real, notes string) string {
	text = strings.Replace(text, "#!/bin/sh\n", "#!/bin/sh\n"+unzip, 1)
	return strings.NewReplacer("NOTES", notes, "REAL", real).Replace(text)
}

// fakeUV is no uv: venv makes an environment, "sync" unpacks what the test's
// lock names.
const fakeUV = `#!/bin/sh
case "$1" in
--version) echo "uv 0.99.0" ;;
venv) shift 3; exec "$1" -I -m venv --without-pip "$2" ;;
sync) echo "$*" >>NOTES; unzip "$UV_PROJECT_ENVIRONMENT" ;;
pip) shift 2; INSTALL ;;
esac
`

// How a fake uv installs what a requirements file names: pip does it, or
// the file is not read.
const (
	byPip   = `to=$2; file=$4; shift 4; exec REAL -m pip --python "$to" install -r "$file" "$@"`
	byUnzip = `unzip "$(dirname "$(dirname "$2")")"`
)

func withFakeUV(t testing.TB, r *requirements.Request, install string) (notes string) {
	t.Helper()
	bin := t.TempDir()
	notes = filepath.Join(bin, "notes")
	envtest.Write(t, filepath.Join(bin, "uv"), script(strings.ReplaceAll(fakeUV, "INSTALL", install), r.Python, notes))
	r.Environ = append(r.Environ, "PATH="+bin+":"+tools.Variable(r.Environ, "PATH"))
	return notes
}

// kind is a request with one of everyKind, and what builds it on PATH.
func kind(t testing.TB, i int, install string) requirements.Request {
	t.Helper()
	r := offline(t, "")
	k := everyKind[i]
	envtest.Write(t, filepath.Join(r.Dir, k.file), k.text)
	withFakeUV(t, &r, install)
	switch k.source {
	case requirements.SourceUVLock:
		envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), projectOf)
	case requirements.SourceConda:
		r.Environ = append(r.Environ, "PATH="+fakeConda(t, r.Python)+":"+tools.Variable(r.Environ, "PATH"))
	}
	return r
}

func TestEachKindIsBuiltOnceByTwoWhoWantIt(t *testing.T) {
	for i, k := range everyKind {
		t.Run(k.source, func(t *testing.T) {
			t.Parallel()
			r := kind(t, i, byPip)
			p := resolve(t, r)
			var journals [2]envtest.Journal
			var errs [2]error
			var wg sync.WaitGroup
			for n := range journals {
				wg.Go(func() { _, errs[n] = Build(t.Context(), p, journals[n].Log) })
			}
			wg.Wait()
			if err := errors.Join(errs[:]...); err != nil {
				t.Fatalf("%v\n%s", err, strings.Join(append(journals[0], journals[1]...), "\n"))
			}
			if n := journals[0].Count("Successfully installed") + journals[1].Count("Successfully installed"); n != 1 {
				t.Errorf("%d builds, want 1", n)
			}
			later := resolve(t, r)
			if later.Build || !strings.HasPrefix(later.Why, "built from "+k.title+": ") {
				t.Errorf("later plan = %+v", later)
			}
			ready, err := Build(t.Context(), later, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := python(t, r, ready, "import alpha, beta; print(alpha.VERSION, beta.VERSION)"); got != "1.0 2.1" {
				t.Errorf("the script sees %q", got)
			}
			if left, _ := filepath.Glob(filepath.Join(p.environFolder(), "requirements*")); len(left) > 0 {
				t.Errorf("%s is left, and may hold an index's password", left)
			}
		})
	}
}

func TestEachKindSurvivesTheDeathOfItsBuilder(t *testing.T) {
	for i, k := range everyKind {
		t.Run(k.source, func(t *testing.T) {
			t.Parallel()
			r := kind(t, i, byUnzip)
			killed(t, r, "Processing")
			if p := resolve(t, r); !p.Build {
				t.Error("what the killed builder left counts as built")
			}
			ready, _ := build(t, r)
			if got := python(t, r, ready, "import alpha, beta; print(alpha.VERSION, beta.VERSION)"); got != "1.0 2.1" {
				t.Errorf("after the kill the script sees %q", got)
			}
		})
	}
}

func TestALockIsGivenToUVAsItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ lock, args string }{
		{"uv.lock", "--frozen --no-install-project --no-editable --no-index"},
		{"train.py.lock", "--script DIR/train.py --active --frozen --no-index"},
	} {
		r := offline(t, "")
		notes := withFakeUV(t, &r, byUnzip)
		envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), projectOf)
		envtest.Write(t, filepath.Join(r.Dir, c.lock), lockOf)
		if c.lock != "uv.lock" {
			envtest.Write(t, filepath.Join(r.Dir, "train.py"), block("dependencies = ['alpha']"))
		}
		p := resolve(t, r)
		build(t, r)
		want := "sync --python " + p.self.Base + " " + strings.ReplaceAll(c.args, "DIR", r.Dir) + "\n"
		if got := envtest.Read(t, notes); got != want {
			t.Errorf("uv was called so: %q\nwant %q", got, want)
		}
		changed := strings.Replace(lockOf, `hash = "sha256:00"`, `hash = "sha256:01"`, 1)
		envtest.Write(t, filepath.Join(r.Dir, c.lock), changed)
		if resolve(t, r).Digest == p.Digest {
			t.Errorf("%s: the digest does not follow a hash", c.lock)
		}
	}
}

func TestWhatOnlyUVCanBuildIsRefusedWithoutIt(t *testing.T) {
	t.Parallel()
	for file, c := range map[string][2]string{
		"uv.lock":        {lockOf, "only uv reads uv.lock"},
		"train.py":       {block("dependencies = ['alpha']", "[tool.uv]", "exclude-newer = 2024-01-01T00:00:00Z"), "train.py line 5 has [tool.uv] exclude-newer, which only uv follows"},
		"pyproject.toml": {projectOf + "[tool.uv.sources]\nalpha = { index = 'mine' }\n", "pyproject.toml line 7 has [tool.uv] sources, which only uv follows"},
	} {
		r := offline(t, "")
		envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), projectOf)
		envtest.Write(t, filepath.Join(r.Dir, file), c[0])
		p := resolve(t, r)
		if p.asked.OnlyUV != c[1] {
			t.Errorf("why only uv: %q, want %q", p.asked.OnlyUV, c[1])
		}
		if file != "uv.lock" {
			continue // one search for uv with pip is slow enough
		}
		_, err := Build(t.Context(), p, nil)
		if fault.KindOf(err) != fault.Missing || !strings.HasPrefix(err.Error(), "build environment: "+c[1]+": ") || !strings.Contains(fault.Hint(err), "uv") {
			t.Errorf("err = %v, hint %q\nwant %s", err, fault.Hint(err), c[1])
		}
		if _, err := os.Stat(p.environFolder()); err == nil {
			t.Error("half an environment was left")
		}
	}
}

func TestHashesAreHeldTo(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"requirements.txt", "Pipfile.lock"} {
		r := offline(t, "")
		withFakeUV(t, &r, byPip)
		lock := func(alpha string) {
			beta := fileHash(t, filepath.Join(tools.Variable(r.Environ, "PIP_FIND_LINKS"), "beta-2.1-py3-none-any.whl"))
			text := fmt.Sprintf("alpha==1.0 --hash=sha256:%s\nbeta==2.1 \\\n    --hash=sha256:%s\n", alpha, beta)
			if file == "Pipfile.lock" {
				text = fmt.Sprintf(`{"default": {"alpha": {"version": "==1.0", "hashes": ["sha256:%s"]}, "beta": {"version": "==2.1", "hashes": ["sha256:%s"]}}}`, alpha, beta)
			}
			envtest.Write(t, filepath.Join(r.Dir, file), text)
		}
		lock(strings.Repeat("0", 64))
		_, err := Build(t.Context(), resolve(t, r), nil)
		if fault.KindOf(err) != fault.Denied || !strings.HasSuffix(err.Error(), "the downloaded alpha is not the file that its hash names") {
			t.Errorf("%s: err = %v", file, err)
		}
		lock(fileHash(t, filepath.Join(tools.Variable(r.Environ, "PIP_FIND_LINKS"), "alpha-1.0-py3-none-any.whl")))
		ready, _ := build(t, r)
		if got := python(t, r, ready, "import alpha; print(alpha.VERSION)"); got != "1.0" {
			t.Errorf("%s: the script sees %q", file, got)
		}
	}
}

func fileHash(t *testing.T, path string) string {
	t.Helper()
	return fmt.Sprintf("%x", sha256.Sum256([]byte(envtest.Read(t, path))))
}

func TestAFolderOfWheelsMayBeNamedByTheFile(t *testing.T) {
	t.Parallel()
	r := request(t, "--no-index\n--find-links wheels\nalpha\n")
	wheel(t, filepath.Join(r.Dir, "wheels"), "alpha", "1.0")
	ready, _ := build(t, r)
	if got := python(t, r, ready, "import alpha; print(alpha.VERSION)"); got != "1.0" {
		t.Errorf("the script sees %q", got)
	}
	before := resolve(t, r).Digest
	wheel(t, filepath.Join(r.Dir, "wheels"), "alpha", "1.1")
	if resolve(t, r).Digest == before {
		t.Error("the digest does not follow a wheel that the file may choose")
	}
}

// A tool that repeats an index's address, as the older ones do.
const tellingUV = `#!/bin/sh
case "$1" in
--version) echo "uv 0.99.0" ;;
venv) mkdir -p "$5/bin" ;;
pip) echo "index is $UV_DEFAULT_INDEX and $UV_INDEX"; echo "error: something at $UV_DEFAULT_INDEX/x" >&2; exit 1 ;;
esac
`

func TestNoPasswordOfAnIndexIsSaid(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	envtest.Write(t, filepath.Join(bin, "uv"), tellingUV)
	for _, where := range []string{"PIP_INDEX_URL", "UV_DEFAULT_INDEX", "pip.conf"} {
		r := request(t, "alpha\n--extra-index-url https://user:hunter2@example.org/simple\n")
		url := "https://user:hunt%40er2@own.example.org/simple"
		r.Environ = append(r.Environ, "PATH="+bin+":"+tools.Variable(r.Environ, "PATH"), "PIP_EXTRA_INDEX_URL=https://hunter2@b.example.org https://u:hun@ter2@c.example.org")
		if where == "pip.conf" {
			conf := filepath.Join(t.TempDir(), "pip.conf")
			envtest.Write(t, conf, "[global]\nindex-url = https://user:hunt%%40er2@own.example.org/simple\n")
			r.Environ = append(r.Environ, "PIP_CONFIG_FILE="+conf)
		} else {
			r.Environ = append(r.Environ, where+"="+url)
		}
		p := resolve(t, r)
		var j envtest.Journal
		_, err := Build(t.Context(), p, j.Log)
		said := strings.Join(append(j, p.Why, fmt.Sprint(err), fault.Hint(err)), "\n")
		if !strings.Contains(said, "index is https://***@own.example.org/simple and https://***@b.example.org https://***@c.example.org") {
			t.Errorf("%s: the index is not the one that was named:\n%s", where, said)
		}
		if strings.Contains(said, "hun") || strings.Contains(said, "ter2") || err == nil {
			t.Errorf("%s: a password is said:\n%s", where, said)
		}
	}
}

func TestCondaBuildsFromItsFile(t *testing.T) {
	t.Parallel()
	r := offline(t, "")
	file := filepath.Join(r.Dir, "environment.yml")
	r.Environ = append(r.Environ, "PATH="+fakeConda(t, r.Python)+":"+tools.Variable(r.Environ, "PATH"), "VIRTUAL_ENV=/other")
	envtest.Write(t, file, "name: x\ndependencies: [python=3.11, numpy, {pip: [alpha]}]\nvariables: {MODE: fast, N: 3}\n")
	p := resolve(t, r)
	ready, j := build(t, r)
	if j.Count("solving "+file) != 1 || j.Count("with micromamba 9.9.9 in ") != 1 {
		t.Errorf("log:\n%s", strings.Join(j, "\n"))
	}
	got := python(t, r, ready, "import alpha, os, shutil; print(*(os.environ[n] for n in ('CONDA_PREFIX', 'MODE', 'N')), repr(os.environ['VIRTUAL_ENV']), shutil.which('python'))")
	if want := fmt.Sprintf("%s fast 3 '' %s", p.environFolder(), p.Interpreter); got != want {
		t.Errorf("the script sees %q, want %q", got, want)
	}
	if list, _ := List(r.Cache); len(list) != 1 || list[0].Python != p.Interpreter {
		t.Errorf("List = %+v", list)
	}
	// It stands on no interpreter of ours: another one finds it, too.
	bare := r
	bare.Environ = append(bare.Environ, "PATH="+fakePythonDir(t))
	bare.Python = ""
	if other := resolve(t, bare); other.Build || other.Digest != p.Digest {
		t.Errorf("another active interpreter: %+v", other)
	}
	for text, want := range map[string]string{
		"dependencies: [python, nosuch-xyz=1]\n": `environment.yml: no package "nosuch-xyz" in its channels`,
		"dependencies: [numpy]\n":                "environment.yml: it brings no python",
	} {
		envtest.Write(t, file, text)
		_, err := Build(t.Context(), resolve(t, r), nil)
		if fault.KindOf(err) != fault.Invalid || err.Error() != "build environment: "+want || fault.Hint(err) == "" {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func fakePythonDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	fakePython(t, dir, "python3", "3.12.1")
	return dir
}
