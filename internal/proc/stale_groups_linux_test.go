package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/proctest"
	"github.com/drover-run/drover/internal/proc/resource"
)

// hidden is a daemon in a session of its own, without the mark.
const hidden = `(PROC_TEST_ROLE=detach "$SELF" -c 'echo ready; exec env -i sleep 1000' &)` + "\n"

func TestWhatEscapedAHerdIsFoundInItsGroup(t *testing.T) {
	hold, let, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	out := proctest.NewOutlet(t)
	c := shell(hidden + `echo ready; read x; kill -KILL "$PPID"; sleep 1000`)
	c.Stdin, c.Stdout, c.subreaper, c.Limits = hold, out.W, true, resource.Limits{Memory: 500 * mib}
	p := start(t, c)
	if p.Limits().Memory == resource.ByWatching {
		p.Kill()
		t.Skip("no group here: " + p.Limits().Why)
	}
	out.WaitForLine("ready", 2)
	let.Close()
	if e := p.Wait(); !e.Lost || e.OOM {
		t.Errorf("got %+v", e)
	}
	out.RequireClosed()
	noGroups(t, p.Token())
}

// ends waits until that process has.
func ends(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return
	}
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	// Not a timing assertion: a broken promise fails here instead of hanging.
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 30_000); n != 1 {
		t.Fatalf("process %d does not end: %v", pid, err)
	}
}

// bereave starts a limited tree under an agent of its own, and hands over both.
func bereave(t *testing.T, subreaper bool) (agent *exec.Cmd, supervisor int, token string, out *proctest.Outlet) {
	t.Helper()
	out = proctest.NewOutlet(t)
	token = "bereft-" + strconv.Itoa(os.Getpid()) + strings.ReplaceAll(filepath.Base(t.Name()), "_", "-")
	agent = agentPart{Script: hidden + wait, Token: token, Herded: subreaper, Limits: resource.Limits{Memory: 500 * mib, CPUs: 1, Processes: 100}}.command(t, out.W)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
		_, _ = Sweep(token) // what a broken promise left
	})
	out.WaitForLine("ready", 2)
	if len(resource.GroupsOf(token)) == 0 {
		t.Skip("no groups here: " + resource.SupportHere().Why)
	}
	return agent, childOf(t, agent.Process.Pid), token, out
}

func TestGroupsOfTheDeadAreRemoved(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		t.Run("supervisor", func(t *testing.T) {
			agent, supervisor, token, out := bereave(t, subreaper)
			signalAll(t, syscall.SIGKILL, supervisor)
			_ = agent.Wait()
			out.RequireClosed()
			noGroups(t, token)
		})
		t.Run("agent", func(t *testing.T) {
			agent, supervisor, token, out := bereave(t, subreaper)
			signalAll(t, syscall.SIGKILL, agent.Process.Pid)
			_ = agent.Wait()
			out.WaitForClose()
			ends(t, supervisor)
			if subreaper {
				noGroups(t, token) // its supervisor had the time
			}
			if _, err := resource.RemoveStaleGroups(); err != nil {
				t.Error(err)
			}
			noGroups(t, token)
		})
		for name, sweep := range map[string]func(token string) (int, error){"both": Sweep, "both unnamed": func(string) (int, error) { return resource.RemoveStaleGroups() }} {
			t.Run(name, func(t *testing.T) {
				agent, supervisor, token, out := bereave(t, subreaper)
				signalAll(t, syscall.SIGSTOP, agent.Process.Pid)
				signalAll(t, syscall.SIGKILL, supervisor, agent.Process.Pid)
				_ = agent.Wait()
				if _, err := sweep(token); err != nil {
					t.Error(err)
				}
				out.WaitForClose() // though nothing but its group tells what the daemon belongs to
				noGroups(t, token)
			})
		}
	})
}

func TestGroupsOfTheLivingAreLeftAlone(t *testing.T) {
	_, _, token, _ := bereave(t, false)
	before := resource.GroupsOf(token)
	if _, err := resource.RemoveStaleGroups(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, resource.GroupsOf(token)); diff != "" {
		t.Error(diff)
	}
}

func TestInnerGroupsGoWithTheOuterOne(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out := proctest.NewOutlet(t)
		l := resource.Limits{Memory: 500 * mib, Processes: 300}
		inner := agentPart{Script: proctest.Daemon + wait, Token: "in-" + strconv.Itoa(os.Getpid()), Herded: subreaper, Limits: l}.command(t, nil)
		c := shell(`"$SELF"`)
		c.Env, c.Stdout, c.subreaper, c.Limits = inner.Env, out.W, subreaper, l
		p := start(t, c)
		out.WaitForLine("ready", 2)
		p.Kill()
		p.Wait()
		out.RequireClosed()
		noGroups(t, p.Token())
		noGroups(t, "in-"+strconv.Itoa(os.Getpid()))
	})
}
