package proc

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/proctest"
)

// refused runs an agent in that role and gives what it says of its view.
func (s *seat) refused(cmd *exec.Cmd, role string) string {
	s.t.Helper()
	cmd.Env = append(cmd.Env, "PROC_TEST_ROLE="+role)
	cmd.Stdout, cmd.Stderr = nil, os.Stderr
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != noView {
		s.t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

func TestAKernelWithoutUserNamespacesGivesNoView(t *testing.T) {
	for _, subreaper := range []bool{false, true} {
		s := newSeat(t, plainUser, subreaper)
		cmd := s.agent("echo > ran", nil)
		uid := s.uid
		if os.Geteuid() == 0 {
			cmd.SysProcAttr.Credential.NoSetGroups = true
		} else {
			uid = os.Geteuid()
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_RESOURCE}
		got := s.refused(cmd, "unspaced")
		if want := "refused: give the program a view of its own: make its namespaces: the limit on their number is reached\n"; got != want {
			t.Error(cmp.Diff(want, got))
		}
		if _, err := os.Stat(s.dir + "/ran"); err == nil {
			t.Error("the program ran")
		}
	}
}

func TestRootWhoMayNotMountGetsNoView(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s := newSeat(t, 0, false)
	got := s.refused(s.agent("echo > ran", nil), "refused")
	if want := "refused: give the program a view of its own: make its namespaces: operation not permitted\n"; got != want {
		t.Error(cmp.Diff(want, got))
	}
}

func TestWithoutAFreshProcAViewComesWithAHerd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s := newSeat(t, plainUser, false)
	cmd := s.agent(`cat /etc/hosts; ls /proc/sys/kernel; [ "$PPID" != 1 ]`, nil)
	cmd.Env = append(cmd.Env, "PROC_TEST_ROLE=masked")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	cmd.Stdout, cmd.Stderr = nil, os.Stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	for _, want := range []string{"namespace false\n", "10.0.0.1 algo-1\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestARefusedViewIsDeniedWithAHint(t *testing.T) {
	err := mount.RefuseView("why")
	if err.Error() != mount.ErrNoView.Error()+": why" || fault.KindOf(err) != fault.Denied || fault.Hint(err) == "" {
		t.Errorf("got %v, %s", err, fault.Hint(err))
	}
}

// nest has scripts that say nested be an agent in their turn, with the program
// script, which writes to out, with a view of its own at the same targets.
func (s *seat) nest(script, out string) {
	s.t.Helper()
	proctest.WriteFile(s.t, s.dir+"/ml/inner/own", "", 0o644)
	s.own(s.dir)
	part, err := json.Marshal(agentPart{Script: script, Out: out, Herded: s.subreaper, View: &mount.View{Hostname: "algo-2", Binds: []mount.Bind{
		{Source: seatML + "/inner", Target: seatML}, {Source: seatState, Target: seatState}, {Source: s.dir + "/hosts", Target: "/drover-test-hosts"},
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Setenv("PROC_TEST_INNER", string(part))
}

const nested = `PROC_TEST_ROLE=agent PROC_TEST_PART="$PROC_TEST_INNER" "$SELF" `

func TestAViewInAViewShowsBoth(t *testing.T) {
	inEachView(t, func(s *seat) {
		s.nest("ls "+seatML+" "+seatState+"; uname -n; cat /drover-test-hosts /etc/hosts; echo deep > "+seatML+"/made", s.dir+"/inner")
		got := s.run("cd " + seatML + "\n" + nested + "> /dev/null; cat " + s.dir + "/inner; ls inner; uname -n; [ -e /drover-test-hosts ] || echo none")
		if want := seatML + ":\nown\n\n" + seatState + ":\nx\nalgo-2\n10.0.0.1 algo-1\n10.0.0.1 algo-1\nmade\nown\nalgo-1\nnone\n"; got != want {
			s.t.Error(cmp.Diff(want, got))
		}
		if b, err := os.ReadFile(s.dir + "/ml/inner/made"); string(b) != "deep\n" {
			s.t.Errorf("%q, %v", b, err)
		}
	})
}

func TestAViewInAViewDiesWithIt(t *testing.T) {
	inEachView(t, func(s *seat) {
		s.nest(proctest.Daemon+wait, "")
		out := proctest.NewOutlet(s.t)
		cmd := s.begin(s.agent(proctest.Daemon+nested+"\n", out.W))
		out.WaitForLine("ready", 3)
		signalAll(s.t, syscall.SIGKILL, cmd.Process.Pid)
		out.WaitForClose()
	})
}

// What a tree by subreaper loses with its supervisor the agent itself finds, in other namespaces
// than its own.
func TestAViewDiesThoughItsMinderIsKilled(t *testing.T) {
	inEachView(t, func(s *seat) {
		out := proctest.NewOutlet(s.t)
		cmd := s.begin(s.agent(proctest.Daemon+proctest.Daemon+wait, out.W))
		out.WaitForLine("ready", 3)
		signalAll(s.t, syscall.SIGKILL, childOf(s.t, cmd.Process.Pid))
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != fault.ExitDrover {
			s.t.Errorf("the agent says %d", code)
		}
		out.RequireClosed()
	})
}

// A supervisor that was stopped hears nothing on its socket, only the signal of
// its parent's death.
func TestAViewDiesWithItsAgentThoughItsMinderIsStopped(t *testing.T) {
	inEachView(t, func(s *seat) {
		out := proctest.NewOutlet(s.t)
		cmd := s.begin(s.agent(proctest.Daemon+wait, out.W))
		out.WaitForLine("ready", 2)
		signalAll(s.t, syscall.SIGSTOP, childOf(s.t, cmd.Process.Pid))
		signalAll(s.t, syscall.SIGKILL, cmd.Process.Pid)
		out.WaitForClose()
	})
}

func TestTheNextAgentSweepsAView(t *testing.T) {
	inEachView(t, func(s *seat) {
		out := proctest.NewOutlet(s.t)
		token := "next-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(int(out.W.Fd()))
		cmd := s.begin(s.as(agentPart{Script: proctest.Daemon + proctest.Daemon + wait, Token: token, Herded: s.subreaper, View: &s.view}.command(s.t, out.W)))
		out.WaitForLine("ready", 3)
		supervisor := childOf(s.t, cmd.Process.Pid)
		signalAll(s.t, syscall.SIGSTOP, cmd.Process.Pid)
		if s.subreaper { // a namespace's death needs no sweep: let one find it alive
			signalAll(s.t, syscall.SIGKILL, supervisor)
			signalAll(s.t, syscall.SIGKILL, cmd.Process.Pid)
			_ = cmd.Wait()
		}
		next := exec.Command("test")
		next.Env = append(os.Environ(), "PROC_TEST_ROLE=sweep", "PROC_TEST_PART="+token)
		got, err := s.as(next).Output()
		var killed int
		if _, serr := fmt.Sscanf(string(got), "%d <nil>", &killed); serr != nil || err != nil || killed < 2 {
			s.t.Errorf("%q, %v", got, err)
		}
		if !s.subreaper {
			signalAll(s.t, syscall.SIGKILL, cmd.Process.Pid)
			_ = cmd.Wait()
		}
		out.WaitForClose()
	})
}

func TestPathsAreAsTheProgramSeesThem(t *testing.T) {
	inEachView(t, func(s *seat) {
		proctest.WriteFile(s.t, s.dir+"/ml/code/run.sh", "#!/bin/sh\npwd; echo \"$0\"\n", 0o755)
		proctest.WriteFile(s.t, s.dir+"/ml/code/badline", "#!/no/such/python -u\n", 0o755)
		proctest.Link(s.t, seatML+"/code/run.sh", s.dir+"/ml/bin/linked")
		s.own(s.dir)
		env := []string{"PATH=/nowhere:" + seatML + "/bin:/usr/bin:/bin"}
		for _, c := range []struct{ path, dir, want string }{
			{seatML + "/code/run.sh", "", s.dir + "\n" + seatML + "/code/run.sh\n"},
			{"./run.sh", seatML + "/code", seatML + "/code\n./run.sh\n"},
			{"bin/linked", seatML, seatML + "\nbin/linked\n"},
			{"linked", seatML, seatML + "\n" + seatML + "/bin/linked\n"},
			{"ml/code/run.sh", "", s.dir + "\nml/code/run.sh\n"},
			{seatML + "/code/gone", "", "start " + seatML + "/code/gone: no such file or directory"},
			{seatML + "/code", "", "it is a folder"},
			{seatML + "/code/badline", "", `bad interpreter "/no/such/python -u"`},
			{seatML + "/code/x", "", "permission denied"},
			{"gone", seatML, "no such program in PATH"},
			{"run.sh", seatML + "/code", "no such program in PATH"},
			{"/bin/sh", seatML + "/gone", "enter folder"},
		} {
			got := s.start(agentPart{Path: c.path, Dir: c.dir, Env: env})
			ran := strings.HasSuffix(c.want, "\n")
			if ran && got != c.want || !strings.Contains(got, c.want) {
				s.t.Errorf("%s in %s: got %q, want %q", c.path, c.dir, got, c.want)
			}
		}
	})
}

func TestWhatIsMountedLaterIsSeenInAView(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	inEachView(t, func(s *seat) {
		if err := os.MkdirAll(s.dir+"/shared/later", 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := unix.Mkfifo(s.dir+"/said", 0o666); err != nil {
			s.t.Fatal(err)
		}
		if err := unix.Mkfifo(s.dir+"/go", 0o666); err != nil {
			s.t.Fatal(err)
		}
		s.own(s.dir)
		agent := s.as(agentPart{Script: "echo ready > said; read x < go; ls shared/later", Out: s.dir + "/saw", Herded: s.subreaper, View: &s.view}.command(s.t, nil))
		// A machine of its own, which shares its mounts.
		ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second) // not a timing assertion: one that waits for the other's word may wait in vain
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/sh", "-ec", `mount --make-rprivate /; mount -t proc proc /proc
			mount -t tmpfs none shared; mkdir shared/later; mount --make-rshared /
			setpriv --reuid `+strconv.Itoa(s.uid)+` --regid `+strconv.Itoa(s.uid)+` --clear-groups "$SELF" &
			read x < said; mount -t tmpfs none shared/later; echo > shared/later/seen; echo > go; wait $!`)
		cmd.Env, cmd.Dir, cmd.Stderr, cmd.WaitDelay = agent.Env, s.dir, os.Stderr, time.Second
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
		if err := cmd.Run(); err != nil {
			s.t.Fatal(err)
		}
		if saw, err := os.ReadFile(s.dir + "/saw"); string(saw) != "seen\n" {
			s.t.Errorf("%q, %v", saw, err)
		}
	})
}
