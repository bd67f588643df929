package env

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/env/envtest"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

// searchingUV looks for settings where uv does, in the folder it is started in and in
// those above, and notes the nearest. VERB is the one that fails.
const searchingUV = `#!/bin/sh
[ "$1" = --version ] && { echo "uv 0.99.0"; exit; }
dir=$PWD
while :; do
	if [ -e "$dir/uv.toml" ]; then echo "$1 $dir/uv.toml" >>NOTES; break; fi
	if grep -qsF "[tool.uv]" "$dir/pyproject.toml"; then echo "$1 $dir/pyproject.toml" >>NOTES; break; fi
	[ "$dir" = / ] && break
	dir=$(dirname "$dir")
done
case "$1" in
VERB) exit 1 ;;
venv) shift 3; exec "$1" -I -m venv --without-pip "$2" ;;
esac
`

// inJob moves a request's code into a job's folder, below a folder in which every user
// may make files.
func inJob(t *testing.T, r *requirements.Request) (shared string) {
	t.Helper()
	shared = filepath.Join(t.TempDir(), "shared")
	r.Job = filepath.Join(shared, "job")
	code := filepath.Join(r.Job, "opt", "code")
	if err := os.MkdirAll(filepath.Dir(code), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.Dir, code); err != nil {
		t.Fatal(err)
	}
	r.Dir = code
	return shared
}

func TestSettingsAboveAJobsFolderDecideNoBuild(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, own, fails string
		want             string // the settings that each call of uv finds, below the job's folder
	}{
		{"without settings of its own", "", "none", "pyproject.toml"},
		{"with its own", "uv.toml", "none", "opt/code/uv.toml"},
		{"of a build that fails", "", "pip", "pyproject.toml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := request(t, "alpha\n")
			shared := inJob(t, &r)
			envtest.Write(t, filepath.Join(shared, "uv.toml"), "index-url = \"https://planted.example.org/simple\"\n")
			envtest.Write(t, filepath.Join(shared, "pyproject.toml"), "[tool.uv]\n[tool.uv.workspace]\nmembers = [\"**\"]\n")
			if c.own != "" {
				envtest.Write(t, filepath.Join(r.Dir, c.own), "")
			}
			bin := t.TempDir()
			notes := filepath.Join(bin, "notes")
			envtest.Write(t, filepath.Join(bin, "uv"), strings.NewReplacer("NOTES", notes, "VERB", c.fails).Replace(searchingUV))
			r.Environ = append(r.Environ, "PATH="+bin+":"+tools.Variable(r.Environ, "PATH"))
			if _, err := Build(t.Context(), resolve(t, r), nil); (err != nil) != (c.fails != "none") {
				t.Fatalf("build: %v", err)
			}
			found := filepath.Join(r.Job, c.want)
			if got, want := envtest.Read(t, notes), "venv "+found+"\npip "+found+"\n"; got != want {
				t.Errorf("uv finds\n%swant\n%s", got, want)
			}
			if _, err := os.Lstat(filepath.Join(r.Job, fenceFile)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the build leaves %s: %v", fenceFile, err)
			}
		})
	}
}

// What the code and its user say goes on working, with a real uv: an index of the user's
// own settings, and a package that lies in the code.
func TestRealUVTakesNothingFromAboveAJobsFolder(t *testing.T) {
	r := indexed(t, "alpha\n./gamma\n")
	uv := realUV(t, r)
	envtest.Write(t, filepath.Join(r.Dir, "gamma", "pyproject.toml"), "[project]\nname = \"gamma\"\nversion = \"1\"\ndependencies = [\"beta\"]\n"+
		"[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n")
	envtest.Write(t, filepath.Join(r.Dir, "gamma", "backend.py"), gammaBackend)
	shared := inJob(t, &r)
	home, links, planted := t.TempDir(), t.TempDir(), t.TempDir()
	wheel(t, links, "alpha", "1.0")
	wheel(t, links, "beta", "1.0")
	wheel(t, planted, "alpha", "9.0")
	wheel(t, planted, "beta", "9.0")
	envtest.Write(t, filepath.Join(home, ".config", "uv", "uv.toml"), "no-index = true\nfind-links = [\""+links+"\"]\n")
	r.Environ = []string{"PATH=" + filepath.Dir(uv) + ":" + pathWithoutUV(), "HOME=" + home, "PIP_CONFIG_FILE=/dev/null", "UV_CACHE_DIR=" + t.TempDir()}
	for name, text := range map[string]string{
		"uv.toml":        "find-links = [\"" + planted + "\"]\n",
		"pyproject.toml": "[tool.uv.workspace]\nmembers = [\"job/opt/code/gamma\"]\n[tool.uv.sources]\nbeta = { path = \"" + filepath.Join(planted, "beta-9.0-py3-none-any.whl") + "\" }\n",
	} {
		envtest.Write(t, filepath.Join(shared, name), text)
		r.Cache = filepath.Join(t.TempDir(), "cache")
		ready, _ := build(t, r)
		if got := python(t, r, ready, "import alpha, beta; print(alpha.VERSION, beta.VERSION)"); got != "1.0 1.0" {
			t.Errorf("with a planted %s: alpha and beta are %s, want 1.0 1.0", name, got)
		}
		if err := os.Remove(filepath.Join(shared, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// gammaBackend builds the one wheel that it knows, so that no index has to be asked for
// a build backend.
const gammaBackend = `import os, zipfile
def build_wheel(to, settings=None, metadata=None):
    name = "gamma-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(to, name), "w") as z:
        z.writestr("gamma.py", "")
        z.writestr("gamma-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: gamma\nVersion: 1\nRequires-Dist: beta\n")
        z.writestr("gamma-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("gamma-1.dist-info/RECORD", "")
    return name
`
