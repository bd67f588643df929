package proc

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/proctest"
)

// plainUser has no name on any machine, and groups beside its own.
const (
	plainUser  = 54321
	extraGroup = 54322
)

// seat is a folder of an agent's, and the view of it that its programs get.
type seat struct {
	t         *testing.T
	dir       string // with ml, state and hosts
	view      mount.View
	uid       int
	subreaper bool
}

// Two targets that no machine has, one of them below a folder of its own.
const (
	seatML    = "/drover-test-ml/opt/ml"
	seatState = "/opt/drover-test-state"
)

// inEachView runs f as root and as a plain user, with either pen.
func inEachView(t *testing.T, f func(s *seat)) {
	for _, who := range []struct {
		name      string
		uid       int
		subreaper bool
	}{{"root", 0, false}, {"root subreaper", 0, true}, {"plain", plainUser, false}, {"plain subreaper", plainUser, true}} {
		t.Run(who.name, func(t *testing.T) {
			uid := who.uid
			if own := os.Geteuid(); own != 0 {
				if uid == 0 {
					t.Skip("needs root")
				}
				uid = own
			}
			f(newSeat(t, uid, who.subreaper))
		})
	}
}

func newSeat(t *testing.T, uid int, subreaper bool) *seat {
	t.Helper()
	dir := filepath.Dir(publicCopy(t)) // beside the copy, which it shows
	s := &seat{t: t, dir: dir, uid: uid, subreaper: subreaper}
	proctest.WriteFile(t, dir+"/ml/code/x", "", 0o644)
	proctest.WriteFile(t, dir+"/state/x", "", 0o644)
	proctest.WriteFile(t, dir+"/hosts", "10.0.0.1 algo-1\n", 0o644)
	s.own(dir)
	if first := s.probe(); strings.HasPrefix(first, "refused: ") {
		t.Skip(first)
	} else if first == "namespace false\n" && !subreaper {
		t.Skip("no PID namespace for a view here") // as in a container, where a part of /proc is hidden
	}
	s.view = mount.View{Hostname: "algo-1", Binds: []mount.Bind{{Source: dir + "/ml", Target: seatML}, {Source: dir + "/state", Target: seatState}, {Source: dir + "/hosts", Target: "/etc/hosts"}}}
	return s
}

var probed = map[string]string{}

// probe is what an agent of this kind first says on this machine, with a view of
// the simplest kind. Whatever is refused after that is a failure.
func (s *seat) probe() string {
	s.t.Helper()
	kind := fmt.Sprint(s.uid, s.subreaper)
	if _, known := probed[kind]; !known {
		s.view = mount.View{Hostname: "algo-1", Binds: []mount.Bind{{Source: s.dir, Target: "/drover-test-probe"}}}
		cmd := s.agent("exit 0", nil)
		cmd.Stdout, cmd.Stderr = nil, os.Stderr
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != noView {
			s.t.Fatal(err)
		}
		probed[kind] = string(out)
	}
	return probed[kind]
}

// own gives all of dir to the user.
func (s *seat) own(dir string) {
	s.t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || os.Geteuid() != 0 {
			return err
		}
		return os.Lchown(path, s.uid, s.uid)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// as has cmd run as the user.
func (s *seat) as(cmd *exec.Cmd) *exec.Cmd {
	cmd.Path, cmd.Dir = s.dir+"/test", s.dir
	cmd.Env = append(cmd.Env, "SELF="+cmd.Path)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{
			Uid: uint32(s.uid), Gid: uint32(s.uid), Groups: []uint32{uint32(s.uid), extraGroup}}}
	}
	return cmd
}

// agent is one that will start script in the view.
func (s *seat) agent(script string, stdout *os.File) *exec.Cmd {
	s.t.Helper()
	return s.as(agentPart{Script: script, Herded: s.subreaper, View: &s.view}.command(s.t, stdout))
}

// begin starts an agent that does not outlive the test, nor does its tree.
func (s *seat) begin(cmd *exec.Cmd) *exec.Cmd {
	s.t.Helper()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// run gives what script wrote, in the view and in the seat's folder.
func (s *seat) run(script string) string {
	s.t.Helper()
	return s.start(agentPart{Script: script})
}

// start gives what the part's program wrote, or why it was not started.
func (s *seat) start(part agentPart) string {
	s.t.Helper()
	part.Herded, part.View, part.Out = s.subreaper, &s.view, filepath.Join(s.dir, "said")
	cmd := s.as(part.command(s.t, nil))
	cmd.Stdout, cmd.Stderr = nil, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	if string(out) == "namespace false\n" && !s.subreaper {
		s.t.Errorf("a tree by subreaper, though this machine has PID namespaces")
	}
	text, err := os.ReadFile(part.Out)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.Remove(part.Out); err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *seat) outside(script string) string {
	s.t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = os.Environ()
	s.as(cmd)
	cmd.Path, cmd.Stderr = "/bin/sh", os.Stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out)
}

func TestAViewShowsItsFoldersAndNothingIsMadeOnTheMachine(t *testing.T) {
	inEachView(t, func(s *seat) {
		opt, _ := os.ReadDir("/opt") // it need not exist
		host, _ := os.Hostname()
		got := s.run(`cd ` + seatML + `; pwd; ls; echo made > code/x; echo more > y; echo kept > ` + seatState + `/x
			cat /etc/hosts; uname -n; ls -d ` + s.dir + `/ml; touch ` + s.dir + `/ml/beside; ls`)
		want := seatML + "\ncode\n10.0.0.1 algo-1\nalgo-1\n" + s.dir + "/ml\nbeside\ncode\ny\n"
		if diff := cmp.Diff(want, got); diff != "" {
			s.t.Error(diff)
		}
		for name, want := range map[string]string{"ml/code/x": "made\n", "ml/y": "more\n", "state/x": "kept\n"} {
			if b, err := os.ReadFile(filepath.Join(s.dir, name)); err != nil || string(b) != want {
				s.t.Errorf("%s: %q, %v", name, b, err)
			}
		}
		for _, path := range []string{"/drover-test-ml", seatState, mount.OldRoot} {
			if _, err := os.Lstat(path); err == nil {
				s.t.Errorf("the machine has %s", path)
			}
		}
		if after, _ := os.ReadDir("/opt"); len(after) != len(opt) {
			s.t.Errorf("/opt has %d entries, had %d", len(after), len(opt))
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil || strings.Contains(string(mounts), s.dir) || strings.Contains(string(mounts), "drover-test") {
			s.t.Errorf("mounts are left: %s, %v", mounts, err)
		}
		if name, err := os.Hostname(); name != host {
			s.t.Errorf("the machine is now %q, %v", name, err)
		}
		for _, name := range []string{"ml", "state", "hosts"} {
			if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
				s.t.Error(err)
			}
		}
	})
}

// entries lists / and /opt: links by where they lead, all else by inode.
const entries = `for f in /* /.[!.]* /opt/*; do
	if [ -L "$f" ]; then echo "$f to $(readlink "$f")"; else stat -c '%n %d:%i' "$f"; fi; done`

func TestAViewKeepsTheRestOfTheMachine(t *testing.T) {
	inEachView(t, func(s *seat) {
		ours := func(line string) bool {
			return strings.HasPrefix(line, "/drover-test-ml ") || strings.HasPrefix(line, seatState+" ") ||
				strings.HasPrefix(line, "/opt ") || strings.HasPrefix(line, "/proc ") && !s.subreaper
		}
		list := func(text string) []string { return slices.DeleteFunc(strings.Split(text, "\n"), ours) }
		if diff := cmp.Diff(list(s.outside(entries)), list(s.run(entries))); diff != "" {
			s.t.Error(diff)
		}
		looks := `pwd; ls ml; echo > from-inside && rm from-inside; echo > /dev/null && stat -c '%t %T' /dev/null; stat -c %d:%i "$HOME" /sys /dev /tmp
			for f in / /opt /etc /tmp; do if [ -w $f ]; then echo "$f w"; fi; done; umask`
		if diff := cmp.Diff(s.outside(looks), s.run(looks)); diff != "" {
			s.t.Error(diff)
		}
		// In folders built anew root writes to memory alone; others no more than before.
		s.run(`exec 2>&1; echo > /drover-test-file; echo > /opt/drover-test-file; exit 0`)
		for _, path := range []string{"/drover-test-file", "/opt/drover-test-file"} {
			if err := os.Remove(path); err == nil {
				s.t.Errorf("%s was written", path)
			}
		}
	})
}

func TestAViewLeavesTheUserHisRightsAndNoOthers(t *testing.T) {
	inEachView(t, func(s *seat) {
		proctest.WriteFile(s.t, s.dir+"/group", "for the group\n", 0o644)
		if os.Geteuid() == 0 {
			if err := os.Chown(s.dir+"/group", 54399, extraGroup); err != nil {
				s.t.Fatal(err)
			}
			if err := os.Chmod(s.dir+"/group", 0o040); err != nil {
				s.t.Fatal(err)
			}
		}
		rights := `id -u; id -g; cat group; grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Seccomp|SigBlk)' /proc/self/status`
		inside := s.run(rights)
		if diff := cmp.Diff(s.outside(rights), inside); diff != "" {
			s.t.Error(diff)
		}
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			if s.uid != 0 && !strings.Contains(inside, set+":\t0000000000000000\n") {
				s.t.Errorf("%s is not empty: %s", set, inside)
			}
		}
	})
}

func TestWhatTheMachineHasIsShownInPlace(t *testing.T) {
	inEachView(t, func(s *seat) {
		proctest.WriteFile(s.t, s.dir+"/there/x", "", 0o644)
		proctest.WriteFile(s.t, s.dir+"/real/below/x", "hidden", 0o644)
		proctest.Link(s.t, "real", s.dir+"/link")
		s.own(s.dir)
		s.view = mount.View{Binds: []mount.Bind{
			{Source: s.dir + "/ml", Target: s.dir + "/there"}, {Source: s.dir + "/state", Target: s.dir + "/link/below"}, {Source: s.dir + "/hosts", Target: s.dir + "/there/code/x"},
		}}
		root := s.outside("stat -c %d:%i /; uname -n")
		got := s.run("stat -c %d:%i /; uname -n; ls there real/below; cat there/code/x")
		if want := root + "real/below:\nx\n\nthere:\ncode\n10.0.0.1 algo-1\n"; got != want {
			s.t.Error(cmp.Diff(want, got))
		}
	})
}

func TestASourceBelowAnotherTargetIsTheMachines(t *testing.T) {
	inEachView(t, func(s *seat) {
		s.view = mount.View{Binds: []mount.Bind{{Source: s.dir + "/state", Target: s.dir + "/ml"}, {Source: s.dir + "/ml/code", Target: s.dir + "/zone"}}}
		proctest.WriteFile(s.t, s.dir+"/zone/hidden", "", 0o644)
		s.own(s.dir)
		if got := s.run("ls ml zone"); got != "ml:\nx\n\nzone:\nx\n" {
			s.t.Errorf("got %q", got)
		}
	})
}

func TestAMissingTargetBelowALinkIsBuiltWhereItLeads(t *testing.T) {
	inEachView(t, func(s *seat) {
		proctest.WriteFile(s.t, s.dir+"/real/beside", "beside\n", 0o644)
		proctest.Link(s.t, "real", s.dir+"/link")
		proctest.Link(s.t, "nowhere", s.dir+"/real/hosts")
		s.own(s.dir)
		s.view = mount.View{Binds: []mount.Bind{{Source: s.dir + "/state", Target: s.dir + "/link/new/state"}, {Source: s.dir + "/hosts", Target: s.dir + "/link/hosts"}}}
		got := s.run(`cd link; pwd -P; ls; cat beside hosts; ls new/state; readlink ../link; echo lost > file; echo changed > beside`)
		if want := s.dir + "/real\nbeside\nhosts\nnew\nbeside\n10.0.0.1 algo-1\nx\nreal\n"; got != want {
			s.t.Error(cmp.Diff(want, got))
		}
		if got := s.outside("ls real; cat real/beside"); got != "beside\nhosts\nchanged\n" {
			s.t.Errorf("outside: %q", got)
		}
	})
}

func TestTheAgentKnowsTheProgramOfAView(t *testing.T) {
	inEachView(t, func(s *seat) {
		out := proctest.NewOutlet(s.t)
		part := agentPart{Script: "read x; :", Herded: s.subreaper, View: &s.view, SayPid: true, Token: "pid-" + strconv.Itoa(os.Getpid())}
		cmd := s.as(part.command(s.t, out.W))
		hold, let, err := os.Pipe()
		if err != nil {
			s.t.Fatal(err)
		}
		defer hold.Close()
		defer let.Close()
		cmd.Stdin = hold
		s.begin(cmd)
		for {
			line, err := out.In.ReadString('\n')
			switch said, isPid := strings.CutPrefix(strings.TrimSpace(line), "pid "); {
			case err != nil:
				s.t.Fatal(err)
			case strings.HasPrefix(line, "refused: "):
				s.t.Skip(line)
			case isPid:
				if program := childOf(s.t, childOf(s.t, cmd.Process.Pid)); said != strconv.Itoa(program) {
					s.t.Errorf("said %s, is %d", said, program)
				}
				return
			}
		}
	})
}

// secondRun are the tests that hold for a program with a view as for any other.
const secondRun = "^Test(Exit|Files|APipe|Arguments|Every|Programs|Signal|Stop|Fifty|Daemons|AProcess|AHerd|ATree|TheProgram|ANamespace|InnerTree|SweepOfTheOuter)"

func TestAViewChangesNothingElse(t *testing.T) {
	for _, uid := range []int{0, plainUser} {
		t.Run(strconv.Itoa(uid), func(t *testing.T) {
			if os.Geteuid() != 0 && uid == 0 {
				t.Skip("needs root")
			}
			if worn != nil {
				t.Fatal("the second run runs itself")
			}
			s := newSeat(t, uid, false)
			view, err := json.Marshal(s.view)
			if err != nil {
				t.Fatal(err)
			}
			cmd := s.as(exec.Command("test", "-test.run", secondRun, "-test.v"))
			cmd.Env = append(os.Environ(), "PROC_TEST_VIEW="+string(view), "TMPDIR="+s.dir)
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), "--- PASS") < 20 || strings.Contains(string(out), "--- SKIP") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
