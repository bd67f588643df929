package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// role makes this program something else than tests, or than drivertest's agent.
const role = "DROVER_LOCAL_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		drivertest.Main(m, Adopt)
	case "starter":
		exitOn(playStarter(os.Args[1]))
	case "parent":
		exitOn(playParent())
	case "child": // lives until its standard input ends
		io.Copy(io.Discard, os.Stdin)
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// playStarter is a command line that starts an agent and goes at once.
func playStarter(dir string) error {
	os.Unsetenv(role)
	_, err := New(dir).Start(context.Background(), request1(driver.Boot{
		Binary: os.Args[0], Env: []string{`DROVER_DRIVERTEST={"Stay":true,"Code":5,"Marks":"` + dir + `"}`},
	}))
	return err
}

// playParent is an agent that ends while a process that it started lives on,
// until the pipe that it was given ends.
func playParent() error {
	a, err := Adopt(driver.AgentProcess{})
	if err != nil {
		return err
	}
	pipe, err := os.Open(os.Getenv("DROVER_LOCAL_TEST_PIPE"))
	if err != nil {
		return err
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), role+"=child")
	child.Stdin = pipe
	if err := child.Start(); err != nil {
		return err
	}
	a.End(0, fmt.Sprint(child.Process.Pid))
	return nil
}

func request1(b driver.Boot) driver.Request {
	return driver.Request{Job: "abcd2345", Placement: 1, Agents: 1, Run: b}
}

var handle1 = driver.Handle{Target: Name, Job: "abcd2345", Placement: 1}

func TestLocalIsADriver(t *testing.T) {
	drivertest.Run(t, drivertest.Place{
		Open: func(t *testing.T) func() driver.Driver {
			dir := t.TempDir()
			return func() driver.Driver { return New(dir) }
		},
	})
}

// place is an empty place with agents that act a script; they are killed at the end.
func place(t *testing.T) *Driver {
	d := New(t.TempDir())
	t.Cleanup(func() {
		if err := d.Stop(context.Background(), handle1, 0, true); err != nil {
			t.Error(err)
		}
		drivertest.Until(t, "the placement is removed", func() bool { return len(status(t, d)) == 0 })
	})
	return d
}

// scripted starts drivertest's agent; script is its JSON, less the braces.
func scripted(t *testing.T, script string) driver.Request {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return request1(driver.Boot{Binary: program, Env: []string{`DROVER_DRIVERTEST={"Marks":"` + t.TempDir() + `",` + script + `}`}})
}

func status(t *testing.T, d *Driver) []driver.Member {
	t.Helper()
	members, err := d.Status(context.Background(), handle1)
	if err != nil {
		t.Fatal(err)
	}
	return members
}

// let lets a lock go, and waits until it is free: for a moment, a child that
// another test is just starting may have it too.
func let(t *testing.T, lock *os.File) {
	t.Helper()
	path := strings.Replace(lock.Name(), filepath.Base(filepath.Dir(lock.Name())), "abcd2345-1", 1)
	lock.Close()
	drivertest.Until(t, "the lock is free", func() bool {
		held, _, err := look(path)
		if err != nil {
			t.Fatal(err)
		}
		return !held
	})
}

func ended(t *testing.T, d *Driver) driver.Member {
	t.Helper()
	var m []driver.Member
	drivertest.Until(t, "the agent has ended", func() bool { m = status(t, d); return len(m) == 1 && !m[0].State.Alive() })
	return m[0]
}

func TestAnAgentOutlivesTheProcessThatStartedIt(t *testing.T) {
	t.Parallel()
	d := place(t)
	starter := exec.Command(os.Args[0], d.dir)
	starter.Env = append(os.Environ(), role+"=starter")
	if out, err := starter.CombinedOutput(); err != nil {
		t.Fatalf("starter: %v: %s", err, out)
	}
	drivertest.Until(t, "the agent runs", func() bool { m := status(t, d); return len(m) == 1 && m[0].State == driver.Running })
	pid := status(t, d)[0].PID
	if session, err := unix.Getsid(pid); err != nil || session != pid {
		t.Errorf("the agent %d is in session %d, %v; want its own", pid, session, err)
	}
	if err := d.Stop(t.Context(), handle1, time.Hour, false); err != nil {
		t.Fatal(err)
	}
	if m := ended(t, d); m.State != driver.Ended || m.Code != 5 {
		t.Errorf("the agent is %+v, want it ended by itself with 5", m)
	}
}

func TestAnAgentIsGoneThoughWhatItStartedLivesOn(t *testing.T) {
	t.Parallel()
	d := place(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	hold, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close() // lets the child go
	r := request1(driver.Boot{Binary: os.Args[0], Env: []string{role + "=parent", "DROVER_LOCAL_TEST_PIPE=" + pipe}})
	if _, err := d.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	m := ended(t, d)
	if m.State != driver.Ended || m.Code != 0 {
		t.Fatalf("the agent is %+v", m)
	}
	var child int
	if _, err := fmt.Sscan(m.Reason, &child); err != nil || unix.Kill(child, 0) != nil {
		t.Errorf("the child %q does not live, so this proves nothing", m.Reason)
	}
}

func TestAKilledAgentIsReapedAndItsSignalNamed(t *testing.T) {
	t.Parallel()
	d := place(t)
	if _, err := d.Start(t.Context(), scripted(t, `"Stay":true`)); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "the agent runs", func() bool { return status(t, d)[0].State == driver.Running })
	pid := status(t, d)[0].PID
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "the signal is named", func() bool { return strings.HasSuffix(status(t, d)[0].Reason, "signal: killed") })
	if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("process %d is still known: %v", pid, err)
	}
}

func TestAStarterThatDiesLeavesAgentsThatNeverStarted(t *testing.T) {
	t.Parallel()
	d := place(t)
	dir, _ := d.placementFolder(handle1)
	locks, err := d.publishFolder(dir, driver.Request{Agents: 1})
	if err != nil {
		t.Fatal(err)
	}
	if m := status(t, d); len(m) != 1 || m[0].State != driver.Waiting {
		t.Errorf("while the starter lives the members are %+v, want one waiting", m)
	}
	let(t, locks[0]) // its death
	if m := status(t, d)[0]; m.State != driver.Lost || m.Reason != "never started" {
		t.Errorf("the member is %+v, want it lost", m)
	}
	if _, err := d.Start(t.Context(), scripted(t, `"Stay":true`)); err != nil {
		t.Fatal(err)
	}
	if m := status(t, d)[0]; m.State != driver.Lost {
		t.Errorf("after another Start the member is %+v, want it lost", m)
	}
}

func TestAProgramThatCannotBeStartedIsAMemberThatSaysWhy(t *testing.T) {
	t.Parallel()
	d := place(t)
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("\x7fnonsense"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), request1(driver.Boot{Binary: program})); err != nil {
		t.Fatal(err)
	}
	m := ended(t, d)
	if m.State != driver.Ended || m.Code != -1 || !strings.Contains(m.Reason, program) {
		t.Errorf("the member is %+v, want it ended, with the program in the reason", m)
	}
}

func TestAnAgentThatWasAskedBeforeItCameUpHearsOfIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		code   int
	}{
		"and ends by itself":         {`"Stay":true,"Code":5`, time.Hour, 5},
		"and is killed after grace":  {`"Stay":true,"Deaf":true`, 50 * time.Millisecond, -1},
		"and is killed without":      {`"Stay":true,"Deaf":true`, 0, -1},
		"though it does not hear it": {`"Code":6`, time.Hour, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := place(t)
			r := scripted(t, c.script)
			dir, _ := d.placementFolder(handle1)
			locks, err := d.publishFolder(dir, driver.Request{Agents: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Stop(t.Context(), handle1, c.grace, false); err != nil {
				t.Fatal(err)
			}
			if err := spawnAgent(r, dir, 0, locks[0]); err != nil {
				t.Fatal(err)
			}
			locks[0].Close()
			if m := ended(t, d); m.State != driver.Ended || m.Code != c.code {
				t.Errorf("the member is %+v, want it ended with %d", m, c.code)
			}
		})
	}
}

func TestAPidThatWasGivenToAnotherIsLeftAlone(t *testing.T) {
	t.Parallel()
	d := place(t)
	stranger := exec.Command(os.Args[0])
	stranger.Env = append(os.Environ(), role+"=child")
	stranger.SysProcAttr = &unix.SysProcAttr{Setsid: true} // or SIGKILL to its group would miss it
	stdin, err := stranger.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	dir, _ := d.placementFolder(handle1)
	locks, err := d.publishFolder(dir, driver.Request{Agents: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Say(locks[0], note{Up: &up{PID: stranger.Process.Pid, Space: pidSpace()}}); err != nil {
		t.Fatal(err)
	}
	let(t, locks[0]) // the agent has died, and the stranger has its pid
	for _, grace := range []time.Duration{time.Hour, 0} {
		if err := d.Stop(t.Context(), handle1, grace, false); err != nil {
			t.Error(err)
		}
	}
	stdin.Close()
	if err := stranger.Wait(); err != nil {
		t.Errorf("the stranger ended with %v, want it untouched", err)
	}
	if m := status(t, d)[0]; m.State != driver.Lost {
		t.Errorf("the member is %+v, want it lost", m)
	}
}

func TestAnotherMachinesAgentsAreNotJudgedFromHere(t *testing.T) {
	t.Parallel()
	d := place(t)
	dir, _ := d.placementFolder(handle1)
	locks, err := d.publishFolder(dir, driver.Request{Agents: 1})
	if err != nil {
		t.Fatal(err)
	}
	let(t, locks[0]) // dead, as seen from here
	other := New(d.dir)
	other.machine = "another"
	if m := status(t, other)[0]; !m.State.Alive() || m.Reason == "" {
		t.Errorf("from another machine the member is %+v, want it alive, with a reason", m)
	}
	if err := other.Stop(t.Context(), handle1, 0, true); fault.KindOf(err) != fault.Denied {
		t.Errorf("Stop from another machine gives %v, want a fault of kind denied", err)
	}
	if held, err := other.List(t.Context()); err != nil || len(held) != 1 {
		t.Errorf("List from another machine gives %v, %v; want the placement", held, err)
	}
}

func TestWhatAgentsLeaveIsForTheirOwnerOnly(t *testing.T) {
	t.Parallel()
	d := place(t)
	if _, err := d.Start(t.Context(), scripted(t, `"Say":"hello"`)); err != nil {
		t.Fatal(err)
	}
	ended(t, d)
	err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == d.dir {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAdoptIsNothingInAProcessThatIsNoAgent(t *testing.T) {
	if a, err := Adopt(driver.AgentProcess{}); a != nil || err != nil {
		t.Fatal(a, err)
	}
	t.Setenv(inherited, filepath.Join(t.TempDir(), "0"))
	if _, err := Adopt(driver.AgentProcess{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("with a variable that came down by mistake Adopt gives %v, want a fault of kind invalid", err)
	}
}

func TestADiskThatThisMachineHasNotIsRefused(t *testing.T) {
	d := New(t.TempDir())
	for disk, fits := range map[int64]bool{1 << 20: true, 1 << 60: false} {
		o, err := d.Offer(t.Context(), driver.Needs{Agents: 1, Disk: disk})
		if err != nil || o.Fits != fits || strings.HasPrefix(o.Reason, "this machine has a disk of ") == fits {
			t.Errorf("%d bytes: %+v, %v", disk, o, err)
		}
	}
}

func TestGPUsAreThoseThatNvidiaSmiLists(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	if n := folder.GPUs(t.Context()); n != 0 {
		t.Errorf("without nvidia-smi there are %d", n)
	}
	for script, want := range map[string]int{"printf '0\n1\n'": 2, "printf '0\n'; exit 9": 0, "true": 0} {
		if err := os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if n := folder.GPUs(t.Context()); n != want {
			t.Errorf("with %q there are %d, want %d", script, n, want)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	d := New(b.TempDir())
	var handles []driver.Handle
	for b.Loop() {
		r := request1(driver.Boot{Binary: os.Args[0], Env: []string{role + "=none"}})
		r.Placement = len(handles) + 1
		h, err := d.Start(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		handles = append(handles, h)
	}
	for _, h := range handles { // wait for the last agent, then leave nothing
		for {
			m, err := d.Status(context.Background(), h)
			if err != nil {
				b.Fatal(err)
			}
			if !m[0].State.Alive() {
				break
			}
		}
	}
}
