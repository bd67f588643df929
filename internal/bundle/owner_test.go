package bundle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/bundle/bundletest"
)

// giveAway makes files another user's.
func giveAway(t *testing.T, paths ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a file another user's")
	}
	for _, path := range paths {
		if err := os.Lchown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
}

// Each is a way to a walk: git refuses a repository of another user's, and there is no git.
var withoutGit = map[string]func(*testing.T){
	"git refuses": func(t *testing.T) {
		for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"} { // which could name it as safe
			t.Setenv(name, os.DevNull)
		}
	},
	"no git": func(t *testing.T) { t.Setenv("PATH", t.TempDir()) },
}

func TestAnothersIgnoreFilesAboveTheCodeLeaveNothingOut(t *testing.T) {
	for how, set := range withoutGit {
		t.Run(how, func(t *testing.T) {
			shared := t.TempDir()
			git(t, shared, "init", "-q")
			bundletest.WriteFiles(t, shared, map[string]string{
				".gitignore": "weights.bin\n", ".git/info/exclude": "*.py\n",
				"mine/.gitignore": "*.log\n", "mine/a.log": "x", "mine/a.py": "x", "mine/weights.bin": "x",
			})
			giveAway(t, shared, filepath.Join(shared, ".git"), filepath.Join(shared, ".gitignore"), filepath.Join(shared, ".git/info/exclude"))
			set(t)
			l := scan(t, Source{Dir: filepath.Join(shared, "mine")})
			if diff := cmp.Diff([]string{".gitignore", "a.py", "weights.bin"}, names(l)); diff != "" || l.How != "walk" {
				t.Errorf("by %s: %s", l.How, diff)
			}
			if want := "not used, because it belongs to another user: "; !slices.ContainsFunc(l.Notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
				t.Errorf("the notes %q say nothing of it", l.Notes)
			}
		})
	}
}

func TestAnothersFileInOnesOwnRepositoryHoldsNoRules(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no git there: it would read them
	for name, plant := range map[string]func(path string) error{
		"a file":           func(path string) error { return os.WriteFile(path, []byte("a.py\n"), 0o644) },
		"a pipe":           func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"a link to my own": func(path string) error { return os.Symlink("../rules", path) },
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			bundletest.WriteFiles(t, top, map[string]string{".git/info/exclude": "*.tmp\n", ".gitignore": "*.log\n", "rules": "a.py\n",
				"shared/mine/a.py": "x", "shared/mine/a.log": "x", "shared/mine/a.tmp": "x"})
			planted := filepath.Join(top, "shared", ".gitignore")
			if err := plant(planted); err != nil {
				t.Fatal(err)
			}
			giveAway(t, filepath.Join(top, "shared"), planted)
			if diff := cmp.Diff([]string{"a.py"}, names(scan(t, Source{Dir: filepath.Join(top, "shared", "mine")}))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
