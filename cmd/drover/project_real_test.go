//go:build linux

package main_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver/docker/dockerd"
)

// project is a git checkout with what public repositories have: a package and requirements at
// the root, and scripts in folders that read from those beside them.
func (h home) project(t *testing.T) home {
	t.Helper()
	repo := filepath.Join(h.work, "repo")
	for name, text := range map[string]string{
		"pkg/__init__.py":   "N = 3\n",
		"conf/a.yaml":       "lr: 0.1\n",
		"requirements.txt":  "# nothing that is not there\n",
		"scripts/train.py":  "import os, sys\nsys.path.insert(0, os.getcwd())\nimport pkg\nprint('package', pkg.N, 'with', open(sys.argv[1]).read().strip())\n",
		"src/app.py":        "import os\nconf = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'conf')\nprint('configurations', os.listdir(conf))\n",
		"data/rows.csv":     "1,2\n",
		"demo/guide/cv.py":  "import os\nhere = os.path.dirname(os.path.abspath(__file__))\nprint('rows', open(os.path.join(here, '../../data/rows.csv')).read().strip())\n",
		"demo/guide/cwd.py": "import os\nprint('in', os.path.relpath(os.getcwd(), os.path.dirname(os.path.abspath(__file__))))\n",
	} {
		put(t, filepath.Join(repo, name), []byte(text))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git: %v\n%s", err, out)
		}
	}
	h.work = repo
	return h
}

// runsAsAtHome runs the project's scripts as they are typed at home.
func (h home) runsAsAtHome(t *testing.T, flags ...string) {
	t.Helper()
	run := func(h home, want string, line ...string) {
		t.Helper()
		if out, _ := h.drover(t, 0, append(append([]string{"run"}, flags...), line...)...); !strings.Contains(out, want+"\n") {
			t.Errorf("%s does not say %q:\n%s", line[0], want, out)
		}
	}
	run(h, "package 3 with lr: 0.1", "scripts/train.py", "conf/a.yaml")
	run(h, "configurations ['a.yaml']", "src/app.py")
	run(h, "rows 1,2", "demo/guide/cv.py")
	h.work = filepath.Join(h.work, "demo")
	run(h, "in ..", "guide/cwd.py")
}

func TestRealDockerRunsAProjectAsAtHome(t *testing.T) {
	onlyReal(t)
	withDocker(t).project(t).runsAsAtHome(t, "--on", "docker", "--image", dockerd.Debian)
}

func TestRealSlurmRunsAProjectAsAtHome(t *testing.T) {
	onlyReal(t)
	withSlurm(t).project(t).runsAsAtHome(t)
}
