package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/proctest"
)

// overlaid gives the seat an overlay at the folder live, over shipped: what the machine
// has there, and what is laid on top of it. It skips the test where the kernel has none.
func (s *seat) overlaid(live string) {
	s.t.Helper()
	for _, name := range []string{"up", "work", "shipped"} {
		if err := os.MkdirAll(filepath.Join(s.dir, name), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	s.view.Overlays = []mount.Overlay{{Target: live, Lower: []string{s.dir + "/shipped", live}, Upper: s.dir + "/up", Work: s.dir + "/work",
		Also: []string{seatML + "/code"}}}
	s.own(s.dir)
	if why := s.noOverlay(); why != "" {
		s.t.Skip(why)
	}
}

// noOverlay says why this kernel has no overlay of the simplest kind.
func (s *seat) noOverlay() string {
	s.t.Helper()
	dir := filepath.Join(s.dir, "probe")
	for _, name := range []string{"lower", "up", "work"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	s.own(dir)
	view := s.view
	s.view = mount.View{Overlays: []mount.Overlay{{Target: dir + "/lower", Lower: []string{dir + "/lower"}, Upper: dir + "/up", Work: dir + "/work"}}}
	defer func() { s.view = view }()
	cmd := s.agent("exit 0", nil)
	cmd.Stdout = nil
	out, _ := cmd.Output()
	if why, refused := strings.CutPrefix(string(out), "no overlay: "); refused {
		return why
	}
	return ""
}

// tree is all that is below dir: what each name is, and the content of files.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			all[rel] = "folder"
		case d.Type().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[rel] = string(text)
		case d.Type()&fs.ModeCharDevice != 0 && info.Sys().(*syscall.Stat_t).Rdev == 0:
			all[rel] = "removed"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			all[rel] = "to " + to
		default:
			all[rel] = d.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWhatIsWrittenInAnOverlayIsInItsUpperFolderAlone(t *testing.T) {
	inEachView(t, func(s *seat) {
		live := s.dir + "/live"
		for name, text := range map[string]string{"train.py": "edited\n", "data/x": "ignored\n", "old/a": "a\n", "old/b": "b\n", "gone": "gone\n"} {
			proctest.WriteFile(s.t, live+"/"+name, text, 0o644)
		}
		proctest.Link(s.t, "data", live+"/linked")
		proctest.WriteFile(s.t, s.dir+"/beside/x", "beside\n", 0o644)
		proctest.WriteFile(s.t, s.dir+"/shipped/train.py", "shipped\n", 0o644)
		s.overlaid(live)
		before, shipped := tree(s.t, live), tree(s.t, s.dir+"/shipped")
		got := s.run(`set -e; cd live; pwd; ls; cat train.py data/x linked/x ../beside/x
			echo new > ckpt; mkdir -p deep/er; echo more >> data/x; cat data/x; echo over > train.py
			rm gone; rm -r old; mkdir old; echo c > old/c; ls old; mv data/x data/y; chmod 600 train.py
			cd ` + seatML + `/code; cat ckpt train.py; echo there > from-ml; cat ` + live + `/from-ml; ls`)
		want := live + "\ndata\ngone\nlinked\nold\ntrain.py\nshipped\nignored\nignored\nbeside\nignored\nmore\nc\nnew\nover\nthere\n" +
			"ckpt\ndata\ndeep\nfrom-ml\nlinked\nold\ntrain.py\n"
		if diff := cmp.Diff(want, got); diff != "" {
			s.t.Error(diff)
		}
		for dir, was := range map[string]map[string]string{live: before, s.dir + "/shipped": shipped} {
			if diff := cmp.Diff(was, tree(s.t, dir)); diff != "" {
				s.t.Errorf("%s (-before +after):\n%s", dir, diff)
			}
		}
		made := map[string]string{".": "folder", "ckpt": "new\n", "deep": "folder", "deep/er": "folder", "data": "folder", "data/x": "removed", "data/y": "ignored\nmore\n",
			"train.py": "over\n", "gone": "removed", "old": "folder", "old/c": "c\n", "from-ml": "there\n"}
		if diff := cmp.Diff(made, tree(s.t, s.dir+"/up")); diff != "" {
			s.t.Errorf("upper folder:\n%s", diff)
		}
		// Once more over the same upper folder, as after a restart.
		if err := os.RemoveAll(s.dir + "/work"); err != nil {
			s.t.Fatal(err)
		}
		s.overlaid(live)
		if got := s.run("cd live; cat ckpt train.py; ls old data"); got != "new\nover\ndata:\ny\n\nold:\nc\n" {
			s.t.Errorf("once more: %q", got)
		}
	})
}

func TestFoldersOfAnOverlayMayHaveAnyName(t *testing.T) {
	for _, name := range []string{"a,b", "a:b", `a\b`, `a\:b\\,c`, "with blank", "line\nend", "lowerdir=x,upperdir=y", "\xff\xfe", `a"b'c`, "$(x)", strings.Repeat("n", 250)} {
		s := newSeat(t, plainUser, false)
		s.view = mount.View{}
		dir := filepath.Join(s.dir, name)
		proctest.WriteFile(t, dir+"/live/x", "live\n", 0o644)
		proctest.WriteFile(t, dir+"/shipped/y", "shipped\n", 0o644)
		for _, sub := range []string{"up", "work"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		s.own(s.dir)
		if why := s.noOverlay(); why != "" {
			t.Skip(why)
		}
		s.view = mount.View{Overlays: []mount.Overlay{{Target: dir + "/live", Lower: []string{dir + "/shipped", dir + "/live"}, Upper: dir + "/up", Work: dir + "/work"}}}
		part := agentPart{Script: "cat x y; echo new > z", Dir: dir + "/live"}
		if !strings.Contains(name, "\xff") { // JSON, by which the test's agent gets it, has no such names
			if got := s.start(part); got != "live\nshipped\n" {
				t.Errorf("%q: %q", name, got)
			}
			if b, err := os.ReadFile(dir + "/up/z"); err != nil || string(b) != "new\n" {
				t.Errorf("%q: %q, %v", name, b, err)
			}
		}
	}
}

// What is mounted in a lower folder is another file system, which an overlay does not show by itself.
func TestWhatIsMountedInAnOverlaysFolderIsShownReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	inEachView(t, func(s *seat) {
		live := s.dir + "/live"
		proctest.WriteFile(s.t, live+"/data set/x", "", 0o644)
		s.overlaid(live)
		if err := unix.Mount("none", live+"/data set", "tmpfs", 0, ""); err != nil {
			s.t.Fatal(err)
		}
		defer func() {
			if err := unix.Unmount(live+"/data set", 0); err != nil {
				s.t.Error(err)
			}
		}()
		proctest.WriteFile(s.t, live+"/data set/mounted", "", 0o644)
		cmd := s.agent("ls 'live/data set'; echo > live/y; echo > 'live/data set/z' || echo refused", nil)
		cmd.Stdout, cmd.Stderr = nil, nil
		out, _ := cmd.Output()
		if strings.HasPrefix(string(out), "no overlay: ") && s.uid != 0 {
			return // the kernel does not let a plain user uncover what is below the mount
		}
		lines := strings.SplitAfter(string(out), "\n")
		said := strings.Join(slices.DeleteFunc(lines, func(line string) bool {
			return strings.HasPrefix(line, "namespace ") // the agent's own line, before or between those of the program
		}), "")
		if said != "mounted\nrefused\n" {
			s.t.Errorf("got %q", out)
		}
	})
}

func TestAnOverlayThatTheKernelRefusesIsTold(t *testing.T) {
	inEachView(t, func(s *seat) {
		s.overlaid(s.dir + "/ml")
		s.view.Overlays[0].Work = "/dev/shm" // another file system than that of the upper folder
		var at, home unix.Stat_t
		if err := errors.Join(unix.Stat("/dev/shm", &at), unix.Stat(s.dir, &home)); err != nil || at.Dev == home.Dev {
			s.t.Skip("one file system only")
		}
		cmd := s.agent("echo > ran", nil)
		cmd.Stdout, cmd.Stderr = nil, os.Stderr
		out, _ := cmd.Output()
		if want := "no overlay: " + mount.ErrNoOverlay.Error() + ": lay folders over "; !strings.HasPrefix(string(out), want) {
			s.t.Errorf("got %q, want %q", out, want)
		}
		if _, err := os.Stat(s.dir + "/ran"); err == nil {
			s.t.Error("the program ran")
		}
	})
}
