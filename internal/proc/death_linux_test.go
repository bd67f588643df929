package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/proctest"
	"github.com/drover-run/drover/internal/proc/supervisor"
)

// agents are the ways in which an agent may find itself.
var agents = []struct {
	name      string
	root      bool // needs it
	dress     func(t *testing.T, cmd *exec.Cmd)
	subreaper bool
	view      bool
}{
	{name: "root", root: true},
	{name: "root subreaper", root: true, subreaper: true},
	{name: "root in a container", root: true, dress: func(_ *testing.T, cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "PROC_TEST_ROLE=refused")
	}},
	{name: "nobody", root: true, dress: asNobody},
	{name: "this user", subreaper: true},
	{name: "root with a view", root: true, view: true},
	{name: "root subreaper with a view", root: true, subreaper: true, view: true},
	{name: "nobody with a view", root: true, dress: asNobody, view: true},
	{name: "nobody subreaper with a view", root: true, dress: asNobody, subreaper: true, view: true},
}

func asNobody(t *testing.T, cmd *exec.Cmd) {
	cmd.Path, cmd.Dir = publicCopy(t), "/"
	cmd.Env = append(cmd.Env, "SELF="+cmd.Path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// asEachAgent runs f with an agent in each situation, its tree started and the
// script's "ready" lines heard.
func asEachAgent(t *testing.T, script string, ready int, f func(t *testing.T, agent *exec.Cmd, namespace bool, token string, c *proctest.Outlet)) {
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			if a.root && os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			out := proctest.NewOutlet(t)
			token := "test-" + strconv.Itoa(os.Getpid()) + "-" + strings.ReplaceAll(strings.ToLower(t.Name()[len(t.Name())-4:]), " ", "-") + strconv.Itoa(int(out.W.Fd()))
			part := agentPart{Script: script, Token: token, Herded: a.subreaper}
			if a.view {
				part.View = &mount.View{Binds: []mount.Bind{{Source: "/usr", Target: "/drover-test/usr"}, {Source: "/etc/hosts", Target: "/etc/hosts"}}, Hostname: "algo-1"}
			}
			cmd := part.command(t, out.W)
			if a.dress != nil {
				a.dress(t, cmd)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				_, _ = Sweep(token) // what a broken promise left
			})
			out.WaitForLine("ready", ready)
			f(t, cmd, out.Namespace, token, out)
		})
	}
}

const wait = "echo ready; while :; do sleep 1000; done\n"

func TestTreeDiesWithItsAgent(t *testing.T) {
	asEachAgent(t, proctest.Daemon+proctest.Daemon+`trap "" TERM HUP INT; (sh -c 'trap "" TERM; echo ready; sleep 1000' &)`+"\n"+wait, 4,
		func(t *testing.T, agent *exec.Cmd, _ bool, _ string, out *proctest.Outlet) {
			if err := agent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			out.WaitForClose()
		})
}

func TestTreeDiesWithItsAgentThoughItStoppedItsMinder(t *testing.T) {
	asEachAgent(t, proctest.Daemon+`[ "$PPID" = 1 ] || kill -STOP "$PPID"`+"\n"+wait, 2,
		func(t *testing.T, agent *exec.Cmd, _ bool, _ string, out *proctest.Outlet) {
			if err := agent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			out.WaitForClose()
		})
}

// When agent and supervisor both died, a tree by subreaper's strays live on until a Sweep.
func TestSweepKillsWhatTheDeadLeft(t *testing.T) {
	asEachAgent(t, proctest.Daemon+proctest.Daemon+wait, 3, func(t *testing.T, agent *exec.Cmd, namespace bool, token string, out *proctest.Outlet) {
		supervisor := childOf(t, agent.Process.Pid)
		signalAll(t, syscall.SIGSTOP, agent.Process.Pid)
		signalAll(t, syscall.SIGKILL, supervisor)
		signalAll(t, syscall.SIGKILL, agent.Process.Pid)
		_ = agent.Wait()
		killed, err := Sweep(token)
		if err != nil {
			t.Error(err)
		}
		if killed < 2 && !namespace {
			t.Errorf("killed %d processes, want the daemons at least", killed)
		}
		out.WaitForClose() // not gone: the kernel's own killing may still be closing files
		if again, err := Sweep(token); again != 0 || err != nil {
			t.Errorf("a second time: %d, %v", again, err)
		}
	})
}

func TestSweepOfTheOuterTreeTakesTheInnerOne(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out := proctest.NewOutlet(t)
		inner := agentPart{Script: proctest.Daemon + wait, Token: "inner-" + strconv.Itoa(os.Getpid()), Herded: subreaper}.command(t, nil)
		c := shell(proctest.Daemon + `"$SELF"`)
		c.Env, c.Stdout, c.subreaper = inner.Env, out.W, subreaper
		p := start(t, c)
		out.WaitForLine("ready", 3)
		if killed, err := Sweep(p.Token()); killed == 0 || err != nil {
			t.Errorf("killed %d, %v", killed, err)
		}
		out.RequireClosed()
		if e := p.Wait(); !e.Lost {
			t.Errorf("got %+v", e)
		}
	})
}

func TestInnerTreeDiesWithTheOuterOne(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out := proctest.NewOutlet(t)
		inner := agentPart{Script: proctest.Daemon + wait, Token: "in-" + strconv.Itoa(os.Getpid()), Herded: subreaper}.command(t, nil)
		c := shell(`"$SELF"`)
		c.Env, c.Stdout, c.subreaper = inner.Env, out.W, subreaper
		p := start(t, c)
		out.WaitForLine("ready", 2)
		p.Kill()
		if e := p.Wait(); e.Signal != syscall.SIGKILL {
			t.Errorf("got %+v", e)
		}
		out.RequireClosed()
	})
}

func TestDaemonsDieWhenTheProgramExits(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out := proctest.NewOutlet(t)
		hold, let, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Close()
		c := shell(proctest.Daemon + strings.ReplaceAll(proctest.Daemon, "echo ready", "echo ready; kill -STOP $$") + "read x; exit 9")
		c.Stdin, c.Stdout, c.subreaper = hold, out.W, subreaper
		p := start(t, c)
		out.WaitForLine("ready", 2)
		let.Close()
		if e := p.Wait(); e.Code != 9 {
			t.Errorf("got %+v", e)
		}
		out.RequireClosed()
	})
}

func TestForkBombDiesWhole(t *testing.T) {
	// Ten families of twenty, half of them forking on for as long as they live.
	bomb := `trap "" TERM
		family() { i=0; while [ $i -lt 20 ]; do
			if [ $((i % 4)) = 0 ]; then (trap "" TERM; echo ready; while :; do (:); done) &
			else sleep 1000 & echo ready; fi; i=$((i+1)); done; wait; }
		n=0; while [ $n -lt 10 ]; do family & n=$((n+1)); done; echo ready; wait`
	inEachPen(t, func(t *testing.T, subreaper bool) {
		for _, end := range []func(*Process){(*Process).Kill, func(p *Process) { p.Stop(time.Millisecond) }} {
			out := proctest.NewOutlet(t)
			c := shell(bomb)
			c.Stdout, c.subreaper = out.W, subreaper
			p := start(t, c)
			out.WaitForLine("ready", 201)
			end(p)
			if e := p.Wait(); e.Signal != syscall.SIGKILL {
				t.Errorf("got %+v", e)
			}
			out.RequireClosed()
		}
	})
}

func TestAProcessThatForksAndExitsIsCaught(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out := proctest.NewOutlet(t)
		hold, let, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Close()
		c := shell(`comet() { (comet) & exit; }; (comet) & echo ready; read x; exit 2`)
		c.Stdin, c.Stdout, c.subreaper = hold, out.W, subreaper
		p := start(t, c)
		out.WaitForLine("ready", 1)
		let.Close()
		if e := p.Wait(); e.Code != 2 {
			t.Errorf("got %+v", e)
		}
		out.RequireClosed()
	})
}

func TestATreeCannotKillTheMinderOfItsNamespace(t *testing.T) {
	out := proctest.NewOutlet(t)
	// The guard keeps kill -1 from the machine, where there is no namespace.
	c := shell(`[ "$PPID" = 1 ] || exit 99; ` + proctest.Daemon + `kill -KILL 1; kill -TERM 1; kill -STOP 1; kill -KILL -1; exit 9`)
	c.Stdout = out.W
	p := start(t, c)
	e := p.Wait()
	if !spaced(worn) {
		t.Skip("no PID namespace for this user here")
	}
	if e.Code != 9 || e.Lost {
		t.Errorf("got %+v", e)
	}
	out.RequireClosed()
}

func TestAHerdDiesThoughItKilledItsMinder(t *testing.T) {
	out := proctest.NewOutlet(t)
	hold, let, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	c := shell(proctest.Daemon + `(exec env -i sleep 1000) & echo ready; read x; kill -KILL "$PPID"; sleep 1000`)
	c.Stdin, c.Stdout, c.subreaper = hold, out.W, true
	p := start(t, c)
	out.WaitForLine("ready", 2)
	let.Close()
	if e := p.Wait(); !e.Lost || e.Status() != 125 {
		t.Errorf("got %+v", e)
	}
	out.RequireClosed()
}

// withoutLibcs leaves signals 32 and 33 out of a mask: they are the C library's
// own, make's children find them ignored, and Go does not touch them.
func withoutLibcs(line string) string {
	name, hex, ok := strings.Cut(line, ": ")
	mask, err := strconv.ParseUint(hex, 16, 64)
	if !ok || err != nil {
		return line
	}
	return fmt.Sprintf("%s: %016x", name, mask&^(3<<31))
}

func TestNothingOfTheAgentsReachesTheProgram(t *testing.T) {
	out := proctest.NewOutlet(t)
	cmd := agentPart{Token: "rude-" + strconv.Itoa(os.Getpid()), Script: `
		i=0; while [ $i -lt 256 ]; do [ -e /proc/self/fd/$i ] && echo "fd $i"; i=$((i+1)); done
		while read name value; do case $name in SigBlk:|SigIgn:) echo "$name $value";; esac; done < /proc/self/status
		echo done; read forever`}.command(t, out.W)
	cmd.Env = append(cmd.Env, "PROC_TEST_ROLE=rude")
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 1 { // read met the end
		t.Fatal(err)
	}
	out.W.Close()
	var got []string
	for {
		line, err := out.In.ReadString('\n')
		if err != nil {
			break
		}
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "namespace ") {
			got = append(got, withoutLibcs(line))
		}
	}
	want := []string{"fd 0", "fd 1", "fd 2", "SigBlk: 0000000000000000", "SigIgn: 0000000000000000", "done"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheProgramIsItsOwnSessionUnderItsMinder(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out := proctest.NewOutlet(t)
		hold, let, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Close()
		defer let.Close()
		c := shell("echo ready; read x") // no exec: in its middle there is no mark to see
		c.Stdin, c.Stdout, c.subreaper = hold, out.W, subreaper
		p := start(t, c)
		out.WaitForLine("ready", 1)
		got, alive, err := process.Find(p.Pid())
		if err != nil || !alive || !process.Carries(p.Pid(), p.Token()) {
			t.Fatalf("pid %d is not the program: %+v, %v", p.Pid(), got, err)
		}
		if got.Group != p.Pid() || got.Session != p.Pid() {
			t.Errorf("got %+v, want a session and a group of its own", got)
		}
		parent, _, err := process.Find(got.Parent)
		if err != nil || parent.Parent != os.Getpid() || parent.Session == got.Session {
			t.Errorf("its parent is %+v, %v", parent, err)
		}
		if ours, its, wants := oomOf(t, os.Getpid()), oomOf(t, p.Pid()), oomOf(t, got.Parent); its != min(ours+supervisor.OOMStep, 1000) || wants != ours {
			t.Errorf("oom scores: agent %d, supervisor %d, program %d", ours, wants, its)
		}
	})
}

func TestANamespaceSeesItsOwnProcessesOnly(t *testing.T) {
	got, e := output(t, shell(`echo /proc/[0-9]* $$; [ "$PPID" = 1 ]`))
	if !spaced(worn) {
		t.Skip("no PID namespace for this user here")
	}
	f := strings.Fields(got)
	if len(f) != 3 || f[0] != "/proc/1" || f[1] != "/proc/"+f[2] || e.Code != 0 {
		t.Errorf("got %q, %+v", got, e)
	}
}

func TestAContainersRefusalIsNoticed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	out := proctest.NewOutlet(t)
	cmd := agentPart{Token: "refused-" + strconv.Itoa(os.Getpid()), Script: "exit 0"}.command(t, out.W)
	cmd.Env = append(cmd.Env, "PROC_TEST_ROLE=refused")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	out.WaitForLine("namespace false", 1)
}

// publicCopy is this test where any user may run it.
func publicCopy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "test")
	proctest.WriteFile(t, path, string(b), 0o755)
	return path
}

func oomOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func childOf(t *testing.T, pid int) int {
	t.Helper()
	all, err := process.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Parent == pid {
			return p.PID
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}

func signalAll(t *testing.T, sig syscall.Signal, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatalf("signal %d: %v", pid, err)
		}
	}
}
