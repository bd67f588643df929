package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/proctest"
)

// squad is a spawner and what it has told.
type squad struct {
	t    *testing.T
	s    *Spawner
	told map[uint64]*told
	end  bool // there is no more to tell
}

// told is what is known of one command.
type told struct {
	began, unstarted bool
	out              [3][]byte
	ended            *Spawned
}

// inEachSpawner runs f with each kind of spawner.
func inEachSpawner(t *testing.T, f func(t *testing.T, c SpawnerConfig)) {
	inEachPen(t, func(t *testing.T, subreaper bool) { f(t, SpawnerConfig{subreaper: subreaper}) })
	t.Run("old kernel", func(t *testing.T) { f(t, SpawnerConfig{subreaper: true, old: true}) })
	t.Run("plain", func(t *testing.T) { f(t, SpawnerConfig{plain: true}) })
}

// open opens a spawner that may begin commands, and sees that nothing outlives the
// test.
func open(t *testing.T, c SpawnerConfig) *squad {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = append(c.Env, "SELF="+self)
	c.Slots = max(c.Slots, 4)
	if c.View == nil {
		c.View = worn
	}
	s, err := OpenSpawner(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	q := &squad{t: t, s: s, told: map[uint64]*told{}}
	t.Cleanup(func() {
		s.Close()
		q.drain()
	})
	s.Until(time.Hour)
	return q
}

// drain reads what is left.
func (q *squad) drain() {
	for !q.end {
		q.next()
	}
}

// next reads one batch.
func (q *squad) next() {
	q.t.Helper()
	var batch []Spawned
	ok := false
	select {
	case batch, ok = <-q.s.Events():
	case <-time.After(time.Minute): // not a timing assertion: a broken promise fails here instead of hanging
		q.t.Fatal("nothing happens any more")
	}
	q.end = !ok
	q.hear(batch)
}

// hear notes a batch. What contradicts the order of events fails the test.
func (q *squad) hear(batch []Spawned) {
	q.t.Helper()
	for i := range batch {
		e := &batch[i]
		is := q.told[e.ID]
		if is == nil {
			is = &told{}
			q.told[e.ID] = is
		}
		if is.ended != nil || is.unstarted {
			q.t.Errorf("after its end: %+v", e)
		}
		switch e.Kind {
		case SpawnedBegan:
			is.began = true
		case SpawnedOutput:
			if !is.began || len(e.Data) == 0 || len(e.Data) > 64<<10 {
				q.t.Errorf("output of %d bytes, begun: %v", len(e.Data), is.began)
			}
			is.out[e.Stream] = append(is.out[e.Stream], e.Data...)
		case SpawnedEnded:
			is.ended = e
		case SpawnedUnstarted:
			is.unstarted = true
		}
	}
}

// until reads events until so.
func (q *squad) until(so func() bool) {
	q.t.Helper()
	for !so() {
		if q.end {
			q.t.Fatalf("the spawner is gone: %v", q.s.Err())
		}
		q.next()
	}
}

func (q *squad) send(commands ...SpawnCommand) {
	q.t.Helper()
	if err := q.s.Send(commands...); err != nil {
		q.t.Fatal(err)
	}
}

// done waits for the end of one command.
func (q *squad) done(id uint64) *told {
	q.t.Helper()
	q.until(func() bool { return q.told[id] != nil && (q.told[id].ended != nil || q.told[id].unstarted) })
	return q.told[id]
}

// says waits until a command has written that.
func (q *squad) says(id uint64, text string) {
	q.t.Helper()
	q.until(func() bool { return q.told[id] != nil && bytes.Contains(q.told[id].out[1], []byte(text)) })
}

// sh is a command that runs a script.
func sh(id uint64, script string, args ...string) SpawnCommand {
	return SpawnCommand{ID: id, Path: "/bin/sh", Args: append([]string{"sh", "-c", script, "sh"}, args...)}
}

func TestCommandsEndAsTheirProgramsDo(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		q := open(t, c)
		began := time.Now()
		scripts := []string{"exit 0", "exit 7", "kill -TERM $$", "kill -KILL $$", "echo out; echo err >&2; exit 3", "exec >&- 2>&- <&-; exit 4"}
		want := []struct {
			Code   int
			Signal syscall.Signal
			Out    [2]string
		}{{Code: 0}, {Code: 7}, {-1, syscall.SIGTERM, [2]string{}}, {-1, syscall.SIGKILL, [2]string{}}, {3, 0, [2]string{"out\n", "err\n"}}, {Code: 4}}
		for i, script := range scripts {
			q.send(sh(uint64(i), script))
		}
		for i, w := range want {
			is := q.done(uint64(i))
			e := is.ended
			if e.Err != nil || e.Exit.Code != w.Code || e.Exit.Signal != w.Signal || e.Exit.Lost || e.Exit.TimedOut || e.Exit.Left != 0 {
				t.Errorf("%s: got %+v", scripts[i], e)
			}
			if got := [2]string{string(is.out[1]), string(is.out[2])}; got != w.Out || e.Output != [2]int64{int64(len(got[0])), int64(len(got[1]))} {
				t.Errorf("%s: wrote %q, counted %v", scripts[i], got, e.Output)
			}
			if !is.began || e.Began.Before(began.Add(-time.Minute)) || e.Ended.Before(e.Began) || e.Exit.MaxRSS < 100_000 {
				t.Errorf("%s: began %v, ended %v, %+v", scripts[i], e.Began, e.Ended, e.Exit)
			}
		}
		q.s.Close()
		q.s.Close()
		q.drain()
		if err := q.s.Err(); err != nil {
			t.Error(err)
		}
		if err := q.s.Send(sh(99, "exit 0")); err != ErrSpawnerLost {
			t.Errorf("after its end: %v", err)
		}
	})
}

func TestCommandsGetWhatIsTheirs(t *testing.T) {
	t.Setenv(process.Mark, "outer")
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		proctest.WriteFile(t, filepath.Join(dir, "bin", "tool"), "#!/bin/sh\npwd -P; echo \"$0\"\n", 0o755)
		c.Dir, c.Token = dir, "squad-1"
		c.Env = append(os.Environ(), "BASE=first", "BASE=last", "OVER=base", process.Mark+"=stale")
		q := open(t, c)
		raw := "caf\xe9 \"x\" <&> \n\t\u2028"
		big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
		e := sh(1, `printf '%s|' "$1" "$V" "$TWICE" "$BASE" "$OVER" "$DROVER_TREE" "$SELF"`, raw)
		e.Env = []string{"TWICE=1", "V=" + raw, "OVER=own", "TWICE=2", process.Mark + "=forged"}
		in := sh(3, "cat")
		in.Stdin = []byte("given")
		much := sh(4, "wc -c")
		much.Stdin = big
		empty := sh(5, "wc -c")
		empty.Stdin = []byte{}
		q.send(e, SpawnCommand{ID: 2, Path: "bin/tool"}, in, much, empty, sh(6, "wc -c"), SpawnCommand{ID: 7, Path: "/bin/sh", Args: []string{"mine", "-c", `echo $0`}})
		got := map[uint64]string{}
		for id := uint64(1); id <= 7; id++ {
			is := q.done(id)
			if got[id] = string(is.out[1]); id > 2 && id < 7 {
				got[id] = strings.TrimSpace(got[id])
			}
		}
		self, _ := os.Executable()
		chain := strings.Split(got[1], "|")
		tree := strings.Split(chain[min(5, len(chain)-1)], ":")
		if len(tree) < 3 || tree[0] != "outer" || tree[1] != "squad-1" || tree[2] != "squad-1.1" {
			t.Errorf("its mark is %q", tree)
		}
		delete(got, 1)
		if diff := cmp.Diff([]string{raw, raw, "2", "last", "own", "", self, ""}, append(append(chain[:5:5], ""), chain[6:]...)); diff != "" {
			t.Error(diff)
		}
		want := map[uint64]string{2: dir + "\nbin/tool\n", 3: "given", 4: fmt.Sprint(len(big)), 5: "0", 6: "0", 7: "mine\n"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnCommandThatCannotRunSaysWhyAsStartDoes(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		c.Dir = t.TempDir()
		proctest.WriteFile(t, filepath.Join(c.Dir, "plain"), "echo hi\n", 0o644)
		proctest.WriteFile(t, filepath.Join(c.Dir, "windows"), "#!/bin/sh\r\necho hi\r\n", 0o755)
		proctest.WriteFile(t, filepath.Join(c.Dir, "nohash"), "echo hi\n", 0o755)
		q := open(t, c)
		for i, want := range []struct {
			path string
			code int
			text string
		}{
			{"/no/such/program", 127, "start /no/such/program: no such file or directory"},
			{"./nothing", 127, "start ./nothing: no such file or directory"},
			{"./plain", 126, "start ./plain: permission denied"},
			{"./windows", 126, `start ./windows: bad interpreter "/bin/sh": the line ends in a carriage return`},
			{"./nohash", 126, "start ./nohash: neither a program nor a script with a #! line"},
		} {
			id := uint64(i)
			q.send(SpawnCommand{ID: id, Path: want.path})
			is := q.done(id)
			e := is.ended
			if e.Err == nil || e.Err.Error() != want.text || fault.Exit(e.Err) != want.code || fault.KindOf(e.Err) != fault.Invalid || is.began {
				t.Errorf("%s: got %+v", want.path, e)
			}
		}
		q.send(sh(50, "exit 5"))
		if e := q.done(50).ended; e.Err != nil || e.Exit.Code != 5 {
			t.Errorf("the next: %+v", e)
		}
		for _, bad := range []SpawnCommand{{ID: 60, Path: "true"}, {ID: 60, Path: "/a\x00"}, {ID: 60, Path: "/a", Args: []string{"\x00"}},
			{ID: 60, Path: "/a", Env: []string{"A=\x00"}}, {ID: 60, Path: "/a", Stdin: make([]byte, MaxStdin+1)}} {
			if err := q.s.Send(sh(61, ":"), bad); fault.KindOf(err) != fault.Invalid {
				t.Errorf("%.20q: %v", bad.Path, err)
			}
		}
		q.s.Close()
		q.drain()
		if q.told[61] != nil {
			t.Error("a command was queued beside one that was refused")
		}
	})
}

func TestASpawnerThatCannotBeIsRefused(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		c.Slots = 1
		for _, change := range []func(*SpawnerConfig){
			func(c *SpawnerConfig) { c.Slots = 0 },
			func(c *SpawnerConfig) { c.Token = "a:b" },
			func(c *SpawnerConfig) { c.Dir = "/no/such/folder" },
		} {
			c := c
			change(&c)
			if s, err := OpenSpawner(t.Context(), c); fault.KindOf(err) != fault.Invalid {
				t.Errorf("%+v: %v, %v", c, s, err)
			}
		}
	})
}

func TestNothingBeginsWithoutALicence(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		q := open(t, c)
		given := func(id uint64) {
			t.Helper()
			q.send(sh(id, "exit 0"), sh(id+100, "exit 0"))
			q.s.Kill(syscall.SIGTERM, id+100)
			q.done(id + 100) // so by now the spawner has seen both, and could have begun one
			q.s.Drop()
			if is := q.done(id); !is.unstarted || is.began {
				t.Errorf("%d: got %+v", id, is)
			}
		}
		q.s.Until(-time.Nanosecond)
		given(1)
		q.s.Until(time.Hour)
		q.send(sh(2, "exit 6"))
		if e := q.done(2).ended; e.Exit.Code != 6 {
			t.Errorf("got %+v", e)
		}
		q.s.executor.until(bootTime()) // as of an agent that was stopped, and said it long ago
		given(3)
		q.send(sh(4, "exit 0"))
		q.s.Until(time.Hour)
		if is := q.done(4); is.unstarted || is.ended.Exit.Code != 0 {
			t.Errorf("got %+v", is)
		}
	})
}

func TestDropAndCloseGiveBackWhatHasNotBegun(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		c.Slots = 4
		q := open(t, c)
		for id := range uint64(8) {
			q.send(sh(id, "echo ready; exec sleep 1000"))
		}
		for id := range uint64(4) {
			q.says(id, "ready")
		}
		q.s.Kill(syscall.SIGTERM, 7, 7, 1000)
		if !q.done(7).unstarted {
			t.Error("one that was killed in the queue was not given back")
		}
		q.s.Drop()
		for id := uint64(4); id < 7; id++ {
			if !q.done(id).unstarted {
				t.Errorf("%d was not given back", id)
			}
		}
		q.s.Until(0)
		q.send(sh(8, "exit 0"))
		q.s.Close()
		q.drain()
		if is := q.told[8]; is == nil || !is.unstarted {
			t.Errorf("at the end: %+v", is)
		}
		for id := range uint64(4) {
			if e := q.told[id].ended; e == nil || e.Exit.Signal != syscall.SIGKILL || e.Exit.TimedOut {
				t.Errorf("%d: %+v", id, e)
			}
		}
		if err := q.s.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestKillAsksBeforeItKills(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		c.Grace = time.Hour
		q := open(t, c)
		q.send(sh(1, "trap 'echo asked; exit 9' TERM; echo ready; while :; do sleep 1000 & wait; done"),
			sh(2, "echo ready; kill -STOP $$"), sh(3, "echo ready; exec sleep 1000"))
		for id := uint64(1); id <= 3; id++ {
			q.says(id, "ready")
		}
		q.s.Kill(syscall.SIGTERM, 1, 2)
		is := q.done(1)
		if e := is.ended; e.Exit.Code != 9 || string(is.out[1]) != "ready\nasked\n" {
			t.Errorf("got %+v, %q", e, is.out)
		}
		if e := q.done(2).ended; e.Exit.Signal != syscall.SIGTERM {
			t.Errorf("a stopped one: %+v", e)
		}
		if q.told[3].ended != nil {
			t.Errorf("their neighbour: %+v", q.told[3].ended)
		}
	})
}

func TestAnCommandThatIsDeafOrOverItsTimeIsKilled(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		c.Grace = time.Millisecond
		q := open(t, c)
		deaf := "trap '' TERM; echo ready; while :; do sleep 1000; done"
		q.send(sh(1, deaf))
		q.says(1, "ready")
		q.s.Kill(syscall.SIGTERM, 1)
		if e := q.done(1).ended; e.Exit.Signal != syscall.SIGKILL || e.Exit.TimedOut {
			t.Errorf("killed: %+v", e)
		}
		late := sh(2, deaf)
		late.Timeout = time.Millisecond
		calm := sh(3, "exit 3")
		calm.Timeout = time.Hour
		q.send(late, calm)
		// It may not have come as far as its trap.
		if e := q.done(2).ended; e.Exit.Signal != syscall.SIGKILL && e.Exit.Signal != syscall.SIGTERM || !e.Exit.TimedOut {
			t.Errorf("late: %+v", e)
		}
		if e := q.done(3).ended; e.Exit.Code != 3 || e.Exit.TimedOut {
			t.Errorf("in time: %+v", e)
		}
	})
}

func TestOutputAboveTheLimitIsCountedOnly(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		c.MaxOutput = 100_000
		q := open(t, c)
		q.send(sh(1, "head -c 20000000 /dev/zero; echo end >&2"), sh(2, "head -c 100000 /dev/zero >&2"))
		for id, want := range map[uint64][2]int64{1: {20_000_000, 4}, 2: {0, 100_000}} {
			is := q.done(id)
			if e := is.ended; e.Output != want || e.Exit.Code != 0 {
				t.Errorf("%d: got %+v, want %v", id, e, want)
			}
			for i, n := range want {
				if got := int64(len(is.out[i+1])); got != min(n, c.MaxOutput) {
					t.Errorf("%d: %d bytes of stream %d were forwarded of %d", id, got, i+1, n)
				}
			}
		}
	})
}

func TestAFloodHarmsNobody(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		c.MaxOutput = 1 << 40
		q := open(t, c)
		q.send(sh(1, "yes & yes >&2"))
		q.until(func() bool { return q.told[1] != nil && len(q.told[1].out[1]) > 0 && len(q.told[1].out[2]) > 0 })
		for id := uint64(2); id < 50; id++ {
			q.send(sh(id, "echo $1", fmt.Sprint(id)))
		}
		for id := uint64(2); id < 50; id++ {
			is := q.done(id)
			if want := fmt.Sprintln(id); string(is.out[1]) != want || is.ended.Exit.Code != 0 {
				t.Errorf("%d: got %q, %+v", id, is.out, is.ended)
			}
			for i := range q.told[1].out { // or this test is what grows
				q.told[1].out[i] = nil
			}
		}
		q.s.Kill(syscall.SIGTERM, 1)
		e := q.done(1).ended
		if e.Exit.Signal != syscall.SIGTERM || e.Output[0] < 1 || e.Output[1] < 1 {
			t.Errorf("got %+v", e)
		}
	})
}

// A reader that does not read stops those that write, and no call.
func TestASlowReaderSlowsOutputAlone(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		c.MaxOutput = 1 << 40
		q := open(t, c)
		q.send(sh(1, "yes"), sh(2, "head -c 5000000 /dev/zero"))
		q.until(func() bool { return q.told[1] != nil && len(q.told[1].out[1]) > 0 })
		for id := uint64(3); id < 200; id++ { // nothing of this waits for the events
			q.send(sh(id, "exit 0"))
			q.s.Kill(syscall.SIGTERM, id)
		}
		q.s.Drop()
		q.s.Close()
		q.drain()
		if e := q.told[1].ended; e == nil || e.Exit.Signal != syscall.SIGKILL {
			t.Errorf("got %+v", e)
		}
	})
}

// Each command's bytes are its own, however short its life.
func TestOutputIsAttributed(t *testing.T) {
	inEachSpawner(t, func(t *testing.T, c SpawnerConfig) {
		c.Slots = 8
		n := uint64(400)
		if c.plain {
			n = 40
		}
		q := open(t, c)
		for id := range n {
			switch id % 4 {
			case 0:
				q.send(sh(id, `head -c "$1" /dev/zero`, fmt.Sprint(id*200)))
			case 1:
				q.send(SpawnCommand{ID: id, Path: "/bin/echo", Args: []string{"echo", fmt.Sprint(id)}})
			case 2:
				q.send(sh(id, `echo $1 >&2; exit $(($1 % 100))`, fmt.Sprint(id)))
			default:
				q.send(SpawnCommand{ID: id, Path: "/bin/true"})
			}
		}
		for id := range n {
			is := q.done(id)
			want := [3]string{}
			code := 0
			switch id % 4 {
			case 0:
				want[1] = string(make([]byte, id*200))
			case 1:
				want[1] = fmt.Sprintln(id)
			case 2:
				want[2], code = fmt.Sprintln(id), int(id%100)
			}
			if got := [3]string{"", string(is.out[1]), string(is.out[2])}; got != want || is.ended.Exit.Code != code {
				t.Errorf("%d: got %.30q, %+v", id, got, is.ended)
			}
		}
	})
}
