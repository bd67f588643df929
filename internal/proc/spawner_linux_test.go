package proc

import (
	"bytes"
	"context"
	"encoding/json"
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
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/proctest"
)

// spawnerPart is what a copy of this test does that is an agent with a spawner.
type spawnerPart struct {
	Script, Token, Fifo string
	Herded, Old, Plain  bool
}

// playSpawner runs one command and says what it wrote and how it ended.
func playSpawner() {
	var a spawnerPart
	if err := json.Unmarshal([]byte(os.Getenv("PROC_TEST_PART")), &a); err != nil {
		panic(err)
	}
	s, err := OpenSpawner(context.Background(), SpawnerConfig{Slots: 2, Token: a.Token, subreaper: a.Herded, old: a.Old, plain: a.Plain})
	if err != nil {
		panic(err)
	}
	s.Until(time.Hour)
	if err := s.Send(sh(1, a.Script, a.Fifo)); err != nil {
		panic(err)
	}
	for batch := range s.Events() {
		for _, e := range batch {
			os.Stdout.Write(e.Data)
			if e.Kind == SpawnedEnded {
				fmt.Println("status", e.Exit.Status())
				go s.Close() // ends this loop
			}
		}
	}
	syscall.Exit(0)
}

func (a spawnerPart) command(t *testing.T) *exec.Cmd {
	t.Helper()
	part, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "PROC_TEST_ROLE=spawner", "PROC_TEST_PART="+string(part), "SELF="+self)
	cmd.Stderr = os.Stderr
	return cmd
}

// fifoCrowd is a crowd at a path, as a command gets no files of ours.
func fifoCrowd(t *testing.T) (c *proctest.Outlet, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "crowd")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return proctest.OutletOf(t, r, w), path
}

// gate is a fifo that a command reads a line from.
func gate(t *testing.T) (open func(), path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "gate")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return func() { fmt.Fprintln(w, "go") }, path
}

// bare leaves a process that only its session tells of.
const bare = `(PROC_TEST_ROLE=group "$SELF" -c 'echo ready; sleep 1000; :' &)` + "\n"

const bystander = `echo ready; exec sleep 1000`

func TestNothingOfAnCommandOutlivesIt(t *testing.T) {
	comet := `comet() { (comet) & exit; }; (comet) &` + "\n"
	nested := `sh -c 'sleep 1000 & (PROC_TEST_ROLE=detach "$SELF" -c "sleep 1000 & echo ready; wait" &); echo ready; wait' &` + "\n"
	for name, leave := range map[string]struct {
		script string
		ready  int
	}{
		"daemons":         {proctest.Daemon + strings.ReplaceAll(proctest.Daemon, "echo ready", "echo ready; kill -STOP $$"), 2},
		"background":      {"(trap '' TERM HUP; echo ready; sleep 1000; sleep 1000) &\n", 1},
		"below a session": {nested, 2},
		"a comet":         {comet + "echo ready\n", 1},
		"a bare one":      {bare, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
				out, fifo := fifoCrowd(t)
				let, wait := gate(t)
				q := open(t, c)
				q.send(sh(7, bystander))
				q.says(7, "ready")
				q.send(sh(1, "exec 3>&1 >\"$1\"\n"+leave.script+`read x <"$2"; echo end >&3; exit 9`, fifo, wait))
				out.WaitForLine("ready", leave.ready)
				let()
				is := q.done(1)
				if e := is.ended; e.Exit.Code != 9 || e.Exit.Left != 0 || string(is.out[1]) != "end\n" {
					t.Errorf("got %+v, %q", e, is.out)
				}
				out.RequireClosed()
				if q.told[7].ended != nil {
					t.Errorf("its neighbour: %+v", q.told[7].ended)
				}
				q.send(sh(8, "exit 8"))
				if e := q.done(8).ended; e.Exit.Code != 8 {
					t.Errorf("the next: %+v", e)
				}
			})
		})
	}
}

func TestAForkBombAmongCommandsDiesWhole(t *testing.T) {
	bomb := `exec >"$1"; trap "" TERM
		family() { i=0; while [ $i -lt 10 ]; do
			if [ $((i % 4)) = 0 ]; then (trap "" TERM; echo ready; while :; do (:); done) &
			else sleep 1000 & echo ready; fi; i=$((i+1)); done; wait; }
		n=0; while [ $n -lt 5 ]; do family & n=$((n+1)); done; wait`
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		c.Grace = time.Millisecond
		out, fifo := fifoCrowd(t)
		q := open(t, c)
		q.send(sh(7, bystander), sh(1, bomb, fifo))
		out.WaitForLine("ready", 50)
		q.says(7, "ready")
		q.s.Kill(syscall.SIGTERM, 1)
		if e := q.done(1).ended; e.Exit.Signal != syscall.SIGKILL {
			t.Errorf("got %+v", e)
		}
		out.RequireClosed()
		if q.told[7].ended != nil {
			t.Errorf("its neighbour: %+v", q.told[7].ended)
		}
	})
}

// What has neither session nor mark of a command dies when nothing runs, or at the
// end.
func TestWhatIsNobodysDiesWhenNothingRuns(t *testing.T) {
	escape := `exec >"$1"; (env -i PATH="$PATH" PROC_TEST_ROLE=detach "$SELF" -c 'trap "" TERM; echo ready; sleep 1000; :' &); read x <"$2"`
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out, fifo := fifoCrowd(t)
		let, wait := gate(t)
		q := open(t, SpawnerConfig{subreaper: subreaper})
		q.send(sh(7, bystander), sh(1, escape, fifo, wait))
		q.says(7, "ready")
		out.WaitForLine("ready", 1)
		let()
		q.done(1) // not kept by it
		q.s.Kill(syscall.SIGTERM, 7)
		q.done(7)
		out.WaitForClose()
		q.send(sh(2, "exit 2"))
		if e := q.done(2).ended; e.Exit.Code != 2 {
			t.Errorf("the next: %+v", e)
		}

		out, fifo = fifoCrowd(t)
		q.send(sh(8, bystander), sh(3, escape, fifo, wait))
		q.says(8, "ready")
		out.WaitForLine("ready", 1)
		let()
		q.done(3)
		q.s.Close()
		out.RequireClosed()
	})
}

func TestAnCommandCannotSignalItsNamespacesSpawner(t *testing.T) {
	if start(t, Command{Path: "true"}).Wait(); !spaced(worn) {
		t.Skip("no PID namespace for this user here")
	}
	q := open(t, SpawnerConfig{})
	q.send(sh(7, bystander))
	q.says(7, "ready")
	q.send(sh(1, `[ "$PPID" = 1 ] || exit 99; for s in TERM INT HUP QUIT SEGV ABRT ILL BUS TRAP FPE USR1 PIPE CHLD ALRM STOP KILL; do kill -$s "$PPID"; done; kill -KILL 0`))
	if e := q.done(1).ended; e.Exit.Signal != syscall.SIGKILL {
		t.Errorf("got %+v", e)
	}
	q.send(sh(2, "exit 2"))
	if e := q.done(2).ended; e.Exit.Code != 2 || q.told[7].ended != nil {
		t.Errorf("the next: %+v; the neighbour: %+v", e, q.told[7].ended)
	}
}

func TestAHerdsSpawnerIsDeafToItsCommands(t *testing.T) {
	q := open(t, SpawnerConfig{subreaper: true})
	q.send(sh(1, `for s in TERM INT HUP QUIT SEGV ABRT ILL BUS TRAP FPE USR1 PIPE CHLD ALRM; do kill -$s "$PPID"; done; kill -TERM 0`))
	if e := q.done(1).ended; e.Exit.Signal != syscall.SIGTERM {
		t.Errorf("got %+v", e)
	}
	q.send(sh(2, `kill -STOP "$PPID"; exit 2`))
	for q.told[2] == nil || q.told[2].ended == nil {
		q.s.Until(time.Hour) // as an agent does again and again
		q.tick()
	}
	if e := q.told[2].ended; e.Exit.Code != 2 {
		t.Errorf("got %+v", e)
	}
	q.send(sh(3, `kill -STOP "$PPID"; sleep 1000`))
	q.s.Close()
}

// tick reads one batch, or none if none comes soon.
func (q *squad) tick() {
	select {
	case batch := <-q.s.Events():
		q.hear(batch)
	case <-time.After(10 * time.Millisecond):
	}
}

func TestAKilledSpawnerIsLostAndItsTreesAreSwept(t *testing.T) {
	for _, old := range []bool{false, true} {
		out, fifo := fifoCrowd(t)
		let, wait := gate(t)
		q := open(t, SpawnerConfig{subreaper: true, old: old})
		q.send(sh(1, `exec >"$1"; `+proctest.Daemon+bare+`sleep 1000`, fifo),
			sh(2, `exec >"$1"; `+proctest.Daemon+`echo ready; read x <"$2"; kill -KILL "$PPID"; sleep 1000`, fifo, wait))
		out.WaitForLine("ready", 4)
		let()
		q.drain()
		if err := q.s.Err(); err != ErrSpawnerLost {
			t.Errorf("got %v", err)
		}
		out.RequireClosed()
		if err := q.s.Send(sh(3, ":")); err != ErrSpawnerLost {
			t.Errorf("got %v", err)
		}
		for _, is := range q.told {
			if is.ended != nil || is.unstarted {
				t.Errorf("got %+v", is)
			}
		}
	}
}

func TestCommandsDieWithTheirAgent(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		out, fifo := fifoCrowd(t)
		token := "orphans-" + strconv.Itoa(os.Getpid())
		agent := spawnerPart{Script: `exec >"$1"; ` + proctest.Daemon + proctest.Daemon + `trap "" TERM HUP; echo ready; sleep 1000; sleep 1000`,
			Token: token, Fifo: fifo, Herded: c.subreaper, Old: c.old, Plain: c.plain}.command(t)
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = agent.Process.Kill()
			_ = agent.Wait()
			_, _ = Sweep(token) // what a broken promise left
		})
		out.WaitForLine("ready", 3)
		if err := agent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		out.WaitForClose()
	})
}

func TestSweepKillsWhatADeadSpawnerLeft(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		out, fifo := fifoCrowd(t)
		token := "swept-" + strconv.Itoa(os.Getpid())
		agent := spawnerPart{Script: `exec >"$1"; ` + proctest.Daemon + proctest.Daemon + `echo ready; sleep 1000; :`,
			Token: token, Fifo: fifo, Herded: c.subreaper, Old: c.old, Plain: c.plain}.command(t)
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })
		out.WaitForLine("ready", 3)
		supervisor := childOf(t, agent.Process.Pid)
		signalAll(t, syscall.SIGSTOP, agent.Process.Pid)
		signalAll(t, syscall.SIGKILL, supervisor)
		signalAll(t, syscall.SIGKILL, agent.Process.Pid)
		_ = agent.Wait()
		if _, err := Sweep(token); err != nil {
			t.Error(err)
		}
		out.WaitForClose() // not gone: the kernel's own killing may still be closing files
	})
}

// status is what a command finds of its process.
const status = `i=0; while [ $i -lt 256 ]; do [ -e /proc/self/fd/$i ] && echo "fd $i"; i=$((i+1)); done
	while read name value; do case $name in SigBlk:|SigIgn:) echo "$name $value";; esac; done < /proc/self/status
	read pid comm state ppid group session tty rest < /proc/$$/stat
	[ $group = $pid ] && [ $session = $pid ] && echo "tty $tty"; ulimit -Sn`

func TestNothingOfTheAgentsReachesAnCommand(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		few := min(777, limit.Max)
		agent := spawnerPart{Script: status, Herded: c.subreaper, Old: c.old, Plain: c.plain}.command(t)
		agent.Args = []string{"sh", "-c", fmt.Sprintf(`ulimit -Sn %d; exec "$SELF"`, few)}
		agent.Path = "/bin/sh"
		agent.Env = append(agent.Env, "PROC_TEST_ROLE=rude", "PROC_TEST_NEXT=spawner")
		text, err := agent.Output()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(string(text)) {
			got = append(got, withoutLibcs(strings.TrimSpace(line)))
		}
		want := []string{"fd 0", "fd 1", "fd 2", "SigBlk: 0000000000000000", "SigIgn: 0000000000000000", "tty 0", fmt.Sprint(few), "status 0"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUseIsCountedOverTheCommandsTree(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		_, wait := gate(t)
		q := open(t, c)
		// The work is done in a grandchild that only the spawner waits for.
		q.send(sh(1, `(sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo > "$0"' "$1" &); read x < "$1"; exit 3`, wait), sh(2, "exit 0"))
		if e := q.done(1).ended; e.Exit.Code != 3 || e.Exit.User < 10*time.Millisecond || e.Exit.MaxRSS > 1<<30 {
			t.Errorf("got %+v", e)
		}
		if e := q.done(2).ended; e.Exit.User+e.Exit.System > q.told[1].ended.Exit.User {
			t.Errorf("its neighbour: %+v", e)
		}
	})
}

func TestCommandsShareAView(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		dir := t.TempDir()
		proctest.WriteFile(t, filepath.Join(dir, "tool"), "#!/bin/sh\npwd; uname -n; cat note\n", 0o755)
		proctest.WriteFile(t, filepath.Join(dir, "note"), "hello\n", 0o644)
		c.View = &mount.View{Binds: []mount.Bind{{Source: dir, Target: "/drover-test/code"}}, Hostname: "algo-1"}
		c.Dir = "/drover-test/code"
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c.Slots, c.Env = 1, append(os.Environ(), "SELF="+self)
		s, err := OpenSpawner(t.Context(), c)
		if err != nil {
			t.Skip(err)
		}
		s.Close()
		for range s.Events() {
		}
		q := open(t, c)
		q.send(SpawnCommand{ID: 1, Path: "./tool"}, SpawnCommand{ID: 2, Path: "/drover-test/code/nothing"})
		if is := q.done(1); string(is.out[1]) != "/drover-test/code\nalgo-1\nhello\n" {
			t.Errorf("got %q, %q, %+v", is.out[1], is.out[2], is.ended)
		}
		if e := q.done(2).ended; e.Err == nil || e.Err.Error() != "start /drover-test/code/nothing: no such file or directory" {
			t.Errorf("got %+v", e)
		}
	})
}

// The spawner's memory does not grow with what its commands write, or with what
// is not read.
func TestASpawnersMemoryIsBounded(t *testing.T) {
	q := open(t, SpawnerConfig{MaxOutput: 1 << 40})
	for id := range uint64(4) {
		q.send(sh(id, "head -c 100000000 /dev/zero"))
	}
	supervisor := q.s.executor.(*remote).supervisor.Pid
	for id := range uint64(4) {
		q.until(func() bool {
			for _, is := range q.told {
				is.out = [3][]byte{}
			}
			return q.told[id] != nil && q.told[id].ended != nil
		})
		if e := q.told[id].ended; e.Output[0] != 100_000_000 {
			t.Errorf("got %+v", e)
		}
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", supervisor))
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := bytes.Cut(b, []byte("VmHWM:"))
	kib, err := strconv.Atoi(string(bytes.Fields(peak)[0]))
	if err != nil || kib > 200<<10 { // the race detector takes most of it
		t.Errorf("the spawner grew to %d KiB, %v", kib, err)
	}
}
